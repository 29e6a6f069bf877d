"""Ours beside the paper's: a line per data set and row, with the difference, who wins, and how sure that is.

The lines are the rows of an experiment, then the paper's rows that are not implemented here. An experiment may add
columns of its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtr

from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.methods import method
from dpmsnc.evidence.run.store import Document, backbone_of
from dpmsnc.evidence.show.paper import SAME_METHOD, TABLES, Figure, paper_row, published
from dpmsnc.evidence.show.table import MISSING, Table, percent, summary

METRICS = {"accuracy": "accuracy", "subgraph_accuracy": "sub-acc"}
LEGEND = (
    "Means±std over seeds, metrics in %, weights selected on validation.",
    "diff: ours less the paper's; wins: the better mean; p: two-sided Welch test from means, standard deviations and "
    "seeds, not corrected for the number of lines.",
)

TOLERANCE = 1.0
"""Points of accuracy that a baseline may lack."""
Column = Callable[[Sequence[Document]], str]
"""A cell from the runs of one row on one data set."""


@dataclass(frozen=True)
class Line:
    """A row of ours, or of the paper alone."""

    label: str
    method: str
    backbone: str | None
    implemented: bool = True

    @property
    def name(self) -> str:
        """The label, without the backbone that it may end with, by whichever name."""
        return self.label.removesuffix(f" ({paper_row(self.method, self.backbone)[1]})")


@dataclass(frozen=True)
class Outcome:
    """A metric of one line on one data set: ours, in the paper's unit, and the paper's."""

    metric: str
    mean: float | None
    std: float | None
    seeds: int
    last_mean: float | None
    paper: Figure | None

    @classmethod
    def of(cls, runs: Sequence[Document], metric: str, paper: Figure | None) -> Outcome:
        found, unit = summary(runs, metric), 1 if is_error(metric) else 100
        if found is None:
            return cls(metric, None, None, 0, None, paper)
        std, last = (None if value is None else unit * value for value in (found.std, found.last_mean))
        return cls(metric, unit * found.mean, std, found.seeds, last, paper)

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.paper is None else self.mean - self.paper.mean

    @property
    def p(self) -> float | None:
        if self.mean is None or self.paper is None:
            return None
        return welch((self.mean, self.std, self.seeds), self.paper)

    def cells(self, digits: int) -> list[str]:
        """Ours, the paper's, the difference, who wins, p."""
        theirs = MISSING if self.paper is None else _mean(self.paper.mean, self.paper.std, digits)
        difference = MISSING if self.difference is None else f"{self.difference:+.{digits}f}"
        return [_mean(self.mean, self.std, digits), theirs, difference, self.winner(digits), _p(self.p)]

    def winner(self, digits: int) -> str:
        """By the means, to the digits that the paper prints."""
        if self.difference is None:
            return MISSING
        better = round(self.difference, digits) * (-1 if is_error(self.metric) else 1)
        return "tie" if better == 0 else "ours" if better > 0 else "paper"


def welch(ours: tuple[float, float | None, int | None], theirs: tuple[float, float | None, int | None]) -> float | None:
    """Two-sided p of Welch's test between two (mean, standard deviation, count); None where the spread is not known.

    Example:
        >>> round(welch((83.5, 0.8, 3), (83.2, 0.5, 10)), 2)
        0.59
    """
    if any(std is None or count is None or count < 2 for _, std, count in (ours, theirs)):
        return None
    (first, a), (second, b) = (((std or 0) ** 2 / (count or 1), (count or 1) - 1) for _, std, count in (ours, theirs))
    if first + second == 0:
        return None
    t = (ours[0] - theirs[0]) / math.sqrt(first + second)
    freedom = (first + second) ** 2 / (first**2 / a + second**2 / b)
    return float(2 * stdtr(freedom, -abs(t)))


