"""From what users have to a `Graph`, and back to a file: tables, NetworkX, PyTorch Geometric, scipy and .npz.

pandas, networkx and torch are not imported before a function needs them, and nothing is unpickled.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import Array, counted, is_missing, label_values, plain_array, short, short_list, to_list
from dpmsnc.graph.graph import UNKNOWN, Graph

SPLITS = ("train_mask", "val_mask", "test_mask")
WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")
"""A whole number in a text file, which pandas writes as 1.0 where others in its column are missing."""
GAPS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
"""What stands for a missing number in a text file."""


def read_tables(
    edges: Any,
    nodes: Any,
    *,
    id: str | None,
    label: str | None,
    source: str | None,
    target: str | None,
    features: Sequence[str] | None,
) -> Graph:
    """`Graph.from_tables`."""
    edge_table = read_table(edges, "edge", (source, target), 2)
    source, target = (column(edge_table, name, "edge") for name in with_unnamed((source, target), edge_table.columns))
    if source == target:
        raise InputError(f"source and target are both the column {source!r}; name one column for each end")
    ends = [id_column(edge_table, name, "edge") for name in (source, target)]
    notes = [_ignored(edge_table.columns.drop([source, target]), "edge")]
    if nodes is None:
        if id is not None or label is not None or features is not None:
            raise InputError("id, label and features are columns of the node table; pass it as the second argument")
        names = np.stack(ends, axis=1).ravel().tolist()
        ids, x, y = plain_array(dict.fromkeys(names)), None, None
    else:
        node_table = read_table(nodes, "node", (id, label), 1)
        id = column(node_table, unnamed_id(node_table, label) if id is None else id, "node")
        ids = id_column(node_table, id, "node")
        y = None if label is None else table_labels(node_table[column(node_table, label, "node")], nodes)
        others = node_table.drop(columns=[id] if label is None else list({id, label}))
        x, ignored = _table_features(others, features, ids)
        notes.append(ignored)
        ends = _same_type(ends, ids)
    if not hasattr(edges, "columns") and {source, target} <= {str(name) for name in ids.tolist()}:
        raise InputError(
            f"the edge table seems to lack a header: its first line, {source} and {target}, names nodes; "
            "add a line with column names above it"
        )
    graph = Graph.build(np.stack(ends), x=x, y=y, ids=ids)
    if label is None:
        notes.append("no label column was named (label=): every label is unknown")
    return _noted(graph, *notes)


def read_table(table: Any, kind: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
    """A DataFrame; in a text file `text_columns` stay as written, unnamed ones being the first `num_first` columns."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        # A named index is a column to its owner.
        return table.reset_index() if table.index.name is not None else table
    path = Path(table)
    if not path.is_file():
        raise InputError(f"there is no {kind} table {path}; check the path")
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((".csv", ".tsv", ".parquet", ".pq")):
        raise InputError(f"cannot tell what kind of table {path} is; use .csv, .tsv or .parquet")
    try:
        if name.endswith((".csv", ".tsv")):
            return _text_table(path, "\t" if name.endswith(".tsv") else ",", text_columns, num_first)
        frame = pd.read_parquet(path)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read the {kind} table {path}: {error}; check that the file is whole") from error
    return frame.reset_index() if frame.index.name is not None else frame


def _text_table(path: Path, separator: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
    import pandas as pd

    # utf-8-sig: spreadsheet programs put a byte order mark before the first column's name.
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "index_col": False}
    columns = pd.read_csv(path, nrows=0, **options).columns
    others = [c for c in columns if c not in text_columns[num_first:]]
    text = {*filter(None, (*with_unnamed(text_columns[:num_first], others), *text_columns))}
    # A class or a node may be called "NA" or "None"; only in feature columns do such words mean a gap.
    gaps = {c: GAPS for c in columns if c not in text}
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=gaps, **options)


def with_unnamed(names: Sequence[str | None], columns: Iterable[str]) -> list[str | None]:
    """The names, with the first columns that are not named in place of None; None where there is no column left."""
    unnamed = (c for c in columns if c not in names)
    return [next(unnamed, None) if name is None else name for name in names]


def unnamed_id(table: Any, label: str | None) -> str | None:
    """The first column that does not hold the labels, or the one that does where there is no other."""
    return next((c for c in table.columns if c != label), label)


def column(table: Any, name: str | None, kind: str) -> str:
    """The column `name`, which must be there."""
    if name is None:
        raise InputError(
            f"the {kind} table has {len(table.columns)} columns, too few; an edge needs a source and a target"
        )
    if name not in table.columns:
        raise InputError(f"the {kind} table has no column {name!r}; its columns are {short_list(table.columns)}")
    return name


