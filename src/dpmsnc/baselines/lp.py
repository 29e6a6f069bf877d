r"""Label propagation: known labels spread along edges, features play no part.

With Y0 one-hot on the training nodes and zero elsewhere, S = D^-1/2 A D^-1/2 without self-loops, and F = Y0 at first,

    F <- alpha S F + (1 - alpha) Y0        (clamp=False, K times, kept within [0, 1])
    F <- S F, then F_L <- Y0_L             (clamp=True, K times)

The first form is the one behind the paper's table (K = 10, alpha = 1/2). It only pulls training nodes towards their
labels; the second holds them there and usually is the better of the two. As in Zhou et al., alpha weighs what arrives,
not the return to the start as in PTA and APPNP. Rows that no label has reached are all zero: such nodes get the class
frequencies of the training labels.

References: Zhu & Ghahramani, "Learning from Labeled and Unlabeled Data with Label Propagation", 2002; Zhou et al.,
"Learning with Local and Global Consistency", NIPS 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline, one_hot
from dpmsnc.config import check_range
from dpmsnc.graph import Graph
from dpmsnc.nn.operator import symmetric_normalised


@dataclass(eq=False)
class LabelPropagation(Baseline):
    """Label propagation with restart, or with the training labels held fixed (`clamp`). Validation labels are not used.

    Example:
        >>> path = Graph.build([("a", "b"), ("b", "c"), ("c", "d")], ids=list("abcd"), y=["red", None, None, "blue"])
        >>> LabelPropagation(clamp=True).fit(path).predict().tolist()
        ['red', 'red', 'blue', 'blue']
    """

    num_layers: int = 10
    alpha: float = 0.5
    clamp: bool = False

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_range(self, num_layers=(0, inf), alpha=(0, 1))
        S = symmetric_normalised(graph.adjacency, self_loop=0.0)
        Y0 = one_hot(y_train, graph.num_classes)
        labelled = Y0.any(axis=1)
        F = Y0
        for _ in range(self.num_layers):
            F = S @ F
            if self.clamp:
                F[labelled] = Y0[labelled]
            else:
                F = np.clip(self.alpha * F + (1 - self.alpha) * Y0, 0, 1)
        reached = F.any(axis=1)
        F[~reached] = Y0.sum(axis=0)
        return F / F.sum(axis=1, keepdims=True)
