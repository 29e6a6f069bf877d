r"""What a comparison found: a leaderboard with intervals, and a recommendation by paired differences.

Over J splits with n_1 labels seen and n_2 asked for in each, a figure has a mean and a sample variance s^2. Labels seen
in different splits overlap, so that s^2 / J would be too small; the variance of the mean is estimated as

    s^2 (1/J + n_2/n_1),

and intervals of 95 % use the t distribution with J - 1 degrees of freedom. Two methods are compared by their
differences split by split, with the same formula. Recommended is the simplest method that is behind the best one by no
more than a standard error of this difference and by no more than two points: where labels are few the error is large,
and a simple method is not enough because nothing can be told.

References: Nadeau and Bengio, "Inference for the Generalization Error", Machine Learning 2003; the rule of one standard
error is that of Breiman et al., "Classification and Regression Trees", 1984.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.comparison.contestants import Contestant
from dpmsnc.estimators.class_report import ClassReport
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.metrics import accuracy, macro_f1
from dpmsnc.plots.html import text_table
from dpmsnc.progress import spelled

if TYPE_CHECKING:
    import pandas as pd

LITTLE = 0.02
"""Lead of the best method, as a share of 1 or in nats, beyond which a simpler one is not enough."""


@dataclass(frozen=True)
class Shown:
    """How a metric is shown."""

    title: str
    sign: float = 1.0
    """-1 where less is better."""
    scale: float = 100.0
    """Shares are shown in per cent."""
    digits: int = 1

    @property
    def unit(self) -> str:
        return "points" if self.scale == 100 else "nats"

    def __call__(self, value: float) -> str:
        return f"{self.scale * value:.{self.digits}f}"


METRICS = {
    "accuracy": Shown("accuracy"),
    "macro_f1": Shown("macro-F1"),
    "log_loss": Shown("log-loss", sign=-1.0, scale=1.0, digits=3),
    "calibration_error": Shown("calibration", sign=-1.0),
}


@dataclass(frozen=True, eq=False)
class Run:
    """One method on one split."""

    scores: Mapping[str, float]
    cpu_s: float
    nodes: NDArray[np.int64]
    """Asked for."""
    num_seen: int
    predicted: NDArray[np.int64]
    proba: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A mean over splits, and its standard error."""

    mean: float
    error: float
    num_splits: int

    @classmethod
    def of(cls, values: NDArray[np.float64], ratio: float) -> Estimate:
        """`ratio` is that of labels asked for to labels seen."""
        error = float(values.std(ddof=1) * (1 / len(values) + ratio) ** 0.5) if len(values) > 1 else float("nan")
        return cls(float(values.mean()), error, len(values))

    @property
    def reach(self) -> float:
        """Half of the interval of 95 %."""
        from scipy.stats import t

        return float(t.ppf(0.975, self.num_splits - 1)) * self.error


