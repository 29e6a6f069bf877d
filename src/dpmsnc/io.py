"""From what users have to a `Graph`, and back to a file.

The first half checks and cleans arrays for `Graph.build`; the second half reads tables, NetworkX, PyTorch Geometric,
scipy and .npz. pandas, networkx and torch are not imported before a function needs them, and nothing is unpickled.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph

Array = NDArray[Any]
SPLITS = ("train_mask", "val_mask", "test_mask")


def is_missing(value: Any) -> bool:
    """Whether a cell says nothing: None, NaN, pandas' NA or NaT, or blank text."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    # By name, so that asking does not import pandas.
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def plain_array(values: Any) -> Array:
    """Ids as an int64 array where all are whole numbers, else as an array of Python objects."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return values.astype(np.int64)
    items = [v.item() if isinstance(v, np.generic) else v for v in _to_list(values)]
    if all(_is_whole(v) for v in items):
        return np.array(items, dtype=np.int64)
    return np.fromiter(items, dtype=object, count=len(items))


def endpoints(edges: Any) -> tuple[Array, Array]:
    """Sources and targets of edges given as pairs, as a 2 x E array or as an E x 2 array (see `Graph.build`)."""
    if hasattr(edges, "itertuples"):
        edges = edges.itertuples(index=False, name=None)
    if hasattr(edges, "shape"):
        array = np.asarray(edges)
        if array.size == 0:
            array = np.empty((2, 0), dtype=np.int64)
        if array.ndim != 2 or 2 not in array.shape:
            raise InputError(f"edges have shape {array.shape}; pass a 2 x E or E x 2 array, or a list of pairs")
        rows = array if array.shape[0] == 2 else array.T
        return plain_array(rows[0]), plain_array(rows[1])
    pairs = list(edges)
    for k, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise InputError(
                f"edge {k} is not a pair: {_short(pair)}; a list of edges holds (source, target) pairs, "
                "while two rows of sources and targets go in as a 2 x E numpy array"
            )
    return plain_array([source for source, _ in pairs]), plain_array([target for _, target in pairs])


def node_ids(ids: Any, num_nodes: int | None, x: Any, y: Any, sources: Array, targets: Array) -> Array:
    """The name of each node, from `ids` or else from what is known about the number of nodes."""
    if ids is not None:
        names = plain_array(ids)
        _check_unique(names)
        if num_nodes is not None and num_nodes != len(names):
            raise InputError(f"num_nodes is {num_nodes} but there are {len(names)} ids; leave num_nodes out")
    elif sources.dtype == object or targets.dtype == object:
        names = plain_array(dict.fromkeys(name for pair in zip(sources, targets) for name in pair))
        if x is not None or y is not None or num_nodes not in (None, len(names)):
            raise InputError("edges name nodes by ids: pass ids= with one id per node, in the order of x and y")
    else:
        if num_nodes is None and (x is not None or y is not None):
            num_nodes = x.shape[0] if hasattr(x, "shape") else len(y if x is None else x)
        if num_nodes is None:
            num_nodes = 1 + max(sources.max(), targets.max()) if len(sources) else 0
        names = np.arange(num_nodes, dtype=np.int64)
    if not len(names):
        raise InputError(
            "the graph is empty: pass at least one edge, or num_nodes, ids, x or y for nodes without edges"
        )
    return names


def edge_positions(sources: Array, targets: Array, ids: Array) -> NDArray[np.int64]:
    """2 x E positions of the nodes that edges name."""
    n = len(ids)
    whole = sources.dtype != object and targets.dtype != object
    if whole and (not any(map(_is_whole, ids)) or np.array_equal(ids, np.arange(n))):
        positions = np.stack([sources, targets])
        outside = ((positions < 0) | (positions >= n)).any(axis=0)
    else:
        lookup = {name: k for k, name in enumerate(ids.tolist())}
        positions = np.array(
            [[lookup.get(name, -1) for name in row.tolist()] for row in (sources, targets)], dtype=np.int64
        )
        outside = (positions < 0).any(axis=0)
    if outside.any():
        k = int(np.argmax(outside))
        unknown = next(end for end, at in zip((sources[k], targets[k]), positions[:, k]) if not 0 <= at < n)
        raise InputError(
            f"edge {k} ({sources[k]!s}, {targets[k]!s}) names node {_short(unknown)}, which is not among the {n} "
            "nodes; add that node (to ids, the node table, or by a larger num_nodes) or drop the edge"
        )
    return positions


def simple_edges(positions: NDArray[np.int64], num_nodes: int) -> tuple[NDArray[np.int64], list[str]]:
    """Every undirected edge once (i < j), and notes on what had to go.

    A list that names every edge in both directions, as PyTorch Geometric does, is an undirected graph and no news.
    """
    notes = []
    i, j = positions[:, positions[0] != positions[1]]
    if loops := positions.shape[1] - len(i):
        notes.append(f"{_count(loops, 'self-loop')} removed")
    directed = np.unique(i * num_nodes + j)
    if repeats := len(i) - len(directed):
        notes.append(f"{_count(repeats, 'duplicate edge')} removed")
    edges = np.unique(np.minimum(i, j) * num_nodes + np.maximum(i, j))
    both_ways, one_way = len(directed) - len(edges), 2 * len(edges) - len(directed)
    if both_ways and one_way:
        notes.append(f"directions ignored: {_count(one_way, 'edge')} listed in one direction, {both_ways:,} in both")
    return np.stack(np.divmod(edges, num_nodes)), notes


def connectivity_notes(graph: Graph) -> list[str]:
    """Notes on nodes that known labels cannot reach."""
    components, isolated = graph.connectivity
    notes = []
    if isolated:
        notes.append(f"{_count(isolated, 'isolated node')}: predicted from their own features alone")
    if components - isolated > 1:
        notes.append(f"{_count(components, 'connected component')}: known labels do not reach from one to another")
    return notes


def clean_features(x: Any, ids: Array) -> sp.csr_array | NDArray[np.float32] | None:
    """Features as float32, sparse where given sparse; every value must be finite."""
    if x is None:
        return None
    try:
        with np.errstate(over="ignore"):
            clean: Any = (
                sp.csr_array(x, dtype=np.float32, copy=True) if sp.issparse(x) else np.array(x, dtype=np.float32)
            )
    except (TypeError, ValueError) as error:
        raise InputError(f"features must be an N x F array of numbers ({error}); encode text columns first") from error
    if clean.ndim != 2:
        raise InputError(
            f"features have shape {clean.shape}; pass an N x F array, x.reshape(-1, 1) for a single feature"
        )
    if clean.shape[0] != len(ids):
        raise InputError(f"features have {clean.shape[0]} rows for {len(ids)} nodes; pass one row per node, in order")
    if sp.issparse(clean):
        clean.sum_duplicates()
    if not np.isfinite(clean.data if sp.issparse(clean) else clean).all():
        bad = clean.tocoo() if sp.issparse(clean) else sp.coo_array(np.where(np.isfinite(clean), 0, clean))
        k = int(np.argmin(np.isfinite(bad.data)))
        raise InputError(
            f"feature column {bad.col[k]} of node {_short(ids[bad.row[k]])} is NaN or infinite; "
            "fill such values in (for example with the column's mean) or drop the column"
        )
    return clean if clean.shape[1] else None


def label_values(labels: Any, classes: Sequence[Any] | None = None) -> list[Any]:
    """Labels as Python values, None where unknown; in whole numbers -1 is unknown unless `classes` lists it."""
    if getattr(labels, "ndim", 1) > 1:
        if labels.shape[1:] != (1,):
            raise InputError(f"labels have shape {tuple(labels.shape)}; pass one label per node, not several")
        labels = labels.reshape(-1)
    values: list[Any] = [
        None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in _to_list(labels)
    ]
    try:
        present = set(values) - {None}
    except TypeError as error:
        raise InputError(f"a label must be a single value such as text or a number ({error})") from error
    if not all(map(_is_whole, present)):
        return values
    unknown = {None} if classes is not None and UNKNOWN in classes else {None, UNKNOWN}
    return [None if v in unknown else int(v) for v in values]


def encode_labels(values: list[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Labels to indices into `classes`; -1 for None."""
    lookup: dict[Any, int] = {name: k for k, name in enumerate(classes)} | {None: UNKNOWN}
    if strange := list(dict.fromkeys(v for v in values if v not in lookup)):
        raise InputError(
            f"labels outside the classes: {_short_list(strange)}; the classes are {_short_list(classes)}: "
            "correct the labels, leave them blank, or list every class in classes="
        )
    return np.array([lookup[v] for v in values], dtype=np.int64)


