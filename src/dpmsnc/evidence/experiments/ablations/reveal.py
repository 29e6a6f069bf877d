r"""What labels are worth that are revealed after the fit, against what a refit with them gains.

L are the training nodes, V the validation nodes and R a random set of test nodes whose labels are revealed. f_L is a
method fitted to y_L, f_LR the same method with the same settings and seed fitted to y_L and y_R. On nodes M,

    before    a_0(M) = accuracy of f_L given y_L,
    after     a_1(M) = accuracy of f_L given y_L and y_R,
    refit     a_2(M) = accuracy of f_LR given y_L and y_R.

V chooses in both fits, and no answer is given y_V. M are the test nodes outside R, apart: the neighbours N of R, and
the others O. Over draws of R and seeds, with d = a_1 - a_0 or a_2 - a_0,

    gain      mean of d, with the standard error std(d) / sqrt(number of draws),
    ratio     mean of a_1(N) - a_0(N), divided by the mean of a_2(N) - a_0(N).

All methods face the same draws. Label propagation learns nothing, so its ratio is 1.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.errors import FitWarning
from dpmsnc.evidence.experiments import robustness
from dpmsnc.evidence.experiments.aggregate import SEEDS, metrics
from dpmsnc.evidence.experiments.robustness import RealGraph
from dpmsnc.evidence.run.estimators import own_labels, supports_progress
from dpmsnc.evidence.run.experiment import Experiment
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import MISSING
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.metrics import accuracy

Mask = NDArray[np.bool_]
Labels = NDArray[np.int64]
Part = Literal["neighbours", "others"]
Moment = Literal["after", "refit"]
Draw = Mapping[str, Any]

GRAPHS = (
    *(RealGraph(name) for name in ("cora", "citeseer", "amazon_photo")),
    RealGraph("cora", features=False),
)
DATASETS = {graph.name: graph for graph in GRAPHS}
ROWS = {name: robustness.ROWS[name] for name in ("dpm-snc", "crf", "masked-labels", "lp")}
DRAWS, NUM_REVEALED = 5, 100
REFITS = 5
"""Draws of a seed, the first ones, for which the method is fitted anew; each costs as much as the fit itself."""
HEADER = ("data set", "method", "neighbours", "refit", "ratio", "others", "draws")
NOTES = (
    f"In every draw the true labels of {NUM_REVEALED} random test nodes are revealed; the other test nodes are scored.",
    "Before, a method is given the training labels; after, it is given the revealed labels, too, without a refit.",
    "Validation labels are given in neither case.",
    "Column neighbours has the gain, after less before, in points of accuracy on test nodes with a revealed neighbour.",
    "Column refit has the gain on the same nodes when the method is fitted anew with the revealed labels as further "
    f"training labels, which is done for {REFITS} of the {DRAWS} draws of a seed.",
    "Column ratio has the gain without a refit divided by the gain of the refit, both on the draws that have a refit.",
    "The ratio is shown where the gain of the refit exceeds two standard errors.",
    "Column others has the gain without a refit on test nodes that have no revealed neighbour.",
    "Column draws has the number of draws of all seeds together.",
    "Gains are mean±standard error of the paired differences over these draws. Draws of one seed share a fit, so the "
    "standard errors understate how much gains vary from fit to fit.",
)


def load(dataset: str, seed: int = 0) -> Task:
    """The benchmark with its own split, without features where its name says so."""
    return DATASETS[dataset].load(seed)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """Accuracy before and after labels are revealed and after a refit, draw by draw."""
    before = own_labels(model, task)
    return {"reveal": [_draw(model, task, before, seed, draw) for draw in range(DRAWS)]}


def _draw(model: Any, task: Task, before: Labels, seed: int, draw: int) -> dict[str, Any]:
    revealed = drawn_nodes(task, seed, draw)
    answers = {"before": before, "after": _asked_again(model, task, revealed)}
    if draw < REFITS:
        answers["refit"] = _refitted(model, task, revealed)
    scored = groups(task, revealed)
    return {"revealed": int(revealed.sum())} | {name: _record(answers, task, part) for name, part in scored.items()}


def drawn_nodes(task: Task, seed: int, draw: int) -> Mask:
    """The test nodes that are revealed: at most half of them, so that there are some to score."""
    candidates = np.flatnonzero(task.test)
    count = min(NUM_REVEALED, len(candidates) // 2)
    chosen = np.random.default_rng([seed, draw]).choice(candidates, count, replace=False)
    return np.isin(np.arange(task.graph.num_nodes), chosen)


def groups(task: Task, revealed: Mask) -> dict[Part, Mask]:
    """The test nodes that are scored: those adjacent to a revealed node, and the others."""
    adjacent = task.graph.adjacency @ revealed.astype(np.float32) > 0
    scored = task.test & ~revealed
    return {"neighbours": scored & adjacent, "others": scored & ~adjacent}


def _given(task: Task, known: Mask) -> Graph:
    """The graph of the task with these labels and no others."""
    return task.graph.with_labels(np.where(known, task.truth, UNKNOWN))


def _asked_again(model: Any, task: Task, revealed: Mask) -> Labels:
    """The fitted model's labels given training and revealed labels."""
    return task.graph.encode(model.predict(_given(task, task.train | revealed), clamp_known=False))


