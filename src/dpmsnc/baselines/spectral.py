r"""Logistic regression on a spectral embedding: where a node lies in the graph, and nothing else.

With S = D^-1/2 A D^-1/2, its eigenvectors u_1, ..., u_K of the largest eigenvalues, and z_i the i-th row of
[u_1, ..., u_K] brought to length 1 (eigenvectors whose eigenvalues are not positive count as 0),

    classes   p_i = softmax(z_i W + b)
    tags      p_ik = sigmoid(z_i w_k + b_k), each tag on its own,

with |w|^2 / 2C added to the loss. A node without an edge has z_i = 0. Neither features nor the labels that are known
when it is asked play a part, and validation labels are not used. Eigenvectors of one graph say nothing of another, so
it learns from one graph and answers for that alone.

Reference: Tang & Liu, "Leveraging social media networks for classification", Data Mining and Knowledge Discovery 2011.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from scipy.special import expit, logit, softmax

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.neighbourhood import completed, logistic
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.base import METHODS, Method
from dpmsnc.graph import Graph
from dpmsnc.nn.operator import symmetric_normalised
from dpmsnc.targets import Tags

NODES_A_DIMENSION = 4
"""Nodes that there must be for every dimension: as many dimensions as nodes would tell all of them apart."""
LEAST = 1e-6
"""Eigenvectors of smaller eigenvalues are left out: neighbours have nothing in common there."""
SMALL = 500
"""Nodes up to which all eigenvectors are computed, which is faster than to look for a few."""


@dataclass(eq=False, repr=False)
class Spectral(Baseline):
    """Logistic regression on the eigenvectors of a graph; one-vs-rest for tags.

    Args:
        dimensions: K, at most one for every four nodes.
        strength: C, the inverse of the penalty on weights.

    Example:
        >>> pairs = [(i, j) for group in ("abcd", "wxyz") for i in group for j in group if i < j]
        >>> graph = Graph.build([*pairs, ("d", "w")], ids=list("abcdwxyz"), y=["u", *[None] * 6, "v"])
        >>> Spectral().fit(graph).predict().tolist()
        ['u', 'u', 'u', 'u', 'v', 'v', 'v', 'v']
    """

    dimensions: int = 128
    strength: float = 1.0

    kinds = ("class", "tags")
    ranges: ClassVar[Ranges] = {"dimensions": (1, 4096), "strength": (1e-9, inf)}

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        if graph.member is not None:
            raise InputError(
                "a spectral embedding has coordinates for the nodes of one graph, which say nothing of another, and "
                "there are several; fit it on one of them, or take a method such as gcn, sage or lp"
            )
        self.embedding_ = embedding(graph, self.dimensions)
        known = graph.target.known(y_train)
        z, y, self.num_labels_ = self.embedding_[known], y_train[known], int(known.sum())
        if isinstance(graph.target, Tags):
            self.present_ = np.arange(graph.target.channels)
            fits = [one_against_rest(z, y[:, k], self.strength) for k in self.present_]
            self.weight_ = np.stack([weight for weight, _ in fits], axis=1)
            self.bias_ = np.array([bias for _, bias in fits])
        else:
            self.present_, codes = np.unique(y, return_inverse=True)
            self.weight_, self.bias_ = logistic(z, codes, self.strength)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self._is_fitted_graph(graph):
            raise InputError(
                "a spectral embedding has coordinates for the nodes of the fitted graph and none for those of another; "
                "fit it on the other graph, or take a method such as gcn or lp, which answers for any graph"
            )
        output = self.embedding_ @ self.weight_ + self.bias_
        if isinstance(self.target_, Tags):
            return expit(output)
        return completed(softmax(output, axis=1), self.present_, len(self.classes_), self.num_labels_)

    def _check_state(self) -> None:
        super()._check_state()
        shape = self.graph_.num_nodes, num_dimensions(self.graph_, self.dimensions)
        whole = self.embedding_.shape == shape and self.weight_.shape == (shape[1], len(self.present_))
        if not whole or self.bias_.shape != (len(self.present_),) or len(self.present_) > len(self.classes_):
            raise ModelFileError("what the model learned does not fit its settings; fit again")


def num_dimensions(graph: Graph, most: int) -> int:
    """K, of which a small graph has few."""
    return min(most, max(graph.num_nodes // NODES_A_DIMENSION, 1))


def embedding(graph: Graph, most: int) -> NDArray[np.float64]:
    """z (nodes, K), always the same for the same graph; the graph keeps it."""
    size = num_dimensions(graph, most)
    return graph.cached(f"spectral/{size}", lambda: _embedding(graph, size))


def _embedding(graph: Graph, size: int) -> NDArray[np.float64]:
    S = symmetric_normalised(graph.adjacency, self_loop=0.0).astype(np.float64)
    if graph.num_nodes <= SMALL:
        values, U = (part[..., -size:] for part in np.linalg.eigh(S.toarray()))
    else:
        values, U = eigsh(S, k=size, which="LA", v0=np.ones(graph.num_nodes))
    largest = np.abs(U).argmax(axis=0)
    U = (U * np.sign(U[largest, np.arange(size)]) * (values > LEAST))[:, ::-1]
    U[np.diff(S.indptr) == 0] = 0  # a node without an edge is an eigenvector by itself
    length = np.linalg.norm(U, axis=1, keepdims=True)
    return U / np.where(length > 1e-12, length, 1)


def one_against_rest(
    z: NDArray[np.float64], y: NDArray[np.int64], strength: float
) -> tuple[NDArray[np.float64], float]:
    """w and b of one tag; where all nodes agree on it, their share, drawn to one half by one label."""
    if len(np.unique(y)) < 2:
        return np.zeros(z.shape[1]), float(logit((y.sum() + 0.5) / (len(y) + 1)))
    weight, bias = logistic(z, y, strength)
    return weight[:, 1], float(bias[1])


def _unseeded(seed: int, **settings: Any) -> Spectral:
    """Nothing is drawn."""
    return Spectral(**settings)


METHODS["spectral"] = Method(_unseeded)
