"""A graph with partly known labels.

`Graph` holds nodes, edges, features, known labels and what a label is, and nothing about models. A class is an integer
into `classes`, with -1 (`UNKNOWN`) where no label is known: no masks are needed to say which nodes are labelled.
Reading what users bring is the work of `dpmsnc.graph.readers` (tables and files) and `dpmsnc.graph.objects` (other
libraries), checking it that of `dpmsnc.graph.clean`; `dpmsnc.graph.constructors` only names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.constructors import Constructors

if TYPE_CHECKING:
    import scipy.sparse as sp

    from dpmsnc.graph.columns import Columns
    from dpmsnc.graph.summary import Summary
    from dpmsnc.targets import Target
    from dpmsnc.targets.base import Place

UNKNOWN = -1


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Constructors):
    """Nodes, edges, features and partly known labels.

    Build one with `Graph.build` (arrays), `Graph.from_tables`, `Graph.from_networkx`, `Graph.from_pyg`,
    `Graph.from_scipy` or `Graph.from_npz`. Networks ignore directions unless their documentation says otherwise.

    Example:
        >>> graph = Graph.build([(0, 1), (1, 2)], num_nodes=3, y=["red", None, "blue"])
        >>> graph.classes, graph.y.tolist(), graph.num_edges
        (('blue', 'red'), [1, -1, 0], 2)
    """

    num_nodes: int
    edge_index: NDArray[np.int64]
    """2 x E, every edge once, without self-loops: i < j if undirected, from i to j in any order if directed."""
    x: sp.csr_array | NDArray[np.float32] | None
    """Node features N x F, sparse or dense; None where the graph has none."""
    y: NDArray[Any]
    """Labels, as `target` has them: indices into the classes, rows of 0/1 or numbers; -1 or NaN where unknown."""
    target: Target
    """What a label is, and whether nodes or edges carry it."""
    ids: NDArray[Any]
    """The user's name of each node, unique."""
    notes: tuple[str, ...] = ()
    """What was changed on the way in (self-loops dropped, directions ignored, ...)."""
    feature_names: tuple[str, ...] | None = None
    """Names of the columns of `x`, where they have any."""
    edge_attr: NDArray[np.float32] | None = None
    """Edge features E x D, in the order of `edge_index`; None where the graph has none."""
    directed: bool = False
    """Whether an edge goes from its first node to its second alone; then both directions may be listed."""
    member: NDArray[np.int64] | None = None
    """Which of several graphs each node belongs to, where this is their disjoint union; else None."""
    edge_weight: NDArray[np.float32] | None = None
    """A positive weight of every edge, in the order of `edge_index`; None where all edges weigh the same."""
    weight_unit: float = 1.0
    """What counts as 1 in the adjacency matrix: the mean weight of the graph that was built first."""
    columns: Columns | None = None
    """How the columns of a node table became `x`, where it was read from one."""
    edge_feature_names: tuple[str, ...] | None = None
    """Names of the columns of `edge_attr`, where they have any."""
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def build(
        cls,
        edges: Any,
        *,
        num_nodes: int | None = None,
        x: Any = None,
        y: Any = None,
        classes: Sequence[Any] | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
        kind: str = "class",
        edge_attr: Any = None,
        edge_y: Any = None,
        edge_weight: Any = None,
        feature_names: Sequence[str] | None = None,
        edge_feature_names: Sequence[str] | None = None,
        directed: bool = False,
    ) -> Graph:
        """A graph from arrays or plain Python sequences.

        Args:
            edges: A sequence of pairs (E x 2), or an array. An array with two rows is 2 x E, so a 2 x 2 array is read
                as two rows, sources above targets; any other array with two columns is E x 2. Entries are node ids.
                Without `ids`, integers are positions 0..N-1. Integers are positions too when no id is an integer.
            num_nodes: Number of nodes, where neither `ids`, `x`, `y` nor the largest position says it.
            x: Features N x F, dense or scipy sparse.
            y: One label per node: any hashable, unknown where None, NaN, pandas' NA or blank. Where all labels are
                whole numbers, -1 is unknown too, unless `classes` lists it.
            classes: Class names in the order wanted; the sorted labels otherwise. Integer labels are positions in
                `classes` when no class is an integer.
            ids: The name of each node, in the order of the rows of `x` and `y`. By default 0..N-1, or, where edges
                name nodes by something else, those names in order of appearance.
            kind: What a label is: one "class", several "tags" or a real "value".
            edge_attr: Edge features E x D in the order of `edges`, or one number per edge. Where an edge is listed
                several times, in whichever direction if it is undirected, the first row counts.
            edge_y: One number per edge in the order of `edges`, unknown where None or NaN: edges then carry the labels,
                and nodes none. Where an edge is listed several times, the first known number counts.
            edge_weight: A positive number per edge, in the order of `edges`; those of one edge add up.
            feature_names: Names of the columns of `x`; a DataFrame has its own.
            edge_feature_names: Names of the columns of `edge_attr` likewise.
            directed: Whether an edge leads from its first node to its second alone.

        Example:
            >>> Graph.build([("a", "b"), ("b", "a"), ("b", "b")]).notes
            ('1 self-loop removed',)
        """
        from dpmsnc.graph import clean
        from dpmsnc.graph import edges as edge

        for name, value in {"x": x, "y": y, "ids": ids, "classes": classes}.items():
            clean.check_sequence(value, name)
        sources, targets = edge.endpoints(edges)
        names = edge.node_ids(ids, num_nodes, x, y, sources, targets)
        positions = edge.edge_positions(sources, targets, names)
        edge_features = edge.clean_edge_features(edge_attr, len(sources))
        weight = edge.clean_edge_weights(edge_weight, len(sources))
        edge_index, *rows, notes = edge.simple_edges(positions, len(names), edge_features, directed, weight)
        target, labels = clean.labels_of(kind, y, len(names), classes)
        features = clean.clean_features(x, names)
        columns = clean.clean_feature_names(getattr(x, "columns", feature_names), features)
        graph = cls(len(names), edge_index, features, labels, target, names, (), columns, rows[0], bool(directed))
        named = clean.clean_feature_names(getattr(edge_attr, "columns", edge_feature_names), rows[0], "edge_attr")
        graph = replace(graph.with_weights(rows[1]), edge_feature_names=named)
        graph = replace(graph, notes=(*notes, *edge.connectivity_notes(graph)))
        return graph if edge_y is None else edge.with_edge_values(graph, positions, edge_y, y)

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write the graph to an .npz file at exactly `path`, all or nothing; ids and classes must be plain values."""
        from dpmsnc.graph import npz

        npz.save_npz(self, path)

    @property
    def num_edges(self) -> int:
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the channels of a label: classes or tags; empty where labels are numbers."""
        return self.target.names

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the nodes, or edges, whose label is known."""
        return self.target.known(self.y)

    @property
    def labels_on(self) -> Place:
        """Whether nodes or edges carry the labels; nodes where a target does not say it."""
        return getattr(self.target, "on", "node")

    @property
    def row_member(self) -> NDArray[np.int64] | None:
        """Which of several graphs each label belongs to, be it that of a node or of an edge; None for one graph."""
        if self.member is None or self.labels_on == "node":
            return self.member
        return self.member[self.edge_index[0]]

    @property
    def adjacency(self) -> sp.csr_array:
        """Symmetric adjacency matrix without self-loops: 0/1, or weights in their unit; directions are ignored."""
        from dpmsnc.graph import edges

        build = edges.both_ways
        return self.cached("adjacency", lambda: build(self.edge_index, self.num_nodes, self.relative_weight))

    @property
    def directed_adjacency(self) -> sp.csr_array:
        """Matrix whose row j receives: entry (j, i) is 1, or the weight in its unit, for every edge (i, j)."""
        from dpmsnc.graph import edges

        build = edges.matrix
        return self.cached(
            "directed_adjacency", lambda: build(self.edge_index[::-1], self.num_nodes, self.relative_weight)
        )

    @property
    def relative_weight(self) -> NDArray[np.float32] | None:
        """Weights in their unit, so that it does not matter whether they were minutes or hours."""
        return None if self.edge_weight is None else (self.edge_weight / self.weight_unit).astype(np.float32)

    def has_edges_of(self, other: Graph) -> bool:
        """Whether edges and their weights are the same."""
        ours, theirs = self.relative_weight, other.relative_weight
        alike = ours is theirs is None or (ours is not None and theirs is not None and np.array_equal(ours, theirs))
        return alike and np.array_equal(self.edge_index, other.edge_index)

    def with_weights(self, weight: NDArray[np.float32] | None) -> Graph:
        """The same graph with these weights, the mean of which is the unit."""
        mean = float(weight.mean(dtype=np.float64)) if weight is not None and len(weight) else 1.0
        if weight is not None and not (np.isfinite(weight).all() and (weight / np.float32(mean) > 0).all()):
            raise InputError("weights of edges are too far apart for their sums and shares; bring them closer together")
        return replace(self, edge_weight=weight, weight_unit=mean)

    def undirected(self) -> Graph:
        """The same graph with directions ignored; of two opposite edges the features of the first are kept."""
        from dpmsnc.graph import derived

        return derived.without_directions(self)

    def subgraph(self, nodes: NDArray[np.bool_]) -> Graph:
        """The nodes under a mask, with the edges among them."""
        from dpmsnc.graph import derived

        return derived.subgraph(self, nodes)

    def grown(
        self, nodes: Sequence[Any], edges: Any, *, x: Any = None, y: Any = None, edge_weight: Any = None
    ) -> Graph:
        """The same graph with nodes that arrived since, behind the others; all known labels stay.

        Args:
            nodes: Ids of the new nodes.
            edges: New edges as in `build`, between ids old and new.
            x: Features of the new nodes, one row each, where the graph has features.
            y: Labels of the new nodes as in `build`; by default none is known.
            edge_weight: Weights of the new edges, where the graph has weights.
        """
        from dpmsnc.graph import derived

        return derived.grown(self, nodes, edges, x, y, edge_weight)

    def __repr__(self) -> str:
        known = int(self.known.sum())
        return f"Graph({self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features, {known} labels)"

    def __getstate__(self) -> dict[str, Any]:
        """A copy, in this process or another, makes its own operators."""
        return vars(self) | {"_cache": {}}

    def cached(self, key: str, build: Callable[[], Any]) -> Any:
        """What `build()` returned the first time, for operators that are normalised once and used by many."""
        if key not in self._cache:
            self._cache[key] = build()
        return self._cache[key]

    def with_labels(self, y: NDArray[Any], target: Target | None = None) -> Graph:
        """The same graph with other known labels, as `y` has them, and possibly another target."""
        y = np.asarray(y) if target is not None else np.asarray(y, dtype=self.y.dtype)
        if target is None and y.shape != self.y.shape:
            raise InputError(f"expected one label per node, {self.num_nodes} in all, got an array of shape {y.shape}")
        labelled = replace(self, y=y, target=target or self.target)
        object.__setattr__(labelled, "_cache", self._cache)  # shared: nothing in it depends on labels
        return labelled

    def hide(self, rows: Sequence[bool] | NDArray[np.bool_]) -> Graph:
        """The same graph where the labels under a mask of nodes, or of edges, are unknown; numbers are scaled by those
        that are left."""
        from dpmsnc.graph import clean

        mask, y = clean.clean_mask(rows, len(self.y), "what is hidden", self.labels_on), self.y.copy()
        y[mask] = self.target.unknown(int(mask.sum()))
        target = self.target if self.target.names else clean.refitted(self.target, self.decode(y), len(y))[0]
        return replace(self, y=y, target=target)

    def index(self, ids: Iterable[Any]) -> NDArray[np.int64]:
        """Positions of the nodes called `ids`."""
        from dpmsnc.graph import derived

        return derived.positions(self, ids)

    def encode(self, labels: Any) -> NDArray[Any]:
        """What a user calls labels to labels as `y` has them."""
        return self.target.encode(labels)

    def decode(self, labels: ArrayLike) -> NDArray[Any]:
        """Labels as `y` has them to what a user calls them, in the same shape; None where one is unknown."""
        return self.target.decode(labels)

    def reveal(self, known: Any) -> Graph:
        """The same graph with more labels known; a label given here replaces the one the graph had.

        Args:
            known: A mapping or pandas Series from node ids to class names, or one label per node with missing entries;
                where edges carry the labels, from pairs of node ids, or one per edge.
        """
        from dpmsnc.graph import derived

        return derived.revealed(self, known)

    def check_trainable(self) -> None:
        """Raise `InputError` unless known labels differ."""
        from dpmsnc.graph import derived

        derived.check_trainable(self)

    def summary(self, hidden_channels: int = 64, num_layers: int = 2, draws: int = 4) -> Summary:
        """Sizes, label counts, homophily, components and the memory a fit of this size needs; made to be printed."""
        from dpmsnc.graph.summary import summarise

        return summarise(self, hidden_channels, num_layers, draws)

    def _repr_html_(self) -> str:
        """For notebooks: the summary."""
        return f"<pre>{escape(str(self.summary()))}</pre>"

    @property
    def connectivity(self) -> tuple[int, int]:
        """Number of connected components, and how many of them are single nodes without an edge."""
        from dpmsnc.graph import edges

        return self.cached("connectivity", lambda: edges.components(self.adjacency))
