"""Arrays and plain Python values as users have them, checked and cleaned for `Graph.build`.

Every check that fails raises an `InputError` that names the node, edge or value and says what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.graph import UNKNOWN, Graph

Array = NDArray[Any]


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
    items = [v.item() if isinstance(v, np.generic) else v for v in to_list(values)]
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
                f"edge {k} is not a pair: {short(pair)}; a list of edges holds (source, target) pairs, "
                "while two rows of sources and targets go in as a 2 x E numpy array"
            )
    return plain_array([source for source, _ in pairs]), plain_array([target for _, target in pairs])


def node_ids(ids: Any, num_nodes: int | None, x: Any, y: Any, sources: Array, targets: Array) -> Array:
    """The name of each node, from `ids` or else from what is known about the number of nodes."""
    if ids is not None:
        names = plain_array(ids)
        check_unique(names)
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
            f"edge {k} ({sources[k]!s}, {targets[k]!s}) names node {short(unknown)}, which is not among the {n} "
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
        notes.append(f"{counted(loops, 'self-loop')} removed")
    directed = distinct(i * num_nodes + j)
    if repeats := len(i) - len(directed):
        notes.append(f"{counted(repeats, 'duplicate edge')} removed")
    edges = distinct(np.minimum(i, j) * num_nodes + np.maximum(i, j))
    both_ways, one_way = len(directed) - len(edges), 2 * len(edges) - len(directed)
    if both_ways and one_way:
        notes.append(f"directions ignored: {counted(one_way, 'edge')} listed in one direction, {both_ways:,} in both")
    return np.stack(np.divmod(edges, num_nodes)), notes


def distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """`np.unique`, which hashes and takes a hundred times as long on millions of integers."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=keys[:1] - 1) != 0]


def connectivity_notes(graph: Graph) -> list[str]:
    """Notes on nodes that known labels cannot reach."""
    components, isolated = graph.connectivity
    notes = []
    if isolated:
        notes.append(f"{counted(isolated, 'isolated node')}: predicted from their own features alone")
    if components - isolated > 1:
        notes.append(f"{counted(components, 'connected component')}: known labels do not reach from one to another")
    return notes


def clean_features(x: Any, ids: Array) -> sp.csr_array | NDArray[np.float32] | None:
    """Features as float32, sparse where given sparse; every value must be finite."""
    if x is None:
        return None
    try:
        if hasattr(x, "check_format"):
            x = x.copy()
            x.check_format(full_check=True)  # indices beyond the shape would be read from anywhere in memory
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
            f"feature column {bad.col[k]} of node {short(ids[bad.row[k]])} is NaN or infinite; "
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
        None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in to_list(labels)
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
            f"labels outside the classes: {short_list(strange)}; the classes are {short_list(classes)}: "
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


def check_unique(ids: Array) -> None:
    """Raise `InputError` where two nodes have the same id."""
    names = ids.tolist()
    if len(set(names)) < len(names):
        twice = next(name for name, number in Counter(names).items() if number > 1)
        raise InputError(f"node id {short(twice)} occurs more than once; keep one row per node")


def _ordered(names: Iterable[Any]) -> tuple[Any, ...]:
    names = list(names)
    try:
        return tuple(sorted(names))
    except TypeError:
        return tuple(sorted(names, key=lambda name: (type(name).__name__, str(name))))


def to_list(values: Any) -> list[Any]:
    """The values as Python's own."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _is_whole(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-(2**63) < value < 2**63) and value == int(value)


def counted(number: int, thing: str) -> str:
    """ "1 edge", "1,200 edges"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def short(value: Any) -> str:
    """A value in a message."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def short_list(values: Iterable[Any]) -> str:
    """The first few values in a message."""
    shown = [short(value) for value in values]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") if shown else "none"
