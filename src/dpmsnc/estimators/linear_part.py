r"""What a linear model says of numbers; diffusion models the rest.

With a row z_i for every node or edge that has a number y_i, and their linear model m_i = w z_i + b, diffusion models
(y_i - m_i) / s, s being the deviation of what is left. For a node, z has its features, their mean over the neighbours
and log(1 + degree); for an edge its own features and, of its ends, features and log(1 + degree): one end after the
other where edges have a direction, else sum and absolute difference.

w solves a ridge regression on standardised columns. With Z = U S V' and the penalty alpha,

    m = mean(y) + sum_k u_k s_k^2 / (s_k^2 + alpha) u_k' y,        y_i - m_i^(-i) = (y_i - m_i) / (1 - h_i),

where h_i is the weight of y_i in m_i, so that the answer m_i^(-i) of the fit without row i costs nothing. alpha is the
one with the least squared error of these answers. Training rows of the fitted graph keep them, since what is left of
numbers that were learned from would be too little. Where they are no better than the mean there is no linear model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import mean_normalised
from dpmsnc.targets import RealValue
from dpmsnc.targets.base import Place

PENALTIES = np.logspace(-4, 1, 11)
"""Choices of alpha for every row that is learned from."""
LEAST_ROWS, MOST_COLUMNS = 8, 1000
"""With fewer numbers, or more columns, there is no linear model."""
MOST_ROWS = 20_000
"""Rows that are learned from; of more, so many at random."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A linear model of numbers, fitted."""

    weight: Array
    """(columns,)."""
    bias: float
    spread: float
    """s."""
    unseen: Array
    """Answers for the rows of the fitted graph, each of a fit without its number."""
    r2: float
    """Of these answers, on the rows that were learned from."""

    @classmethod
    def of(cls, graph: Graph, features: Features, y_train: Array, seed: int = 0) -> Self | None:
        """The model of training numbers (rows,), NaN elsewhere; None where it is no better than their mean."""
        rows = np.flatnonzero(~np.isnan(y_train))
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
        if len(rows) < LEAST_ROWS or num_columns(graph, features) > MOST_COLUMNS:
            return None
        Z = table(graph, features)
        y, mean, std = y_train[rows], Z[rows].mean(axis=0), Z[rows].std(axis=0)
        std = np.where(std > 1e-9 * np.abs(Z[rows]).max(axis=0), std, np.inf)
        U, S, Vt = np.linalg.svd((Z[rows] - mean) / std, full_matrices=False)
        best, found = np.inf, (np.zeros_like(y), np.zeros(Z.shape[1]))
        for alpha in PENALTIES * len(rows):
            kept = S**2 / (S**2 + alpha)
            fitted = y.mean() + U @ (kept * (U.T @ y))
            error = (y - fitted) / (1 - 1 / len(rows) - U**2 @ kept)
            if np.square(error).mean() < best:
                best, found = np.square(error).mean(), (error, Vt.T @ (S / (S**2 + alpha) * (U.T @ y)))
        error, weight = found[0], found[1] / std
        of_mean = (y - y.mean()) / (1 - 1 / len(rows))
        gain = of_mean**2 - error**2
        if gain.mean() <= 2 * gain.std() / len(rows) ** 0.5:
            return None
        bias = float(y.mean() - mean @ weight)
        unseen = Z @ weight + bias
        unseen[rows] = y - error
        spread = float(np.sqrt(best)) or 1.0
        return cls(
            weight, bias, max(spread, 1e-9 * float(np.abs(y).max())), unseen, 1 - best / float(np.mean(of_mean**2))
        )

    def at(self, graph: Graph, features: Features, is_fitted: bool) -> Array:
        """m of every row of a graph."""
        return self.unseen if is_fitted else table(graph, features) @ self.weight + self.bias

    def target(self, on: Place) -> RealValue:
        """What is left of numbers."""
        return RealValue(0.0, self.spread, on)

    def state(self) -> tuple[dict[str, Array], dict[str, float]]:
        """Arrays and numbers, which `from_state` reads."""
        numbers = {"bias": self.bias, "spread": self.spread, "r2": self.r2}
        return {"weight": self.weight, "unseen": self.unseen}, numbers

    @classmethod
    def from_state(cls, arrays: dict[str, Array], numbers: dict[str, float], graph: Graph, features: Features) -> Self:
        """What `state` gave, for the graph that was fitted; `ValueError` where it does not fit."""
        model = cls(arrays["weight"], numbers["bias"], numbers["spread"], arrays["unseen"], numbers["r2"])
        shapes = (num_columns(graph, features),), graph.y.shape
        if (model.weight.shape, model.unseen.shape) != shapes or not 0 < model.spread < np.inf:
            raise ValueError("its linear model belongs to another graph")
        return model


def num_columns(graph: Graph, features: Features) -> int:
    """Columns of `table`."""
    x = features.width if features.num_features or features.longest_walk is not None else 0
    if graph.labels_on == "node":
        return 2 * x + 1
    return 2 * (x + 1) + (0 if graph.edge_attr is None else graph.edge_attr.shape[1])


def table(graph: Graph, features: Features) -> Array:
    """z of every row."""
    x: Any = features.transform(graph)
    x = np.zeros((graph.num_nodes, 0)) if x is None else x.toarray() if hasattr(x, "toarray") else x
    degree = np.log1p(np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    if graph.labels_on == "node":
        return np.concatenate([x, mean_normalised(graph.adjacency) @ x, degree], axis=1)
    first, second = (np.concatenate([x, degree], axis=1)[end] for end in graph.edge_index)
    ends = (first, second) if graph.directed else (first + second, np.abs(first - second))
    own = [] if graph.edge_attr is None else [graph.edge_attr]
    return np.concatenate([*own, *ends], axis=1, dtype=np.float64)
