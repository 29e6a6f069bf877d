r"""Graphs whose edges carry labels, as a network sees them, and the few ways in which edges exchange what they know.

A row of a field (rows, batch, channels) is an edge from i to j. A network asks for

    add_ends       e_ij + s_i + t_j
    sum_in         sum over edges (i, j) of e_ij, at every node j;  `max_in` the maximum
    reverse        e_ji, zero where there is no such edge
    triple_max     max over k of a_ik + b_kj, zero where there is no such k
    graph_max      the maximum over the nodes of a graph;  `to_rows` takes what belongs to graphs to their edges

`Complete` answers for graphs in which every node leads to every node, itself included: a maximum is one over an axis,
nothing is searched for or padded. `Listed` answers for any list of edges. Both agree on complete graphs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features

MOST_PATHS = 10**8
"""Paths of two edges that are looked at, at most, to find the triples of a graph."""
PATHS_AT_A_TIME = 10**6
"""Paths that are looked at together, or as many as one edge begins."""
MOST_TRIPLES = 4 * 10**6
"""Triples that a network works on, at most."""
ENTRIES_AT_A_TIME = 2**22
"""Numbers of triples that are held at a time where no gradient is asked for."""
MOST_KEPT = 2**26
"""Numbers of triples that training keeps in a round for its gradient. Where there are more, it computes them again,
which takes half as long again, and the memory of one round in place of that of all."""


class Part:
    """Directed edges by their ends, each listed once, of one or several graphs whose nodes follow each other."""

    source: Tensor
    target: Tensor
    """Nodes (rows,)."""
    member: Tensor
    """The graph of every node (nodes,), in ascending order."""

    @property
    def num_rows(self) -> int:
        return len(self.source)

    @property
    def num_nodes(self) -> int:
        return len(self.member)

    @property
    def num_graphs(self) -> int:
        """Graphs that the edges belong to."""
        return int(self.member[-1]) + 1

    @property
    def loops(self) -> Tensor:
        """1 where an edge leads from a node to itself (rows,)."""
        return (self.source == self.target).float()

    @cached_property
    def graph_of_row(self) -> Tensor:
        return self.member[self.source]

    @cached_property
    def row_of_node(self) -> Tensor:
        """For every node an edge of the same graph (nodes,)."""
        first = torch.zeros(self.num_graphs, dtype=torch.long, device=self.source.device)
        first[self.graph_of_row] = torch.arange(self.num_rows, device=self.source.device)
        return first[self.member]

    @cached_property
    def graph_size(self) -> Tensor:
        """Nodes of the graph that an edge belongs to (rows,)."""
        return self.member.bincount()[self.graph_of_row]

    def add_ends(self, edges: Tensor, of_source: Tensor, of_target: Tensor | None = None) -> Tensor:
        total = edges + of_source.index_select(0, self.source)
        return total if of_target is None else total.add_(of_target.index_select(0, self.target))

    def sum_in(self, edges: Tensor) -> Tensor:
        return edges.new_zeros(self.num_nodes, *edges.shape[1:]).index_add(0, self.target, edges)

    def to_rows(self, graphs: Tensor) -> Tensor:
        return graphs.index_select(0, self.graph_of_row)

    @abstractmethod
    def reverse(self, edges: Tensor) -> Tensor: ...

    @abstractmethod
    def max_in(self, edges: Tensor) -> Tensor: ...

    @abstractmethod
    def triple_max(self, a: Tensor, b: Tensor) -> Tensor: ...

    @abstractmethod
    def graph_max(self, nodes: Tensor) -> Tensor: ...


class Complete(Part):
    """Complete directed graphs with self-loops, those of one size in a block; rows in the order of (graph, i, j).

    What is read of single nodes and edges goes over all blocks at once, since blocks are small; a maximum goes over an
    axis of one block after the other.
    """

    def __init__(self, blocks: Sequence[tuple[int, int]], device: torch.device | str = "cpu") -> None:
        """`blocks` are numbers of graphs and of their nodes.

        For the edge (i, j), `from_source` and `to_target` are the rows of the first edge from i and of the first to j.
        """
        self.blocks = [(count, n) for count, n in blocks if count]
        node, row, ends = 0, 0, []
        for count, n in self.blocks:
            nodes = torch.arange(node, node + count * n, device=device).view(count, n)
            source, target = (nodes.unsqueeze(axis).expand(count, n, n).flatten() for axis in (2, 1))
            rows = torch.arange(row, row + count * n * n, device=device).view(count, n, n)
            leaving, arriving = rows[:, :, :1].expand_as(rows).flatten(), rows[:, :1].expand_as(rows).flatten()
            ends.append(torch.stack([source, target, rows.mT.flatten(), leaving, arriving]))
            node, row = node + count * n, row + count * n * n
        self.source, self.target, self.opposite, self.from_source, self.to_target = torch.cat(ends, dim=1)
        sizes = torch.tensor([n for count, n in self.blocks for _ in range(count)], device=device)
        self.member = torch.repeat_interleave(torch.arange(len(sizes), device=device), sizes)

    def squares(self, edges: Tensor) -> Iterator[Tensor]:
        """The rows of every block (graphs, n, n, ...)."""
        parts = edges.split([count * n * n for count, n in self.blocks])
        return (part.view(count, n, n, *edges.shape[1:]) for part, (count, n) in zip(parts, self.blocks))

    def reverse(self, edges: Tensor) -> Tensor:
        return edges.index_select(0, self.opposite)

    def max_in(self, edges: Tensor) -> Tensor:
        return torch.cat([square.amax(dim=1).flatten(0, 1) for square in self.squares(edges)])

    def triple_max(self, a: Tensor, b: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
            return _TripleMax.apply(self, a, b)
        return torch.cat([best_stop(*both)[0] for both in zip(self.squares(a), self.squares(b))])

    def graph_max(self, nodes: Tensor) -> Tensor:
        parts = nodes.split([count * n for count, n in self.blocks])
        return torch.cat([part.unflatten(0, block).amax(dim=1) for part, block in zip(parts, self.blocks)])


def best_stop(a: Tensor, b: Tensor, which: bool = False) -> tuple[Tensor, Tensor | None]:
    """max over k of a_ik + b_kj (rows, ...) from the squares of a block, and the first k where it is reached if asked.

    One k after the other: n^3 sums at once would leave the processor's cache.
    """
    best = a[:, :, 0].unsqueeze(2) + b[:, 0].unsqueeze(1)
    stop = torch.zeros(best.shape, dtype=torch.int32, device=best.device) if which else None
    for k in range(1, a.shape[1]):
        through = a[:, :, k].unsqueeze(2) + b[:, k].unsqueeze(1)
        if stop is not None:
            stop.masked_fill_(through > best, k)
        torch.maximum(best, through, out=best)
    return best.flatten(0, 2), None if stop is None else stop.flatten(0, 2)


class _TripleMax(torch.autograd.Function):
    # autograd would keep all n^3 sums for a gradient that only n^2 of them have
    @staticmethod
    def forward(ctx: Any, part: Complete, a: Tensor, b: Tensor) -> Tensor:
        best, stops = zip(*(best_stop(*both, which=True) for both in zip(part.squares(a), part.squares(b))))
        ctx.part = part
        ctx.save_for_backward(torch.cat(stops))
        return torch.cat(best)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        (k,) = ctx.saved_tensors
        first, last, n = (
            each.view(-1, *[1] * (k.dim() - 1))
            for each in (ctx.part.from_source, ctx.part.to_target, ctx.part.graph_size)
        )
        of_a, of_b = (torch.zeros_like(grad).scatter_add_(0, row, grad) for row in (first + k, last + k * n))
        return None, of_a, of_b


class Listed(Part):
    """Any directed edges, each listed once, of one or several graphs."""

    def __init__(self, source: Tensor, target: Tensor, num_nodes: int, member: Tensor | None = None) -> None:
        """`member` says which graph a node belongs to, in ascending order."""
        self.source, self.target = source, target
        self.member = torch.zeros(num_nodes, dtype=torch.long, device=source.device) if member is None else member

    @cached_property
    def opposite(self) -> Tensor:
        """The row of the opposite edge; one beyond the last where there is none."""
        return self.find(self.target, self.source)

    @cached_property
    def triples(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of the edges (i, k), (k, j) and (i, j), where there are all three."""
        leaving = torch.argsort(self.source, stable=True)
        degree = self.source.bincount(minlength=self.num_nodes)
        counts, starts = degree[self.target], (degree.cumsum(0) - degree)[self.target]
        if (paths := int(counts.sum())) > MOST_PATHS:
            raise too_many(paths, "paths of two edges", MOST_PATHS)
        found, total = [counts.new_empty(3, 0)], 0
        for rows in self.rows_by_paths(counts):
            first = torch.repeat_interleave(rows, counts[rows])
            before = (counts[rows].cumsum(0) - counts[rows]).repeat_interleave(counts[rows])
            within = torch.arange(len(first), device=self.source.device) - before
            second = leaving[starts[first] + within]
            closing = self.find(self.source[first], self.target[second])
            there = closing < self.num_rows
            found.append(torch.stack([first[there], second[there], closing[there]]))
            total += found[-1].shape[1]
            if total > MOST_TRIPLES:
                raise too_many(total, "triples of edges or more", MOST_TRIPLES)
        first, second, closing = torch.cat(found, dim=1)
        return first, second, closing

    def rows_by_paths(self, counts: Tensor) -> Sequence[Tensor]:
        """The rows in order, as many at a time as have `PATHS_AT_A_TIME` paths between them."""
        part = (counts.cumsum(0) - counts) // PATHS_AT_A_TIME
        sizes = part.unique_consecutive(return_counts=True)[1]
        return torch.arange(self.num_rows, device=counts.device).split(sizes.tolist())

    @cached_property
    def sorted_keys(self) -> tuple[Tensor, Tensor]:
        """The edges as numbers in ascending order, and their rows."""
        keys, order = (self.source * self.num_nodes + self.target).sort()
        return keys, order

    def find(self, source: Tensor, target: Tensor) -> Tensor:
        """The rows of these edges; one beyond the last where there is none."""
        keys, order = self.sorted_keys
        wanted = source * self.num_nodes + target
        place = torch.searchsorted(keys, wanted).clamp_max(max(self.num_rows - 1, 0))
        return torch.where(keys[place] == wanted, order[place], self.num_rows)

    def max_in(self, edges: Tensor) -> Tensor:
        return largest(edges, self.target, self.num_nodes)

    def reverse(self, edges: Tensor) -> Tensor:
        return torch.cat([edges, edges.new_zeros(1, *edges.shape[1:])]).index_select(0, self.opposite)

    def triple_max(self, a: Tensor, b: Tensor) -> Tensor:
        entries = len(self.triples[0]) * a[0].numel() if self.num_rows else 0
        if not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)):
            return self.triple_max_in_parts(a, b, max(1, math.ceil(entries / ENTRIES_AT_A_TIME)))
        if entries > MOST_KEPT:
            return checkpoint(self.triple_max_at_once, a, b, use_reentrant=False, preserve_rng_state=False)
        return self.triple_max_at_once(a, b)

    def triple_max_at_once(self, a: Tensor, b: Tensor) -> Tensor:
        first, second, closing = self.triples
        return largest(a.index_select(0, first) + b.index_select(0, second), closing, self.num_rows)

    def triple_max_in_parts(self, a: Tensor, b: Tensor, count: int) -> Tensor:
        """The same with as many parts of the triples one after the other; a maximum does not depend on their order."""
        best = a.new_full((self.num_rows, *a.shape[1:]), -torch.inf)
        for first, second, closing in zip(*(rows.tensor_split(count) for rows in self.triples)):
            values = a.index_select(0, first) + b.index_select(0, second)
            where = closing.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
            best.scatter_reduce_(0, where, values, "amax")
        return best.masked_fill_(best == -torch.inf, 0.0)

    def graph_max(self, nodes: Tensor) -> Tensor:
        return largest(nodes, self.member, self.num_graphs)


