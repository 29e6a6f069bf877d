"""What a classifier is right about, class by class: precision, recall, F1, and which class is taken for which.

With n_ab the number of nodes of class a that were answered b, the precision of class c is n_cc / sum_a n_ac, its recall
n_cc / sum_b n_cb, and its F1 the harmonic mean of both. Where classes are unbalanced, the accuracy is to be compared
with that of the best constant answer, max_a sum_b n_ab / sum_ab n_ab.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.estimators.report import Share
from dpmsnc.graph import UNKNOWN
from dpmsnc.graph.clean import counted
from dpmsnc.plots.html import text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST = 20
"""Classes whose confusion matrix is still readable as text."""


@dataclass(frozen=True, eq=False, repr=False)
class ClassReport:
    """Answers against true labels, class by class; `print` it."""

    classes: tuple[str, ...]
    truth: NDArray[np.int64]
    """True classes of the nodes that were asked for, as indices."""
    predicted: NDArray[np.int64]
    """What was answered for them; -1 where nothing was."""
    scores: Mapping[str, float]
    """Metrics of all classes together, by name."""

    @classmethod
    def of(
        cls,
        predicted: NDArray[np.int64],
        truth: NDArray[np.int64],
        mask: NDArray[np.bool_],
        classes: Sequence[Any],
        scores: Mapping[str, float],
    ) -> Self:
        """From class indices of all nodes; those of the mask that have a true label are asked for."""
        asked = mask & (truth != UNKNOWN)
        return cls(tuple(map(str, classes)), truth[asked], predicted[asked], scores)

    @property
    def majority(self) -> Share:
        """Nodes that the best constant answer has right."""
        return Share(int(np.bincount(self.truth, minlength=1).max()), len(self.truth))

    @property
    def confusion(self) -> NDArray[np.int64]:
        """Nodes by true class (rows) and answered class (columns)."""
        from sklearn.metrics import confusion_matrix

        return confusion_matrix(self.truth, self.predicted, labels=np.arange(len(self.classes)))

    @property
    def by_class(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and number of nodes of every class."""
        from sklearn.metrics import precision_recall_fscore_support

        *shares, _ = precision_recall_fscore_support(
            self.truth, self.predicted, labels=np.arange(len(self.classes)), zero_division=0
        )
        sizes = np.bincount(self.truth, minlength=len(self.classes))
        columns = zip(*(values.tolist() for values in (*shares, sizes)))
        return {
            name: dict(zip(("precision", "recall", "f1", "nodes"), row)) for name, row in zip(self.classes, columns)
        }

    def plot(self) -> Figure:
        """The confusion matrix as a picture."""
        from dpmsnc.plots.diagrams import plot_confusion

        return plot_confusion(self.confusion, self.classes)

    def details(self) -> str:
        """What is beyond the scores: each class, the confusion where classes are few, and the best constant answer."""
        names = ("precision", "recall", "f1")
        rows = [
            [name, *(f"{row[key]:.4f}" for key in names), f"{row['nodes']:,}"] for name, row in self.by_class.items()
        ]
        parts = ["", text_table(["class", "precision", "recall", "F1", "nodes"], rows)]
        if len(self.classes) <= WIDEST:
            counts = [[name, *map(str, row)] for name, row in zip(self.classes, self.confusion.tolist())]
            parts += ["", text_table(["true class, answered as", *self.classes], counts)]
        parts += ["", f"The most frequent class alone would have an accuracy of {self.majority.value:.4f}."]
        if silent := int((self.predicted == UNKNOWN).sum()):
            count = "counts" if silent == 1 else "count"
            parts.append(f"{counted(silent, 'node')} without an answer {count} as wrong.")
        return "\n".join(parts)

    def __str__(self) -> str:
        scores = [f"{name:<20}{value:.4f}" for name, value in self.scores.items()]
        return "\n".join([f"{'nodes':<20}{len(self.truth):,}", *scores, self.details()])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
