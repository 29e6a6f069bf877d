r"""What a linear model says of numbers.

With a row z_i for every node or edge that has a number y_i, the linear model is m_i = w z_i + b. For a node, z has its
features, their mean over the neighbours and log(1 + degree); for an edge its own features and, of its ends, features
and log(1 + degree): one end after the other where edges have a direction, else sum and absolute difference. Beyond the
range that was learned from, a column counts as at its end.

w solves a ridge regression on standardised columns. With Z = U S V' and the penalty alpha,

    m = mean(y) + sum_k u_k s_k^2 / (s_k^2 + alpha) u_k' y,        y_i - m_i^(-i) = (y_i - m_i) / (1 - h_i),

where h_i is the weight of y_i in m_i, so that the answer m_i^(-i) of the fit without row i costs nothing. alpha is the
one with the least squared error of these answers. Training rows of the fitted graph keep them, since what is left of
numbers that were learned from would be less than what is left of others. Where they are no better than the mean, the
model is the mean. Other graphs, and the fitted graph with new nodes, are answered by the fit to all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import mean_normalised

PENALTIES = np.logspace(-4, 1, 11)
"""Choices of alpha for every row that is learned from."""
LEAST_ROWS, MOST_COLUMNS = 20, 1000
"""With fewer numbers, or more columns, the model is the mean."""
MOST_ROWS = 20_000
"""Rows that are learned from; of more, so many at random."""
ROWS_AT_A_TIME = 2**16
"""Rows whose columns are held together."""
CHANCE = 2.0
"""Standard errors by which a model has to be better than a simpler one."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A linear model of numbers, fitted."""

    weight: Array
    """(columns,)."""
    low: Array
    high: Array
    """The range of every column (columns,)."""
    bias: Array
    """(1,)."""
    unseen: Array
    """Answers for the rows of the fitted graph, each of a fit without its number."""

    @classmethod
    def of(cls, graph: Graph, features: Features, y_train: Array, seed: int = 0) -> Self:
        """The model of training numbers (rows,), NaN elsewhere."""
        rows = np.flatnonzero(~np.isnan(y_train))
        if len(rows) > MOST_ROWS:
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_ROWS, replace=False))
        y, constant = y_train[rows], cls.constant(graph, features, y_train)
        if len(rows) < LEAST_ROWS or len(constant.weight) > MOST_COLUMNS:
            return constant
        Z = table(graph, features, rows)
        low, high, mean, std = Z.min(axis=0), Z.max(axis=0), Z.mean(axis=0), Z.std(axis=0)
        std = np.where(std > 1e-9 * np.abs(Z).max(axis=0), std, np.inf)
        error, weight = ridge((Z - mean) / std, y)
        without = (y - y.mean()) / (1 - 1 / len(rows))  # of the mean of all others
        if not is_better(error, without):
            return constant
        weight = weight / std
        model = cls(weight, low, high, np.array([y.mean() - mean @ weight]), np.zeros(len(y_train)))
        model.unseen[:] = model.at(graph, features, False)
        model.unseen[rows] = y - error
        return model

    @classmethod
    def constant(cls, graph: Graph, features: Features, y_train: Array) -> Self:
        """The mean of training numbers."""
        weight, low, high = np.zeros((3, num_columns(graph, features)))
        mean = np.nanmean(y_train)
        return cls(weight, low, high, np.array([mean]), np.full(len(y_train), mean))

    def at(self, graph: Graph, features: Features, is_fitted: bool) -> Array:
        """m of every row of a graph."""
        if is_fitted:
            return self.unseen
        if not self.weight.any():
            return np.full(len(graph.y), self.bias)
        rows = np.arange(len(graph.y))
        parts = [rows[first : first + ROWS_AT_A_TIME] for first in range(0, len(rows), ROWS_AT_A_TIME)]
        said = [self.of_rows(table(graph, features, part)) for part in parts]
        return np.concatenate(said) if said else np.zeros(0)

    def of_rows(self, Z: Array) -> Array:
        """m of some z (rows, columns)."""
        return np.asarray(Z.clip(self.low, self.high) @ self.weight + self.bias)

    def state(self) -> dict[str, Array]:
        """Arrays, which `from_state` reads."""
        return {part.name: getattr(self, part.name).copy() for part in fields(self)}

    @classmethod
    def from_state(cls, arrays: dict[str, Array], graph: Graph, features: Features) -> Self:
        """What `state` gave, for the graph that was fitted; `ValueError` where it does not fit."""
        model = cls(**arrays)
        columns = (num_columns(graph, features),)
        expected = {"weight": columns, "low": columns, "high": columns, "bias": (1,), "unseen": graph.y.shape}
        if any(array.shape != expected[name] for name, array in model.state().items()):
            raise ValueError("its linear model belongs to another graph")
        return model


def ridge(Z: Array, y: Array) -> tuple[Array, Array]:
    """Errors of answers without a row's own number, and weights, under the penalty for which the errors are least."""
    U, S, Vt = np.linalg.svd(Z, full_matrices=False)
    found = []
    for alpha in PENALTIES * len(y):
        kept, coordinates = S**2 / (S**2 + alpha), U.T @ y
        error = (y - y.mean() - U @ (kept * coordinates)) / (1 - 1 / len(y) - U**2 @ kept)
        found.append((error, Vt.T @ (S / (S**2 + alpha) * coordinates)))
    return min(found, key=lambda one: float(np.square(one[0]).mean()))


def is_better(error: Array, other: Array) -> bool:
    """Whether squared errors are less by more than chance."""
    gain = other**2 - error**2
    return bool(gain.mean() > CHANCE * gain.std() / len(gain) ** 0.5)


def num_columns(graph: Graph, features: Features) -> int:
    """Columns of `table`."""
    x = features.width if features.num_features or features.longest_walk is not None else 0
    if graph.labels_on == "node":
        return 2 * x + 1
    return 2 * (x + 1) + (0 if graph.edge_attr is None else graph.edge_attr.shape[1])


def table(graph: Graph, features: Features, rows: NDArray[np.int64]) -> Array:
    """z of some rows."""
    x: Any = features.transform(graph)
    x = np.zeros((graph.num_nodes, 0)) if x is None else x.toarray() if hasattr(x, "toarray") else x
    degree = np.log1p(np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64)).reshape(-1, 1)
    if graph.labels_on == "node":
        return np.concatenate([x[rows], mean_normalised(graph.adjacency)[rows] @ x, degree[rows]], axis=1)
    first, second = (np.concatenate([x[end], degree[end]], axis=1) for end in graph.edge_index[:, rows])
    ends = (first, second) if graph.directed else (first + second, np.abs(first - second))
    own = [] if graph.edge_attr is None else [graph.edge_attr[rows]]
    return np.concatenate([*own, *ends], axis=1, dtype=np.float64)
