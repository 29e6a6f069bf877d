"""Pictures of colour refinement: small graphs whose nodes bear the numbers of their colours.

A colour is told by its number, and by a fill from light to dark; a marked node stands in a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.plots.figures import EDGE, FONT, INK, MUTED

DOT, RING = 240.0, 420.0
"""Areas in square points."""
WIDTH = 1.75
"""Of a panel, in inches."""
DARK = 0.55
"""Share of the scale from which on numbers are white."""


@dataclass(frozen=True, eq=False)
class Colouring:
    """A graph, the colours of its nodes, which of them are marked, and what to write above and below."""

    positions: NDArray[np.float64]
    edge_index: NDArray[np.int64]
    colours: NDArray[np.int64]
    title: str
    note: str
    marked: NDArray[np.bool_]


def circle(num_nodes: int) -> NDArray[np.float64]:
    """Places of nodes on a circle, clockwise from the top."""
    angle = 2 * np.pi * np.arange(num_nodes) / num_nodes
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def colourings(rows: Sequence[Sequence[Colouring]], names: Sequence[str]) -> Figure:
    """Panels in rows, each row beside the name of its graph."""
    columns = max(len(row) for row in rows)
    with rc_context(FONT):
        figure = Figure(figsize=(0.3 + WIDTH * columns, (WIDTH + 0.75) * len(rows)), layout="constrained")
        axes = figure.subplots(len(rows), columns, squeeze=False)
        for ax in axes.ravel():
            ax.set_axis_off()
        number = 1 + max(int(panel.colours.max()) for row in rows for panel in row)
        for row_axes, row, name in zip(axes, rows, names, strict=True):
            for ax, panel in zip(row_axes, row):
                _draw(ax, panel, number)
            row_axes[0].text(-0.12, 0.5, name, transform=row_axes[0].transAxes, rotation=90, ha="right", va="center")
    return figure


def _draw(ax: Axes, panel: Colouring, number: int) -> None:
    """One panel, with fills for so many colours."""
    xy = panel.positions
    for i, j in panel.edge_index.T:
        ax.plot(*xy[[i, j]].T, color=EDGE, linewidth=1.2, zorder=1)
    ring = xy[panel.marked]
    ax.scatter(ring[:, 0], ring[:, 1], RING, "white", edgecolors=INK, linewidths=2.0, zorder=2)
    shares = panel.colours / max(number - 1, 1)
    fills = colormaps["Blues"](0.12 + 0.75 * shares)
    ax.scatter(xy[:, 0], xy[:, 1], DOT, fills, edgecolors=MUTED, linewidths=0.8, zorder=3)
    for (x, y), colour, share in zip(xy, panel.colours.tolist(), shares.tolist()):
        ink = "white" if share > DARK else INK
        ax.text(x, y, str(colour), color=ink, fontsize=8, ha="center", va="center_baseline", zorder=4)
    ax.set_title(panel.title, fontsize=10)
    ax.text(0.5, -0.04, panel.note, transform=ax.transAxes, fontsize=9, ha="center", va="top")
    ax.set_aspect("equal")
    ax.margins(0.2)
