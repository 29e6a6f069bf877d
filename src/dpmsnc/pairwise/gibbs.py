r"""Joint labellings of the pairwise model by chromatic Gibbs sampling.

Nodes of one colour of a proper colouring have no edge between them, so all of them are drawn at once from

    p(y_i = c | rest) ~ exp(theta_i(c) + sum_j s_ij H(c, y_j)).

Chains begin at draws from the beliefs of every node, known labels stay. Where a graph needs more than `MOST_COLOURS`
colours some are merged: each of the many neighbours of a node has little to say then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from dpmsnc.deadline import check_time
from dpmsnc.graph import Graph
from dpmsnc.nn.operator import Operator
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Potentials

MOST_COLOURS = 16
SWEEPS = 20
"""Over all nodes, after which a labelling is drawn."""


class Sweeps(ABC):
    """Sweeps over all nodes, colour by colour, for a batch of chains; `heard` says what neighbours tell a node."""

    def __init__(self, edges: Edges, couples: bool = True) -> None:
        self.couples, colour = couples, colouring(edges.graph)
        self.groups: list[tuple[Tensor, Any]] = []
        """Nodes of every colour, and what `heard` needs to know about them."""
        for nodes in (np.flatnonzero(colour == c) for c in range(colour.max(initial=0) + 1)):
            self.groups.append((torch.from_numpy(nodes).to(edges.device), self.neighbours(nodes)))

    @abstractmethod
    def neighbours(self, nodes: NDArray[np.int64]) -> Any:
        """What of the neighbours of some nodes does not depend on labels."""

    @abstractmethod
    def heard(self, neighbours: Any, y: Tensor) -> Tensor:
        """What labels (nodes, batch) of all nodes say about some of them, as logits (some, batch, classes)."""

    @torch.no_grad()
    def sample(self, theta: Tensor, beliefs: Tensor, known: Tensor, sweeps: int, generator: torch.Generator) -> Tensor:
        """Class indices (nodes, batch) after so many sweeps; `theta`, `beliefs` (logits) and the one-hot labels `known`
        are shaped (nodes, batch, classes)."""
        given = known.sum(dim=-1) > 0
        y = torch.where(given, known.argmax(dim=-1), drawn(beliefs, generator))
        return self.sweep(y, theta, given, sweeps, generator)

    @torch.no_grad()
    def sweep(self, y: Tensor, theta: Tensor, given: Tensor, sweeps: int, generator: torch.Generator) -> Tensor:
        """Class indices (nodes, batch) so many sweeps after `y`, which is written over; those `given` stay."""
        for _ in range(sweeps if self.couples else 0):
            check_time()
            for nodes, neighbours in self.groups:
                field = theta[nodes] + self.heard(neighbours, y)
                y[nodes] = torch.where(given[nodes], y[nodes], drawn(field, generator))
        return y


class Gibbs(Sweeps):
    """Chains of the model with one matrix of compatibilities."""

    def __init__(self, potentials: Potentials, edges: Edges, mean_log: float) -> None:
        self.H, self.device = potentials.H.detach(), edges.device
        scale = edges.scales(potentials.gamma, mean_log).detach().cpu().numpy()[edges.level]
        shape = (edges.num_nodes, edges.num_nodes)
        self.matrix = sp.csr_array((scale.astype(np.float32), (edges.end, edges.start)), shape=shape)
        super().__init__(edges, potentials.coupling != "none")

    def neighbours(self, nodes: NDArray[np.int64]) -> Operator:
        return Operator(sp.csr_array(self.matrix[nodes]), self.device, torch.float32)

    def heard(self, neighbours: Operator, y: Tensor) -> Tensor:
        return neighbours(one_hot(y, len(self.H)).to(self.H.dtype)) @ self.H


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
