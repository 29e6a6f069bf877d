r"""What known numbers say of others nearby: a Gaussian field on the graph.

What a linear model leaves of numbers is r = B u + noise, with u ~ N(0, K^-1 / lambda) in units of the noise,

    on nodes   B = I and K = L / (mean degree) + epsilon I with the Laplacian L: neighbours have similar numbers,
    on edges   B_(ij),i = B_(ij),j = 1 and K = I: the edges of a node share what is particular to it, as those do
               that leave it and those that arrive at it where edges have a direction.

Given known r_S, the mean of the others is B (B_S' B_S + lambda K)^-1 B_S' r_S, by conjugate gradients. A known row is
told what the others say: known rows are divided into folds, and each fold is answered given the rest. lambda and
epsilon are those whose answers are nearest to training numbers. Where these are no better than 0 there is no field.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.estimators.linear_part import is_better
from dpmsnc.graph import Graph

STRENGTHS, SHRINKAGES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), (0.01, 0.1, 1.0)
"""Choices of lambda and epsilon."""
LEAST_ROWS = 20
"""With fewer known numbers there is no field."""
NUM_FOLDS = 10
ITERATIONS, TOLERANCE = 200, 1e-5
"""Conjugate gradients end after so many iterations, or where the residual is so small beside the right-hand side."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FieldPart:
    """A Gaussian field, given by its two parameters."""

    strength: float
    """lambda."""
    shrinkage: float
    """epsilon."""

    def __post_init__(self) -> None:
        if self.strength not in STRENGTHS or self.shrinkage not in SHRINKAGES:
            raise ValueError(f"a field of strength {self.strength} and shrinkage {self.shrinkage} is none")

    @classmethod
    def of(cls, graph: Graph, left: Array, seed: int = 0) -> Self | None:
        """The field of what is left of training numbers (rows,), NaN elsewhere; None where it explains nothing."""
        known = ~np.isnan(left)
        if known.sum() < LEAST_ROWS or not graph.num_edges:
            return None
        shrinkages = SHRINKAGES if graph.labels_on == "node" else SHRINKAGES[-1:]
        tried = [cls(*choice) for choice in product(STRENGTHS, shrinkages)]
        errors = [(left - field.at(graph, left, seed))[known] for field in tried]
        best = int(np.argmin([np.square(error).mean() for error in errors]))
        return tried[best] if is_better(errors[best], left[known]) else None

    def at(self, graph: Graph, left: Array, seed: int = 0) -> Array:
        """The mean of every row given what is left of known numbers (rows,), NaN elsewhere."""
        known = np.flatnonzero(~np.isnan(left))
        if not len(known):
            return np.zeros(len(left))
        fold = np.full(len(left), NUM_FOLDS)
        fold[known] = np.random.default_rng(seed).permutation(len(left))[known] % NUM_FOLDS
        told = np.zeros((len(left), NUM_FOLDS + 1))
        told[known] = fold[known, None] != np.arange(NUM_FOLDS + 1)
        B, K = parts(graph, self.shrinkage)
        u = solve(B, self.strength * K, told, B.T @ (told * np.nan_to_num(left)[:, None]))
        return np.asarray((B @ u)[np.arange(len(left)), fold])


def parts(graph: Graph, shrinkage: float) -> tuple[sp.csr_array, sp.csr_array]:
    """B (rows, effects) and K (effects, effects)."""
    n = graph.num_nodes
    if graph.labels_on == "node":
        degree = np.asarray(graph.adjacency.sum(axis=1), dtype=np.float64)
        laplacian = sp.diags_array(degree) - graph.adjacency
        unit = degree.mean() or 1.0
        return sp.eye_array(n, format="csr"), sp.csr_array(laplacian / unit + shrinkage * sp.eye_array(n))
    first, second = graph.edge_index
    rows, count = np.arange(graph.num_edges), 2 * n if graph.directed else n
    ends = np.concatenate([first, second + (n if graph.directed else 0)])
    B = sp.csr_array((np.ones(len(ends)), (np.tile(rows, 2), ends)), shape=(graph.num_edges, count))
    return B, shrinkage * sp.eye_array(count, format="csr")


def solve(B: sp.csr_array, penalty: sp.csr_array, told: Array, right: Array) -> Array:
    """u (effects, columns) with (B' diag(told) B + penalty) u = right, column by column."""
    transposed: Any = sp.csr_array(B.T)

    def times(u: Array) -> Array:
        return np.asarray(transposed @ (told * (B @ u)) + penalty @ u)

    scale = np.asarray(transposed.power(2) @ told) + penalty.diagonal()[:, None]
    u, left = np.zeros_like(right), right.copy()
    step = left / scale
    size = (left * step).sum(axis=0)
    enough = TOLERANCE**2 * np.square(right).sum(axis=0)
    for _ in range(ITERATIONS):
        if (np.square(left).sum(axis=0) <= enough).all():
            break
        image = times(step)
        length = size / np.maximum((step * image).sum(axis=0), np.finfo(float).tiny)
        u, left = u + length * step, left - length * image
        scaled = left / scale
        size, before = (left * scaled).sum(axis=0), size
        step = scaled + size / np.maximum(before, np.finfo(float).tiny) * step
    return u
