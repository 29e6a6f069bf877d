"""Edges as users have them, checked and cleaned for `Graph.build`: which nodes they name, and every one once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import Array, check_names, check_unique, counted, is_whole, numbers, plain_array, short
from dpmsnc.graph.graph import Graph
from dpmsnc.graph.sparse import checked

MOST_NODES = 3_037_000_499
"""With more, the number i * num_nodes + j of an edge does not fit into 64 bits."""


def endpoints(edges: Any) -> tuple[Array, Array]:
    """Sources and targets of edges given as pairs, as a 2 x E array or as an E x 2 array (see `Graph.build`)."""
    _check_edge_type(edges)
    if hasattr(edges, "shape"):
        array = np.asarray(edges.detach().cpu() if hasattr(edges, "detach") else edges)
        if array.size == 0:
            array = np.empty((2, 0), dtype=np.int64)
        if array.ndim != 2 or 2 not in array.shape:
            raise InputError(f"edges have shape {array.shape}; pass a 2 x E or E x 2 array, or a list of pairs")
        rows = array if array.shape[0] == 2 else array.T
        return _ends(rows[0]), _ends(rows[1])
    pairs = list(edges)
    for k, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise InputError(
                f"edge {k} is not a pair: {short(pair)}; a list of edges holds (source, target) pairs, "
                "while two rows of sources and targets go in as a 2 x E numpy array"
            )
    return _ends([source for source, _ in pairs]), _ends([target for _, target in pairs])


def _check_edge_type(edges: Any) -> None:
    """Raise `InputError` where another constructor reads what was given as edges, or none does."""
    reader = ""
    if hasattr(edges, "columns") or isinstance(edges, (str, bytes, PathLike)):
        reader = "; a table or a file is read by Graph.from_tables"
    elif sp.issparse(edges):
        reader = "; a matrix is read by Graph.from_scipy"
    elif hasattr(edges, "is_directed"):
        reader = "; a graph of another library is read by Graph.from_networkx or Graph.from_pyg"
    unusable = isinstance(edges, Mapping) or not (hasattr(edges, "shape") or isinstance(edges, Iterable))
    if reader or unusable:
        kind = type(edges).__name__
        raise InputError(f"edges are of type {kind}; pass a list of (source, target) pairs or a 2 x E array{reader}")


def _ends(values: Any) -> Array:
    ends = plain_array(values)
    check_names(ends, "an end of edge")
    return ends


def node_ids(ids: Any, num_nodes: int | None, x: Any, y: Any, sources: Array, targets: Array) -> Array:
    """The name of each node, from `ids` or else from what is known about the number of nodes."""
    if num_nodes is not None:
        num_nodes = _whole_number(num_nodes, "num_nodes")
    if ids is not None:
        names = plain_array(ids)
        check_names(names, "id")
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
            num_nodes = 1 + int(max(sources.max(), targets.max())) if len(sources) else 0
        check_size(num_nodes)
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
    if whole and (not any(map(is_whole, ids)) or np.array_equal(ids, np.arange(n))):
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


def check_size(num_nodes: int) -> None:
    """Raise `InputError` where edges between so many nodes cannot be numbered."""
    if num_nodes > MOST_NODES:
        raise InputError(
            f"{num_nodes:,} nodes are more than the {MOST_NODES:,} that can be told apart; "
            "if edges name nodes by large numbers, pass these as ids="
        )


def simple_edges(
    positions: NDArray[np.int64],
    num_nodes: int,
    edge_attr: NDArray[np.float32] | None = None,
    directed: bool = False,
    weight: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None, NDArray[np.float32] | None, list[str]]:
    """Every edge once, its features, its weight, and notes on what had to go; an undirected edge is listed as i < j.
    Weights of one edge add up.

    A list that names every edge in both directions, as PyTorch Geometric does, is an undirected graph and no news.
    """
    check_size(num_nodes)
    notes = []
    proper = positions[0] != positions[1]
    i, j = positions[:, proper]
    if loops := positions.shape[1] - len(i):
        notes.append(f"{counted(loops, 'self-loop')} removed")
    keys = i * num_nodes + j
    edges = listed = distinct(keys)
    if repeats := len(i) - len(listed):
        done = "removed" if weight is None else "added up"
        notes.append(f"{counted(repeats, 'duplicate edge')} {done}")
    if not directed:
        keys = np.minimum(i, j) * num_nodes + np.maximum(i, j)
        edges = distinct(keys)
        both_ways, one_way = len(listed) - len(edges), 2 * len(edges) - len(listed)
        if both_ways and one_way:
            one = counted(one_way, "edge")
            notes.append(f"directions ignored: {one} listed in one direction, {both_ways:,} in both")
    if edge_attr is not None:
        edge_attr, differing = _first_rows(keys, edge_attr[proper])
        if differing:
            several = counted(differing, "edge")
            notes.append(f"{several} listed more than once with different features: those of the first row are kept")
    total = None if weight is None else _totals(keys, edges, weight[proper])
    return np.stack(np.divmod(edges, num_nodes)), edge_attr, total, notes


def _totals(keys: NDArray[np.int64], edges: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float32]:
    """The sum of the weights of every key."""
    return np.bincount(np.searchsorted(edges, keys), weight, len(edges)).astype(np.float32)


def _first_rows(keys: NDArray[np.int64], rows: Array) -> tuple[Array, int]:
    """The first row of every key, keys ascending, and the number of keys that have other rows too."""
    order = np.argsort(keys, kind="stable")
    starts = np.diff(keys[order], prepend=keys[order[:1]] - 1) != 0
    first, key = order[starts], np.cumsum(starts) - 1
    differs = (rows[order] != rows[first[key]]).any(axis=1)
    return rows[first], len(distinct(key[differs]))


def distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """`np.unique`, which hashes and takes a hundred times as long on millions of integers."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=keys[:1] - 1) != 0]


