r"""Graphs whose edges carry labels, as a network sees them, and the few ways in which edges exchange what they know.

A row of a field (rows, batch, channels) is an edge from i to j. A network asks for

    add_ends       e_ij + s_i + t_j
    sum_in         sum over edges (i, j) of e_ij, at every node j;  `max_in` the maximum
    reverse        e_ji, zero where there is no such edge
    triple_max     max over k of a_ik + b_kj, zero where there is no such k
    graph_max      the maximum over the nodes of a graph;  `to_rows` takes what belongs to graphs to their edges

`Complete` answers for graphs of one size in which every node leads to every node, itself included: all of it is
broadcasting, nothing is indexed or padded. `Listed` answers for any list of edges. Both agree on complete graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
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


class Part(Protocol):
    """Edges that are worked on together."""

    num_rows: int
    num_nodes: int

    @property
    def num_graphs(self) -> int:
        """Graphs that the edges belong to."""

    @property
    def loops(self) -> Tensor:
        """1 where an edge leads from a node to itself (rows,)."""

    @property
    def row_of_node(self) -> Tensor:
        """For every node an edge of the same graph (nodes,)."""

    @property
    def graph_size(self) -> Tensor | int:
        """Nodes of the graph that an edge belongs to: of every edge (rows,), or of all."""

    def add_ends(self, edges: Tensor, of_source: Tensor, of_target: Tensor | None = None) -> Tensor: ...

    def sum_in(self, edges: Tensor) -> Tensor: ...

    def max_in(self, edges: Tensor) -> Tensor: ...

    def reverse(self, edges: Tensor) -> Tensor: ...

    def triple_max(self, a: Tensor, b: Tensor) -> Tensor: ...

    def graph_max(self, nodes: Tensor) -> Tensor: ...

    def to_rows(self, graphs: Tensor) -> Tensor: ...


class Complete:
    """So many complete directed graphs of n nodes with self-loops; rows in the order of (graph, i, j)."""

    def __init__(self, count: int, n: int, device: torch.device | str = "cpu") -> None:
        self.count, self.n, self.device = count, n, device
        self.num_rows, self.num_nodes = count * n * n, count * n

    @property
    def num_graphs(self) -> int:
        return self.count

    @property
    def loops(self) -> Tensor:
        return torch.eye(self.n, device=self.device).flatten().repeat(self.count)

    @property
    def row_of_node(self) -> Tensor:
        return torch.arange(self.num_nodes, device=self.device) * self.n

    @property
    def graph_size(self) -> int:
        return self.n

    def square(self, edges: Tensor) -> Tensor:
        return edges.view(self.count, self.n, self.n, *edges.shape[1:])

    def of_nodes(self, nodes: Tensor) -> Tensor:
        return nodes.view(self.count, self.n, *nodes.shape[1:])

    def add_ends(self, edges: Tensor, of_source: Tensor, of_target: Tensor | None = None) -> Tensor:
        total = self.square(edges) + self.of_nodes(of_source).unsqueeze(2)
        if of_target is not None:
            total = total.add_(self.of_nodes(of_target).unsqueeze(1))
        return total.flatten(0, 2)

    def sum_in(self, edges: Tensor) -> Tensor:
        return self.square(edges).sum(dim=1).flatten(0, 1)

    def max_in(self, edges: Tensor) -> Tensor:
        return self.square(edges).amax(dim=1).flatten(0, 1)

    def reverse(self, edges: Tensor) -> Tensor:
        return self.square(edges).transpose(1, 2).flatten(0, 2)

    def triple_max(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = self.square(a), self.square(b)
        if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
            return (a.unsqueeze(3) + b.unsqueeze(1)).amax(dim=2).flatten(0, 2)
        best = a[:, :, 0].unsqueeze(2) + b[:, 0].unsqueeze(1)
        for k in range(1, self.n):  # several times faster than to keep all n^3 sums for a gradient
            torch.maximum(best, a[:, :, k].unsqueeze(2) + b[:, k].unsqueeze(1), out=best)
        return best.flatten(0, 2)

    def graph_max(self, nodes: Tensor) -> Tensor:
        return self.of_nodes(nodes).amax(dim=1)

    def to_rows(self, graphs: Tensor) -> Tensor:
        return graphs.repeat_interleave(self.n * self.n, dim=0)


class Listed:
    """Any directed edges, each listed once, of one or several graphs."""

    def __init__(self, source: Tensor, target: Tensor, num_nodes: int, member: Tensor | None = None) -> None:
        """`member` says which graph a node belongs to, in ascending order."""
        self.source, self.target, self.num_rows, self.num_nodes = source, target, len(source), num_nodes
        self.member = torch.zeros(num_nodes, dtype=torch.long, device=source.device) if member is None else member

    @property
    def num_graphs(self) -> int:
        return int(self.member[-1]) + 1

    @property
    def loops(self) -> Tensor:
        return (self.source == self.target).float()

    @cached_property
    def row_of_node(self) -> Tensor:
        first = torch.zeros(self.num_graphs, dtype=torch.long, device=self.source.device)
        first[self.member[self.source]] = torch.arange(self.num_rows, device=self.source.device)
        return first[self.member]

    @cached_property
    def graph_size(self) -> Tensor:
        return self.member.bincount()[self.member[self.source]]

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

    def add_ends(self, edges: Tensor, of_source: Tensor, of_target: Tensor | None = None) -> Tensor:
        total = edges + of_source.index_select(0, self.source)
        return total if of_target is None else total + of_target.index_select(0, self.target)

    def sum_in(self, edges: Tensor) -> Tensor:
        return edges.new_zeros(self.num_nodes, *edges.shape[1:]).index_add(0, self.target, edges)

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

    def to_rows(self, graphs: Tensor) -> Tensor:
        return graphs.index_select(0, self.member[self.source])


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
    """Attributes of edges and nodes, and the parts that the edges are worked on in, one after the other."""

    parts: Sequence[Part]
    edge_attr: Tensor
    """Attributes (edges, D), of the parts in order."""
    x: Tensor | None = None
    """Node features (nodes, F), likewise; None where there are none."""
    both_ways: bool = False
    """Whether edges are undirected: the second half of them is the first, reversed, and has the same labels."""

    @classmethod
    def complete(cls, groups: Sequence[Tensor]) -> EdgeTensors:
        """Complete graphs from attributes (graphs, n, n) or (graphs, n, n, D), those of one size together."""
        parts = [Complete(len(group), group.shape[1], group.device) for group in groups]
        return cls(parts, torch.cat([group.reshape(part.num_rows, -1) for group, part in zip(groups, parts)]))

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
        return cls([Listed(ends[0], ends[1], graph.num_nodes, member)], edge_attr, x, not graph.directed)

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

    def split(self, edges: Tensor) -> list[Tensor]:
        """The rows (edges, ...) of every part."""
        return list(edges.split([part.num_rows for part in self.parts]))

    def split_nodes(self) -> Sequence[Tensor | None]:
        """The node features of every part."""
        if self.x is None:
            return [None] * len(self.parts)
        return self.x.split([part.num_nodes for part in self.parts])

    def map(self, function: Callable[..., Tensor], *edges: Tensor) -> Tensor:
        """What `function(part, node features, rows of the part, ...)` gives, for all parts together."""
        rows = zip(*(self.split(each) for each in edges))
        answers = [function(part, x, *row) for part, x, row in zip(self.parts, self.split_nodes(), rows)]
        return torch.cat(answers) if len(answers) > 1 else answers[0]

    def directed(self, labels: Tensor) -> Tensor:
        """Rows of labels as rows of edges."""
        return torch.cat([labels, labels]) if self.both_ways else labels

    def undirected(self, edges: Tensor) -> Tensor:
        """Rows of edges as rows of labels: the mean of both directions."""
        return (edges[: self.num_rows] + edges[self.num_rows :]) / 2 if self.both_ways else edges
