r"""1-WL and AGG-WL: which graphs colour refinement can tell apart (Algorithms 3 and 4 of the paper).

    chi^0_G(v) = hash(x_v)
    chi^t_G(v) = hash(chi^{t-1}_G(v), {{ chi^{t-1}_G(u) : u in N(v) }})                    1-WL
    chi^AGG_G  = {{ chi^T_{G^m} : m = 0, ..., |Z| }},  G^m = G with attributes x_v || z^m_v  AGG-WL

The colour of a graph is the multiset of the colours of its nodes. z^0 is a token that no mark equals, so that G^0 says
what G says; the other z^m are the marks of a set Z. By default Z has one mark for every node: 1 there, 0 elsewhere.

Colours are exact. The hash is the rank of (own colour, sorted colours of neighbours) in lexicographic order among all
nodes of all graphs compared, so equal numbers mean equal colours in all of them. All marks of all graphs are refined at
once, as one disjoint union. A round splits colours and never merges them: once their number stays, further rounds
change nothing, and a refinement that stops there equals one with any larger T.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

Colours = NDArray[np.int64]
MarkSet = Callable[[int], NDArray[np.int64]]
"""From the number of nodes n to the marks Z, |Z| x n whole numbers from 0 on.

Isomorphic graphs are told apart unless Z is closed under permutations of the nodes, as all sets of this module are."""
TOKEN = -1
"""z^0, which stands for no augmentation."""
LARGEST_UNION = 2**25
"""Nodes and ends of edges, over all marks, that are refined at once; each takes about 60 bytes."""


def single_marks(num_nodes: int) -> Colours:
    """A mark for every node: 1 there, 0 elsewhere."""
    return subset_marks(1)(num_nodes)


def subset_marks(size: int) -> MarkSet:
    """A mark for every set of so many nodes: 1 on these, 0 elsewhere.

    Example:
        >>> subset_marks(2)(3).tolist()
        [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    if size < 1:
        raise InputError(f"a mark on {size} nodes says nothing; mark at least 1 node")

    def marks(num_nodes: int) -> Colours:
        if comb(num_nodes, size) * num_nodes > LARGEST_UNION:
            raise InputError(f"{num_nodes} nodes have too many sets of {size}; mark fewer nodes or take smaller graphs")
        chosen = np.array(list(combinations(range(num_nodes), size)), dtype=np.int64).reshape(-1, size)
        rows = np.zeros((len(chosen), num_nodes), dtype=np.int64)
        np.put_along_axis(rows, chosen, 1, axis=1)
        return rows

    return marks


def wl_colours(graphs: Sequence[Graph]) -> Colours:
    """A number for every graph; two graphs have the same if and only if 1-WL cannot tell them apart."""
    return _final(Union(graphs))


def agg_wl_colours(graphs: Sequence[Graph], marks: MarkSet = single_marks) -> Colours:
    """A number for every graph; two graphs have the same if and only if AGG-WL cannot tell them apart.

    Example:
        >>> hexagon = Graph.build([(i, (i + 1) % 6) for i in range(6)])
        >>> triangles = Graph.build([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])
        >>> wl_colours([hexagon, triangles]).tolist(), agg_wl_colours([hexagon, triangles]).tolist()
        ([0, 0], [1, 0])
    """
    return _final(Union(graphs, marks))


def wl_round(first: Graph, second: Graph) -> int | None:
    """The first round after which 1-WL tells two graphs apart, or None; 0 says that sizes or attributes differ."""
    return _separating_round(first, second, None)


def agg_wl_round(first: Graph, second: Graph, marks: MarkSet = single_marks) -> int | None:
    """The first round after which AGG-WL tells two graphs apart, or None; 0 says that sizes or attributes differ."""
    return _separating_round(first, second, marks)


def _separating_round(first: Graph, second: Graph, marks: MarkSet | None) -> int | None:
    check_comparable([first, second])
    if (first.num_nodes, first.num_edges) != (second.num_nodes, second.num_edges):
        return 0
    union = Union([first, second], marks)
    for t, colours in enumerate(union.rounds()):
        a, b = union.graph_colours(colours)
        if a != b:
            return t
    return None


def _final(union: Union) -> Colours:
    *_, colours = union.rounds()
    return union.graph_colours(colours)


class Union:
    """Graphs with all their marks as one disjoint union: graph by graph, mark by mark, node by node.

    Without a mark set every graph is there once, as it is.
    """

    def __init__(self, graphs: Sequence[Graph], marks: MarkSet | None = None) -> None:
        check_comparable(graphs)
        self.sizes = np.array([graph.num_nodes for graph in graphs])
        edges = np.array([graph.num_edges for graph in graphs])
        augmentations = _bounded(graphs, marks)
        self.copies = np.array([len(z) for z in augmentations])
        self.ends = np.cumsum(self.copies * self.sizes)
        self.num_nodes = int(self.ends[-1])
        self.start = self._start(_attributes(graphs), augmentations)
        self.neighbours = self._neighbours(graphs, edges)
        copy = np.repeat(np.arange(self.copies.sum()), np.repeat(self.sizes, self.copies))
        self.nodes = Lists.of(copy, np.arange(self.num_nodes), int(self.copies.sum()))
        graph = np.repeat(np.arange(len(graphs)), self.copies)
        self.marked = Lists.of(graph, np.arange(len(graph)), len(graphs))

    @property
    def starts(self) -> Colours:
        """Where every graph begins."""
        return self.ends - self.copies * self.sizes

    def rounds(self, most: int | None = None) -> Iterator[Colours]:
        """Colours of all nodes after 0, 1, ... rounds, until they are stable or `most` rounds are over."""
        colours, count = self.start, _number(self.start)
        yield colours
        done = 0
        while most is None or done < most:
            colours = self.neighbours.named(colours, own=colours)
            if _number(colours) == count:
                return
            count, done = _number(colours), done + 1
            yield colours

    def copy_colours(self, colours: Colours) -> Colours:
        """The graph colour of every graph under every mark."""
        return self.nodes.named(colours)

    def graph_colours(self, colours: Colours) -> Colours:
        """A number for every graph: the multiset of its graph colours under all marks."""
        return self.marked.named(self.copy_colours(colours))

    def split(self, colours: Colours) -> list[Colours]:
        """The colours of every graph, marks x nodes."""
        parts = np.split(colours, self.ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, zip(self.copies, self.sizes), strict=True)]

    def _start(self, attributes: Colours, augmentations: Sequence[Colours]) -> Colours:
        """chi^0: the attribute and the mark of every node, as one number."""
        within = np.arange(self.num_nodes) - np.repeat(self.starts, self.copies * self.sizes)
        first = np.repeat(np.cumsum(self.sizes) - self.sizes, self.copies * self.sizes)
        node = first + within % np.repeat(self.sizes, self.copies * self.sizes)
        marks = np.unique(np.concatenate([z.ravel() for z in augmentations]), return_inverse=True)[1]
        return lexicographic_ranks(np.stack([attributes[node], marks]))

    def _neighbours(self, graphs: Sequence[Graph], edges: Colours) -> Lists:
        """Edges of every graph in both directions, once for each mark."""
        i, j = np.concatenate([graph.edge_index for graph in graphs], axis=1)
        times = np.repeat(self.copies, edges)
        mark = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        shift = np.repeat(np.repeat(self.starts, edges), times) + mark * np.repeat(np.repeat(self.sizes, edges), times)
        i, j = np.repeat(i, times) + shift, np.repeat(j, times) + shift
        return Lists.of(np.concatenate([i, j]), np.concatenate([j, i]), self.num_nodes)


