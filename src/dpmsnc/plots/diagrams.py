"""Diagrams of one fit: its training, which class is taken for which, and what its probabilities are worth.

Every function returns a matplotlib figure; notebooks show it, and `figure.savefig("name.svg")` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.plots.figures import FONT, INK, LINES, MUTED, lines

WRITTEN = 12
"""Classes up to which every cell of a confusion matrix bears its number."""
DARK = 0.55
"""Shares from which on a cell is so dark that its number is white."""


def plot_training(model: Any) -> Figure:
    """The validation score of a fitted classifier over the steps of its training, and the weights that were kept."""
    history = getattr(model, "history_", None)
    if history is None or not np.isfinite(history.validation_score).any():
        raise InputError("there is no validation score to draw; fit a NodeClassifier with validation labels first")
    figure = lines({"validation score": (history.step, history.validation_score)}, "step", "validation score")
    figure.axes[0].axvline(model.best_step_, color=INK, linestyle=":", linewidth=1.2, label="weights kept")
    figure.axes[0].legend(frameon=False, fontsize=9)
    return figure


def plot_confusion(confusion: NDArray[np.int64], classes: Sequence[Any]) -> Figure:
    """Nodes by true class (rows) and answered class (columns); shades are shares of the true class."""
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    size, names = len(classes), [shortened(name) for name in classes]
    side = 1.8 + min(max(size, 3), 40) * (0.42 if size <= WRITTEN else 0.2)
    with rc_context(FONT):
        figure = Figure(figsize=(side, side), layout="constrained")
        ax = figure.subplots()
        ax.imshow(shares, cmap=colormaps["Blues"], vmin=0, vmax=1)
        ax.set_xticks(np.arange(size), names, rotation=90, fontsize=8)
        ax.set_yticks(np.arange(size), names, fontsize=8)
        ax.set_xlabel("answered")
        ax.set_ylabel("true class")
        ax.spines[:].set_visible(False)
        if size <= WRITTEN:
            for (i, j), count in np.ndenumerate(confusion):
                colour = "white" if shares[i, j] > DARK else INK if count else MUTED
                ax.text(j, i, str(count), ha="center", va="center", color=colour, fontsize=8)
    return figure


def plot_intervals(
    means: Mapping[str, float], reaches: Sequence[float], x_label: str, bounds: tuple[float, float]
) -> Figure:
    """Named means, the first on top, each with so much to either side as lies within bounds."""
    at, middle, half = np.arange(len(means)), np.array(list(means.values())), np.asarray(reaches)
    sides = np.minimum(half, np.maximum([middle - bounds[0], bounds[1] - middle], 0))
    with rc_context(FONT):
        figure = Figure(figsize=(4.6, 0.9 + 0.32 * len(means)), layout="constrained")
        ax = figure.subplots()
        ax.errorbar(middle, at, xerr=sides, fmt="o", color=LINES[0], capsize=3, markersize=5)
        ax.set_yticks(at, list(means))
        ax.invert_yaxis()
        ax.set_xlabel(x_label)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(left=False)
        ax.grid(axis="x", color="#e4e4e4", linewidth=0.8)
    return figure


def plot_reliability(
    probabilities: NDArray[np.floating] | Mapping[str, NDArray[np.floating]], truth: NDArray[np.int64], bins: int = 10
) -> Figure:
    """How often the most probable class is right, against how probable it was; on the diagonal the two agree.

    Args:
        probabilities: Marginals (nodes, classes), or several of them by name.
        truth: Class indices, -1 where a node is not asked for.
    """
    named = probabilities if isinstance(probabilities, Mapping) else {"": probabilities}
    with rc_context(FONT):
        figure = Figure(figsize=(4.2, 4.0), layout="constrained")
        ax = figure.subplots()
        ax.plot([0, 1], [0, 1], color=MUTED, linestyle="--", linewidth=1.2)
        for colour, marker, (name, proba) in zip(LINES, "osD^", named.items()):
            _draw_reliability(ax, proba[truth >= 0], truth[truth >= 0], bins, color=colour, marker=marker, label=name)
        ax.set(
            xlim=(0, 1.02), ylim=(0, 1.02), xlabel="probability of the answer", ylabel="share of answers that are right"
        )
        ax.set_aspect("equal")
        ax.spines[["top", "right"]].set_visible(False)
        if any(named):
            ax.legend(frameon=False, fontsize=9)
    return figure


def shortened(name: Any, most: int = 16) -> str:
    """A class name that has room beside a picture."""
    text = str(name)
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return text.replace("$", r"\$")  # which would begin a formula


def _draw_reliability(ax: Axes, proba: NDArray[Any], y: NDArray[np.int64], bins: int, **look: Any) -> None:
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y
    of_bin = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(of_bin, minlength=bins)
    filled = count > 0
    x, y_mean = (np.bincount(of_bin, weights=v, minlength=bins)[filled] / count[filled] for v in (confidence, right))
    ax.plot(x, y_mean, linewidth=1.4, markersize=4, **look)
    ax.scatter(x, y_mean, 12 + 160 * count[filled] / max(count.sum(), 1), color=look["color"], alpha=0.35, linewidths=0)