def with_edge_values(graph: Graph, positions: NDArray[np.int64], edge_y: Any, y: Any) -> Graph:
    """The graph with numbers as labels of its edges, which were listed as `positions`."""
    from dpmsnc.targets import RealValue

    if y is not None:
        raise InputError("labels are those of nodes (y) or of edges (edge_y); pass one of the two")
    _, values = RealValue.from_values(edge_y, positions.shape[1])
    said = (positions[0] != positions[1]) & ~np.isnan(values)
    i, j = positions[:, said] if graph.directed else np.sort(positions[:, said], axis=0)
    keys = i * graph.num_nodes + j
    first, differing = _first_rows(keys, values[said, None])
    numbers = np.full(graph.num_edges, np.nan)
    listed = graph.edge_index[0] * graph.num_nodes + graph.edge_index[1]
    numbers[np.searchsorted(listed, distinct(keys))] = first[:, 0]
    target, labels = RealValue.from_values(numbers, graph.num_edges)
    if differing:
        several = counted(differing, "edge")
        note = f"{several} listed more than once with different numbers: the first of each is kept"
        graph = replace(graph, notes=(*graph.notes, note))
    return graph.with_labels(labels, replace(target, on="edge"))


def clean_edge_features(edge_attr: Any, num_edges: int) -> NDArray[np.float32] | None:
    """Edge features as a dense float32 array with a row per edge; one number per edge is one column."""
    if edge_attr is None:
        return None
    sparse = sp.issparse(edge_attr)
    clean = numbers(checked(edge_attr, "edge features").toarray() if sparse else edge_attr, "edge features")
    clean = clean[:, None] if clean.ndim == 1 else clean
    if clean.ndim != 2 or len(clean) != num_edges:
        raise InputError(
            f"edge features have shape {clean.shape}; pass one row for each of the {num_edges} edges given"
        )
    if not np.isfinite(clean).all():
        row, column = np.argwhere(~np.isfinite(clean))[0]
        raise InputError(f"column {column} of edge {row} is NaN or infinite; fill such values in or drop the column")
    return clean if clean.shape[1] else None


def clean_edge_weights(weight: Any, num_edges: int, where: Callable[[int], str] | None = None) -> Any:
    """Weights in double precision, one per edge and all positive; `where` says what an edge is called in messages."""
    if weight is None:
        return None
    weight = numbers(weight, "edge weights")
    if weight.shape != (num_edges,):
        raise InputError(f"edge weights have shape {weight.shape}; pass one number for each of the {num_edges} edges")
    sound = np.isfinite(weight) & (weight > 0)
    if not sound.all():
        k = int(np.argmin(sound))
        said = "missing" if np.isnan(weight[k]) else f"{weight[k]:g}"
        place = where(k) if where is not None else f"edge {k}"
        raise InputError(
            f"the weight of {place} is {said}; a weight is a positive number: correct it, or drop edges that are none"
        )
    return weight.astype(np.float64)


def connectivity_notes(graph: Graph) -> list[str]:
    """Notes on nodes that known labels cannot reach."""
    components, isolated = graph.connectivity
    notes = []
    if isolated:
        notes.append(f"{counted(isolated, 'isolated node')}: predicted from their own features alone")
    if components - isolated > 1:
        notes.append(f"{counted(components, 'connected component')}: known labels do not reach from one to another")
    return notes


def _whole_number(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {short(value)}; pass a whole number") from None


def matrix(entries: NDArray[np.int64], num_nodes: int, weight: NDArray[np.float32] | None = None) -> sp.csr_array:
    """The matrix of these 2 x E entries, rows above columns: 1 where an entry is listed, or the sum of its weights."""
    if weight is not None:
        return sp.csr_array((weight, tuple(entries)), shape=(num_nodes, num_nodes))
    ones = np.ones(entries.shape[1], dtype=np.float32)
    found = sp.csr_array((ones, tuple(entries)), shape=(num_nodes, num_nodes))
    found.data[:] = 1
    return found


def both_ways(edge_index: NDArray[np.int64], num_nodes: int, weight: NDArray[np.float32] | None = None) -> sp.csr_array:
    """The symmetric matrix of these edges."""
    twice = None if weight is None else np.concatenate([weight, weight])
    return matrix(np.concatenate([edge_index, edge_index[::-1]], axis=1), num_nodes, twice)


def components(adjacency: sp.csr_array) -> tuple[int, int]:
    """Number of connected components, and how many of them are single nodes without an edge."""
    number = connected_components(adjacency, directed=False, return_labels=False)
    return int(number), int((np.diff(adjacency.indptr) == 0).sum())
