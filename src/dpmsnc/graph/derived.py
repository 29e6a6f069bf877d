"""Graphs made of other graphs: without directions, a part of one, one that has grown, one with more labels, one whose
features stand in another order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import clean
from dpmsnc.graph import edges as edge
from dpmsnc.graph.graph import Graph


def without_directions(graph: Graph) -> Graph:
    """`Graph.undirected`."""
    if not graph.directed:
        return graph
    if len(graph.y) != graph.num_nodes:
        raise InputError("labels on directed edges do not say what the label of an undirected one is")
    weights = None if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    rows = (graph.edge_attr, False, weights)
    edge_index, edge_attr, weight, notes = edge.simple_edges(graph.edge_index, graph.num_nodes, *rows)
    undirected = replace(graph, edge_index=edge_index, edge_attr=edge_attr, edge_weight=weight, directed=False)
    return replace(undirected, notes=(*graph.notes, *notes))


def subgraph(graph: Graph, nodes: NDArray[np.bool_]) -> Graph:
    """`Graph.subgraph`.

    Example:
        >>> path = Graph.build([("a", "b"), ("b", "c")])
        >>> path.subgraph(np.array([False, True, True])).ids.tolist()
        ['b', 'c']
    """
    nodes = clean.clean_mask(nodes, graph.num_nodes, "a part of the graph", "node")
    position, inside = np.cumsum(nodes) - 1, nodes[graph.edge_index].all(axis=0)
    rows = {name: getattr(graph, name) for name in ("x", "ids", "member")}
    kept: dict[str, Any] = {name: None if values is None else values[nodes] for name, values in rows.items()}
    kept["y"] = graph.y[nodes if graph.labels_on == "node" else inside]
    if graph.member is not None:  # numbered from 0 again
        kept["member"] = np.unique(graph.member[nodes], return_inverse=True)[1]
    return replace(
        graph,
        num_nodes=int(nodes.sum()),
        edge_index=position[graph.edge_index[:, inside]],
        edge_attr=None if graph.edge_attr is None else graph.edge_attr[inside],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[inside],
        **kept,
    )


def grown(graph: Graph, nodes: Sequence[Any], edges: Any, x: Any, y: Any, edge_weight: Any = None) -> Graph:
    """`Graph.grown`.

    Example:
        >>> path = Graph.build([("a", "b")], ids=["a", "b"], y=["red", "blue"])
        >>> longer = path.grown(["c"], [("b", "c")])
        >>> longer.ids.tolist(), longer.y.tolist(), longer.num_edges
        (['a', 'b', 'c'], [1, 0, -1], 2)
    """
    _check_can_grow(graph)
    clean.check_sequence(nodes, "nodes")
    new, old = clean.plain_array(nodes), set(graph.ids.tolist())
    clean.check_names(new, "id")
    clean.check_unique(new)
    if known := [name for name in new.tolist() if name in old]:
        raise InputError(f"the graph has a node {known[0]!r} already; new nodes need ids of their own")
    ids = clean.plain_array([*graph.ids.tolist(), *new.tolist()])
    sources, targets = edge.endpoints(edges)
    added = edge.edge_positions(sources, targets, ids)
    both = np.concatenate([graph.edge_index, added], axis=1)
    weight = _with_weights(graph, edge_weight, len(sources))
    edge_index, _, weight, notes = edge.simple_edges(both, len(ids), None, graph.directed, weight)
    labels = graph.target.unknown(len(new)) if y is None else graph.target.encode(y)
    if len(labels) != len(new):
        raise InputError(f"{len(labels)} labels for {len(new)} new nodes; pass one each, None where unknown")
    features = _with_rows(graph, x, new)
    larger = replace(graph, num_nodes=len(ids), edge_index=edge_index, edge_weight=weight, x=features, ids=ids)
    larger = replace(larger, y=np.concatenate([graph.y, labels]))
    return replace(larger, notes=(*notes, *edge.connectivity_notes(larger)))


def _check_can_grow(graph: Graph) -> None:
    if graph.edge_attr is not None or len(graph.y) != graph.num_nodes:
        raise InputError("a graph with features or labels on its edges does not grow; build the larger one anew")
    if graph.member is not None:
        raise InputError("several graphs do not grow together; grow one of them")


def _with_weights(graph: Graph, weight: Any, num_new: int) -> Any:
    """The weights of old and new edges."""
    if (graph.edge_weight is None) != (weight is None) and num_new:
        has, pass_them = ("none", "leave them out") if graph.edge_weight is None else ("weights", "pass edge_weight")
        raise InputError(f"edges of the graph have {has}, so new edges have, too; {pass_them}")
    if graph.edge_weight is None:
        return None
    new = np.empty(0) if weight is None else edge.clean_edge_weights(weight, num_new)
    return np.concatenate([graph.edge_weight.astype(np.float64), new])


def _with_rows(graph: Graph, x: Any, new: NDArray[Any]) -> Any:
    """The features of old and new nodes."""
    if graph.x is None:
        if x is not None:
            raise InputError("the graph has no features, so its new nodes have none; leave x out")
        return None
    if x is None and not len(new):
        return graph.x
    if x is None:
        raise InputError(f"the graph has {graph.num_features} features a node; pass those of the new nodes as x")
    names = getattr(x, "columns", None)
    if names is not None and graph.columns is not None:
        x, names = graph.columns.encode(x.rename(columns=str), lambda row: f"the row of node {new[row]!r}")[0], None
    if names is not None and graph.feature_names and tuple(map(str, names)) != graph.feature_names:
        raise InputError(f"the columns of x must be {clean.short_list(graph.feature_names)}, in this order")
    rows = clean.clean_features(x, new)
    if rows is None or rows.shape[1] != graph.num_features:
        raise InputError(f"new nodes have {graph.num_features} features each, as the others; check x")
    if sp.issparse(graph.x) or sp.issparse(rows):
        return sp.csr_array(sp.vstack([sp.csr_array(graph.x), sp.csr_array(rows)]))
    return np.concatenate([graph.x, rows])


def with_feature_order(graph: Graph, names: Sequence[str] | None) -> Graph:
    """The same graph with its features in the order of these names; as it is where it has others, or none.

    Example:
        >>> pair = Graph.build([(0, 1)], x=[[1, 2], [3, 4]], feature_names=["a", "b"])
        >>> with_feature_order(pair, ["b", "a"]).x.tolist(), with_feature_order(pair, ["b", "c"]) is pair
        ([[2.0, 1.0], [4.0, 3.0]], True)
    """
    if graph.x is None or not graph.feature_names or not names or sorted(names) != sorted(graph.feature_names):
        return graph
    if tuple(names) == graph.feature_names or len(set(names)) < len(names):
        return graph
    position = {name: k for k, name in enumerate(graph.feature_names)}
    columns = np.array([position[name] for name in names])
    return replace(graph, x=graph.x[:, columns], feature_names=tuple(names), columns=None)


def revealed(graph: Graph, known: Any) -> Graph:
    """`Graph.reveal`.

    Example:
        >>> graph = Graph.build([("a", "b"), ("b", "c")], ids=["a", "b", "c"], y=["red", "blue", None])
        >>> revealed(graph, {"c": "red"}).y.tolist()
        [1, 0, 1]
    """
    clean.check_sequence(known, "known")
    place = graph.labels_on
    if known is None or isinstance(known, Graph):
        raise InputError(f"known is a mapping from {place}s to labels, or one label per {place}, not a graph or None")
    y = graph.y.copy()
    if hasattr(known, "items"):
        pairs = list(known.items())
        names = [name for name, _ in pairs]
        positions = graph.index(names) if place == "node" else edge_rows(graph, names)
        if len(np.unique(positions)) < len(positions):
            raise InputError(f"one {place} is listed twice in the labels to reveal; keep one row each")
        labels = graph.encode([label for _, label in pairs])
    else:
        values = known if hasattr(known, "shape") else list(known)
        positions, labels = np.arange(len(y)), graph.encode(values)
        if len(labels) != len(y):
            raise InputError(
                f"expected one label per {place}, {len(y)} in all, got {len(labels)}; "
                f"to reveal a few, pass a dictionary from {'node id' if place == 'node' else 'pairs of node ids'}"
            )
    given = graph.target.known(labels)
    y[positions[given]] = labels[given]
    return graph.with_labels(y)


def edge_rows(graph: Graph, pairs: Sequence[Any]) -> NDArray[np.int64]:
    """Where the edges between these pairs of ids stand; without directions, in whichever order a pair is given.

    Example:
        >>> path = Graph.build([("a", "b"), ("b", "c")])
        >>> edge_rows(path, [("c", "b"), ("a", "b")]).tolist()
        [1, 0]
    """
    if wrong := [pair for pair in pairs if not isinstance(pair, tuple) or len(pair) != 2]:
        raise InputError(f"an edge is called by a pair of node ids, not by {clean.short(wrong[0])}")
    ends = np.stack([graph.index([pair[k] for pair in pairs]) for k in (0, 1)])
    i, j = ends if graph.directed else np.sort(ends, axis=0)
    lookup = {pair: row for row, pair in enumerate(zip(*graph.edge_index.tolist()))}
    rows = [lookup.get(pair, -1) for pair in zip(i.tolist(), j.tolist())]
    if -1 in rows:
        raise InputError(f"the graph has no edge {pairs[rows.index(-1)]!r}; leave it out, or add it to the graph")
    return np.array(rows, dtype=np.int64)


def positions(graph: Graph, ids: Iterable[Any]) -> NDArray[np.int64]:
    """`Graph.index`.

    Example:
        >>> positions(Graph.build([("a", "b"), ("b", "c")]), ["c", "a"]).tolist()
        [2, 0]
    """
    places = graph.cached("positions", lambda: {name: k for k, name in enumerate(graph.ids.tolist())})
    wanted = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else list(ids)
    for name in wanted:
        if not isinstance(name, Hashable) or name not in places:
            as_text = f" (ids here are text: did you mean {str(name)!r}?)" if str(name) in places else ""
            raise InputError(f"the graph has no node {name!r}{as_text}; its ids are listed in graph.ids")
    return np.array([places[name] for name in wanted], dtype=np.int64)


def check_trainable(graph: Graph) -> None:
    """`Graph.check_trainable`."""
    if not graph.known.any():
        raise InputError(
            f"no {graph.labels_on} has a known label, so there is nothing to learn from; name the label column or "
            "attribute, or add labels with graph.reveal"
        )
    graph.target.check_trainable(graph.y[graph.known])
