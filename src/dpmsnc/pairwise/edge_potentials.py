r"""The pairwise model with a matrix of compatibilities for every edge:

    p(y | G) ~ prod_i exp(theta_i(y_i)) prod_{i-j} exp(W_ij(y_i, y_j)),      W_ji(c', c) = W_ij(c, c').

Messages in the logarithm are, for marginals and for the most probable labelling,

    sum-product    m_{i->j}(c') = log sum_c exp(W_ij(c, c') + theta_i(c) + sum_{k != j} m_{k->i}(c)),
    max-product    m_{i->j}(c') =     max_c     W_ij(c, c') + theta_i(c) + sum_{k != j} m_{k->i}(c),

shifted so that the largest entry of each is 0. The belief of a node is theta_i + sum_k m_{k->i}; that of an edge

    log b_ij(c, c') = W_ij(c, c') + theta_i(c) + sum_{k != j} m_{k->i}(c) + theta_j(c') + sum_{k != i} m_{k->j}(c').

Joint labellings are drawn along a spanning forest of the graph, from roots to leaves by p(y_j | y_i) = b_ij / b_i. This
is exact where the graph is a forest. Elsewhere Gibbs sampling follows, to make up for the edges that are not in it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra
from torch import Tensor

from dpmsnc.nn.operator import Operator
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import Sweeps, drawn
from dpmsnc.pairwise.propagation import MessagePassing


class EdgePropagation(MessagePassing):
    """Beliefs of a model with W (edges, classes, classes) in the order of `Edges`; rows belong to the start."""

    def __init__(self, edges: Edges, W: Tensor, maximise: bool = False) -> None:
        super().__init__(edges, couples=True)
        self.W, self.reduce = W, torch.amax if maximise else torch.logsumexp

    def passed_on(self, total: Tensor, messages: Tensor) -> Tensor:
        # certainty is a huge number: it is brought to 0 before anything small is added
        total = total - total.amax(dim=-1, keepdim=True)
        new = self.reduce(self.W.unsqueeze(1) + self.without_end(total, messages).unsqueeze(-1), dim=-2)
        return new - new.amax(dim=-1, keepdim=True)

    def total(self, evidence: Tensor, messages: Tensor) -> Tensor:
        """The logits of nodes (nodes, batch, classes), which at known ones are certain."""
        return evidence + self.edges.collect(messages) if self.couples else evidence

    def without_end(self, total: Tensor, messages: Tensor) -> Tensor:
        """What the start of every edge has but from its end (edges, batch, classes)."""
        return self.edges.send(total) - messages.index_select(0, self.edges.reverse)

    def pair_beliefs(self, evidence: Tensor, messages: Tensor, chosen: Tensor) -> Tensor:
        """log b (chosen, batch, classes, classes) of some edges, from unaries that are certain where a label is."""
        total = self.total(evidence, messages)
        total = total - total.amax(dim=-1, keepdim=True)
        rest = self.without_end(total, messages)
        start, end = rest.index_select(0, chosen), rest.index_select(0, self.edges.reverse[chosen])
        log_b = self.W[chosen].unsqueeze(1) + start.unsqueeze(-1) + end.unsqueeze(-2)
        return log_b.flatten(2).log_softmax(dim=-1).view_as(log_b)


class EdgeGibbs(Sweeps):
    """Joint labellings of a model with a matrix for every edge."""

    def __init__(self, propagation: EdgePropagation) -> None:
        self.propagation, self.edges, self.W = propagation, propagation.edges, propagation.W
        super().__init__(self.edges, propagation.couples)

    def neighbours(self, nodes: NDArray[np.int64]) -> tuple[Tensor, Tensor, Operator]:
        """The edges that arrive at some nodes, where they start, and the sum of what arrives."""
        place = np.full(self.edges.num_nodes, -1)
        place[nodes] = np.arange(len(nodes))
        arriving = np.flatnonzero(place[self.edges.end] >= 0)
        entries = np.ones(len(arriving), dtype=np.float32), (place[self.edges.end[arriving]], np.arange(len(arriving)))
        matrix = sp.csr_array(entries, shape=(len(nodes), len(arriving)))
        collect = Operator(matrix, self.edges.device, torch.float32)
        chosen = torch.from_numpy(arriving).to(self.edges.device)
        return chosen, self.edges.leaves[chosen], collect

    def heard(self, neighbours: tuple[Tensor, Tensor, Operator], y: Tensor) -> Tensor:
        arriving, start, collect = neighbours
        return collect(self.W[arriving.unsqueeze(1), y[start]])

    @torch.no_grad()
    def draw(
        self, evidence: Tensor, messages: Tensor, given: Tensor, count: int, sweeps: int, generator: torch.Generator
    ) -> Tensor:
        """Class indices (nodes, count), from sum-product messages.

        Args:
            evidence: Unaries (nodes, 1, classes), certain where a label is known.
            messages: Log-messages (edges, 1, classes) that belief propagation ended with.
            given: Nodes whose label is known.
            count: Labellings.
            sweeps: Of Gibbs sampling after the draw along the forest; a forest needs none.
            generator: Of random numbers.
        """
        evidence = evidence - evidence.amax(dim=-1, keepdim=True)
        total = self.propagation.total(evidence, messages).expand(-1, count, -1)
        depth, towards = spanning_forest(self.edges)
        y = total.new_zeros(total.shape[:2], dtype=torch.long)
        for level in range(int(depth.max(initial=0)) + 1):
            nodes = torch.from_numpy(np.flatnonzero(depth == level)).to(self.edges.device)
            field = total[nodes]
            if level:
                edge = torch.from_numpy(towards[depth == level]).to(self.edges.device)
                field = field - messages[edge] + self.W[edge.unsqueeze(1), y[self.edges.leaves[edge]]]
            y[nodes] = drawn(field, generator)
        is_forest = len(self.edges) == 2 * int((depth > 0).sum())
        given = given.unsqueeze(1).expand_as(y)
        return self.sweep(y, evidence.expand_as(total), given, 0 if is_forest else sweeps, generator)


def spanning_forest(edges: Edges) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The depth of every node in a forest of shortest paths, and the edge from its parent to it; -1 for roots."""
    N = edges.num_nodes
    _, component = connected_components(edges.graph.adjacency, directed=False)
    _, roots = np.unique(component, return_index=True)
    # one more node, with an edge to every root, makes it one tree
    start, end = np.concatenate([edges.start, np.full(len(roots), N)]), np.concatenate([edges.end, roots])
    matrix = sp.csr_array((np.ones(len(start)), (start, end)), shape=(N + 1, N + 1))
    distance, parent = dijkstra(matrix, indices=N, unweighted=True, return_predecessors=True)
    towards = np.full(N, -1)
    on_tree = np.flatnonzero(parent[edges.end] == edges.start)
    towards[edges.end[on_tree]] = on_tree
    return distance[:N].astype(np.int64) - 1, towards


def once(edges: Edges) -> Tensor:
    """The edges in one direction, from the smaller node to the larger."""
    return torch.nonzero(edges.leaves < edges.arrives).squeeze(1)


def both_ways(edges: Edges, W: Tensor) -> Tensor:
    """W (edges, classes, classes) from that of the edges in one direction, as `once` lists them."""
    chosen, result = once(edges), W.new_empty(len(edges), *W.shape[1:])
    result[chosen], result[edges.reverse[chosen]] = W, W.transpose(1, 2)
    return result
