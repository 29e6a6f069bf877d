"""Ours beside the paper's: a line per data set and row, with the difference, who wins, and how sure that is.

The lines are the rows of an experiment, then the paper's rows that are not implemented here. An experiment may add
columns of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from scipy.stats import ttest_ind_from_stats

from dpmsnc.evidence.run.experiment import Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.paper import Figure, Printed, paper_names
from dpmsnc.evidence.show.summary import MISSING, summary
from dpmsnc.evidence.show.table import Table

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
        return self.label.removesuffix(f" ({paper_names(self.method, self.backbone)[1]})")


@dataclass(frozen=True)
class Outcome:
    """A metric of one line on one data set: ours, in the paper's unit, and the paper's."""

    metric: str
    ours: Figure | None
    last_mean: float | None
    paper: Figure | None

    @classmethod
    def of(cls, runs: Sequence[Document], metric: str, paper: Figure | None) -> Outcome:
        found, unit = summary(runs, metric), 1 if is_error(metric) else 100
        if found is None:
            return cls(metric, None, None, paper)
        std, last = (None if value is None else unit * value for value in (found.std, found.last_mean))
        return cls(metric, Figure(unit * found.mean, std, found.seeds), last, paper)

    @property
    def difference(self) -> float | None:
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean

    def cells(self, digits: int) -> list[str]:
        """Ours, the paper's, the difference, who wins, p."""
        difference = MISSING if self.difference is None else f"{self.difference:+.{digits}f}"
        p = None if self.ours is None or self.paper is None else welch(self.ours, self.paper)
        sure = MISSING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
        return [mean_std(self.ours, digits), mean_std(self.paper, digits), difference, self.winner(digits), sure]

    def winner(self, digits: int) -> str:
        """By the means, to the digits that the paper prints."""
        if self.difference is None:
            return MISSING
        better = round(self.difference, digits) * (-1 if is_error(self.metric) else 1)
        return "tie" if better == 0 else "ours" if better > 0 else "paper"


def welch(ours: Figure, theirs: Figure) -> float | None:
    """Two-sided p of Welch's test; None where the spread is not known.

    Example:
        >>> round(welch(Figure(83.5, 0.8, 3), Figure(83.2, 0.5, 10)), 2)
        0.59
    """
    if any(figure.std is None or (figure.seeds or 0) < 2 for figure in (ours, theirs)) or ours.std == theirs.std == 0:
        return None
    return float(ttest_ind_from_stats(*ours, *theirs, equal_var=False).pvalue)


@dataclass(frozen=True)
class Cell:
    """A line on a data set: its runs, and how their means compare with the paper's."""

    dataset: str
    line: Line
    runs: Sequence[Document]
    outcomes: Sequence[Outcome]
    digits: int

    @property
    def below(self) -> bool:
        """Whether it stays below the paper's: dpm-snc with any of its means, as the paper prints them; a baseline,
        which has to be a fair opponent and no more, with its accuracy and by more than a point."""
        if paper_names(self.line.method, None)[0] == "dpm-snc":
            return any(outcome.winner(self.digits) == "paper" for outcome in self.outcomes)
        return round(-(self.outcomes[0].difference or 0.0), self.digits) > TOLERANCE


def all_cells(
    documents: Sequence[Document],
    datasets: Sequence[str],
    lines: Sequence[Line],
    paper: Printed | None,
    metrics: Iterable[str] = METRICS,
) -> Iterator[Cell]:
    """Every line on every data set, though neither runs nor the paper have it."""
    for dataset, line in product(datasets, lines):
        runs = runs_of(documents, dataset, line.label) if line.implemented else []
        where = dataset, line.method, line.backbone
        outcomes = [Outcome.of(runs, metric, paper.figure(*where, metric) if paper else None) for metric in metrics]
        yield Cell(dataset, line, runs, outcomes, paper.digits if paper else 1)


