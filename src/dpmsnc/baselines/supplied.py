"""An initialiser of the user's own as a base model: an object with `fit(graph, validation=None)` and `predict_proba()`.

All that is known of such an object is what it answers for the graph that it was fitted on.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline, check_probabilities
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import Graph


@dataclass(eq=False, repr=False)
class Supplied(Baseline):
    """What an object says of every node, fitted to training labels alone; nobody knows what it would do with others.

    Labels that are revealed later do not change it.
    """

    kinds = ()
    model: Any = None
    """Stays as it is: a copy is fitted."""

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        own = copy.deepcopy(self.model)
        own.fit(graph.with_labels(y_train), validation=None)
        answer = own._marginals(own.graph_, own.graph_.y) if isinstance(own, Estimator) else own.predict_proba()
        proba = np.asarray(answer, dtype=np.float64)
        check_probabilities(proba, self.target_, graph.num_nodes)
        self.proba_ = proba

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self._is_fitted_graph(graph):
            raise InputError(
                "an initialiser of your own answers for the fitted graph alone; fit again, or name another initialiser"
            )
        return self.proba_
