"""What the store has of an experiment, as its table; nothing is run.

A run counts if its settings are those that the experiment would use now. Where there is none, an older one is shown and
marked: one of an earlier version of the method or of the splits, or from before an option was added. All stored seeds
are shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from dpmsnc.baselines import METHODS
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.experiment import Experiment, Run
from dpmsnc.evidence.run.settings import flat
from dpmsnc.evidence.run.store import Document, Key, Store
from dpmsnc.evidence.search.config_files import configured, has_configuration
from dpmsnc.evidence.show.compare import METRICS, Cell, all_cells, all_lines, compare
from dpmsnc.evidence.show.table import Table
from dpmsnc.files import json_value
from dpmsnc.graph.clean import counted

SIGN = "†"
DEFAULT_RESULTS = Path("results")
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value that is missing or of another type may end in."""
T = TypeVar("T")


@dataclass
class StoredRuns:
    """The runs of an experiment that are there, each with the label of its row under "row"."""

    experiment: Experiment
    results: Path
    configs: Path | None = None
    documents: list[Document] = field(default_factory=list)
    older: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Seeds of which only an older run is there, by data set and row."""
    missing: int = 0
    """Runs of the experiment's own seeds that are not there, or only as an older one."""
    unlisted: list[Document] = field(default_factory=list)
    """Stored runs that belong to no row, as they are."""

    @classmethod
    def of(cls, experiment: Experiment, results: Path = DEFAULT_RESULTS, configs: Path | None = None) -> StoredRuns:
        """With the folder of configurations with which the runs were made, if any."""
        if configs is not None:
            experiment = configured(experiment, configs)
            configs = configs if has_configuration(experiment) else None
        stored = cls(experiment, results, configs)
        everything = Store(results).all(experiment.stored_as or experiment.name)
        listed: set[int] = set()
        for dataset, row in product(experiment.datasets, experiment.rows):
            key = Run(experiment, dataset, row, 0).key
            found = [document for document in everything if matches(document, key)]
            listed |= set(map(id, found))
            stored._add(dataset, row, key, found)
        stored.unlisted = [d for d in everything if d["dataset"] in experiment.datasets and id(d) not in listed]
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

    @property
    def current(self) -> list[Document]:
        """The runs that are not older."""
        return [d for d in self.documents if d["seed"] not in self.older.get((d["dataset"], d["row"]), ())]

    @property
    def asked_for(self) -> int:
        """How many runs the experiment asks for, with its own seeds."""
        return len(self.experiment.seeds) * len(self.experiment.rows) * len(self.experiment.datasets)

    def table(self) -> Table:
        """The experiment's table, with what is missing or old said below it."""
        table = made_of(self.documents, self.experiment.table) or self.experiment.table([])
        plain = compare("", self.documents, self.experiment.datasets, self.experiment.rows)
        table = replace(table, records=table.records or plain.records, notes=[*table.notes, *self.remarks()])
        return table.marked(dict.fromkeys(self.older, SIGN))

    def cells(self) -> Iterator[Cell]:
        """Every row on every data set beside the paper's figures, where the experiment has a table of the paper."""
        paper, lines = self.experiment.paper, all_lines(self.experiment.rows)
        return all_cells(self.documents, self.experiment.datasets, lines, paper, paper.metrics if paper else METRICS)

    def remarks(self) -> Iterator[str]:
        """What a reader must know about the runs behind the table."""
        below, others = sum(cell.below for cell in self.cells()), len(self.unlisted)
        if below:
            which = "(dpm-snc with any mean, baselines by more than a point of accuracy)"
            yield f"Below the paper's {which}: {counted(below, 'row')}."
        if below or others:
            yield f"Stored with settings that are not in this table: {counted(others, 'run')}. This shows both:"
            yield f"  dpmsnc table {self.experiment.name}{self.flags} --tried"
        yield from self.shortcomings()

    def shortcomings(self) -> Iterator[str]:
        """Which runs are older, and how many are missing."""
        if self.older:
            cells = [f"{row} on {dataset} ({len(seeds)})" for (dataset, row), seeds in self.older.items()]
            what = "older runs, from before the method, its options or the split changed"
            yield f"{SIGN} {what} (seeds): {', '.join(cells)}."
        if self.missing:
            which = "missing or older" if self.older else "missing"
            yield f"{self.missing} of {self.asked_for} runs are {which}; this runs them:"
            yield f"  dpmsnc reproduce {self.experiment.name}{self.flags}"

    @property
    def flags(self) -> str:
        """Of a command that is to see the same runs."""
        results = "" if self.results == DEFAULT_RESULTS else f" --results {self.results}"
        return results + ("" if self.configs is None else f" --configs {self.configs}")


def made_of(documents: list[Document], make: Callable[[list[Document]], T]) -> T | None:
    """A table or figure of documents; None where there are none.

    Only its experiment knows what it measured beyond the scores. A document of which nothing can be made, because such
    a measure is missing or of another type, is named in a warning and left out.
    """
    try:
        return make(documents) if documents else None
    except InputError:
        raise
    except UNREADABLE as error:
        readable = [document for document in documents if _is_readable(document, make)]
        if len(readable) == len(documents):
            raise InputError(f"the stored runs cannot be shown together ({error!r}); run them again") from error
    return made_of(readable, make)


def _is_readable(document: Document, make: Callable[[list[Document]], object]) -> bool:
    try:
        make([document])
    except UNREADABLE as error:
        warnings.warn(f"{Key.of(document).path} cannot be shown and is left out: {error!r}", stacklevel=4)
        return False
    return True


def matches(document: Document, key: Key) -> bool:
    """Whether a document is a run of that key with any seed, of its versions or earlier ones.

    It may lack an option, which was added later, if the key has the method's default for it, unless it is known which
    value such runs had (`options_of`).
    """
    if (document["dataset"], document["method"]) != (key.dataset, key.method):
        return False
    if any(was > now for was, now in zip(versions(Key.of(document)), versions(key))):
        return False
    was, now, default = options_of(document), options_of(vars(key)), defaults(key.method)
    same = all(name in now and value == now[name] for name, value in was.items())
    return same and all(name in default and now[name] == default[name] for name in now.keys() - was.keys())


def is_current(document: Document, key: Key) -> bool:
    """Whether a matching document is of the present versions and has all present options."""
    return versions(Key.of(document)) == versions(key) and options(document["config"]) == options(key.config)


def count_older(runs: Sequence[Run], store: Store) -> int:
    """How many stored documents are of these runs, but older."""
    everything = {name: store.all(name) for name in {run.stored_as for run in runs}}
    older: set[int] = set()
    for run in runs:
        key = run.key
        same_seed = (document for document in everything[run.stored_as] if document["seed"] == run.seed)
        older |= {id(document) for document in same_seed if matches(document, key) and not is_current(document, key)}
    return len(older)


def versions(key: Key) -> tuple[int, int]:
    """Of the splits and of the method."""
    return key.split_version, key.method_version


def defaults(name: str) -> dict[str, Any]:
    """The options of a method without any settings, by dotted name."""
    return options(METHODS.find(name).build(0).method_params())


def options_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a document or of what a key says, with those that its configuration leaves out."""
    return {**METHODS.find(run["method"]).build(0).added_later, **options(run["config"])}


def options(config: dict[str, Any]) -> dict[str, Any]:
    """By dotted name, as plain values; all but the seed."""
    return {name: value for name, value in flat(json_value(config)).items() if name != "seed"}
