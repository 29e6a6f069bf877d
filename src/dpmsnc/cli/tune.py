"""`dpmsnc tune`: a method and a data set in, a configuration file out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from dpmsnc.cli.fit import InitialiserName
from dpmsnc.config import BackboneName
from dpmsnc.errors import InputError


@dataclass(frozen=True)
class Tune:
    """Search for the settings of a method on a data set by validation labels, and write a configuration file."""

    method: tyro.conf.Positional[str]
    """The method, for example dpm-snc or gcn."""
    dataset: str
    """The data set, for example cora."""
    backbone: BackboneName | None = None
    """The graph network, where the method has one; by default the method's own."""
    initialiser: InitialiserName | None = None
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
        from dpmsnc.cli.main import parse_seeds
        from dpmsnc.evidence.search.previous import earlier_settings, searched_initialiser
        from dpmsnc.evidence.search.search import Search
        from dpmsnc.evidence.search.study import tune

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


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Settings in groups, from name=value each; a value that is no JSON is a string.

    Example:
        >>> parse_settings(["scaling=binary", "training.decay=false"])
        {'scaling': 'binary', 'training': {'decay': False}}
    """
    from dpmsnc.evidence.search.config_files import nested

    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise InputError(f"--fix takes name=value, for example scaling=binary, not {word!r}")
        if name in found:
            raise InputError(f"--fix says twice what {name} is")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        if isinstance(found[name], dict):
            raise InputError(f"--fix takes one setting at a time, for example {name}.steps=100, not a group")
    try:
        return nested(found)
    except TypeError as error:
        raise InputError(f"--fix contradicts itself: {error}") from error