def compare(
    title: str,
    documents: Sequence[Document],
    datasets: Sequence[str],
    rows: Mapping[str, Row],
    *,
    paper: str | None = None,
    metrics: Mapping[str, str] = METRICS,
    extra: Mapping[str, Column] | None = None,
    notes: Sequence[str] = (),
    others: bool = True,
) -> Table:
    """The table of an experiment.

    Args:
        title: Of the table.
        documents: The runs, each with the label of its row under "row".
        datasets: In the order in which they are shown.
        rows: Of the experiment.
        paper: The table of the paper to compare with, a key of `TABLES`.
        metrics: Which metrics under which name.
        extra: Further columns by name.
        notes: What to say below, after what the columns mean.
        others: Whether to show the paper's rows that are not among ours.
    """
    extra = extra or {}
    digits = TABLES[paper].digits if paper else 1
    lines = list(all_lines(rows, paper if others else None))
    cells, records, bests = [], [], []
    for dataset in datasets:
        shown = []
        for line in lines:
            runs = [d for d in documents if d["dataset"] == dataset and d["row"] == line.label and line.implemented]
            outcomes = [Outcome.of(runs, metric, _figure(paper, dataset, line, metric)) for metric in metrics]
            if not runs and all(outcome.paper is None for outcome in outcomes):
                continue
            records += [_record(dataset, line, outcome) for outcome in outcomes]
            more = [column(runs) if runs else MISSING for column in extra.values()]
            numbers = [cell for outcome in outcomes for cell in outcome.cells(digits)]
            cells.append([dataset, line.label, *numbers, *more, _seeds(outcomes[0])])
            shown.append((line, outcomes[0]))
        bests += _best(dataset, shown, digits)
    columns = [column for name in metrics.values() for column in (name, "paper", "diff", "wins", "p")]
    header = ["data set", "method", *columns, *extra, "seeds (paper)"]
    absent = [line.label for line in lines if not line.implemented]
    not_here = [f"Not implemented here: {', '.join(absent)}."] if absent else []
    everything = [*LEGEND, *notes, *not_here, *bests]
    return Table(title, header, cells, everything, labels=2, grouped=True, records=records)


@dataclass(frozen=True)
class Cell:
    """A row on a data set: its runs, and how their means compare with the paper's."""

    dataset: str
    label: str
    runs: list[Document]
    outcomes: list[Outcome]


def below(experiment: Experiment, documents: Sequence[Document]) -> Iterator[Cell]:
    """The rows that stay below the paper's, in a table of the same name: dpm-snc with any of its means, as the paper
    prints them; a baseline, which has to be a fair opponent and no more, with its accuracy and by more than a point."""
    table = TABLES[experiment.name]
    for dataset in experiment.datasets:
        for label, row in experiment.rows.items():
            runs = [run for run in documents if (run["dataset"], run["row"]) == (dataset, label)]
            metrics = [metric for where, metric in table.columns if where == dataset]
            figures = {
                metric: published(experiment.name, dataset, row.method, backbone(row), metric) for metric in metrics
            }
            outcomes = [Outcome.of(runs, metric, figure) for metric, figure in figures.items()]
            ours = paper_row(row.method, None)[0] == "dpm-snc"
            lacks = -(outcomes[0].difference or 0.0)
            behind = any(outcome.winner(table.digits) == "paper" for outcome in outcomes)
            if behind if ours else round(lacks, table.digits) > TOLERANCE:
                yield Cell(dataset, label, runs, outcomes)


def records(documents: Sequence[Document], datasets: Sequence[str], rows: Mapping[str, Row]) -> Sequence[Any]:
    """The figures of an experiment that has a table of its own and stands in no table of the paper."""
    return compare("", documents, datasets, rows).records


