"""What the ablations share when they show their runs: values by data set and row, their mean and spread over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import runs_of
from dpmsnc.evidence.show.summary import MISSING, percent

CITATION = {"cora": "Cora", "citeseer": "Citeseer"}
SEEDS = (0, 1, 2)
"""The paper has ten; the store takes more."""
SPAN = 4.0
"""Points of accuracy that an axis shows at least: test sets of a thousand nodes have a standard error of one."""


def metrics(documents: Sequence[Document], dataset: str, row: str) -> list[dict[str, Any]]:
    """The metrics of every seed of a row on a data set."""
    return [run["metrics"] for run in runs_of(documents, dataset, row)]


def datasets_with_runs(documents: Sequence[Document]) -> list[tuple[str, str]]:
    """The citation graphs that have runs, and their names."""
    there = {d["dataset"] for d in documents}
    return [(dataset, name) for dataset, name in CITATION.items() if dataset in there]


def accuracies(documents: Sequence[Document], dataset: str, row: str) -> list[float]:
    """Test accuracy of every seed, weights selected on validation."""
    return [found["selected"]["accuracy"] for found in metrics(documents, dataset, row)]


def mean_std(values: Sequence[float]) -> str:
    """Mean and sample standard deviation of shares, in per cent."""
    if not values:
        return MISSING
    return percent(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def paired_difference(shares: Sequence[tuple[float, float]]) -> str:
    """Mean and sample standard deviation of paired differences, after - before, in points."""
    points = [100 * (after - before) for before, after in shares]
    if not points:
        return MISSING
    spread = f"±{statistics.stdev(points):.2f}" if len(points) > 1 else ""
    return f"{statistics.fmean(points):+.2f}{spread}"


def per_cent(points: Iterable[Sequence[float]]) -> list[list[float]]:
    """Shares of every seed at every point of a curve, in per cent."""
    return [[100 * value for value in of_seeds] for of_seeds in points]


def num_seeds(documents: Sequence[Document], dataset: str, row: str) -> str:
    """How many seeds a line of a table stands for."""
    return str(len(metrics(documents, dataset, row)))
