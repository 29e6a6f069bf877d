"""An initialiser of a user's own as a base model: an object with `fit(graph, validation=None)` and `predict_proba`."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import Target


@dataclass(eq=False, repr=False)
class Outside(Baseline):
    """Answers with what the object said of the fitted graph; it is shown the training labels and no others."""

    model: Any = None

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        own = copy.deepcopy(self.model)  # the user's stays as it is
        own.fit(graph.with_labels(y_train), validation=None)
        self.answer_ = checked(own.predict_proba(), graph.target, graph.num_nodes)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self._is_fitted_graph(graph):
            raise InputError(
                "an initialiser of your own has answered for the fitted graph alone; give a method by name, or fit "
                "with start='random'"
            )
        return self.answer_


def checked(answer: Any, target: Target, num_rows: int) -> NDArray[np.float64]:
    """The answer of an initialiser, or an `InputError` that says what is wrong with it."""
    initial, expected = np.asarray(answer), target.ignorance(num_rows).shape
    if initial.shape != expected:
        raise InputError(f"the initialiser gave probabilities of shape {initial.shape}, expected {expected}")
    if not np.isfinite(initial).all() or (target.names and not (initial >= 0).all()):
        raise InputError("the initialiser gave NaN, infinite or negative probabilities; lower its learning rate")
    return initial
