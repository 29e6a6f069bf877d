"""Several graphs as one: their disjoint union, and which of its rows belongs to which graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import ordered, refitted
from dpmsnc.graph.columns import READ_ALIKE, same_coding
from dpmsnc.graph.graph import Graph

if TYPE_CHECKING:
    from dpmsnc.targets import Target

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """The disjoint union of graphs; one graph is a batch of one.

    Example:
        >>> pair, path = Graph.build([(0, 1)], y=["a", "b"]), Graph.build([(0, 1), (1, 2)], y=["b", None, "c"])
        >>> batch = GraphBatch.of([pair, path])
        >>> batch.member.tolist(), batch.graph.decode(batch.graph.y).tolist()
        ([0, 0, 1, 1, 1], ['a', 'b', 'b', None, 'c'])
    """

    graph: Graph
    """The union, whose nodes are called 0 .. N-1; of one graph, that graph itself."""
    sizes: NDArray[np.int64]
    """Number of nodes of every graph."""
    edge_sizes: NDArray[np.int64]
    """Number of edges of every graph."""

    @classmethod
    def of(cls, graphs: Graph | Iterable[Graph], target: Target | None = None) -> GraphBatch:
        """The batch of these graphs, or of one.

        Labels of graphs that know different classes or tags are those of all graphs together, sorted by name, or those
        of `target` where it is given. Features may be sparse in one graph and dense in another; their names, edge
        features and directions must agree.
        """
        if not isinstance(graphs, (Graph, Iterable)):
            raise InputError(f"expected graphs, not {type(graphs).__name__}; pass a Graph or a list of them")
        graphs = [graphs] if isinstance(graphs, Graph) else list(graphs)
        union = disjoint_union(graphs, target)
        sizes, edge_sizes = (np.array([getattr(g, name) for g in graphs]) for name in ("num_nodes", "num_edges"))
        return cls(union, sizes, edge_sizes)

    @property
    def num_graphs(self) -> int:
        return len(self.sizes)

    @property
    def member(self) -> NDArray[np.int64]:
        """Which graph every node belongs to."""
        return np.repeat(np.arange(self.num_graphs), self.sizes)

    @property
    def edge_member(self) -> NDArray[np.int64]:
        """Which graph every edge belongs to."""
        return np.repeat(np.arange(self.num_graphs), self.edge_sizes)

    def split(self, rows: Array, on: Literal["node", "edge"] = "node") -> list[Array]:
        """The rows of every graph, from an array with one row for every node, or every edge, of the union."""
        sizes = self.sizes if on == "node" else self.edge_sizes
        if len(rows) != sizes.sum():
            raise InputError(f"{len(rows)} rows for {sizes.sum()} {on}s of the batch; pass one for each")
        return np.split(rows, np.cumsum(sizes)[:-1])


def disjoint_union(graphs: Sequence[Graph], target: Target | None = None) -> Graph:
    """One graph whose components are the given ones, in order; its nodes are called 0 .. N-1.

    Example:
        >>> pair = Graph.build([(0, 1)], y=["red", "blue"])
        >>> disjoint_union([pair, pair]).edge_index.tolist()
        [[0, 2], [1, 3]]
    """
    check_alike(graphs)
    target, y = _common_labels(graphs, target)
    first = graphs[0]
    if len(graphs) == 1:
        return first if target == first.target else replace(first, target=target, y=y)
    sizes = np.array([graph.num_nodes for graph in graphs])
    shift = np.repeat(np.cumsum(sizes) - sizes, [graph.num_edges for graph in graphs])
    return Graph(
        num_nodes=int(sizes.sum()),
        edge_index=np.concatenate([graph.edge_index for graph in graphs], axis=1) + shift,
        x=_stacked([graph.x for graph in graphs]),
        y=y,
        target=target,
        ids=np.arange(sizes.sum()),
        feature_names=first.feature_names,
        edge_attr=None if first.edge_attr is None else np.concatenate([graph.edge_attr for graph in graphs]),
        directed=first.directed,
        member=np.repeat(np.arange(len(graphs)), sizes),
        columns=first.columns,
        edge_feature_names=next((g.edge_feature_names for g in graphs if g.edge_feature_names is not None), None),
        edge_weight=None if first.edge_weight is None else np.concatenate([graph.relative_weight for graph in graphs]),
    )


def check_alike(graphs: Sequence[Graph], names: Sequence[str] | None = None) -> None:
    """Raise `InputError` unless these are graphs of the same features and kind of label; it calls them by `names`."""
    for k, graph in enumerate(graphs):
        if not isinstance(graph, Graph):
            raise InputError(f"graph {k} is of type {type(graph).__name__}; build a Graph of it first")
    if not graphs:
        raise InputError("there is no graph in the batch; pass at least one")
    named = next((graph for graph in graphs if graph.edge_feature_names is not None), graphs[0])
    expected = _traits(graphs[0]) | {"edge_feature_names": named.edge_feature_names}
    for k, graph in enumerate(graphs):
        traits = _traits(graph)
        if graph.edge_feature_names is None:  # an array, or a file from before edge features had names
            traits["edge_feature_names"] = expected["edge_feature_names"]
        this, first = (f"graph {k}", "graph 0") if names is None else (names[k], names[0])
        if traits != expected:
            name = next(name for name in traits if traits[name] != expected[name])
            raise InputError(
                f"{this} has {name} {traits[name]!r}, {first} has {expected[name]!r}; graphs of a batch must agree"
            )
        if not same_coding(graph.columns, graphs[0].columns):
            raise InputError(f"the columns of {this} were encoded in another way than those of {first}; {READ_ALIKE}")


def _traits(graph: Graph) -> dict[str, Any]:
    return {
        "num_features": graph.num_features,
        "feature_names": graph.feature_names,
        "number of edge features": None if graph.edge_attr is None else graph.edge_attr.shape[1],
        "edge_feature_names": graph.edge_feature_names,
        "directed": graph.directed,
        "edge weights": graph.edge_weight is not None,
        "kind of target": graph.target.kind,
        "place of labels": getattr(graph.target, "on", "node"),
    }


def _stacked(features: Sequence[Any]) -> Any:
    if features[0] is None:
        return None
    if not any(map(sp.issparse, features)):
        return np.concatenate(features)
    parts = [x if sp.issparse(x) else sp.csr_array(x) for x in features]
    lengths = np.concatenate([np.diff(x.indptr) for x in parts])
    data, indices = (np.concatenate([getattr(x, name) for x in parts]) for name in ("data", "indices"))
    # by hand, since scipy's vstack looks at every matrix several times over
    return sp.csr_array((data, indices, np.append(0, np.cumsum(lengths))), shape=(len(lengths), parts[0].shape[1]))


def _common_labels(graphs: Sequence[Graph], target: Target | None) -> tuple[Target, Array]:
    """One target for all graphs, and their labels as it has them."""
    if all(graph.target == (target or graphs[0].target) for graph in graphs):
        return target or graphs[0].target, np.concatenate([graph.y for graph in graphs])
    kinds: dict[Target, list[int]] = {}
    for k, graph in enumerate(graphs):
        kinds.setdefault(graph.target, []).append(k)
    sizes = [len(graph.y) for graph in graphs]
    values, member = np.empty(sum(sizes), dtype=object), np.repeat(np.arange(len(graphs)), sizes)
    for kind, members in kinds.items():  # all graphs of one target at once
        values[np.isin(member, members)] = kind.decode(np.concatenate([graphs[k].y for k in members]))
    if target is not None:
        return target, target.encode(values)
    return refitted(graphs[0].target, values, len(values), ordered({n for kind in kinds for n in kind.names}) or None)