@dataclass(frozen=True, eq=False)
class Lists:
    """Lists of positions, those of one length as the rows of one table, which leaves nothing to pad."""

    num_lists: int
    tables: tuple[tuple[Colours, Colours], ...]
    """Numbers of the lists of one length, and their members (lists x length), by length."""

    @classmethod
    def of(cls, owner: Colours, member: Colours, num_lists: int) -> Lists:
        """Every member in the list of its owner."""
        member = member[np.argsort(owner, kind="stable")]
        lengths = np.bincount(owner, minlength=num_lists)
        first = np.cumsum(lengths) - lengths
        tables = []
        for length in np.unique(lengths):
            lists = np.flatnonzero(lengths == length)
            tables.append((lists, member[first[lists][:, None] + np.arange(length)]))
        return cls(num_lists, tuple(tables))

    def named(self, colours: Colours, own: Colours | None = None) -> Colours:
        """A number for every list: the rank of (its own colour, the sorted colours of its members)."""
        names = np.empty(self.num_lists, dtype=np.int64)
        named = 0
        for lists, members in self.tables:
            columns = np.sort(colours[members], axis=1).T
            if own is not None:
                columns = np.concatenate([own[lists][None], columns])
            ranks = lexicographic_ranks(columns)
            names[lists] = ranks + named
            named += _number(ranks)
        return names


