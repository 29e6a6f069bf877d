"""What the runs of a row on a data set say together: means and spreads over seeds, and cells made of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpmsnc.evidence.run.store import Document

MISSING = "-"


@dataclass(frozen=True)
class Summary:
    """One metric over seeds, as shares of 1."""

    mean: float
    std: float | None
    """Sample standard deviation over seeds; None for a single one."""
    worst: float
    last_mean: float | None
    """Mean at the last checkpoint instead of the selected one; None for methods that have no other."""
    largest_fall: float | None
    """The worst fall of validation accuracy below its best, of all seeds."""
    initialiser: float | None
    """Mean accuracy of the baseline that filled the first buffer, where every run has one."""
    cpu_s: float
    seeds: int


def summary(documents: Sequence[Document], metric: str = "accuracy") -> Summary | None:
    """What these runs say together about a metric; None where none of them has it."""
    runs = [run for run in documents if score(run, "selected", metric) is not None]
    if not runs:
        return None
    values = [run["metrics"]["selected"][metric] for run in runs]
    last = [value for run in runs if (value := score(run, "last", metric)) is not None]
    first = [value for run in runs if (value := score(run, "initialiser", "accuracy")) is not None]
    falls = [run["stability"] for run in runs if run.get("stability") is not None]
    return Summary(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        worst=min(values),
        last_mean=statistics.fmean(last) if last else None,
        largest_fall=max(falls, default=None),
        initialiser=statistics.fmean(first) if len(first) == len(runs) else None,
        cpu_s=statistics.fmean(run["cpu_s"] for run in runs),
        seeds=len({run["seed"] for run in runs}),
    )


def score(document: Document, part: str, metric: str) -> float | None:
    """A metric of one part of a run: of the "selected" weights, of the "last" ones, of the "initialiser"."""
    return (document["metrics"].get(part) or {}).get(metric)


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share as per cent.

    Example:
        >>> percent(0.985, 0.007), percent(None)
        ('98.5±0.7', '-')
    """
    if value is None:
        return MISSING
    return f"{100 * value:.{digits}f}" + (f"±{100 * std:.{digits}f}" if std is not None else "")


def column(name: str) -> Callable[[Sequence[Document]], str]:
    """A column of a table: a part of the summary of accuracy, in per cent."""
    return lambda runs: percent(getattr(summary(runs), name, None))


worst, last, fall, initialiser = map(column, ("worst", "last_mean", "largest_fall", "initialiser"))


def cpu(runs: Sequence[Document]) -> str:
    """CPU seconds of fit and prediction, mean over seeds."""
    return f"{statistics.fmean(run['cpu_s'] for run in runs):.0f}" if runs else MISSING