def too_many(number: int, what: str, most: int) -> InputError:
    """A graph that the network of triples would take too much memory or time for."""
    return InputError(
        f'the graph has {number:,} {what}, more than the {most:,} that are worked on; take network="gine", which '
        "needs none of them, or cut the graph into smaller ones (Graph.subgraph) and pass a list of these"
    )


def largest(values: Tensor, index: Tensor, count: int) -> Tensor:
    """The maximum of the values (entries, ...) with the same index; zero where there is none."""
    where = index.view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_zeros(count, *values.shape[1:]).scatter_reduce(0, where, values, "amax", include_self=False)


@dataclass(frozen=True, eq=False)
class EdgeTensors:
    """Edges, and the attributes of edges and nodes."""

    part: Part
    edge_attr: Tensor
    """Attributes (edges, D)."""
    x: Tensor | None = None
    """Node features (nodes, F); None where there are none."""
    both_ways: bool = False
    """Whether edges are undirected: the second half of them is the first, reversed, and has the same labels."""

    @classmethod
    def complete(cls, groups: Sequence[Tensor]) -> EdgeTensors:
        """Complete graphs from attributes (graphs, n, n) or (graphs, n, n, D), those of one size together."""
        part = Complete([(len(group), group.shape[1]) for group in groups], groups[0].device)
        return cls(part, torch.cat([group.reshape(group.shape[:3].numel(), -1) for group in groups]))

    @classmethod
    def of(cls, graph: Graph, features: Features, device: torch.device | str = "cpu") -> EdgeTensors:
        """A graph of the user; an edge without features has the number 1."""
        ends = torch.from_numpy(np.array(graph.edge_index)).to(device)
        attr = np.ones((graph.num_edges, 1), np.float32) if graph.edge_attr is None else graph.edge_attr
        edge_attr = torch.as_tensor(attr, dtype=torch.float32, device=device)
        if not graph.directed:
            ends, edge_attr = torch.cat([ends, ends.flip(0)], dim=1), torch.cat([edge_attr, edge_attr])
        member = None if graph.member is None else torch.from_numpy(graph.member).to(device)
        x = features.transform(graph)
        if x is not None:
            x = torch.as_tensor(x.toarray() if hasattr(x, "toarray") else x, dtype=torch.float32, device=device)
        return cls(Listed(ends[0], ends[1], graph.num_nodes, member), edge_attr, x, not graph.directed)

    @property
    def device(self) -> torch.device:
        return self.edge_attr.device

    @property
    def dtype(self) -> torch.dtype:
        return self.edge_attr.dtype

    @property
    def num_rows(self) -> int:
        """Edges that have a label of their own."""
        return len(self.edge_attr) // (2 if self.both_ways else 1)

    def directed(self, labels: Tensor) -> Tensor:
        """Rows of labels as rows of edges."""
        return torch.cat([labels, labels]) if self.both_ways else labels

    def undirected(self, edges: Tensor) -> Tensor:
        """Rows of edges as rows of labels: the mean of both directions."""
        return (edges[: self.num_rows] + edges[self.num_rows :]) / 2 if self.both_ways else edges
