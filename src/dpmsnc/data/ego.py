r"""Neighbourhoods as graphs of their own.

The ego graph of a node c is what the nodes M(c) = {c} ∪ { j : (c, j) in E } induce: these nodes and every edge that has
both ends among them. It has |M(c)| nodes and, in an undirected graph, deg(c) edges and one for every triangle that c is
in.

All ego graphs are cut out at once. Pairs (c, i) with i in M(c) are the entries of a sparse matrix; every edge (i, j),
listed with the end of fewer neighbours first, is tried for every pair (c, i), and is kept where (c, j) is a pair too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.clean import check_sequence, to_list

Positions = NDArray[np.int64]
AT_ONCE = 10**6
"""Pairs of an ego graph and an edge that are tried at once, which bounds the memory."""


def ego_graphs(graph: Graph, nodes: Iterable[Any] | NDArray[np.bool_]) -> list[Graph]:
    """The ego graph of each of these nodes, in their order; directions are ignored in finding the neighbours.

    Nodes of an ego graph keep their ids, features, labels and order, edges their features, labels and order.

    Args:
        graph: The graph to cut them out of.
        nodes: Ids of the nodes in the middle, or a mask of N booleans.

    Example:
        >>> graph = Graph.build([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
        >>> [(ego.ids.tolist(), ego.num_edges) for ego in ego_graphs(graph, ["a", "d"])]
        [(['a', 'b', 'c'], 3), (['c', 'd'], 1)]
    """
    centres = _positions(graph, nodes)
    pairs = graph.adjacency[centres] + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")[centres]
    pairs.sort_indices()
    inside = pairs.indices.astype(np.int64)
    # ego graph and node of every pair as one number, ascending
    keys = np.repeat(np.arange(len(centres)), np.diff(pairs.indptr)) * graph.num_nodes + inside
    edges, ego = _edges_inside(graph, keys)
    side_by_side = Graph(
        num_nodes=len(keys),
        edge_index=np.searchsorted(keys, graph.edge_index[:, edges] + ego * graph.num_nodes),
        x=None if graph.x is None else graph.x[inside],
        y=graph.y[edges if graph.target.on == "edge" else inside],
        target=graph.target,
        ids=graph.ids[inside],
        feature_names=graph.feature_names,
        edge_attr=None if graph.edge_attr is None else graph.edge_attr[edges],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[edges],
        weight_unit=graph.weight_unit,
        directed=graph.directed,
        columns=graph.columns,
        edge_feature_names=graph.edge_feature_names,
    )
    bounds = pairs.indptr.tolist(), np.searchsorted(ego, np.arange(len(centres) + 1)).tolist()
    return [_cut(side_by_side, slice(*n), slice(*e)) for n, e in zip(*map(pairwise, bounds))]


def _cut(union: Graph, nodes: slice, edges: slice) -> Graph:
    """The graph of these nodes and edges, of which no other edge has an end among the nodes."""
    return replace(
        union,
        num_nodes=nodes.stop - nodes.start,
        edge_index=union.edge_index[:, edges] - nodes.start,
        x=None if union.x is None else union.x[nodes],
        y=union.y[edges if union.target.on == "edge" else nodes],
        ids=union.ids[nodes],
        edge_attr=None if union.edge_attr is None else union.edge_attr[edges],
        edge_weight=None if union.edge_weight is None else union.edge_weight[edges],
    )


def _edges_inside(graph: Graph, keys: Positions) -> tuple[Positions, Positions]:
    """The edges of all ego graphs, and which ego graph each of them is in: ascending, edges of one in order."""
    degree = np.diff(graph.adjacency.indptr)
    ends = graph.edge_index
    first, second = np.where(degree[ends[0]] <= degree[ends[1]], ends, ends[::-1])
    # edges by their first end: a hub has few of them, since most lead to it from nodes of fewer neighbours
    order = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[order], np.arange(graph.num_nodes + 1))
    ego, node = np.divmod(keys, graph.num_nodes)
    counts = starts[node + 1] - starts[node]
    parts = np.flatnonzero(np.diff(np.cumsum(counts) // AT_ONCE, prepend=-1)).tolist()
    found = []
    for low, high in pairwise([*parts, len(keys)]):
        number = counts[low:high]
        shift = np.repeat(starts[node[low:high]] - (np.cumsum(number) - number), number)
        tried, of = order[np.arange(number.sum()) + shift], np.repeat(ego[low:high], number)
        wanted = of * graph.num_nodes + second[tried]
        hit = keys[np.searchsorted(keys, wanted).clip(max=len(keys) - 1)] == wanted
        found.append(np.stack([tried[hit], of[hit]]))
    edges, ego = np.concatenate(found, axis=1) if found else np.empty((2, 0), dtype=np.int64)
    order = np.lexsort([edges, ego])
    return edges[order], ego[order]


def _positions(graph: Graph, nodes: Iterable[Any] | NDArray[np.bool_]) -> Positions:
    check_sequence(nodes, "nodes")
    values = to_list(nodes)
    if not values or not all(isinstance(value, bool) for value in values):
        return graph.index(values)
    if len(values) != graph.num_nodes:
        raise InputError(f"a mask of {len(values)} for {graph.num_nodes} nodes; pass one boolean per node, or ids")
    return np.flatnonzero(values)
