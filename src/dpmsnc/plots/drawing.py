"""A picture of a graph of up to some thousand nodes, by the layout of NetworkX; classes differ in lightness."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.plots.diagrams import shortened
from dpmsnc.plots.figures import FONT, Labelling, draw_labelling, legend_handles, marks_of

MOST_NODES = 5000
"""Beyond, a layout takes minutes and its picture is a cloud."""
WORK = 60_000
"""Nodes times iterations of a layout."""
LARGEST_DOT = 10.0
"""In points."""


def plot_graph(graph: Graph, labels: Any = None, *, seed: int = 0, width: float = 6.0) -> Figure:
    """The nodes in the shades of their classes; known labels stand in a ring, unknown ones are white.

    Args:
        graph: One graph with a class for every known node.
        labels: Classes by name, one per node, such as those of `predict`; by default the known labels.
        seed: Fixes the layout.
        width: In inches.
    """
    from dpmsnc.targets import OneClass

    if not isinstance(graph.target, OneClass) or graph.target.on != "node":
        raise InputError("plot_graph colours nodes by their class; the labels of this graph are something else")
    if graph.num_nodes > MOST_NODES:
        raise InputError(
            f"a picture of {graph.num_nodes:,} nodes shows nothing; draw up to {MOST_NODES:,}, as in "
            "plot_graph(graph.subgraph(mask))"
        )
    y = graph.y if labels is None else graph.encode(labels)
    shown = Labelling(layout(graph, seed), graph.edge_index, graph.num_classes, y, graph.known)
    dot = float(np.clip(100 * width / max(graph.num_nodes, 1) ** 0.5 / 6, 1.5, LARGEST_DOT))
    with rc_context(FONT):
        figure = Figure(figsize=(width, width), layout="constrained")
        draw_labelling(figure.subplots(), shown, width, dot)
        handles = legend_handles([shortened(name) for name in graph.classes], *marks_of([shown]))
        figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, handletextpad=0.3)
    return figure


def layout(graph: Graph, seed: int = 0) -> NDArray[np.float64]:
    """Positions (nodes, 2) by the spring layout; the same seed gives the same."""
    drawn = nx.from_scipy_sparse_array(graph.adjacency)
    placed = nx.spring_layout(drawn, seed=seed, iterations=int(np.clip(WORK // max(graph.num_nodes, 1), 10, 60)))
    return np.array([placed[k] for k in range(graph.num_nodes)], dtype=np.float64).reshape(-1, 2)
