"""`dpmsnc tune`: a method and a data set in, a configuration file out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from dpmsnc.cli.reproduce import parse_seeds, parse_settings
from dpmsnc.errors import InputError


@dataclass(frozen=True)
class Tune:
    """Search for the settings of a method on a data set by validation labels, and write a configuration file."""

    method: tyro.conf.Positional[str]
    """The method, for example dpm-snc or gcn."""
    dataset: str
    """The data set, for example cora."""
    backbone: str | None = None
    """The graph network, where the method has one, such as gat or gcnii(time=False); by default the method's own."""
    initialiser: str | None = None
    """Who fills the first buffer of dpm-snc and masked-labels in all trials, with what its own search found on the data
    set; by default the method's own initialiser."""
    members: tuple[str, ...] = ()
    """Members of the initialiser if it is a stack, for example pta grand gmnn; by default the stack's own members."""
    repeats: int = 1
    """How often a stack fits each member, with other seeds."""
    fix: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting that is not searched for, as name=value: for example scaling=binary."""
    trials: int = 20
    """Trials to finish in all; those of an earlier call count."""
    seeds: str = "100"
    """Seeds to score a trial on, for example 100-101; below 100 they are reported in tables and refused."""
    final_seeds: str | None = None
    """Further seeds on which the defaults and the five best trials are scored, for example 101-103: the mean over all
    seeds decides."""
    seed: int = 0
    """Seed of the search."""
    results: Path = Path("results")
    """Folder of stored runs, where the trials are kept too."""
    out: Path = Path("configs")
    """Folder for the configuration file."""

    def run(self) -> int:
        from dpmsnc.evidence.search.search import Search
        from dpmsnc.evidence.search.study import tune
        from dpmsnc.evidence.search.warm_start import earlier_settings, searched_initialiser

        seeds = tuple(dict.fromkeys(parse_seeds(self.seeds)))
        further = [] if self.final_seeds is None else parse_seeds(self.final_seeds, "--final-seeds")
        final_seeds = tuple(dict.fromkeys(further))
        initialiser = None
        if self.initialiser is None and (self.members or self.repeats != 1):
            raise InputError("--members and --repeats say what a stack is like: give --initialiser stack too")
        if self.initialiser is not None:
            initialiser = searched_initialiser(self.initialiser, self.dataset, self.out, self.members, self.repeats)
        earlier = earlier_settings(self.method, self.dataset, self.backbone, self.out)
        search = Search(
            self.method,
            self.dataset,
            self.backbone,
            seeds,
            final_seeds,
            self.seed,
            initialiser=initialiser,
            earlier=earlier,
            fixed=parse_settings(self.fix),
        )
        tune(search, self.trials, self.results, self.out)
        return 0
