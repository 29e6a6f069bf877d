"""A graph with partly known node labels.

`Graph` holds nodes, undirected edges, features, classes and known labels, and nothing about models. Labels are integers
into `classes`, with -1 (`UNKNOWN`) where no label is known: no masks are needed to say which nodes are labelled.
Reading and cleaning what users bring is the work of `dpmsnc.io`; the constructors here only name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, undirected edges, features and partly known labels.

    Build one with `Graph.build` (arrays) or with the readers of `dpmsnc.io` behind `Graph.from_tables`,
    `Graph.from_networkx`, `Graph.from_pyg`, `Graph.from_scipy` and `Graph.from_npz`.

    Example:
        >>> graph = Graph.build([(0, 1), (1, 2)], num_nodes=3, y=["red", None, "blue"])
        >>> graph.classes, graph.y.tolist(), graph.num_edges
        (('blue', 'red'), [1, -1, 0], 2)
    """

    num_nodes: int
    edge_index: NDArray[np.int64]
    """2 x E, every undirected edge once (i < j), without self-loops or duplicates."""
    x: sp.csr_array | NDArray[np.float32] | None
    """Node features N x F, sparse or dense; None where the graph has none."""
    y: NDArray[np.int64]
    """Known label of each node as an index into `classes`; -1 where unknown."""
    classes: tuple[Any, ...]
    ids: NDArray[Any]
    """The user's name of each node, unique."""
    notes: tuple[str, ...] = ()
    """What was changed on the way in (self-loops dropped, directions ignored, ...)."""
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

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

        Example:
            >>> Graph.build([("a", "b"), ("b", "a"), ("b", "b")]).notes
            ('1 self-loop removed',)
        """
        from dpmsnc import io

        sources, targets = io.endpoints(edges)
        names = io.node_ids(ids, num_nodes, x, y, sources, targets)
        edge_index, notes = io.simple_edges(io.edge_positions(sources, targets, names), len(names))
        labels, class_names = io.clean_labels(y, len(names), classes)
        graph = cls(len(names), edge_index, io.clean_features(x, names), labels, class_names, names)
        return replace(graph, notes=(*notes, *io.connectivity_notes(graph)))

    @classmethod
    def from_tables(
        cls,
        edges: Any,
        nodes: Any = None,
        *,
        id: str | None = None,
        label: str | None = None,
        source: str | None = None,
        target: str | None = None,
        features: Sequence[str] | None = None,
    ) -> Graph:
        """A graph from an edge table and a node table: CSV, TSV or Parquet files, or pandas DataFrames.

        Args:
            edges: One row per edge; its ends are the columns `source` and `target`, by default the first two.
            nodes: One row per node, in any order. None: the nodes are those the edges mention.
            id: Column of `nodes` with the node ids, by default the first. Text files keep ids as written ("007").
            label: Column of `nodes` with the class names, blank where unknown. None: every label is unknown.
            source: Column of `edges`.
            target: Column of `edges`.
            features: Numeric columns of `nodes`; by default every numeric column left over.
        """
        from dpmsnc import io

        return io.read_tables(edges, nodes, id=id, label=label, source=source, target=target, features=features)

    @classmethod
    def from_networkx(
        cls, graph: Any, label: str | None = "label", features: str | Sequence[str] | None = None
    ) -> Graph:
        """A graph from NetworkX; nodes that lack the attribute `label` are unlabelled.

        Args:
            graph: Any NetworkX graph; directions, parallel edges and weights are ignored.
            label: Node attribute that holds the class, or None.
            features: One or several node attributes, each a number or a vector; None for no features.
        """
        from dpmsnc import io

        return io.read_networkx(graph, label, features)

    @classmethod
    def from_pyg(cls, data: Any) -> Graph:
        """A graph from a PyTorch Geometric `Data` with `edge_index`, `x` and `y` (-1 or NaN where unknown)."""
        from dpmsnc import io

        return io.read_pyg(data)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        x: Any = None,
        y: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
    ) -> Graph:
        """A graph from an N x N adjacency matrix whose non-zero entries are edges; the rest as in `build`."""
        from dpmsnc import io

        return io.read_scipy(adjacency, x, y, classes, ids)

    @classmethod
    def from_npz(cls, path: str | PathLike[str]) -> Graph:
        """A graph from an .npz file, written by `to_npz` or in the format of docs/data.md; never unpickles."""
        from dpmsnc import io

        return io.load_npz(path)

    def to_npz(self, path: str | PathLike[str]) -> None:
        """Write the graph to an .npz file at exactly `path`, all or nothing; ids and classes must be plain values."""
        from dpmsnc import io

        io.save_npz(self, path)

    @property
    def num_edges(self) -> int:
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the nodes whose label is known."""
        return self.y != UNKNOWN

    @cached_property
    def adjacency(self) -> sp.csr_array:
        """Symmetric 0/1 adjacency matrix without self-loops."""
        i, j = self.edge_index
        ones = np.ones(2 * self.num_edges, dtype=np.float32)
        coordinates = (np.concatenate([i, j]), np.concatenate([j, i]))
        return sp.csr_array((ones, coordinates), shape=(self.num_nodes, self.num_nodes))

    def cached(self, key: str, build: Callable[[], Any]) -> Any:
        """What `build()` returned the first time, for operators that are normalised once and used by many."""
        if key not in self._cache:
            self._cache[key] = build()
        return self._cache[key]

    def with_labels(self, y: NDArray[np.int64]) -> Graph:
        """The same graph with other known labels (indices into `classes`, -1 where unknown)."""
        if y.shape != (self.num_nodes,):
            raise InputError(f"expected one label per node, {self.num_nodes} in all, got an array of shape {y.shape}")
        return replace(self, y=np.asarray(y, dtype=np.int64))

    def index(self, ids: Iterable[Any]) -> NDArray[np.int64]:
        """Positions of the nodes called `ids`.

        Example:
            >>> Graph.build([("a", "b"), ("b", "c")]).index(["c", "a"]).tolist()
            [2, 0]
        """
        positions = self.cached("positions", lambda: {name: k for k, name in enumerate(self.ids.tolist())})
        wanted = [ids] if isinstance(ids, str) else list(ids)
        for name in wanted:
            if name not in positions:
                as_text = f" (ids here are text: did you mean {str(name)!r}?)" if str(name) in positions else ""
                raise InputError(f"the graph has no node {name!r}{as_text}; its ids are listed in graph.ids")
        return np.array([positions[name] for name in wanted], dtype=np.int64)

    def encode(self, labels: Any) -> NDArray[np.int64]:
        """Class names to indices into `classes`; -1 where a label is missing."""
        from dpmsnc import io

        return io.encode_labels(io.label_values(labels, self.classes), self.classes)

    def decode(self, indices: ArrayLike) -> NDArray[np.object_]:
        """Indices into `classes` to class names, in the same shape; None where the index is -1."""
        names = np.empty(self.num_classes + 1, dtype=object)
        names[: self.num_classes] = np.fromiter(self.classes, dtype=object, count=self.num_classes)
        indices = np.asarray(indices, dtype=np.int64)
        if indices.size and not (indices.min() >= UNKNOWN and indices.max() < self.num_classes):
            raise InputError(f"class indices run from 0 to {self.num_classes - 1}, with {UNKNOWN} for unknown")
        return np.asarray(names[indices], dtype=object)

    def reveal(self, known: Any) -> Graph:
        """The same graph with more labels known; a label given here replaces the one the graph had.

        Args:
            known: A mapping or pandas Series from node ids to class names, or one label per node with missing entries.

        Example:
            >>> graph = Graph.build([("a", "b"), ("b", "c")], ids=["a", "b", "c"], y=["red", "blue", None])
            >>> graph.reveal({"c": "red"}).y.tolist()
            [1, 0, 1]
        """
        y = self.y.copy()
        if hasattr(known, "items"):
            pairs = list(known.items())
            positions = self.index([name for name, _ in pairs])
            if len(np.unique(positions)) < len(positions):
                raise InputError("a node is listed twice in the labels to reveal; keep one row per node id")
            labels = self.encode([label for _, label in pairs])
        else:
            positions, labels = np.arange(self.num_nodes), self.encode(known)
            if len(labels) != self.num_nodes:
                raise InputError(
                    f"expected one label per node, {self.num_nodes} in all, got {len(labels)}; "
                    "to reveal a few, pass a dictionary from node id to class"
                )
        given = labels != UNKNOWN
        y[positions[given]] = labels[given]
        return self.with_labels(y)

    def check_trainable(self) -> None:
        """Raise `InputError` unless labels of at least two classes are known."""
        present = np.unique(self.y[self.known])
        if not len(present):
            raise InputError(
                "no node has a known label, so there is nothing to learn from; name the label column or attribute, "
                "or add labels with graph.reveal"
            )
        if len(present) == 1:
            raise InputError(
                f"every known label is {self.classes[present[0]]!r}; label at least one node of another class "
                "(if -1 is one of your classes, list it in classes=, since -1 otherwise means unknown)"
            )

    def summary(self, hidden_channels: int = 64, num_layers: int = 2, draws: int = 4) -> Summary:
        """Sizes, label counts, homophily, components and memory needed; made to be printed.

        The memory of a fit is estimated as 4 bytes * nodes * draws * hidden_channels * num_layers * 6 (values,
        gradients, dropout masks and scratch of each layer) plus the bytes of the features.
        """
        components, isolated = self.connectivity
        labelled = self.y[self.edge_index]
        both_known = (labelled != UNKNOWN).all(axis=0)
        x: Any = self.x
        filled = 0 if x is None else x.nnz if sp.issparse(x) else np.count_nonzero(x)
        return Summary(
            num_nodes=self.num_nodes,
            num_edges=self.num_edges,
            num_features=self.num_features,
            feature_density=filled / max(1, self.num_nodes * self.num_features),
            class_counts={name: int((self.y == k).sum()) for k, name in enumerate(self.classes)},
            num_unknown=int((~self.known).sum()),
            homophily=float((labelled[0] == labelled[1])[both_known].mean()) if both_known.any() else None,
            num_labelled_edges=int(both_known.sum()),
            num_components=components,
            num_isolated=isolated,
            memory_mb=(24 * self.num_nodes * draws * hidden_channels * num_layers + _num_bytes(self.x)) / 1e6,
            notes=self.notes,
        )

    @property
    def connectivity(self) -> tuple[int, int]:
        """Number of connected components, and how many of them are single nodes without an edge."""

        def count() -> tuple[int, int]:
            from scipy.sparse.csgraph import connected_components

            components = connected_components(self.adjacency, directed=False, return_labels=False)
            return int(components), self.num_nodes - len(np.unique(self.edge_index))

        return self.cached("connectivity", count)