def id_column(table: Any, name: str, kind: str) -> Array:
    """The node ids in a column; none may be missing."""
    values = table[name].tolist()
    for row, value in enumerate(values):
        if is_missing(value):
            raise InputError(f"row {row} of the {kind} table has no {name!r}; fill it in or drop the row")
    return plain_array(values)


def _same_type(ends: list[Array], ids: Array) -> list[Array]:
    """Text files know no numbers: an id that is text in one table and a number in the other is the same id."""
    if all(end.dtype == ids.dtype for end in ends):
        return ends
    by_text = {str(name): name for name in ids.tolist()}
    return [np.array([by_text.get(str(v), str(v)) for v in end.tolist()], dtype=object) for end in ends]


def table_labels(column: Any, table: Any) -> list[Any]:
    """Labels of a table of nodes; where all are whole numbers in a text file, they are numbers: they sort, and -1 and
    words for a gap are unknown."""
    values = label_values(column)
    text = [v for v in values if v is not None and v not in GAPS]
    if not hasattr(table, "columns") and text and all(isinstance(v, str) and WHOLE.fullmatch(v) for v in text):
        return label_values([None if v is None or v in GAPS else int(v.partition(".")[0]) for v in values])
    return values


def _table_features(table: Any, wanted: Sequence[str] | None, ids: Array) -> tuple[Any, str | None]:
    from pandas.api.types import is_numeric_dtype

    # "Unnamed: 0" is a row number that pandas wrote into the file, not a property of the node.
    usable = [c for c in table.columns if is_numeric_dtype(table[c]) and not str(c).startswith("Unnamed:")]
    chosen = usable if wanted is None else [column(table, c, "node") for c in wanted]
    for name in chosen:
        if name not in usable:
            raise InputError(f"column {name!r} is not numeric; encode it first, for example with pandas.get_dummies")
        if table[name].isna().any():
            node = ids[int(np.argmax(table[name].isna()))]
            raise InputError(f"feature {name!r} of node {short(node)} is missing; fill it in or leave the column out")
    x = table[chosen].to_numpy(dtype=np.float32) if chosen else None
    return x, _ignored(table.columns.drop(chosen), "node")


def read_networkx(graph: Any, label: str | None, features: str | Sequence[str] | None) -> Graph:
    """`Graph.from_networkx`."""
    ids = plain_array(list(graph.nodes))
    y = None if label is None else [attributes.get(label) for _, attributes in graph.nodes(data=True)]
    x = None
    names = [features] if isinstance(features, str) else list(features or ())
    if names:
        for name in names:
            if lacking := [node for node, attributes in graph.nodes(data=True) if name not in attributes]:
                raise InputError(f"node {short(lacking[0])} has no attribute {name!r}; give every node that feature")
        x = [np.concatenate([np.atleast_1d(a[name]) for name in names]) for _, a in graph.nodes(data=True)]
    notes = []
    if graph.is_directed():
        notes.append(f"directions ignored: {counted(graph.number_of_edges(), 'directed edge')} read as undirected")
    if y is not None and all(value is None for value in y):
        notes.append(f"no node has the attribute {label!r}: every label is unknown")
    return _noted(Graph.build(list(graph.edges()), ids=ids, x=x, y=y), *notes)


def read_pyg(data: Any) -> Graph:
    """`Graph.from_pyg`."""
    edge_index: Any = getattr(data, "edge_index", None)
    x: Any = getattr(data, "x", None)
    y: Any = getattr(data, "y", None)
    if edge_index is None or isinstance(edge_index, dict):
        raise InputError("expected a torch_geometric Data with edge_index; convert other kinds of data first")
    if x is not None and str(x.layout) != "torch.strided":
        entries = x.detach().cpu().to_sparse_coo().coalesce()
        x = sp.coo_array((entries.values().numpy(), entries.indices().numpy()), shape=tuple(entries.shape))
    x, y = (v.detach().cpu().numpy() if hasattr(v, "detach") else v for v in (x, y))
    edges = edge_index.detach().cpu().numpy().astype(np.int64)
    graph = Graph.build(edges, num_nodes=data.num_nodes, x=x, y=y)
    one_way = (
        edges.shape[1]
        and not np.isin(edges[0] * graph.num_nodes + edges[1], edges[1] * graph.num_nodes + edges[0]).any()
    )
    return _noted(
        graph,
        f"directions ignored: {counted(graph.num_edges, 'edge')} listed in one direction" if one_way else None,
        _unused_splits(name for name in SPLITS if name in data),
    )


