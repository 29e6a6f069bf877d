r"""Joint labellings of the pairwise model by chromatic Gibbs sampling.

Nodes of one colour of a proper colouring have no edge between them, so all of them are drawn at once from

    p(y_i = c | rest) ~ exp(theta_i(c) + sum_j s_ij H(c, y_j)).

Chains begin at draws from the beliefs of every node, known labels stay. Where a graph needs more than `MOST_COLOURS`
colours some are merged: each of the many neighbours of a node has little to say then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dpmsnc.graph import Graph
from dpmsnc.nn.operator import Operator
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Potentials

MOST_COLOURS = 16
SWEEPS = 20
"""Over all nodes, after which a labelling is drawn."""


class Gibbs:
    """Sweeps over all nodes, colour by colour, for a batch of chains."""

    def __init__(self, potentials: Potentials, edges: Edges, mean_log: float) -> None:
        self.potentials = potentials
        scale = edges.scales(potentials.gamma, mean_log).detach().cpu().numpy()[edges.level]
        shape = (edges.num_nodes, edges.num_nodes)
        matrix = sp.csr_array((scale.astype(np.float32), (edges.end, edges.start)), shape=shape)
        colour = colouring(edges.graph)
        self.groups = []
        for nodes in (np.flatnonzero(colour == c) for c in range(colour.max(initial=0) + 1)):
            rows = Operator(sp.csr_array(matrix[nodes]), edges.device, torch.float32)
            self.groups.append((torch.from_numpy(nodes).to(edges.device), rows))

    @torch.no_grad()
    def sample(self, theta: Tensor, beliefs: Tensor, known: Tensor, sweeps: int, generator: torch.Generator) -> Tensor:
        """Class indices (nodes, batch) after so many sweeps; `theta`, `beliefs` (logits) and the one-hot labels `known`
        are shaped (nodes, batch, classes)."""
        given = known.sum(dim=-1) > 0
        y = torch.where(given, known.argmax(dim=-1), drawn(beliefs, generator))
        if self.potentials.coupling == "none":
            return y
        H, C = self.potentials.H, self.potentials.num_classes
        for _ in range(sweeps):
            for nodes, rows in self.groups:
                field = theta[nodes] + rows(one_hot(y, C).to(theta.dtype)) @ H
                y[nodes] = torch.where(given[nodes], y[nodes], drawn(field, generator))
        return y


def drawn(logits: Tensor, generator: torch.Generator) -> Tensor:
    """A class index from every row of logits, by the largest of them plus Gumbel noise."""
    u = torch.rand(logits.shape, generator=generator).to(logits).clamp_min(1e-20)
    return (logits - (-u.log()).log()).argmax(dim=-1)


def colouring(graph: Graph) -> np.ndarray:
    """A colour of every node, greedily from nodes of many neighbours to those of few."""
    adjacency: Any = graph.adjacency
    build: Callable[[], np.ndarray] = lambda: _greedy(adjacency)  # noqa: E731
    return graph.cached("colouring", build)


def _greedy(adjacency: sp.csr_array) -> np.ndarray:
    indptr, indices = adjacency.indptr, adjacency.indices
    colour = np.full(adjacency.shape[0], -1)
    for node in np.argsort(-np.diff(indptr), kind="stable"):
        taken = set(colour[indices[indptr[node] : indptr[node + 1]]].tolist())
        colour[node] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colour % MOST_COLOURS
