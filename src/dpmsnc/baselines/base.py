"""The verbs that all baselines share with `NodeClassifier`, on top of one method that fills in `proba_`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import LARGEST_SEED, check_range
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.split import split_known

RANGES = {
    **dict.fromkeys(("hidden_channels", "epochs", "evaluate_every"), (1, inf)),
    **dict.fromkeys(("lr", "weight_decay"), (0, inf)),
    "seed": (0, LARGEST_SEED),
}
"""Of what many baselines have; what is particular to one is checked there."""


class Baseline(ABC):
    """Fit on a partly labelled graph, then predict every node of it.

    A baseline implements `_fit`. The given labels are evidence, not answers: `predict` returns the method's own opinion
    on labelled nodes too, which is what the tables score.
    """

    seed: int = 0

    graph_: Graph
    classes_: tuple[Any, ...]
    proba_: NDArray[np.float64]

    def fit(self, graph: Graph, validation: Any = None) -> Self:
        """Learn from the known labels; those named by `validation` (a share, ids or a mask) choose among what was
        learned from the others, and in a `Stack` they weigh it."""
        self.check_common()
        train, held_out = split_known(graph, validation, self.seed)
        self.graph_, self.classes_ = graph, graph.classes
        y_train = np.where(train, graph.y, UNKNOWN)
        y_validation = np.where(held_out, graph.y, UNKNOWN)
        self.proba_ = self._fit(graph, y_train, y_validation)
        return self

    def check_common(self) -> None:
        """Complain of what many baselines have and is out of range here."""
        check_range(self, **{name: bounds for name, bounds in RANGES.items() if hasattr(self, name)})

    @abstractmethod
    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        """Class probabilities of every node; labels are indices into the classes, -1 where there is none."""

    def predict_proba(self) -> NDArray[np.float64]:
        """Marginals of every node, columns in the order of `classes_`."""
        self._check_fitted()
        return self.proba_

    def predict(self) -> NDArray[Any]:
        """The most probable class of every node, by name."""
        self._check_fitted()
        return self.graph_.decode(self.proba_.argmax(axis=1))

    def _check_fitted(self) -> None:
        if not hasattr(self, "proba_"):
            raise InputError(f"this {type(self).__name__} is not fitted yet; call fit(graph) first")


def one_hot(y: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Y0: one-hot rows where there is a label, zero rows elsewhere."""
    return (y[:, None] == np.arange(num_classes)).astype(np.float64)
