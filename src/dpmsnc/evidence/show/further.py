"""Stored runs that belong to no row of an experiment: what else was tried, and what it gave.

A line per data set and configuration says which row is most like it and in which settings it differs from that, so that
nobody has to take it on trust that a choice was made among alternatives. Validation accuracy stands first: test figures
may not choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpmsnc.data.benchmarks import split_version
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.evidence.run.methods import METHODS
from dpmsnc.evidence.run.store import Document, Key
from dpmsnc.evidence.show.compare import backbone, cpu, initialiser
from dpmsnc.evidence.show.paper import paper_row
from dpmsnc.evidence.show.stored import Stored, defaults, options, versions
from dpmsnc.evidence.show.table import Table, percent, summary

METRICS = {"validation_accuracy": "validation", "accuracy": "accuracy", "subgraph_accuracy": "sub-acc"}
HEADER = ("data set", "most like", "differs in", *METRICS.values(), "initialiser", "CPU s", "seeds")
NOTES = (
    "Means±std over seeds in %. Most like: the row of the method from which the fewest settings differ, as it is run",
    "now, or the method's defaults. Older: of an earlier version of the method, or on other splits. Experiments that",
    "share their runs list each other's rows here.",
)


class Difference(NamedTuple):
    """Of a run to the row that is most like it, or to its method where there is no such row."""

    label: str
    settings: list[str]


def table(stored: Stored) -> Table:
    """Of the runs that `stored` has no row for."""
    lines = tried(stored)
    rows = [[runs[0]["dataset"], label, ", ".join(settings), *_cells(runs)] for (label, settings), runs in lines]
    records = [_record(found, runs) for found, runs in lines]
    title = f"Further runs of {stored.experiment.name}"
    return Table(title, HEADER, rows, NOTES, labels=3, grouped=True, records=records)


def tried(stored: Stored) -> list[tuple[Difference, list[Document]]]:
    """The runs that `stored` has no row for, those with the same settings on a data set together."""
    groups: dict[tuple[int, str], list[Document]] = {}
    for document in stored.further:
        place = stored.experiment.datasets.index(document["dataset"])
        groups.setdefault((place, Key.of(document).path.stem.rpartition("-")[0]), []).append(document)
    return [(difference(stored, groups[name][0]), groups[name]) for name in sorted(groups)]


def difference(stored: Stored, document: Document) -> Difference:
    """What a run has otherwise than the row of its method that is most like it, if there is one with its network."""
    name, dataset = document["method"], document["dataset"]
    if name not in METHODS:
        return Difference(name, ["a method that is gone"])
    rows = [label for label, row in stored.experiment.rows.items() if row.method == name]
    network = paper_row(name, document.get("backbone"))
    same = [label for label in rows if paper_row(name, backbone(stored.experiment.rows[label])) == network]
    found = [
        Difference(row, _changed(document, options(Run(stored.experiment, dataset, row, 0).key.config)))
        for row in same or rows
    ]
    closest = min(
        found, key=lambda one: len(one.settings), default=Difference(name, _changed(document, defaults(name)))
    )
    older = versions(Key.of(document)) < (split_version(dataset), METHODS[name].version)
    return Difference(closest.label, [*closest.settings, *(["older"] if older else [])] or ["nothing"])


def _changed(document: Document, now: Mapping[str, Any]) -> list[str]:
    was = options(document["config"])
    changed = [f"{name}={_short(value)}" for name, value in was.items() if name not in now or value != now[name]]
    return changed + [f"no {name} yet" for name in now if name not in was]


def _short(value: Any) -> str:
    """A value in few words; an initialiser with its settings in brackets.

    Example:
        >>> _short(["stack", {"members": {"pta": {"lr": 0.1}, "gcn": {}}, "repeats": 3}])
        'stack(members=(pta=(lr=0.1), gcn), repeats=3)'
    """
    match value:
        case [str(name), Mapping() as settings]:
            return f"{name}{_short(settings)}"
        case Mapping():
            return f"({', '.join(f'{name}={_short(one)}' if one != {} else name for name, one in value.items())})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cells(runs: Sequence[Document]) -> list[str]:
    found = [summary(runs, metric) for metric in METRICS]
    shares = [percent(one.mean, one.std) if one else percent(None) for one in found]
    return [*shares, initialiser(runs), cpu(runs), str(len(runs))]


def _record(found: Difference, runs: Sequence[Document]) -> dict[str, Any]:
    """The same for machines; metrics are means in per cent."""
    return {
        "dataset": runs[0]["dataset"],
        "method": runs[0]["method"],
        "backbone": runs[0].get("backbone"),
        "most_like": found.label,
        "differs_in": found.settings,
        "seeds": len(runs),
        **means(runs),
    }


def means(runs: Sequence[Document], prefix: str = "") -> dict[str, float | None]:
    """Of all metrics, in per cent."""
    found = {metric: summary(runs, metric) for metric in METRICS}
    return {f"{prefix}{metric}": None if one is None else round(100 * one.mean, 4) for metric, one in found.items()}
