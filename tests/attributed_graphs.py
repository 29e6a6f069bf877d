"""Small attributed graphs for hypothesis, the same graphs with their nodes in another order, and 1-WL by its words."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dpmsnc.graph import Graph

MOST_NODES = 7


@st.composite
def attributed_graphs(draw: st.DrawFn, num_nodes: int | None = None) -> Graph:
    """Any graph of at most seven nodes, whose attributes have one of two values."""
    n = num_nodes or draw(st.integers(1, MOST_NODES))
    pairs = list(combinations(range(n), 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    x = draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=n, max_size=n))
    return Graph.build(edges, num_nodes=n, x=np.array(x)[:, None])


@st.composite
def lists_of_graphs(draw: st.DrawFn, least: int = 2, most: int = 5) -> list[Graph]:
    """Graphs of one size, some of them in two orders, so that equal and different colours are both common."""
    n = draw(st.integers(2, MOST_NODES))
    graphs = draw(st.lists(attributed_graphs(n), min_size=least, max_size=most))
    again = draw(st.sampled_from(graphs))
    return [*graphs, relabelled(again, draw(st.permutations(range(n))))]


def relabelled(graph: Graph, order: Any) -> Graph:
    """The graph with node i at position order[i]."""
    order = np.asarray(order)
    x = None if graph.x is None else np.asarray(graph.x)[np.argsort(order)]
    return Graph.build(order[graph.edge_index].reshape(2, -1).T.tolist(), num_nodes=graph.num_nodes, x=x)


def spelled_colour(graph: Graph, marks: Any, rounds: int) -> frozenset[Any]:
    """The graph colour that Algorithm 3 gives, with tuples in place of a hash."""
    x = np.zeros((graph.num_nodes, 0)) if graph.x is None else np.asarray(graph.x)
    neighbours: list[list[int]] = [[] for _ in range(graph.num_nodes)]
    for i, j in graph.edge_index.T.tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    colours: list[Any] = [(*map(float, row), int(mark)) for row, mark in zip(x, marks)]
    for _ in range(rounds):
        colours = [(colours[v], tuple(sorted(colours[u] for u in neighbours[v]))) for v in range(graph.num_nodes)]
    return frozenset(Counter(colours).items())


def same_partition(first: Any, second: Any) -> bool:
    """Whether two lists of names are equal at the same places."""
    a, b = (list(map(list(names).index, names)) for names in (first, second))
    return a == b
