"""What the store has of an experiment, as its table; nothing is run.

A run counts if its settings are those that the experiment would use now. Where there is none, an older one is shown and
marked: one of an earlier version of the method or of the splits, or from before an option was added. All stored seeds
are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpmsnc.evidence.run.experiment import Experiment, Run
from dpmsnc.evidence.run.methods import method
from dpmsnc.evidence.run.store import Document, Key, Store, configuration
from dpmsnc.evidence.search.config_files import configured, flat, has_configuration
from dpmsnc.evidence.show import compare as comparison
from dpmsnc.evidence.show.paper import TABLES
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph.clean import counted
from dpmsnc.json_values import json_value

SIGN = "†"
DEFAULT_RESULTS = Path("results")


@dataclass
class Stored:
    """The runs of an experiment that are there, each with the label of its row under "row"."""

    experiment: Experiment
    results: Path
    configs: Path | None = None
    documents: list[Document] = field(default_factory=list)
    older: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Seeds of which only an older run is there, by data set and row."""
    missing: int = 0
    """Runs of the experiment's own seeds that are not there, or only as an older one."""
    further: list[Document] = field(default_factory=list)
    """Stored runs that belong to no row, as they are."""

    @classmethod
    def of(cls, experiment: Experiment, results: Path = DEFAULT_RESULTS, configs: Path | None = None) -> Stored:
        """`configs` is the folder of configurations with which the runs were made, if any."""
        if configs is not None:
            experiment = configured(experiment, configs)
            configs = configs if has_configuration(experiment) else None
        stored = cls(experiment, results, configs)
        everything = Store(results).all(experiment.stored_as or experiment.name)
        used: set[int] = set()
        for dataset in experiment.datasets:
            for row in experiment.rows:
                key = Run(experiment, dataset, row, 0).key
                found = [document for document in everything if fits(document, key)]
                used |= set(map(id, found))
                stored._add(dataset, row, key, found)
        stored.further = [
            document
            for document in everything
            if id(document) not in used and document["dataset"] in experiment.datasets
        ]
        return stored

    def _add(self, dataset: str, row: str, key: Key, found: list[Document]) -> None:
        newest: dict[int, Document] = {}
        for document in sorted(found, key=lambda d: (versions(Key.of(d)), is_current(d, key), d["timestamp"])):
            newest[document["seed"]] = document
        current = {seed for seed, document in newest.items() if is_current(document, key)}
        if older := sorted(newest.keys() - current):
            self.older[dataset, row] = older
        self.missing += len(set(self.experiment.seeds) - current)
        self.documents += [newest[seed] | {"row": row} for seed in sorted(newest)]

    def table(self) -> Table:
        """The experiment's table, with what is missing or old said below it."""
        table = self.experiment.table(self.documents)
        if not table.records:
            rows = comparison.records(self.documents, self.experiment.datasets, self.experiment.rows)
            table = replace(table, records=rows)
        return self.marked(table).with_notes(*self.remarks())

    def marked(self, table: Table) -> Table:
        """With a sign behind rows of which some runs are older."""
        return table.marked(set(self.older), SIGN)

    def remarks(self) -> Iterator[str]:
        """What a reader must know about the runs behind the table."""
        if self.experiment.name in TABLES and (lacking := list(comparison.below(self.experiment, self.documents))):
            what = "Below the paper's (dpm-snc with any mean, baselines by more than a point of accuracy)"
            yield f"{what}: {counted(len(lacking), 'row')}. This shows them, and what else was tried:"
            yield f"  dpmsnc table {self.experiment.name}{self.flags} --below"
        if self.further:
            yield f"{len(self.further)} further stored runs have settings that are not in this table; this shows them:"
            yield f"  dpmsnc table {self.experiment.name}{self.flags} --further"
        yield from self.shortcomings()

    def shortcomings(self) -> Iterator[str]:
        """Which runs are older, and how many are missing."""
        if self.older:
            cells = [f"{row} on {dataset} ({len(seeds)})" for (dataset, row), seeds in self.older.items()]
            what = "older runs, from before the method, its options or the split changed"
            yield f"{SIGN} {what} (seeds): {', '.join(cells)}."
        if self.missing:
            number = len(self.experiment.seeds) * len(self.experiment.rows) * len(self.experiment.datasets)
            which = "missing or older" if self.older else "missing"
            yield f"{self.missing} of {number} runs are {which}; this runs them:"
            yield f"  {self.command}"

    @property
    def command(self) -> str:
        return f"dpmsnc reproduce {self.experiment.name}{self.flags}"

    @property
    def flags(self) -> str:
        """Of a command that is to see the same runs."""
        results = "" if self.results == DEFAULT_RESULTS else f" --results {self.results}"
        return results + ("" if self.configs is None else f" --configs {self.configs}")


def older_runs(runs: Sequence[Run], store: Store) -> int:
    """How many stored documents are of these runs, but from before the method, its options or the splits changed."""
    everything = {name: store.all(name) for name in {run.stored_as for run in runs}}
    older: set[int] = set()
    for run in runs:
        key = run.key
        same_seed = (document for document in everything[run.stored_as] if document["seed"] == run.seed)
        older |= {id(document) for document in same_seed if fits(document, key) and not is_current(document, key)}
    return len(older)


def fits(document: Document, key: Key) -> bool:
    """Whether a document is a run of that key with any seed, of its versions or earlier ones.

    It may lack an option, which was added later, if the key has the method's default for it.
    """
    if (document["dataset"], document["method"]) != (key.dataset, key.method):
        return False
    if any(was > now for was, now in zip(versions(Key.of(document)), versions(key))):
        return False
    was, now, default = options(document["config"]), options(key.config), defaults(key.method)
    same = all(name in now and value == now[name] for name, value in was.items())
    return same and all(name in default and now[name] == default[name] for name in now.keys() - was.keys())


def is_current(document: Document, key: Key) -> bool:
    """Whether a fitting document is of the present versions and has all present options."""
    return versions(Key.of(document)) == versions(key) and options(document["config"]) == options(key.config)


def versions(key: Key) -> tuple[int, int]:
    """Of the splits and of the method."""
    return key.split_version, key.method_version


def defaults(name: str) -> dict[str, Any]:
    """The options of a method without any settings, by dotted name."""
    return options(configuration(method(name).build(0)))


def options(config: dict[str, Any]) -> dict[str, Any]:
    """By dotted name, as plain values; all but the seed."""
    return {name: value for name, value in flat(json_value(config)).items() if name != "seed"}