def _refitted(model: Any, task: Task, revealed: Mask) -> Labels:
    """The labels of the same method fitted anew, given the same labels, all of which it was trained on."""
    from sklearn.base import clone

    again = clone(model)
    if supports_progress(again):
        again.verbose = False  # one report a run is enough
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        again.fit(_given(task, task.train | task.validation | revealed), validation=task.validation)
    return own_labels(again, task)


def _record(answers: Mapping[str, Labels], task: Task, part: Mask) -> dict[str, float | None]:
    """The size of a group and the accuracy of every answer on it, None where the group is empty."""
    count = int(part.sum())
    found = {name: round(accuracy(y, task.truth, part), 6) if count else None for name, y in answers.items()}
    return {"count": count, **found}


@dataclass(frozen=True)
class Gain:
    """A difference of accuracies over draws, in points."""

    mean: float
    error: float | None
    """Standard error of the mean; None where there is but one draw."""

    @classmethod
    def of(cls, draws: Sequence[Draw], part: Part, moment: Moment) -> Self | None:
        """Over the answer before, on a group of nodes; None where no draw has both answers."""
        scores = [draw[part] for draw in draws]
        points = [100 * (found[moment] - found["before"]) for found in scores if found.get(moment) is not None]
        if not points:
            return None
        error = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else None
        return cls(statistics.fmean(points), error)

    @property
    def is_clear(self) -> bool:
        """Whether it exceeds two standard errors."""
        return self.error is not None and self.mean > 2 * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.2f}" + (f"±{self.error:.2f}" if self.error is not None else "")


@dataclass(frozen=True)
class Cell:
    """A row on a data set."""

    dataset: str
    row: str
    draws: Sequence[Draw]
    """Of all seeds."""

    @property
    def gains(self) -> dict[str, Gain | None]:
        """The columns of gains by name."""
        return {
            "neighbours": Gain.of(self.draws, "neighbours", "after"),
            "refit": Gain.of(self.draws, "neighbours", "refit"),
            "others": Gain.of(self.draws, "others", "after"),
        }

    @property
    def ratio(self) -> float | None:
        """Gain of revealing over the gain of a refit, on the draws that have both; None where a refit gains nothing for
        certain."""
        both = [draw for draw in self.draws if draw["neighbours"].get("refit") is not None]
        after, refit = (Gain.of(both, "neighbours", moment) for moment in ("after", "refit"))
        return after.mean / refit.mean if after and refit and refit.is_clear else None

    def line(self) -> list[str]:
        gains = {name: MISSING if gain is None else str(gain) for name, gain in self.gains.items()}
        ratio = MISSING if self.ratio is None else f"{self.ratio:.2f}"
        first = [self.dataset, self.row, gains["neighbours"], gains["refit"]]
        return [*first, ratio, gains["others"], str(len(self.draws))]

    def record(self) -> dict[str, Any]:
        means = {name: gain and gain.mean for name, gain in self.gains.items()}
        errors = {f"{name}_error": gain and gain.error for name, gain in self.gains.items()}
        where = {"dataset": self.dataset, "method": self.row}
        return {**where, **means, **errors, "ratio": self.ratio, "draws": len(self.draws)}


def cells(documents: Sequence[Document]) -> Iterator[Cell]:
    """Every row on every data set for which there are runs."""
    for dataset in DATASETS:
        for row in ROWS:
            draws = [draw for found in metrics(documents, dataset, row) for draw in found["reveal"]]
            if draws:
                yield Cell(dataset, row, draws)


def table(documents: Sequence[Document]) -> Table:
    """A line per data set and row."""
    shown = list(cells(documents))
    return Table(
        "Labels revealed after the fit, without a refit and with one",
        HEADER,
        [cell.line() for cell in shown],
        NOTES,
        labels=2,
        grouped=True,
        records=[cell.record() for cell in shown],
    )


REVEAL = Experiment("reveal", tuple(DATASETS), ROWS, SEEDS, table, measure=measure, load=load)
