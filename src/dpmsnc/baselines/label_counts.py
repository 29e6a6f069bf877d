r"""What five lines of scikit-learn do with a graph: logistic regression on own features and labels of neighbours.

With Y0 one-hot on known labels and zero elsewhere, and A the adjacency matrix, weighted where edges have weights, the
columns are

    [X, A Y0],

where X are the features, scaled. A node is no neighbour of its own, so no label is learned from itself. Validation
labels are not used. On another graph, and where more labels are known, the counts are those of the labels known there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

from dpmsnc.baselines.base import Baseline, Ranges, one_hot
from dpmsnc.baselines.neighbourhood import completed, logistic
from dpmsnc.config import ScalingName
from dpmsnc.errors import ModelFileError
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.graph import UNKNOWN, Graph


@dataclass(eq=False, repr=False)
class LabelCounts(Baseline):
    """Logistic regression on own features and on how many labels of each class the neighbours have.

    Args:
        strength: C, the inverse of the penalty on weights.
        balanced: Whether classes count alike, however many labels they have.

    Example:
        >>> path = Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "a", "b", None])
        >>> LabelCounts().fit(path).predict_proba().shape
        (4, 2)
    """

    strength: float = 1.0
    balanced: bool = False
    scaling: ScalingName = "unit"
    seed: int = 0

    learns_answers = False
    ranges: ClassVar[Ranges] = {"strength": (1e-9, 1e9)}

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        nodes = np.flatnonzero(y_train != UNKNOWN)
        self.present_, y = np.unique(y_train[nodes], return_inverse=True)
        self.num_labels_ = len(nodes)
        table = self._table(graph, y_train)[nodes]
        self.weight_, self.bias_ = logistic(table, y, self.strength, "balanced" if self.balanced else None)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        q = softmax(self._table(graph, y) @ self.weight_ + self.bias_, axis=1)
        return completed(q, self.present_, len(self.classes_), self.num_labels_)

    def _table(self, graph: Graph, y: NDArray[np.int64]) -> Any:
        counts = graph.adjacency @ one_hot(y, graph.num_classes)
        x = self.features_.transform(graph)
        if sp.issparse(x):
            return sp.csr_array(sp.hstack([x, counts], format="csr"))
        return counts if x is None else np.concatenate([x, counts], axis=1)

    def _check_state(self) -> None:
        super()._check_state()
        shape = (self.features_.num_features + len(self.classes_), len(self.present_))
        if self.weight_.shape != shape or self.bias_.shape != shape[1:]:
            raise ModelFileError("what the model learned does not fit the graph; fit again")


METHODS["label-counts"] = Method(partial(seeded, LabelCounts))
