r"""The directed edges of a graph as belief propagation walks them.

Every undirected edge {i, j} is two directed ones, i -> j and j -> i, sorted by their end. Two constant sparse products
carry everything: `collect` sums what arrives at each node, `send` copies what a node has to all edges that leave it.

The coupling of an edge is scaled by (d_i d_j / g)^(-gamma / 2) with degrees d and their geometric mean g over the edges
of the graph that the model was fitted on. Where edges have weights, d_i is the sum of those at i, and d_i d_j is
divided by w_ij^2: with gamma = 1 the scale is an entry of the normalised adjacency matrix, with 0 weights do not count.
The logarithms are rounded to a few levels, so that a matrix of compatibilities is needed per level and not per edge.
Another graph is rounded by the levels of the fitted one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpmsnc.graph import Graph
from dpmsnc.nn.operator import Operator

LEVELS = 8
"""Different scales of edges that are told apart."""


class Edges:
    """Directed edges, sorted by level and then by end, and the products along them."""

    def __init__(self, graph: Graph, device: torch.device | str = "cpu", rounding: Levels | None = None) -> None:
        self.graph, self.num_nodes, self.device = graph, graph.num_nodes, torch.device(device)
        matrix = sp.coo_array(graph.adjacency)
        start, end = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
        degree = graph.adjacency.sum(axis=1, dtype=np.float64)
        product = np.log(degree[start]) + np.log(degree[end]) - 2 * np.log(matrix.data.astype(np.float64))
        self.rounding = rounding or Levels.of(product)
        level, self.levels = self.rounding.round(product)
        order = np.lexsort((start, end, level))
        self.start, self.end, self.level = start[order], end[order], level[order]
        self.sizes = np.bincount(self.level, minlength=len(self.levels)).tolist()
        self.mean_log = float(product.mean()) if len(product) else 0.0
        self.reverse = torch.from_numpy(reverse_of(self.start, self.end, self.num_nodes)).to(self.device)
        count, ones = len(start), np.ones(len(start), dtype=np.float32)
        member = np.zeros(self.num_nodes, dtype=np.int64) if graph.member is None else graph.member
        self.most_edges = int(np.bincount(member[start]).max(initial=0))
        """Of one graph."""
        shape = (self.num_nodes, count)
        arrives = sp.csr_array((ones, (self.end, np.arange(count))), shape=shape)
        leaves = sp.csr_array((ones, (np.arange(count), self.start)), shape=shape[::-1])
        self.leaves, self.arrives = (torch.from_numpy(part).to(self.device) for part in (self.start, self.end))
        self.collect = Operator(arrives, self.device, torch.float32)
        self.copies = Operator(leaves, self.device, torch.float32)

    def __len__(self) -> int:
        return len(self.start)

    def send(self, values: Tensor) -> Tensor:
        """What a node has (nodes, ...), copied to all edges that leave it (edges, ...)."""
        # a copy is faster than the product, but its gradient is slower
        return self.copies(values) if torch.is_grad_enabled() else values.index_select(0, self.leaves)

    def iterations(self, num_classes: int, least: int, most: int, work: float) -> int:
        """Of belief propagation that so many entries of messages allow. Graphs with many edges have short ways; of
        several graphs the one with the most edges counts, so that answers do not depend on what else is asked."""
        return int(np.clip(work / (max(self.most_edges, 1) * num_classes), least, most))

    def scales(self, gamma: Tensor, mean_log: float) -> Tensor:
        """(d_i d_j / g)^(-gamma / 2) of every level, log g being `mean_log`."""
        levels = torch.as_tensor(self.levels, dtype=gamma.dtype, device=gamma.device)
        return torch.exp(-gamma.unsqueeze(-1) / 2 * (levels - mean_log))


def edges_of(graph: Graph, fitted: Graph | None = None) -> Edges:
    """The directed edges of a graph, made once; their levels are those of the fitted graph, where it is given."""
    if fitted is None or graph.edge_index is fitted.edge_index:
        return graph.cached("edges", lambda: Edges(graph))
    rounding = edges_of(fitted).rounding
    return graph.cached(f"edges/{rounding.key}", lambda: Edges(graph, rounding=rounding))


@dataclass(frozen=True, eq=False)
class Levels:
    """How numbers are rounded to a few levels: decided on those of one graph, and applied to any other.

    Numbers that are among those of the first graph, or between them, are rounded as there, whatever else there is. So
    what is far from a change of the graph is not touched by it. All others have levels of their own.
    """

    bounds: np.ndarray | None
    """Bounds between bins; None where there are few different numbers, each of which is a level."""
    bins: np.ndarray
    """The bins that have numbers in them, or the numbers themselves."""
    means: np.ndarray
    """The mean of the numbers of each level."""
    ends: tuple[float, float]
    """The smallest number and the largest."""

    @classmethod
    def of(cls, values: np.ndarray) -> Levels:
        distinct = np.unique(values.round(9))
        many = len(distinct) > LEVELS
        bounds = np.quantile(values, np.linspace(0, 1, LEVELS + 1)[1:-1]) if many else None
        bins, level = np.unique(cls.bin_of(values, bounds), return_inverse=True)
        means = np.bincount(level, weights=values, minlength=len(bins)) / np.maximum(np.bincount(level), 1)
        return cls(bounds, bins, means, (distinct[0], distinct[-1]) if len(distinct) else (0.0, 0.0))

    @staticmethod
    def bin_of(values: np.ndarray, bounds: np.ndarray | None) -> np.ndarray:
        return values.round(9) if bounds is None else np.searchsorted(bounds, values)

    def round(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The level of every number, and the number that each level stands for."""
        bin = self.bin_of(values, self.bounds)
        level = np.searchsorted(self.bins, bin)
        level[level == len(self.bins)] = 0
        low, high = self.ends
        inside = (values.round(9) >= low) & (values.round(9) <= high)
        foreign = ~inside | (self.bins[level] != bin) if len(self.bins) else np.ones(len(values), dtype=bool)
        if not foreign.any():
            return level, self.means
        own, means = Levels.of(values[foreign]).round(values[foreign])
        level[foreign] = len(self.means) + own
        return level, np.concatenate([self.means, means])

    @property
    def key(self) -> str:
        """Names the levels among others."""
        return hashlib.sha256(self.bins.tobytes() + self.means.tobytes()).hexdigest()[:16]


def reverse_of(start: np.ndarray, end: np.ndarray, num_nodes: int) -> np.ndarray:
    """Where the reverse of every edge stands."""
    key, wanted = start * num_nodes + end, end * num_nodes + start
    order = np.argsort(key)
    return order[np.searchsorted(key, wanted, sorter=order)]