def all_lines(rows: Mapping[str, Row], paper: str | None) -> Iterator[Line]:
    """The experiment's rows, then those that only the paper has."""
    ours = [Line(label, row.method, backbone(row)) for label, row in rows.items()]
    yield from ours
    if paper is None:
        return
    implemented = {paper_row(line.method, line.backbone) for line in ours}
    for name, network in TABLES[paper].rows:
        if (name, network) not in implemented:
            several = sum(other == name for other, _ in TABLES[paper].rows) > 1
            yield Line(f"{name} ({network})" if several else name, name, network, implemented=False)


def backbone(row: Row) -> str | None:
    """The network of a row; None for methods without one."""
    return backbone_of(method(row.method).build(0, **row.settings))


def is_error(metric: str) -> bool:
    """Whether less is better; errors are not in per cent."""
    return metric.startswith("mse")


def worst(runs: Sequence[Document]) -> str:
    """Accuracy of the worst seed."""
    found = summary(runs)
    return percent(found.worst if found else None)


def last(runs: Sequence[Document]) -> str:
    """Mean accuracy at the last checkpoint instead of the selected one."""
    found = summary(runs)
    return percent(found.last_mean if found else None)


def initialiser(runs: Sequence[Document]) -> str:
    """Mean accuracy of the baseline that filled the first buffer, where there is one."""
    if not all("initialiser" in run["metrics"] for run in runs):
        return MISSING
    return percent(statistics.fmean(run["metrics"]["initialiser"]["accuracy"] for run in runs))


def fall(runs: Sequence[Document]) -> str:
    """Largest fall of validation accuracy after it first came within a point of its best."""
    found = summary(runs)
    return percent(found.largest_fall if found else None)


def cpu(runs: Sequence[Document]) -> str:
    """CPU seconds of fit and prediction, mean over seeds."""
    found = summary(runs)
    return MISSING if found is None else f"{found.cpu_s:.0f}"


def _figure(paper: str | None, dataset: str, line: Line, metric: str) -> Figure | None:
    return published(paper, dataset, line.method, line.backbone, metric) if paper else None


def _record(dataset: str, line: Line, outcome: Outcome) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "method": line.name,
        "backbone": line.backbone,
        "metric": outcome.metric,
        "mean": _rounded(outcome.mean),
        "std": _rounded(outcome.std),
        "seeds": outcome.seeds,
        "last_mean": _rounded(outcome.last_mean),
        "paper_mean": outcome.paper and outcome.paper.mean,
        "paper_std": outcome.paper and outcome.paper.std,
    }


def _best(dataset: str, lines: Sequence[tuple[Line, Outcome]], digits: int) -> list[str]:
    """Who comes first on a data set, here and in the paper; nothing where there is but one of ours."""
    ours = {line.label: outcome.mean for line, outcome in lines if outcome.mean is not None}
    theirs: dict[str, float] = {}
    for line, outcome in lines:
        if outcome.paper is not None and line.method not in SAME_METHOD:
            theirs[line.label] = outcome.paper.mean
    if len(ours) < 2 or not theirs:
        return []
    choose = min if is_error(lines[0][1].metric) else max
    first, paper_first = (_first(figures, choose, digits) for figures in (ours, theirs))
    return [f"Best on {dataset}: of ours {first}, of the paper's {paper_first}."]


def _first(figures: Mapping[str, float], choose: Callable[..., float], digits: int) -> str:
    best = round(choose(figures.values()), digits)
    names = [label for label, figure in figures.items() if round(figure, digits) == best]
    return f"{' and '.join(names)} with {best:.{digits}f}"


def _seeds(outcome: Outcome) -> str:
    ours = str(outcome.seeds) if outcome.seeds else MISSING
    return f"{ours} ({outcome.paper.seeds or MISSING})" if outcome.paper else ours


def _mean(mean: float | None, std: float | None, digits: int) -> str:
    if mean is None:
        return MISSING
    return f"{mean:.{digits}f}" + (f"±{std:.{digits}f}" if std is not None else "")


def _p(p: float | None) -> str:
    return MISSING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
