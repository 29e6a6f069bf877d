r"""The directed edges of a graph as belief propagation walks them.

Every undirected edge {i, j} is two directed ones, i -> j and j -> i, sorted by their end. Two constant sparse products
carry everything: `collect` sums what arrives at each node, `send` copies what a node has to all edges that leave it.

The coupling of an edge is scaled by (d_i d_j / g)^(-gamma / 2) with degrees d and their geometric mean g over the edges
of the graph that the model was fitted on. The logarithms of d_i d_j are rounded to a few levels, so that a matrix of
compatibilities is needed per level and not per edge.
"""

from __future__ import annotations

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

    def __init__(self, graph: Graph, device: torch.device | str = "cpu") -> None:
        self.graph, self.num_nodes, self.device = graph, graph.num_nodes, torch.device(device)
        matrix = sp.coo_array(graph.adjacency)
        start, end = matrix.row.astype(np.int64), matrix.col.astype(np.int64)
        degree = np.maximum(np.asarray(graph.adjacency.astype(bool).sum(axis=1)).ravel(), 1)
        product = np.log(degree[start]) + np.log(degree[end])
        level, self.levels = rounded(product)
        order = np.lexsort((start, end, level))
        self.start, self.end, self.level = start[order], end[order], level[order]
        self.sizes = np.bincount(self.level, minlength=len(self.levels)).tolist()
        self.mean_log = float(product.mean()) if len(product) else 0.0
        self.reverse = torch.from_numpy(reverse_of(self.start, self.end, self.num_nodes)).to(self.device)
        count, ones = len(start), np.ones(len(start), dtype=np.float32)
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
        """Of belief propagation that so many entries of messages allow. Graphs with many edges have short ways."""
        return int(np.clip(work / (max(len(self), 1) * num_classes), least, most))

    def scales(self, gamma: Tensor, mean_log: float) -> Tensor:
        """(d_i d_j / g)^(-gamma / 2) of every level, log g being `mean_log`."""
        levels = torch.as_tensor(self.levels, dtype=gamma.dtype, device=gamma.device)
        return torch.exp(-gamma.unsqueeze(-1) / 2 * (levels - mean_log))


def edges_of(graph: Graph) -> Edges:
    """The directed edges of a graph, made once."""
    return graph.cached("edges", lambda: Edges(graph))


def rounded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The level of every value, and the mean of the values of each level; exact where there are few different ones."""
    distinct, level = np.unique(values.round(9), return_inverse=True)
    if len(distinct) > LEVELS:
        bounds = np.quantile(values, np.linspace(0, 1, LEVELS + 1)[1:-1])
        _, level = np.unique(np.searchsorted(bounds, values), return_inverse=True)
    count = np.bincount(level) if len(values) else np.zeros(0)
    return level, np.bincount(level, weights=values) / np.maximum(count, 1) if len(values) else np.zeros(0)


def reverse_of(start: np.ndarray, end: np.ndarray, num_nodes: int) -> np.ndarray:
    """Where the reverse of every edge stands."""
    key, wanted = start * num_nodes + end, end * num_nodes + start
    order = np.argsort(key)
    return order[np.searchsorted(key, wanted, sorter=order)]
