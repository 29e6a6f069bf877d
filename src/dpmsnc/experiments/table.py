"""Tables of stored runs as plain text: means over seeds beside the paper's figures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dpmsnc.experiments.store import Document

MISSING = "-"


@dataclass(frozen=True)
class Summary:
    """One metric of one method on one data set over its seeds, as shares of 1."""

    mean: float
    std: float | None
    """Sample standard deviation over seeds; None for a single one."""
    worst: float
    last_mean: float | None
    """Mean at the last checkpoint instead of the selected one; None for methods that have no other."""
    largest_fall: float | None
    """The worst fall of validation accuracy below its best, of all seeds."""
    cpu_s: float
    seeds: int


def summarise(documents: Sequence[Document], dataset: str, row: str, metric: str = "accuracy") -> Summary | None:
    """What the runs of a row on a data set say together; None where there are none."""
    runs = [d for d in documents if d["dataset"] == dataset and d["row"] == row and d["metrics"]]
    if not runs:
        return None
    values = [run["metrics"]["selected"][metric] for run in runs]
    last = [run["metrics"]["last"][metric] for run in runs if run["metrics"].get("last")]
    falls = [run["stability"] for run in runs if run["stability"] is not None]
    return Summary(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        worst=min(values),
        last_mean=statistics.fmean(last) if last else None,
        largest_fall=max(falls) if falls else None,
        cpu_s=statistics.fmean(run["cpu_s"] for run in runs),
        seeds=len({run["seed"] for run in runs}),
    )


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share as per cent.

    Example:
        >>> percent(0.985, 0.007), percent(None)
        ('98.5±0.7', '-')
    """
    if value is None:
        return MISSING
    return f"{100 * value:.{digits}f}" + (f"±{100 * std:.{digits}f}" if std is not None else "")


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column names the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """Aligned columns below a title; the first one is flush left, the others flush right."""
        widths = [max(len(row[k]) for row in (self.header, *self.rows)) for k in range(len(self.header))]

        def line(row: Sequence[str]) -> str:
            cells = [c.ljust(width) if k == 0 else c.rjust(width) for k, (c, width) in enumerate(zip(row, widths))]
            return "  ".join(cells).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        return "\n".join([self.title, "", line(self.header), rule, *map(line, self.rows), rule, *self.notes])