@dataclass(frozen=True, eq=False)
class Row:
    """A method on all splits."""

    contestant: Contestant
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        return self.contestant.name

    @property
    def cpu_s(self) -> float:
        """Mean CPU seconds of a split."""
        return float(np.mean([run.cpu_s for run in self.runs]))

    def values(self, metric: str) -> NDArray[np.float64]:
        return np.array([run.scores[metric] for run in self.runs])

    @property
    def ratio(self) -> float:
        return float(np.mean([len(run.nodes) / run.num_seen for run in self.runs]))

    def estimate(self, metric: str) -> Estimate:
        return Estimate.of(self.values(metric), self.ratio)

    def lead(self, other: Row, metric: str) -> Estimate:
        """By how much it is better than another method, split by split."""
        difference = METRICS[metric].sign * (self.values(metric) - other.values(metric))
        return Estimate.of(difference, self.ratio)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """A leaderboard; `print` it, or `write_html` a page."""

    graph: Graph
    rows: tuple[Row, ...]
    """Simple methods first."""
    left_out: Mapping[str, str]
    """Methods that did not run, and why."""
    by: str
    """The metric that the recommendation goes by."""

    @property
    def ranked(self) -> list[Row]:
        """The best first, by the mean."""
        return sorted(self.rows, key=lambda row: -METRICS[self.by].sign * row.estimate(self.by).mean)

    @property
    def best(self) -> Row:
        return self.ranked[0]

    @property
    def choice(self) -> Row:
        """The simplest method that is little behind the best one; the most frequent class where none is surely ahead of
        that."""
        return next(row for row in self.rows if row is self.best or self._is_enough(row))

    def _is_enough(self, row: Row) -> bool:
        lead = self.best.lead(row, self.by)
        return within_chance(lead) and (row.name == "majority" or lead.mean <= LITTLE)

    @property
    def recommended(self) -> str:
        """The name of the method to take."""
        return self.choice.name

    @property
    def recommendation(self) -> str:
        """In one sentence."""
        choice, best, shown = self.choice, self.best, METRICS[self.by]
        if choice.name == "majority":
            return (
                "No method is better than always answering the most frequent class by more than a standard error "
                f"({shown.title} {self._mean(choice)}), so give more labels, or features and edges that say something "
                "about them, before you trust any."
            )
        if choice is best:
            return f"Take {best.name}: {self._ahead_of_simpler(best)}."
        lead = best.lead(choice, self.by)
        return (
            f"The simpler {choice.name} is enough: its {shown.title} of {self._mean(choice)} is within a standard "
            f"error of that of the best method here, {best.name} with {self._mean(best)} "
            f"(difference {signed(lead, shown)}), in {spelled(choice.cpu_s)} of CPU time instead of "
            f"{spelled(best.cpu_s)}."
        )

    def _mean(self, row: Row) -> str:
        return METRICS[self.by](row.estimate(self.by).mean)

    def _ahead_of_simpler(self, best: Row) -> str:
        simpler = [row for row in self.ranked if self.rows.index(row) < self.rows.index(best)]
        shown = METRICS[self.by]
        if not simpler:
            return f"it has the best {shown.title} and is the simplest of all"
        lead = best.lead(simpler[0], self.by)
        sure = "within a standard error, so that more labels may change it" if within_chance(lead) else "more than that"
        return (
            f"its {shown.title} of {self._mean(best)} is the best, and ahead of the best simpler method, "
            f"{simpler[0].name}, by {signed(lead, shown)}; with its standard error behind ±, this is {sure}"
        )

    @property
    def on_diffusion(self) -> str | None:
        """What the diffusion model adds on this graph, where it was compared."""
        named = {row.name: row for row in self.rows}
        others = [row for row in self.ranked if row.name != "dpm-snc"]
        if "dpm-snc" not in named or not others:
            return None
        lead, shown = named["dpm-snc"].lead(others[0], self.by), METRICS[self.by]
        gains = lead.mean > 0 and not within_chance(lead)
        verdict = (
            "so that diffusion pays here"
            if gains
            else "so that what it adds here are joint samples, and answers that follow labels learned later"
        )
        return f"dpm-snc less the best other method, {others[0].name}, is {signed(lead, shown)}, {verdict}."

    def estimator(self, seed: int = 0) -> Any:
        """The recommended method, not fitted."""
        return self.choice.contestant.build(seed)

    def report(self, name: str | None = None) -> ClassReport:
        """A method class by class, over the labels of all splits, each of which was asked for once; by default the
        recommended one."""
        row, y = self._row(name or self.recommended), self.graph.y
        predicted = np.full(self.graph.num_nodes, UNKNOWN)
        for run in row.runs:
            predicted[run.nodes] = run.predicted
        asked = predicted != UNKNOWN
        scores = {"accuracy": accuracy(predicted, y, asked), "macro_f1": macro_f1(predicted, y, asked)}
        return ClassReport.of(predicted, y, asked, self.graph.classes, scores)

    def answers(self, names: Sequence[str]) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
        """Probabilities of methods for all labels that were asked for, and these labels."""
        found = {name: np.concatenate([run.proba for run in self._row(name).runs]) for name in names}
        return found, self.graph.y[np.concatenate([run.nodes for run in self.rows[0].runs])]

    def _row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    @property
    def header(self) -> list[str]:
        units = [f"{shown.title}{', %' if shown.scale == 100 else ''}" for shown in METRICS.values()]
        return ["method", *units, "CPU s"]

    @property
    def cells(self) -> list[list[str]]:
        """The leaderboard, the best first; figures with half their 95 % interval."""
        return [
            [
                row.name,
                *(figure(row.estimate(name), shown) for name, shown in METRICS.items()),
                f"{row.cpu_s:.2g}" if row.cpu_s < 10 else f"{row.cpu_s:,.0f}",
            ]
            for row in self.ranked
        ]

    @property
    def notes(self) -> list[str]:
        """How it was compared, and what was left out."""
        first = self.rows[0].runs
        asked = [len(run.nodes) for run in first]
        sizes = f"{min(asked)}" if min(asked) == max(asked) else f"{min(asked)} to {max(asked)}"
        return [
            f"Means over {len(first)} splits with 95 % intervals; each asks for {sizes} of {self.graph.known.sum()} "
            "known labels. Calibration is the expected calibration error; less is better for it and for log-loss. "
            "CPU seconds are those of one split, with the initialiser where a method begins with it.",
            *(f"Left out: {name} ({reason})." for name, reason in self.left_out.items()),
        ]

    def to_frame(self) -> pd.DataFrame:
        """Mean and half interval of every figure, a row for each method."""
        import pandas as pd

        records = []
        for row in self.ranked:
            found = {name: row.estimate(name) for name in METRICS}
            figures = {k: v for name, e in found.items() for k, v in ((name, e.mean), (f"{name}_interval", e.reach))}
            records.append({"method": row.name, **figures, "cpu_s": row.cpu_s})
        return pd.DataFrame(records).set_index("method")

    def write_html(self, path: str | Path) -> None:
        """One self-contained page."""
        from dpmsnc.comparison.page import comparison_page

        comparison_page(self).write(Path(path))

    def __str__(self) -> str:
        said = [self.recommendation, *([self.on_diffusion] if self.on_diffusion else [])]
        return "\n".join([text_table(self.header, self.cells), "", *self.notes, "", *said])

    def _repr_html_(self) -> str:
        from dpmsnc.plots.html import Page

        page = Page("").paragraph(self.recommendation).table(self.header, self.cells).notes(self.notes)
        return "\n".join(page.parts)


def within_chance(lead: Estimate) -> bool:
    """Whether a lead is no more than its standard error."""
    return lead.mean <= lead.error


def figure(estimate: Estimate, shown: Shown) -> str:
    return f"{shown(estimate.mean)} ± {shown(estimate.reach)}"


def signed(lead: Estimate, shown: Shown) -> str:
    """A difference with its standard error."""
    mean = round(shown.scale * lead.mean, shown.digits) + 0.0  # which is no negative zero
    return f"{mean:+.{shown.digits}f} ± {shown(lead.error)} {shown.unit}"
