"""A `Graph` in an .npz file, in the format of docs/data.md. Nothing is unpickled, and only known keys are read.

Files in which Platonov et al. published the heterophilous graphs are read, too: they have these arrays by other names.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.files import LARGEST_GROWTH, pack_arrays, parse_json, read_arrays, write_whole
from dpmsnc.graph.clean import Array, plain_array, to_list
from dpmsnc.graph.columns import Columns
from dpmsnc.graph.graph import UNKNOWN, Graph
from dpmsnc.graph.masks import MASKS, hide_by_masks

if TYPE_CHECKING:
    from dpmsnc.targets import Target

FEATURES = ("x", "x_data", "x_indices", "x_indptr", "x_shape", "feature_names", "columns")
LABELS = ("y", "y_multi", "classes", "target")
KEYS = (
    "edge_index",
    "edge_attr",
    "edge_feature_names",
    "edge_weight",
    "weight_unit",
    "directed",
    "member",
    "ids",
    *FEATURES,
    *LABELS,
    *MASKS,
)
"""The arrays that are read from an .npz file."""
PUBLISHED = {
    "edge_index": "edges",
    "x": "node_features",
    "y": "node_labels",
    **{mask: f"{mask}s" for mask in MASKS},
}
"""Our names of the arrays in files of Platonov et al., and theirs; their edges are rows."""
FEW = 10**6
"""So many nodes or feature columns are always believed, even where nothing in a file is said of them."""


def load_npz(path: str | os.PathLike[str], all_labels: bool = False, split: int | None = None) -> Graph:
    """`Graph.from_npz`."""
    advice = "pass an .npz file as described in docs/data.md"
    parts = read_parts(path)
    if "edge_index" not in parts:
        raise InputError(f"{path} has no edge_index; {advice}")
    try:
        graph = _graph(parts)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} does not hold a graph ({error}); {advice}") from error
    return hide_by_masks(graph, {name: parts[name].T for name in MASKS if name in parts}, split, all_labels)


def read_parts(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a file by our names, whichever of the two formats it has."""
    parts, names = read_arrays(path, (*KEYS, *PUBLISHED.values()))
    if "edge_index" in names or "edges" not in names:
        return {name: parts[name] for name in KEYS if name in parts}
    found = {ours: parts[theirs] for ours, theirs in PUBLISHED.items() if theirs in parts}
    return found | {"edge_index": found["edge_index"].T}


def save_npz(graph: Graph, path: str | os.PathLike[str]) -> None:
    """`Graph.to_npz`."""
    write_whole(Path(path), pack_arrays(npz_parts(graph)))


def npz_parts(graph: Graph) -> dict[str, Any]:
    """The arrays of the .npz file of a graph."""
    parts: dict[str, Any] = {"edge_index": graph.edge_index, "y": graph.y} | storable_names(graph)
    if sp.issparse(graph.x):
        parts |= {f"x_{name}": getattr(graph.x, name) for name in ("indptr", "indices", "data", "shape")}
    elif graph.x is not None:
        parts["x"] = graph.x
    if graph.edge_attr is not None:
        parts["edge_attr"] = graph.edge_attr
    if graph.edge_weight is not None:
        parts |= {"edge_weight": graph.edge_weight, "weight_unit": graph.weight_unit}
    if graph.member is not None:
        parts["member"] = graph.member
    if graph.columns is not None:
        parts["columns"] = np.array(graph.columns.text())
    return parts | ({"directed": True} if graph.directed else {})


def storable_names(graph: Graph) -> dict[str, Array]:
    """Names and what a label is, as arrays that need no pickles, or an `InputError`; worth asking before long work."""
    from dpmsnc.targets import OneClass

    parts = {"ids": _storable(graph.ids, "node ids"), "classes": _storable(graph.classes, "classes")}
    if graph.target != OneClass(graph.classes):
        parts["target"] = np.array(json.dumps(graph.target.describe()))
    if graph.feature_names is not None:
        parts["feature_names"] = _storable(graph.feature_names, "feature names")
    if graph.edge_feature_names is not None:
        parts["edge_feature_names"] = _storable(graph.edge_feature_names, "names of edge features")
    return parts