def compare(
    title: str,
    documents: Sequence[Document],
    datasets: Sequence[str],
    rows: Mapping[str, Row],
    *,
    paper: Printed | None = None,
    metrics: Mapping[str, str] = METRICS,
    extra: Mapping[str, Column] | None = None,
    notes: Sequence[str] = (),
    others: bool = True,
) -> Table:
    """The table of an experiment, given its runs with the label of their row under "row".

    `metrics` and `extra` are the columns by metric and by name; `notes` stand below, after what the columns mean;
    `others` says whether to show the paper's rows that are not among ours.
    """
    extra, lines = extra or {}, all_lines(rows, paper if others else None)
    cells = [
        cell
        for cell in all_cells(documents, datasets, lines, paper, metrics)
        if cell.runs or any(outcome.paper for outcome in cell.outcomes)
    ]
    shown = []
    for cell in cells:
        numbers = [number for outcome in cell.outcomes for number in outcome.cells(cell.digits)]
        more = [column(cell.runs) if cell.runs else MISSING for column in extra.values()]
        shown.append([cell.dataset, cell.line.label, *numbers, *more, _seeds(cell.outcomes[0])])
    columns = [column for name in metrics.values() for column in (name, "paper", "diff", "wins", "p")]
    header = ["data set", "method", *columns, *extra, "seeds (paper)"]
    absent = [line.label for line in lines if not line.implemented]
    not_here = [f"Not implemented here: {', '.join(absent)}."] if absent else []
    bests = [note for dataset in datasets for note in _best([cell for cell in cells if cell.dataset == dataset])]
    records = [_record(cell, outcome) for cell in cells for outcome in cell.outcomes]
    return Table(title, header, shown, [*LEGEND, *notes, *not_here, *bests], 2, grouped=True, records=records)


def runs_of(documents: Sequence[Document], dataset: str, label: str) -> list[Document]:
    """The runs of a row on a data set."""
    return [document for document in documents if (document["dataset"], document["row"]) == (dataset, label)]


def all_lines(rows: Mapping[str, Row], paper: Printed | None = None) -> list[Line]:
    """The experiment's rows, then those that only the paper has."""
    ours = [Line(label, row.method, row.backbone) for label, row in rows.items()]
    implemented = {paper_names(line.method, line.backbone) for line in ours}
    methods = Counter(name for name, _ in paper.rows) if paper else Counter()
    absent = [names for names in (paper.rows if paper else ()) if names not in implemented]
    return ours + [
        Line(f"{name} ({network})" if methods[name] > 1 else name, name, network, implemented=False)
        for name, network in absent
    ]


def is_error(metric: str) -> bool:
    """Whether less is better; errors are not in per cent."""
    return metric.startswith("mse")


def _record(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    ours, digits = outcome.ours, 6 if is_error(outcome.metric) else 4
    return {
        "dataset": cell.dataset,
        "method": cell.line.name,
        "backbone": cell.line.backbone,
        "metric": outcome.metric,
        "mean": ours and round(ours.mean, digits),
        "std": None if ours is None or ours.std is None else round(ours.std, digits),
        "seeds": ours.seeds if ours else 0,
        "last_mean": None if outcome.last_mean is None else round(outcome.last_mean, digits),
        "paper_mean": outcome.paper and outcome.paper.mean,
        "paper_std": outcome.paper and outcome.paper.std,
    }


def _best(cells: Sequence[Cell]) -> list[str]:
    """Who comes first on a data set, here and in the paper; nothing where there is but one of ours."""
    pairs = [(cell.line, cell.outcomes[0]) for cell in cells]
    ours = {line.label: one.ours.mean for line, one in pairs if one.ours}
    # rows of ours that the paper has one figure for are listed once
    printed = {
        paper_names(line.method, line.backbone): (line.label, one.paper.mean) for line, one in pairs[::-1] if one.paper
    }
    theirs = dict(reversed(printed.values()))
    if len(ours) < 2 or not theirs:
        return []
    choose, digits = min if is_error(pairs[0][1].metric) else max, cells[0].digits
    first, paper_first = (_first(figures, choose, digits) for figures in (ours, theirs))
    return [f"Best on {cells[0].dataset}: of ours {first}, of the paper's {paper_first}."]


def _first(figures: Mapping[str, float], choose: Callable[..., float], digits: int) -> str:
    best = round(choose(figures.values()), digits)
    names = [label for label, figure in figures.items() if round(figure, digits) == best]
    return f"{' and '.join(names)} with {best:.{digits}f}"


def _seeds(outcome: Outcome) -> str:
    ours = str(outcome.ours.seeds) if outcome.ours else MISSING
    return f"{ours} ({outcome.paper.seeds or MISSING})" if outcome.paper else ours


def mean_std(figure: Figure | None, digits: int) -> str:
    """A figure as it is shown; the mean alone where its spread is not known."""
    if figure is None:
        return MISSING
    return f"{figure.mean:.{digits}f}" + (f"±{figure.std:.{digits}f}" if figure.std is not None else "")
