"""Graphs of other libraries to a `Graph`: NetworkX, PyTorch Geometric and scipy, none of which is imported here."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import counted, is_missing, noted, plain_array, short, short_list
from dpmsnc.graph.edges import check_size, clean_edge_weights, distinct, matrix
from dpmsnc.graph.graph import Graph
from dpmsnc.graph.masks import MASKS, hide_by_masks
from dpmsnc.graph.sparse import checked


def read_networkx(
    graph: Any,
    label: str | None,
    features: str | Sequence[str] | None,
    edge_weight: str | None,
    edge_features: str | Sequence[str] | None,
    directed: bool,
    kind: str,
) -> Graph:
    """`Graph.from_networkx`."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed", "number_of_edges")):
        raise InputError(f"expected a networkx graph, not {type(graph).__name__}; other readers are Graph.from_...")
    if not isinstance(label, Hashable):
        raise InputError(f"label is {short(label)}; name one attribute of the nodes, or pass None")
    nodes, edges = dict(graph.nodes(data=True)), list(graph.edges(data=True))
    if directed and not graph.is_directed():
        edges += [(v, u, attributes) for u, v, attributes in edges]
    if label is not None and not any(label in attributes for attributes in nodes.values()):
        there = short_list(sorted({str(name) for attributes in nodes.values() for name in attributes}))
        raise InputError(
            f"no node has the attribute {label!r} (there are: {there}); name the one that holds the labels, "
            "or pass label=None for a graph without labels"
        )
    x, names = _attributes({f"node {short(node)}": a for node, a in nodes.items()}.items(), features)
    edge_attr, edge_names = _attributes(((f"edge {short((u, v))}", a) for u, v, a in edges), edge_features)
    weight = _edge_weights(edges, edge_weight)
    y = None if label is None else [attributes.get(label) for attributes in nodes.values()]
    built = Graph.build(
        [(u, v) for u, v, _ in edges],
        ids=plain_array(list(nodes)),
        x=x,
        y=y,
        kind=kind,
        edge_attr=edge_attr,
        edge_weight=weight,
        feature_names=names,
        edge_feature_names=edge_names or None,
        directed=directed,
    )
    turned = graph.is_directed() and not directed
    number = counted(graph.number_of_edges(), "directed edge")
    used = {label, *_names(features)}, {None if weight is None else edge_weight, *_names(edge_features)}
    left_out = zip(("node", "edge"), (nodes.values(), (a for *_, a in edges)), used)
    notes = [_not_used(kind, attributes, names) for kind, attributes, names in left_out]
    return noted(built, f"directions ignored: {number} read as undirected" if turned else None, *notes)


def _edge_weights(edges: Sequence[tuple[Any, Any, Mapping[str, Any]]], name: str | None) -> Any:
    """The weights of all edges, or None where no edge has the attribute, which may be called as it is by default."""
    if name is None or not any(name in attributes for *_, attributes in edges):
        if name not in (None, "weight") and edges:
            there = short_list(sorted({str(key) for *_, attributes in edges for key in attributes}))
            raise InputError(f"no edge has the attribute {name!r} (there are: {there}); name the one with the weights")
        return None
    found = [attributes.get(name) for *_, attributes in edges]
    where = [f"edge {short((u, v))} (attribute {name!r})" for u, v, _ in edges]
    numbers = np.array([np.nan if is_missing(value) else value for value in found], dtype=object)
    try:
        return clean_edge_weights(numbers.astype(np.float64), len(edges), where.__getitem__)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise InputError(f"{error}; edge_weight=None leaves weights out") from error
        raise InputError(
            f"the attribute {name!r} of edges is no number ({error}); edge_weight=None leaves it out"
        ) from error


def _names(wanted: Any) -> list[str]:
    return [wanted] if isinstance(wanted, str) else list(wanted or ())


def _not_used(kind: str, attributes: Iterable[Mapping[str, Any]], used: Iterable[Any]) -> str | None:
    """A note on attributes that were not asked for."""
    there = dict.fromkeys(str(name) for one in attributes for name in one if name not in set(used))
    return f"ignored {kind} attributes: {short_list(there)}" if there else None