def read_scipy(adjacency: Any, x: Any, y: Any, classes: Sequence[Any] | None, ids: Any) -> Graph:
    """`Graph.from_scipy`."""
    matrix = sp.coo_array(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the adjacency matrix has shape {matrix.shape}; it must be square, one row per node")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    names = np.arange(matrix.shape[0]) if ids is None else plain_array(ids)
    if len(names) != matrix.shape[0]:
        raise InputError(f"{len(names)} ids for an adjacency matrix of {matrix.shape[0]} rows; pass one id per row")
    graph = Graph.build(names[np.stack([matrix.row, matrix.col])], x=x, y=y, classes=classes, ids=names)
    return _noted(graph, None if (matrix.data == 1).all() else "edge weights ignored: every non-zero entry is an edge")


def load_npz(path: str | os.PathLike[str]) -> Graph:
    """`Graph.from_npz`."""
    advice = "pass an .npz file as described in docs/data.md"
    try:
        with Path(path).open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            parts: dict[str, Any] = dict(stored) if isinstance(stored, np.lib.npyio.NpzFile) else {}
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error) as error:
        raise InputError(f"cannot read {path} as a graph ({error}); {advice}") from error
    if "edge_index" not in parts:
        raise InputError(f"{path} has no edge_index; {advice}")
    y, ids, classes = (parts.get(key) for key in ("y", "ids", "classes"))
    edges, x = parts["edge_index"], parts.get("x")
    try:
        if "x_indptr" in parts:
            x = sp.csr_array((parts["x_data"], parts["x_indices"], parts["x_indptr"]), shape=tuple(parts["x_shape"]))
        names = None if classes is None else classes.tolist()
        if names is not None and y is not None:
            if (outside := np.flatnonzero((y != UNKNOWN) & ((y < 0) | (y >= len(names))))).size:
                raise ValueError(f"label {y[outside[0]]} of node {outside[0]} is not one of {len(names)} classes")
            # One None at the end stands for the unknown, which are counted as one class more.
            y = _pick([*names, None], np.where(y == UNKNOWN, len(names), y))
        graph = Graph.build(edges if ids is None else _pick(ids, edges), x=x, y=y, ids=ids, classes=names)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not hold a graph ({error}); {advice}") from error
    several = "y_multi" in parts and y is None
    return _noted(
        graph,
        "y_multi ignored: a graph holds one label per node, so every label is unknown" if several else None,
        _unused_splits(name for name in SPLITS if name in parts),
    )


def save_npz(graph: Graph, path: str | os.PathLike[str]) -> None:
    """`Graph.to_npz`: written beside its destination and moved there, so that a file is whole or absent."""
    parts: dict[str, Any] = {"edge_index": graph.edge_index, "y": graph.y} | storable_names(graph)
    if sp.issparse(graph.x):
        parts |= {f"x_{name}": getattr(graph.x, name) for name in ("indptr", "indices", "data", "shape")}
    elif graph.x is not None:
        parts["x"] = graph.x
    target = Path(path)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as file:
            np.savez_compressed(file, **parts)
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def _pick(names: Any, positions: Array) -> Array:
    """`names[positions]`, where a negative position is a mistake and does not count from the end."""
    if positions.size and positions.min() < 0:
        raise IndexError(f"position {positions.min()} is negative")
    return plain_array(names)[positions]


def storable_names(graph: Graph) -> dict[str, Array]:
    """Ids and classes as arrays that are stored without pickles, or an `InputError`; worth asking before long work."""
    return {"ids": _storable(graph.ids, "node ids"), "classes": _storable(graph.classes, "classes")}


def _storable(values: Any, what: str) -> Array:
    items = to_list(values)
    plain = len({type(v) for v in items}) <= 1 and all(isinstance(v, (str, int, float)) for v in items)
    # numpy would pickle numbers that are too large for it, and cut zeros off the end of text
    if not plain or (array := np.array(items)).dtype == object or array.tolist() != items:
        raise InputError(f"{what} must be all text or all numbers to be saved; rename them, for example with str()")
    return array


def _noted(graph: Graph, *notes: str | None) -> Graph:
    return replace(graph, notes=(*graph.notes, *filter(None, notes)))


def _ignored(columns: Iterable[Any], kind: str) -> str | None:
    names = list(columns)
    return f"ignored {kind} columns: {short_list(names)}" if names else None


def _unused_splits(names: Iterable[str]) -> str | None:
    found = ", ".join(names)
    return f"{found} ignored: every label given counts as known" if found else None