def lexicographic_ranks(columns: Colours) -> Colours:
    """The rank of every column of a table among its different columns, in lexicographic order from the top row on.

    As many entries as fit are packed into a word of 63 bits, words are replaced by their ranks, and so on.

    Example:
        >>> lexicographic_ranks(np.array([[1, 0, 1, 0], [0, 2, 0, 1]])).tolist()
        [2, 1, 2, 0]
    """
    bits = max(1, (_number(columns) - 1).bit_length())
    ranks, done = np.zeros(columns.shape[1], dtype=np.int64), 0
    while done < len(columns):
        room = (63 - (_number(ranks) - 1).bit_length()) // bits
        for row in columns[done : done + room]:
            ranks = ranks << bits | row
        ranks = np.unique(ranks, return_inverse=True)[1]
        done += room
    return ranks


def _number(colours: Colours) -> int:
    """How many colours there are, named 0, 1, ... without gaps."""
    return int(colours.max(initial=-1)) + 1


def _bounded(graphs: Sequence[Graph], marks: MarkSet | None) -> list[Colours]:
    """The augmentations of every graph, refused before they take more memory than `LARGEST_UNION` stands for."""
    augmentations, entries = [], 0
    for graph in graphs:
        augmentations.append(_augmentations(graph, marks))
        entries += len(augmentations[-1]) * (graph.num_nodes + 2 * graph.num_edges)
        if entries > LARGEST_UNION:
            raise InputError(
                f"graphs with their marks have more than {LARGEST_UNION:,} nodes and ends of edges; "
                "compare fewer or smaller graphs at once, or mark fewer nodes"
            )
    return augmentations


def _augmentations(graph: Graph, marks: MarkSet | None) -> Colours:
    """z^0, z^1, ... of a graph; the token alone where there is no set of marks."""
    token = np.full((1, graph.num_nodes), TOKEN, dtype=np.int64)
    if marks is None:
        return token
    z = np.asarray(marks(graph.num_nodes))
    if z.ndim != 2 or z.shape[1] != graph.num_nodes or not np.isdtype(z.dtype, ("bool", "integral")):
        raise InputError(f"marks of {graph.num_nodes} nodes are {z.dtype} {z.shape}; give integers, one row a mark")
    if z.min(initial=0) < 0:
        raise InputError(f"a mark is {z.min()}; numbers below 0 are kept for the token of no augmentation")
    return np.concatenate([token, z.astype(np.int64)])


def check_comparable(graphs: Sequence[Graph]) -> None:
    """Refuse what 1-WL as defined above has no colour for."""
    if not graphs:
        raise InputError("there is no graph to colour; pass at least one")
    for graph in graphs:
        if graph.directed or graph.edge_attr is not None:
            what = "directed" if graph.directed else "attributed"
            raise InputError(f"{graph} has {what} edges; the tests compare undirected graphs with attributes of nodes")
    widths = {graph.num_features if graph.x is not None else None for graph in graphs}
    if len(widths) > 1:
        found = " and ".join(sorted("none" if width is None else str(width) for width in widths))
        raise InputError(f"graphs with {found} node attributes cannot be compared; give all the same, or none")


def _attributes(graphs: Sequence[Graph]) -> Colours:
    """A number for every node of all graphs: equal where the attributes are."""
    features = [graph.x for graph in graphs if graph.x is not None]
    if not features:
        return np.zeros(sum(graph.num_nodes for graph in graphs), dtype=np.int64)
    rows = [x.toarray() if isinstance(x, sp.csr_array) else x for x in features]
    # adding 0 turns -0.0 into 0.0; columns are named one by one, so that no float is compared as bytes
    values = np.concatenate(rows).T + 0.0
    columns = [np.unique(column, return_inverse=True)[1] for column in values]
    return lexicographic_ranks(np.array(columns, dtype=np.int64).reshape(len(columns), values.shape[1]))