def _attributes(
    rows: Iterable[tuple[str, Mapping[str, Any]]], wanted: str | Sequence[str] | None
) -> tuple[list[Any] | None, list[str] | None]:
    """Numbers and vectors among the attributes of nodes or edges, side by side, and the names of their columns."""
    names = _names(wanted)
    if not names:
        return None, None
    x: list[Any] = []
    columns: list[str] = []
    for row, attributes in rows:
        if lacking := [name for name in names if name not in attributes]:
            raise InputError(f"{row} has no attribute {lacking[0]!r}; give it to all, or leave this feature out")
        parts = [np.atleast_1d(attributes[name]) for name in names]
        x.append(np.concatenate(parts))
        columns = columns or [
            name if len(part) == 1 else f"{name}[{k}]" for name, part in zip(names, parts) for k in range(len(part))
        ]
    return x, columns


def read_pyg(data: Any, all_labels: bool, split: int | None, directed: bool, kind: str) -> Graph:
    """`Graph.from_pyg`."""
    parts = ("edge_index", "x", "y", "edge_attr", "edge_weight")
    edge_index, x, y, edge_attr, weight = (_stored(data, name) for name in parts)
    if not isinstance(edge_index, np.ndarray) or not hasattr(data, "num_nodes"):
        raise InputError(
            f"expected a torch_geometric Data with edge_index, not {type(data).__name__}; "
            "pass dataset[0] of a data set, and HeteroData after to_homogeneous()"
        )
    if y is not None and y.shape[1:] == (1,) and kind != "tags":
        y = y[:, 0]
    weight = None if weight is None else np.asarray(weight, dtype=np.float64).reshape(-1)
    rows: dict[str, Any] = {"edge_attr": edge_attr, "edge_weight": weight}
    graph = Graph.build(edge_index, num_nodes=data.num_nodes, x=x, y=y, kind=kind, **rows, directed=directed)
    graph = _counted_once(graph, edge_index, weight)
    i, j = edge_index[:, edge_index[0] != edge_index[1]]
    one_way = not directed and len(i) and len(distinct(i * graph.num_nodes + j)) == graph.num_edges
    masks = {name: mask for name in MASKS if (mask := _stored(data, name)) is not None}
    note = f"directions ignored: {counted(graph.num_edges, 'edge')} listed in one direction"
    others = [str(key) for key in data.keys() if key not in (*parts, *MASKS, "num_nodes")]  # noqa: SIM118
    left_out = f"ignored attributes: {short_list(others)}" if others else None
    return hide_by_masks(noted(graph, note if one_way else None, left_out), masks, split, all_labels)


def _counted_once(graph: Graph, edges: Any, weight: Any) -> Graph:
    """The graph with half of its weights where each undirected edge was listed in both directions with equal ones."""
    if graph.edge_weight is None or graph.directed:
        return graph
    listed = matrix(np.asarray(edges), graph.num_nodes, weight)
    return graph if abs(listed - listed.T).max() > 0 else graph.with_weights(graph.edge_weight / np.float32(2))


def _stored(data: Any, name: str) -> Any:
    """A tensor of the data as an array, sparse if the tensor is; None where there is none."""
    try:
        value: Any = getattr(data, name, None)
    except (KeyError, RuntimeError):  # what data sets and HeteroData raise for names that they do not have
        return None
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    if str(value.layout) == "torch.strided":
        return value.numpy()
    entries = value.to_sparse_coo().coalesce()
    return sp.coo_array((entries.values().numpy(), entries.indices().numpy()), shape=tuple(entries.shape))


def read_scipy(adjacency: Any, x: Any, y: Any, *, ids: Any, weighted: bool = False, **options: Any) -> Graph:
    """`Graph.from_scipy`; the options are those of `Graph.build`."""
    given = checked(adjacency, "edges") if sp.issparse(adjacency) else np.asarray(adjacency)
    if given.dtype.kind not in "biuf":
        raise InputError(f"expected a square matrix of numbers, not {type(adjacency).__name__} of {given.dtype}")
    entries = sp.coo_array(given)
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise InputError(f"the adjacency matrix has shape {entries.shape}; it must be square, one row per node")
    check_size(entries.shape[0])
    entries.sum_duplicates()
    entries.eliminate_zeros()
    names = np.arange(entries.shape[0]) if ids is None else plain_array(ids)
    if len(names) != entries.shape[0]:
        raise InputError(f"{len(names)} ids for an adjacency matrix of {entries.shape[0]} rows; pass one id per row")
    plain, ends = bool((entries.data == 1).all()), np.stack([entries.row, entries.col])
    weight = entries.data.astype(np.float64) if weighted and not plain else None
    graph = Graph.build(names[ends], x=x, y=y, ids=names, edge_weight=weight, **options)
    ignored = None if plain or weighted else "edge weights ignored: every non-zero entry is an edge (weighted=True)"
    return noted(_counted_once(graph, ends, weight), ignored)
