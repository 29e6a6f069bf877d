r"""Label propagation: known labels spread along edges, features play no part.

With Y0 one-hot on the training nodes and zero elsewhere, S = D^-1/2 A D^-1/2 without self-loops, and F = Y0 at first,

    F <- alpha S F + (1 - alpha) Y0        (clamp=False, K times, kept within [0, 1])
    F <- S F, then F_L <- Y0_L             (clamp=True, K times)

The first form is the one behind the paper's table (K = 10, alpha = 1/2). It only pulls training nodes towards their
labels; the second holds them there and usually is the better of the two. As in Zhou et al., alpha weighs what arrives,
not the return to the start as in PTA and APPNP. Rows that no label has reached are all zero: such nodes get the class
frequencies of the known labels. Rows of classes are divided by their sum. Tags spread as rows of 0/1, and each is
divided by what would have arrived had every known label the tag: F_ik / f_i, with f the same recursion on 1_L, is the
share of tag k among the labels that reach i. Nothing but these frequencies is learned: on another graph, its own known
labels spread.

References: Zhu & Ghahramani, "Learning from Labeled and Unlabeled Data with Label Propagation", 2002; Zhou et al.,
"Learning with Local and Global Consistency", NIPS 2003.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline, Ranges, label_field
from dpmsnc.estimators.base import METHODS, Method
from dpmsnc.estimators.search_space import SearchSpace
from dpmsnc.graph import Graph
from dpmsnc.nn.operator import symmetric_normalised
from dpmsnc.targets import Tags


@dataclass(eq=False, repr=False)
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

    kinds = ("class", "tags")
    learns_answers = False
    ranges: ClassVar[Ranges] = {"num_layers": (0, inf), "alpha": (0, 1)}

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        self.frequencies_ = label_field(y_train, graph.target).sum(axis=0)
        if isinstance(graph.target, Tags):
            self.frequencies_ /= graph.target.known(y_train).sum()

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        Y0, labelled = label_field(y, graph.target), graph.target.known(y)
        if isinstance(graph.target, Tags):
            F = self._spread(graph, np.concatenate([Y0, labelled[:, None]], axis=1), labelled)
            arrived = F[:, -1:]
            prior = self._prior(graph, Y0, labelled)
            return np.where(arrived > 0, F[:, :-1] / np.where(arrived > 0, arrived, 1), prior)
        F = self._spread(graph, Y0, labelled)
        reached = F.any(axis=1)
        F[~reached] = self._prior(graph, Y0, labelled)[~reached]
        return F / F.sum(axis=1, keepdims=True)

    def _prior(self, graph: Graph, Y0: NDArray[np.float64], labelled: NDArray[np.bool_]) -> NDArray[np.float64]:
        """For every node the frequencies among the labels of its graph; those of the fit where it has none."""
        member = np.zeros(graph.num_nodes, dtype=np.int64) if graph.member is None else graph.member
        count = np.bincount(member, weights=labelled)
        of_graph = sp.csr_array((np.ones(len(member)), (member, np.arange(len(member))))) @ Y0
        shares = of_graph / np.maximum(count, 1)[:, None]
        return np.where(count[:, None] > 0, shares, self.frequencies_)[member]

    def _spread(self, graph: Graph, Y0: NDArray[np.float64], labelled: NDArray[np.bool_]) -> NDArray[np.float64]:
        """F after K steps."""
        S = symmetric_normalised(graph.adjacency, self_loop=0.0)
        F = Y0
        for _ in range(self.num_layers):
            F = S @ F
            if self.clamp:
                F[labelled] = Y0[labelled]
            else:
                F = np.clip(self.alpha * F + (1 - self.alpha) * Y0, 0, 1)
        return F


def _unseeded(seed: int, **settings: Any) -> LabelPropagation:
    """Label propagation draws no random numbers."""
    return LabelPropagation(**settings)


METHODS["lp"] = Method(
    _unseeded, search=SearchSpace({"propagations": "num_layers", "damping": "alpha", "clamp": "clamp"})
)
