"""Stored runs that belong to no row of an experiment: what else was tried, and what it gave.

A line per data set and configuration says in which settings it differs from the row of the same method that is most
like it (from the method's defaults where there is no such row), so that nobody has to take it on trust that
a choice was made among alternatives. Validation accuracy stands first: it is what may choose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpmsnc.experiments.comparison import cpu, start
from dpmsnc.experiments.run import Run
from dpmsnc.experiments.store import Document, Key
from dpmsnc.experiments.stored import Stored, defaults, options, versions
from dpmsnc.experiments.table import Table, percent, summary

HEADER = ("data set", "method", "differs in", "validation", "accuracy", "sub-acc", "start", "CPU s", "seeds")
METRICS = ("validation_accuracy", "accuracy", "subgraph_accuracy")
NOTES = (
    "Means±std over seeds in %. Differences are to the most similar row of the method, as it is run now; an option",
    "that had not been there yet is not named. Older: of an earlier version of the method, or on other splits.",
)


def table(stored: Stored) -> Table:
    """Of the runs that `stored` has no row for."""
    order = stored.experiment.datasets.index
    groups = _together([document for document in stored.further if document["dataset"] in stored.experiment.datasets])
    rows = [
        [dataset, method, _difference(stored, runs[0]), *_figures(runs)]
        for (dataset, method, _), runs in sorted(groups.items(), key=lambda item: (order(item[0][0]), item[0][1:]))
    ]
    title = f"Further runs of {stored.experiment.name}"
    return Table(title, HEADER, rows, NOTES, labels=3, grouped=True, records=[dict(zip(HEADER, row)) for row in rows])


def _together(documents: Sequence[Document]) -> dict[tuple[str, str, str], list[Document]]:
    """By data set, method with its network, and configuration."""
    groups: dict[tuple[str, str, str], list[Document]] = {}
    for document in documents:
        network = document.get("backbone")
        name = document["method"] if network in (None, document["method"]) else f"{document['method']} ({network})"
        groups.setdefault((document["dataset"], name, Key.of(document).digest), []).append(document)
    return groups


def _figures(runs: Sequence[Document]) -> list[str]:
    found = [summary(runs, metric) for metric in METRICS]
    shares = [percent(one.mean, one.std) if one else percent(None) for one in found]
    return [*shares, start(runs), cpu(runs), str(len(runs))]


def _difference(stored: Stored, document: Document) -> str:
    """What a run has otherwise than the row of its method that is most like it."""
    rows = [label for label, row in stored.experiment.rows.items() if row.method == document["method"]]
    keys = [Run(stored.experiment, document["dataset"], row, 0).key for row in rows]
    differences = [_changed(document, options(key.config)) for key in keys]
    words = min(differences, key=len, default=_changed(document, defaults(document["method"])))
    older = any(versions(Key.of(document)) < versions(key) for key in keys)
    return ", ".join([*words, *(["older"] if older else [])]) or "options that are gone"


def _changed(document: Document, now: Mapping[str, Any]) -> list[str]:
    was = options(document["config"])
    return [f"{name}={_short(value)}" for name, value in was.items() if name in now and value != now[name]]


def _short(value: Any) -> str:
    """A start by its name and that of its members; of their settings it only says that there are some."""
    match value:
        case [str(name), {"members": Mapping() as members, **rest}]:
            more = [f"{option}={_short(setting)}" for option, setting in rest.items()]
            return f"{name} of {', '.join([*members, *more])}"
        case [str(name), Mapping()]:
            return f"{name} with settings"
    return f"{value:g}" if isinstance(value, float) else str(value)
