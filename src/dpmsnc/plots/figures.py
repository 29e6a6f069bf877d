"""Figures: graphs coloured by known, right and wrong, lines over steps, and means over seeds with their spread.

Every function returns a matplotlib figure that belongs to nobody else (no pyplot, no global state); `svg` turns it into
something that can be written or put into a page. Nothing is told by hue alone: classes differ in lightness, known nodes
stand in a ring, wrong ones bear a cross, changed ones stand on a square.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from dpmsnc.graph import UNKNOWN

INK, MUTED, EDGE, WRONG, CHANGED = "#222222", "#8a8a8a", "#b9b9b9", "#d1410c", "#f2c14e"
LARGEST_DOT = 14.0
"""In points, like the width of a line."""
MARGIN = 0.05
LINES = ("#0b5fa5", "#c26a00", "#3b7d4f", "#7a4a8c")
FONT: dict[Any, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Labelling:
    """Labels of the nodes of a graph, as class indices, and how to draw them.

    `labels` is -1 where nothing is said about a node; `known` are the nodes whose label was given. No node is called
    wrong where `truth` is left out or -1. Nodes that are `changed`, and edges that are `broken`, are marked.
    """

    positions: NDArray[np.float64]
    edge_index: NDArray[np.int64]
    num_classes: int
    labels: NDArray[np.int64]
    known: NDArray[np.bool_]
    truth: NDArray[np.int64] | None = None
    changed: NDArray[np.bool_] | None = None
    broken: NDArray[np.bool_] | None = None

    @property
    def wrong(self) -> NDArray[np.bool_]:
        if self.truth is None:
            return np.zeros(len(self.labels), dtype=bool)
        return (self.labels != UNKNOWN) & (self.truth != UNKNOWN) & (self.labels != self.truth) & ~self.known


def grids(
    panels: Mapping[str, Labelling], width: float = 3.2, legend: bool = True, columns: int | None = None
) -> Figure:
    """Labellings side by side under their names, at most `columns` in a row, with one legend for all."""
    columns = min(columns or len(panels), len(panels))
    rows = -(-len(panels) // columns)
    foot = 0.45 if legend else 0.0
    height = rows * (width + 0.35) + foot
    with rc_context(FONT):
        figure = Figure(figsize=(width * columns, height))
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        for ax, (name, labelling) in zip(axes, panels.items()):
            draw_labelling(ax, labelling, width)
            ax.set_title(name, fontsize=12, pad=6)
        figure.subplots_adjust(left=0.01, right=0.99, top=1 - 0.33 / height, bottom=(foot + 0.02) / height, wspace=0.06)
        if legend:
            classes = max(panel.num_classes for panel in panels.values())
            handles = legend_handles(numbered(classes), *marks_of(list(panels.values())))
            figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, handletextpad=0.3)
    return figure


def grid_legend(num_classes: int, *marks: str) -> Figure:
    """The legend of `grids` on its own, for pages that stack the panels; by default with known and wrong nodes."""
    handles = legend_handles(numbered(num_classes), *(marks or ("known", "wrong")))
    with rc_context(FONT):
        figure = Figure(figsize=(1.05 * len(handles), 0.35))
        figure.legend(handles=handles, loc="center left", ncols=len(handles), frameon=False, handletextpad=0.3)
    return figure


def lines(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_label: str,
    y_label: str,
    *,
    y_range: tuple[float, float] | None = None,
    levels: Mapping[str, float] | None = None,
) -> Figure:
    """Named lines (x, y), and named constant levels as dashes."""
    with rc_context(FONT):
        figure = Figure(figsize=(4.6, 3.1), layout="constrained")
        ax = figure.subplots()
        for colour, marker, (name, (x, y)) in zip(LINES, "osD^", series.items()):
            ax.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.6, label=name)
        for colour, (name, level) in zip(LINES[len(series) :], (levels or {}).items()):
            ax.axhline(level, color=colour, linestyle="--", linewidth=1.4, label=name)
        ax.set_xlabel(x_label)
        ax.set_ylabel(y_label)
        if y_range is not None:
            ax.set_ylim(*y_range)
        ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
        ax.legend(frameon=False, fontsize=9)
    return figure


@dataclass(frozen=True)
class Curve:
    """Points x, and at each of them a value per seed."""

    x: Sequence[float]
    values: Sequence[Sequence[float]]

    @property
    def mean(self) -> NDArray[np.float64]:
        return np.array([np.mean(of_seeds) for of_seeds in self.values])

    @property
    def spread(self) -> NDArray[np.float64]:
        """Sample standard deviation over seeds; zero for a single one."""
        return np.array([np.std(of_seeds, ddof=1) if len(of_seeds) > 1 else 0.0 for of_seeds in self.values])


def curves(
    panels: Mapping[str, Mapping[str, Curve]],
    x_label: str,
    y_label: str,
    *,
    title: str = "",
    log_base: int | None = None,
    levels: Mapping[str, tuple[str, float]] | None = None,
    bars: bool = False,
    least_span: float = 0.0,
) -> Figure:
    """Named curves in panels below each other, so that they can be read on a narrow screen.

    Bands, or `bars` where points are few, are one standard deviation over seeds to either side. `levels` has a named
    dashed line for each panel that it names. The y axis spans at least `least_span`, lest noise fill the panel.
    """
    levels = levels or {}
    with rc_context(FONT):
        figure = Figure(figsize=(4.6, 0.3 + 2.7 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for ax, (panel, named) in zip(axes, panels.items(), strict=True):
            for colour, marker, (name, curve) in zip(LINES, "osD^", named.items()):
                _draw_curve(ax, curve, name, colour, marker, bars)
            if panel in levels:
                name, level = levels[panel]
                ax.axhline(level, color=INK, linestyle="--", linewidth=1.2, label=name)
            if log_base is not None:
                _scale_by_powers(ax, log_base, [curve.x for curve in named.values()])
            low, high = ax.get_ylim()
            missing = max(0.0, least_span - (high - low)) / 2
            ax.set_ylim(low - missing, high + missing)
            ax.set_title(panel, fontsize=11)
            ax.set_ylabel(y_label)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
            if len(named) > 1 or panel in levels:
                ax.legend(frameon=False, fontsize=9)
        axes[-1].set_xlabel(x_label)
        figure.suptitle(title, fontsize=12)
    return figure


def svg(figure: Figure) -> bytes:
    """The figure as SVG, without a date or random names; letters are outlines, so no font is needed to read it."""
    buffer = io.BytesIO()
    with rc_context({"svg.fonttype": "path", "svg.hashsalt": "dpmsnc"}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=nothing, facecolor="white")
    return buffer.getvalue()


def _draw_curve(ax: Axes, curve: Curve, name: str, colour: str, marker: str, bars: bool) -> None:
    x, mean, spread = curve.x, curve.mean, curve.spread
    look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.6, "label": name}
    if bars:
        ax.errorbar(x, mean, yerr=spread, capsize=3, **look)
    else:
        ax.plot(x, mean, markevery=max(1, len(x) // 16), **look)
        ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)


def _scale_by_powers(ax: Axes, base: int, points: Sequence[Sequence[float]]) -> None:
    """A logarithmic x axis with plain numbers: at the points themselves where all curves share them."""
    ax.set_xscale("log", base=base)
    shared = max(points, key=len, default=())
    if all(set(x) <= set(shared) for x in points):
        ax.set_xticks(list(shared))
        ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, position: f"{x:g}"))


def draw_labelling(ax: Axes, labelling: Labelling, width: float, dot: float | None = None) -> None:
    """In a panel so many inches wide; dots are as large as the shortest edge has room for, or as given in points."""
    xy, edges = labelling.positions, labelling.edge_index
    _draw_edges(ax, labelling, np.ones(edges.shape[1], dtype=bool), color=EDGE, linewidth=1.0, zorder=1)
    if labelling.broken is not None:
        _draw_edges(ax, labelling, labelling.broken, color=WRONG, linewidth=3.0, zorder=1.5)
    shortest = np.linalg.norm(xy[edges[0]] - xy[edges[1]], axis=1).min(initial=np.inf)
    extent = np.ptp(xy, axis=0).max() * (1 + 2 * MARGIN)
    dot = dot or min(0.62 * 72 * width * shortest / extent, LARGEST_DOT)
    whole: dict[str, Any] = {"clip_on": False}  # a clipped dot takes twice the room in a file
    size, ring, wrong = dot**2, xy[labelling.known], labelling.wrong
    if labelling.changed is not None:
        there = xy[labelling.changed]
        ax.scatter(there[:, 0], there[:, 1], 2.3 * size, CHANGED, marker="s", linewidths=0, zorder=1.7, **whole)
    ax.scatter(ring[:, 0], ring[:, 1], 1.6 * size, "white", edgecolors=INK, linewidths=0.16 * dot, zorder=2, **whole)
    shades = [_shade(c, labelling.num_classes) if c != UNKNOWN else "white" for c in labelling.labels.tolist()]
    borders = np.where(wrong, WRONG, MUTED).tolist()
    ax.scatter(xy[:, 0], xy[:, 1], size, shades, edgecolors=borders, linewidths=0.08 * dot, zorder=3, **whole)
    cross: dict[str, Any] = {"marker": "X", "edgecolors": "white", "linewidths": 0.05 * dot, **whole}
    ax.scatter(xy[wrong, 0], xy[wrong, 1], 0.5 * size, WRONG, zorder=4, **cross)
    ax.set_aspect("equal")
    ax.margins(MARGIN)
    ax.set_axis_off()


def _draw_edges(ax: Axes, labelling: Labelling, mask: NDArray[np.bool_], **look: Any) -> None:
    """As one line with gaps, which takes a tenth of the room in a file that single lines take."""
    ends = labelling.positions[labelling.edge_index[:, mask].T]
    gaps = np.full((len(ends), 1, 2), np.nan)
    x, y = np.concatenate([ends, gaps], axis=1).reshape(-1, 2).T
    ax.plot(x, y, **look)


def _shade(index: int, num_classes: int) -> tuple[float, float, float, float]:
    """Classes from light to dark."""
    share = index / max(num_classes - 1, 1)
    return colormaps["Blues"](0.18 + 0.52 * share)


def marks_of(panels: Sequence[Labelling]) -> list[str]:
    """The marks that some panel may bear."""
    borne = {
        "known": any(panel.known.any() for panel in panels),
        "wrong": any(panel.truth is not None for panel in panels),
        "changed": any(panel.changed is not None for panel in panels),
        "same class": any(panel.broken is not None for panel in panels),
    }
    return [mark for mark, is_borne in borne.items() if is_borne]


def numbered(num_classes: int) -> list[str]:
    """Names of classes that have none."""
    return [f"class {c}" for c in range(num_classes)]


def legend_handles(classes: Sequence[str], *marks: str) -> list[Line2D]:
    """What the shades of classes and some marks mean."""

    def dot(name: str, **style: object) -> Line2D:
        look = {"marker": "o", "markersize": 9, "markeredgecolor": MUTED, "markeredgewidth": 0.8} | style
        return Line2D([], [], linestyle="", label=name, **look)  # type: ignore[arg-type]

    handles = [
        dot("known", markersize=11, markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.8),
        dot("wrong", marker="X", markerfacecolor=WRONG, markeredgecolor="white"),
        dot("changed", marker="s", markersize=11, markerfacecolor=CHANGED, markeredgewidth=0),
        Line2D([], [], color=WRONG, linewidth=3.0, label="same class"),
    ]
    shades = [dot(name, markerfacecolor=_shade(c, len(classes))) for c, name in enumerate(classes)]
    return [*shades, *(handle for handle in handles if handle.get_label() in marks)]
