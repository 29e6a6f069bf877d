"""What needs no graph: every node has the classes in the shares that they have among known labels.

With n_c labels of class c among n, and C classes, p(c) = (n_c + 1) / (n + C). A method that is no better has learned
nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.estimators.base import METHODS, Method
from dpmsnc.graph import UNKNOWN, Graph


class Majority(Baseline):
    """Always answers the most frequent class.

    Example:
        >>> path = Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "a", "b", None])
        >>> Majority().fit(path).predict().tolist()
        ['a', 'a', 'b', 'a']
    """

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        counts = np.bincount(y_train[y_train != UNKNOWN], minlength=graph.num_classes)
        self.shares_ = (counts + 1.0) / (counts.sum() + graph.num_classes)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.tile(self.shares_, (graph.num_nodes, 1))


METHODS["majority"] = Method(lambda seed: Majority())