@dataclass(frozen=True)
class Summary:
    """What `Graph.summary` found; `print` it."""

    num_nodes: int
    num_edges: int
    num_features: int
    feature_density: float
    """Share of the features that are not zero."""
    class_counts: dict[Any, int]
    num_unknown: int
    homophily: float | None
    """Share of edges that join equal labels, among edges with both labels known; None where there are none."""
    num_labelled_edges: int
    num_components: int
    num_isolated: int
    memory_mb: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        features = f"{self.num_features:,} ({self.feature_density:.1%} non-zero)" if self.num_features else "none"
        if self.homophily is None:
            homophily = "no edge with both labels known"
        else:
            homophily = f"{self.homophily:.2f} over {self.num_labelled_edges:,} edges with both labels known"
        rows = {
            "nodes": f"{self.num_nodes:,}",
            "edges": f"{self.num_edges:,}",
            "features": features,
            "labels": f"{self.num_nodes - self.num_unknown:,} known, {self.num_unknown:,} unknown",
            "classes": ", ".join(f"{name} ({count:,})" for name, count in self.class_counts.items()) or "none",
            "homophily": homophily,
            "components": f"{self.num_components:,} ({self.num_isolated:,} isolated nodes)",
            "memory": f"about {self.memory_mb:,.0f} MB to fit",
        }
        lines = ["Graph", *(f"  {name:<12}{value}" for name, value in rows.items())]
        return "\n".join([*lines, *(f"  {'note':<12}{note}" for note in self.notes)])


def _num_bytes(x: Any) -> int:
    if x is None:
        return 0
    return x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