def _graph(parts: dict[str, Array]) -> Graph:
    target = _target(parts["target"]) if "target" in parts else None
    edges, x, ids = parts["edge_index"], _features(parts), parts.get("ids")
    names = {name: parts[name].tolist() for name in ("feature_names", "edge_feature_names") if name in parts}
    y, classes, kind = (None, None, "class") if target is not None else _labels(parts)
    if edges.size and edges.dtype.kind in "iuf" and x is None and y is None and ids is None:
        _check_backed(edges.max(), edges.size, "nodes")
    graph = Graph.build(
        edges if ids is None else _pick(ids, edges),
        x=x,
        y=y,
        ids=ids,
        classes=classes,
        kind=kind,
        edge_attr=parts.get("edge_attr"),
        edge_weight=parts.get("edge_weight"),
        **names,
        directed=bool(parts.get("directed", False)),
    )
    if "member" in parts:
        graph = replace(graph, member=_member(parts["member"], graph))
    if "weight_unit" in parts and graph.edge_weight is not None:
        graph = replace(graph, weight_unit=_unit(parts["weight_unit"]))
    if "columns" in parts:
        graph = replace(graph, columns=_columns(parts["columns"], graph))
    return graph if target is None else _with_target(graph, target, parts["y"], parts["edge_index"])


def _member(member: Array, graph: Graph) -> Array:
    """Which graph each node belongs to, one after the other and with no edge between two."""
    member = member.astype(np.int64)
    steps = np.diff(member, prepend=0)
    if member.shape != (graph.num_nodes,) or not np.isin(steps, (0, 1)).all():
        raise ValueError("member must number the graphs of the nodes from 0, graph by graph")
    if (member[graph.edge_index[0]] != member[graph.edge_index[1]]).any():
        raise ValueError("an edge leads from one of the graphs into another")
    return member


def _features(parts: dict[str, Array]) -> Any:
    if "x_indptr" not in parts:
        return parts.get("x")
    rows, columns = parts["x_shape"].tolist()
    _check_backed(columns, parts["x_indices"].size, "feature columns")
    return sp.csr_array((parts["x_data"], parts["x_indices"], parts["x_indptr"]), shape=(rows, columns))


def _unit(value: Array) -> float:
    if not 0 < (unit := float(value)) < np.inf:
        raise ValueError(f"weights have the unit {unit}")
    return unit


def _columns(text: Array, graph: Graph) -> Columns:
    columns = Columns.from_values(parse_json(str(text)))
    if (columns.names or None) != graph.feature_names:
        raise ValueError("the columns of the node table do not make up the features")
    return columns


def _labels(parts: dict[str, Array]) -> tuple[Any, list[Any] | None, str]:
    """Labels by name, the classes, and the kind of target, where a file does not describe one."""
    y: Any = parts.get("y")
    if y is None and "y_multi" in parts:
        return parts["y_multi"], None, "tags"
    if "classes" not in parts:
        return y, None, "class"
    names = parts["classes"].tolist()
    if y is None:
        return None, names, "class"
    if (outside := np.flatnonzero((y != UNKNOWN) & ((y < 0) | (y >= len(names))))).size:
        raise ValueError(f"label {y[outside[0]]} of node {outside[0]} is not one of {len(names)} classes")
    # One None at the end stands for the unknown, which are counted as one class more.
    return _pick([*names, None], np.where(y == UNKNOWN, len(names), y)), names, "class"


def _target(text: Array) -> Target:
    """The target that JSON text in a file describes."""
    from dpmsnc.targets import target_from

    description = parse_json(str(text))
    if not isinstance(description, dict):
        raise ValueError(f"{description!r} does not say what a label is")
    return target_from(description)


def _with_target(graph: Graph, target: Target, labels: Array, edge_index: Array) -> Graph:
    """The graph with labels of that target, which must be well formed."""
    on_edges = getattr(target, "on", "node") == "edge"
    num_rows = graph.num_edges if on_edges else graph.num_nodes
    if labels.shape != target.unknown(num_rows).shape:
        raise ValueError(f"labels of shape {labels.shape} for {num_rows} rows")
    if on_edges and not np.array_equal(edge_index, graph.edge_index):
        raise ValueError("labels of edges that are not listed once and in order; write the file with Graph.to_npz")
    return replace(graph, target=target, y=target.encode(target.decode(labels)))


def _check_backed(count: int, entries: int, what: str) -> None:
    """Refuse a number that would have us allocate far more than a file holds."""
    if count > max(FEW, LARGEST_GROWTH * entries):
        raise ValueError(f"{count:,} {what}, but only {entries:,} entries")


def _pick(names: Any, positions: Array) -> Array:
    """`names[positions]`, where a negative position is a mistake and does not count from the end."""
    if positions.size and positions.min() < 0:
        raise IndexError(f"position {positions.min()} is negative")
    return plain_array(names)[positions]


def _storable(values: Any, what: str) -> Array:
    items = to_list(values)
    plain = len({type(v) for v in items}) <= 1 and all(isinstance(v, (str, int, float)) for v in items)
    # numpy would pickle numbers that are too large for it, and cut zeros off the end of text
    if not plain or (array := np.array(items)).dtype == object or array.tolist() != items:
        raise InputError(f"{what} must be all text or all numbers to be saved; rename them, for example with str()")
    return array
