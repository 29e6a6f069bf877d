"""Rows that stay below the paper's, and what else was tried there.

Each such row (`comparison.is_below` says which) is followed by the settings that were tried in place of its own and are
stored (`reproduce --fix`), with what the row itself has on the same seeds. Validation accuracy, which alone may choose,
stands first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpmsnc.errors import InputError
from dpmsnc.experiments.comparison import METRICS, Outcome, backbone, is_below
from dpmsnc.experiments.configs import search_behind
from dpmsnc.experiments.further import OLDER, tried
from dpmsnc.experiments.paper import TABLES, published
from dpmsnc.experiments.store import Document
from dpmsnc.experiments.stored import Stored
from dpmsnc.experiments.table import MISSING, Table, percent, summary

HEADER = (
    *("data set", "method", "settings", "validation"),
    *("accuracy", "row's", "paper", "sub-acc", "row's", "paper", "seeds"),
)
NOTES = (
    "Means in % over seeds. First the row as it is in the table, then what was tried in its place; row's: of the row,",
    "on the same seeds.",
    "Listed are rows of dpm-snc with a mean below the paper's, and baselines whose accuracy is below it by more than a",
    "point.",
)


def table(stored: Stored) -> Table:
    """Of the rows that are below, each with what else was tried."""
    name = stored.experiment.name
    if name not in TABLES:
        raise InputError(f"the paper has no table like {name} to be below of; it has {', '.join(TABLES)}")
    others: dict[tuple[str, str], list[tuple[str, list[Document]]]] = {}
    for (label, changed), runs in tried(stored):
        if OLDER not in changed:
            others.setdefault((runs[0]["dataset"], label), []).append((", ".join(changed), runs))
    rows, records = [], []
    for dataset, label, runs, outcomes in below(stored):
        words = f"as in the table ({_search(stored, dataset, label)})"
        for settings, these in [(words, runs), *others.get((dataset, label), [])]:
            seeds = {run["seed"] for run in these}
            same = [run for run in runs if run["seed"] in seeds]
            rows.append([dataset, label, settings, *_cells(these, same, outcomes), _ranges(seeds)])
            records.append(_record(dataset, label, settings, these, same))
    return Table(f"Below the paper: {name}", HEADER, rows, NOTES, labels=3, grouped=True, records=records)


def below(stored: Stored) -> Iterator[tuple[str, str, list[Document], list[Outcome]]]:
    """Data set, row, its runs and how they compare, of every row that is below the paper's."""
    experiment = stored.experiment
    digits = TABLES[experiment.name].digits
    for dataset in experiment.datasets:
        for label, row in experiment.rows.items():
            runs = [run for run in stored.documents if (run["dataset"], run["row"]) == (dataset, label)]
            outcomes = [
                Outcome.of(runs, metric, published(experiment.name, dataset, row.method, backbone(row), metric))
                for metric in METRICS
            ]
            if is_below(row.method, outcomes, digits):
                yield dataset, label, runs, outcomes


def _search(stored: Stored, dataset: str, label: str) -> str:
    """How the row came to its settings."""
    row = stored.experiment.rows[label]
    config = stored.configs and search_behind(row, dataset, stored.configs)
    if not config:
        return "defaults"
    seeds = len(config.seeds) + len(config.final_seeds)
    on = "" if config.backbone == backbone(row) else f" on {config.backbone}"
    return f"{_count(config.trials, 'trial')}{on}, {_count(seeds, 'seed')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _cells(runs: Sequence[Document], same: Sequence[Document], outcomes: Sequence[Outcome]) -> list[str]:
    cells = [_mean(runs, "validation_accuracy")]
    for outcome in outcomes:
        paper = MISSING if outcome.paper is None else f"{outcome.paper.mean:.1f}"
        cells += [_mean(runs, outcome.metric), _mean(same, outcome.metric), paper]
    return cells


def _mean(runs: Sequence[Document], metric: str) -> str:
    found = summary(runs, metric)
    return percent(found.mean if found else None)


def _ranges(seeds: set[int]) -> str:
    """As `--seeds` takes them.

    Example:
        >>> _ranges({0, 1, 2, 5, 7, 8})
        '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _record(
    dataset: str, label: str, settings: str, runs: Sequence[Document], same: Sequence[Document]
) -> dict[str, Any]:
    """The same for machines; metrics are means in per cent."""
    found = {"": runs, "row_": same}
    means = {
        f"{prefix}{metric}": one and round(100 * one.mean, 4)
        for prefix, these in found.items()
        for metric in ("validation_accuracy", *METRICS)
        for one in [summary(these, metric)]
    }
    seeds = sorted(run["seed"] for run in runs)
    return {"dataset": dataset, "row": label, "settings": settings, "seeds": seeds, **means}