def clean_labels(y: Any, num_nodes: int, classes: Sequence[Any] | None) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Labels as indices into classes, and the classes."""
    values = [None] * num_nodes if y is None else label_values(y, classes)
    if len(values) != num_nodes:
        raise InputError(f"{len(values)} labels for {num_nodes} nodes; pass one per node, None where it is unknown")
    present = set(values) - {None}
    if classes is None:
        return encode_labels(values, names := _ordered(present)), names
    names = tuple(v.item() if isinstance(v, np.generic) else v for v in classes)
    if len(set(names)) < len(names):
        raise InputError("a class is listed twice in classes=; list each once")
    if not any(_is_whole(name) for name in names) and all(_is_whole(v) and 0 <= v < len(names) for v in present):
        values = [None if v is None else names[v] for v in values]
    return encode_labels(values, names), names


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
    edge_table = _table(edges, "edge", (source, target), 2)
    source, target = _column(edge_table, source, 0, "edge"), _column(edge_table, target, 1, "edge")
    ends = [_id_column(edge_table, name, "edge") for name in (source, target)]
    notes = [_ignored(edge_table.columns.drop([source, target]), "edge")]
    if nodes is None:
        if id is not None or label is not None or features is not None:
            raise InputError("id, label and features are columns of the node table; pass it as the second argument")
        names = np.stack(ends, axis=1).ravel().tolist()
        ids, x, y = plain_array(dict.fromkeys(names)), None, None
    else:
        node_table = _table(nodes, "node", (id, label), 1)
        id = _column(node_table, id, 0, "node")
        ids = _id_column(node_table, id, "node")
        y = None if label is None else _table_labels(node_table[_column(node_table, label, 0, "node")], nodes)
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


def _table(table: Any, kind: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
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
    except (ValueError, OSError) as error:
        raise InputError(f"cannot read the {kind} table {path}: {error}; check that the file is whole") from error
    return frame.reset_index() if frame.index.name is not None else frame


def _text_table(path: Path, separator: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
    import pandas as pd

    # utf-8-sig: spreadsheet programs put a byte order mark before the first column's name.
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "index_col": False}
    columns = pd.read_csv(path, nrows=0, **options).columns
    defaults = zip(text_columns[:num_first], columns)
    text = {*(column for name, column in defaults if name is None), *filter(None, text_columns)}
    # A class or a node may be called "NA" or "None"; only in feature columns do such words mean a gap.
    gaps = {c: ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"] for c in columns if c not in text}
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=gaps, **options)


def _column(table: Any, name: str | None, default: int, kind: str) -> str:
    if name is None and len(table.columns) <= default:
        raise InputError(
            f"the {kind} table has {len(table.columns)} columns, too few; an edge needs a source and a target"
        )
    if name is not None and name not in table.columns:
        raise InputError(f"the {kind} table has no column {name!r}; its columns are {_short_list(table.columns)}")
    return table.columns[default] if name is None else name


def _id_column(table: Any, name: str, kind: str) -> Array:
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


def _table_labels(column: Any, table: Any) -> list[Any]:
    """Labels of a table; whole numbers written in a text file are numbers, so that they sort and -1 is unknown."""
    values = label_values(column)
    text = [v for v in values if v is not None]
    if not hasattr(table, "columns") and text and all(isinstance(v, str) and _reads_as_whole(v) for v in text):
        return [None if v is None else int(v) for v in values]
    return values


def _table_features(table: Any, wanted: Sequence[str] | None, ids: Array) -> tuple[Any, str | None]:
    from pandas.api.types import is_numeric_dtype

    # "Unnamed: 0" is a row number that pandas wrote into the file, not a property of the node.
    usable = [c for c in table.columns if is_numeric_dtype(table[c]) and not str(c).startswith("Unnamed:")]
    chosen = usable if wanted is None else [_column(table, c, 0, "node") for c in wanted]
    for name in chosen:
        if name not in usable:
            raise InputError(f"column {name!r} is not numeric; encode it first, for example with pandas.get_dummies")
        if table[name].isna().any():
            node = ids[int(np.argmax(table[name].isna()))]
            raise InputError(f"feature {name!r} of node {_short(node)} is missing; fill it in or leave the column out")
    x = table[chosen].to_numpy(dtype=np.float32) if chosen else None
    return x, _ignored(table.columns.drop(chosen), "node")


def read_networkx(graph: Any, label: str | None, features: str | Sequence[str] | None) -> Graph:
    """`Graph.from_networkx`."""
    ids = plain_array(list(graph.nodes))
    y = None if label is None else [attributes.get(label) for _, attributes in graph.nodes(data=True)]
    x = None
    if features is not None:
        names = [features] if isinstance(features, str) else list(features)
        for name in names:
            if lacking := [node for node, attributes in graph.nodes(data=True) if name not in attributes]:
                raise InputError(f"node {_short(lacking[0])} has no attribute {name!r}; give every node that feature")
        x = [np.concatenate([np.atleast_1d(a[name]) for name in names]) for _, a in graph.nodes(data=True)]
    notes = []
    if graph.is_directed():
        notes.append(f"directions ignored: {_count(graph.number_of_edges(), 'directed edge')} read as undirected")
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
        f"directions ignored: {_count(graph.num_edges, 'edge')} listed in one direction" if one_way else None,
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
    except (OSError, EOFError, ValueError, BadZipFile) as error:
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
            # One None at the end stands for the unknown, which are counted as one class more.
            y = _pick([*names, None], np.where(y == UNKNOWN, len(names), y))
        graph = Graph.build(edges if ids is None else _pick(ids, edges), x=x, y=y, ids=ids, classes=names)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(f"{path} does not hold a graph ({error}); {advice}") from error
    several = "y_multi" in parts and y is None
    return _noted(
        graph,
        "y_multi ignored: a graph holds one label per node, so every label is unknown" if several else None,
        _unused_splits(name for name in SPLITS if name in parts),
    )


def save_npz(graph: Graph, path: str | os.PathLike[str]) -> None:
    """`Graph.to_npz`: written beside its destination and moved there, so that a file is whole or absent."""
    parts: dict[str, Any] = {"edge_index": graph.edge_index, "y": graph.y}
    parts |= {"ids": _storable(graph.ids, "node ids"), "classes": _storable(graph.classes, "classes")}
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


def _storable(values: Any, what: str) -> Array:
    items = _to_list(values)
    if len({type(v) for v in items}) > 1 or not all(isinstance(v, (str, int, float)) for v in items):
        raise InputError(f"{what} must be all text or all numbers to be saved; rename them, for example with str()")
    return np.array(items)


def _noted(graph: Graph, *notes: str | None) -> Graph:
    return replace(graph, notes=(*graph.notes, *filter(None, notes)))


def _ignored(columns: Iterable[Any], kind: str) -> str | None:
    names = list(columns)
    return f"ignored {kind} columns: {_short_list(names)}" if names else None


def _unused_splits(names: Iterable[str]) -> str | None:
    found = ", ".join(names)
    return f"{found} ignored: every label given counts as known" if found else None


def _check_unique(ids: Array) -> None:
    names = ids.tolist()
    if len(set(names)) < len(names):
        twice = next(name for name, number in Counter(names).items() if number > 1)
        raise InputError(f"node id {_short(twice)} occurs more than once; keep one row per node")


def _ordered(names: Iterable[Any]) -> tuple[Any, ...]:
    names = list(names)
    try:
        return tuple(sorted(names))
    except TypeError:
        return tuple(sorted(names, key=lambda name: (type(name).__name__, str(name))))


def _to_list(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _is_whole(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-(2**63) < value < 2**63) and value == int(value)


def _reads_as_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and str(int(text)) == text


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _short_list(values: Iterable[Any]) -> str:
    shown = [_short(value) for value in values]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") if shown else "none"
