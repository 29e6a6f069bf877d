r"""Minesweeper as a joint problem: how many of the revealed counts a labelling agrees with.

The nodes are the cells of a board, a fifth of them mines, and neighbours touch. Half of the cells show how many of
their neighbours are mines, up to "five or more". A labelling y agrees with the count c_i of cell i if

    min(sum_j y_j, 5) = c_i      over the neighbours j of i.

The truth agrees with all of them, and samples of the right posterior do; labels drawn node by node from the right
marginals do not. Training labels are given to all of

    joint         samples of the model,
    shuffled      the same samples with the labels of every node in another order: as likely one by one, but no longer
                  drawn together, so that the difference is what the samples know of several cells at once,
    independent   labels drawn node by node from the marginals that the model answers with, which are calibrated and
                  may be surer than its samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.evidence.run.store import Document
from dpmsnc.graph import Graph
from dpmsnc.plots.figures import CHANGED, INK, MUTED, WRONG

HIDDEN = -1
"""The count of a cell that shows none."""
MOST = 5
"""The largest count that is shown; it stands for more, too."""
NUM_SAMPLES = 16
SIDE = 16
"""Rows and columns of the corner of the board that is kept for a picture."""
ONE_DIGIT = "0123456789"


def revealed_counts(graph: Graph) -> NDArray[np.int64]:
    """What every cell shows; the first feature says that it shows nothing, the others are counts from 0."""
    x: Any = graph.x
    x = x.toarray() if sp.issparse(x) else x
    return np.where(x[:, 0] > 0, HIDDEN, x[:, 1:].argmax(axis=1))


def agrees(labels: NDArray[np.integer], graph: Graph) -> NDArray[np.bool_]:
    """Whether labellings (..., nodes) agree with the counts, for each cell that shows one (..., revealed)."""
    counts = revealed_counts(graph)
    around = (graph.adjacency @ labels.reshape(-1, graph.num_nodes).T.astype(np.float32)).T
    found = np.minimum(np.rint(around), MOST).reshape(labels.shape)
    return (found == counts)[..., counts != HIDDEN]


def measure(model: Any, task: Task, p: NDArray[np.float64], seed: int) -> dict[str, Any]:
    """Shares of counts that samples, shuffled ones, draws of the marginals `p` and the prediction agree with."""
    graph, rng = task.graph, np.random.default_rng(seed)
    own = model.sample(NUM_SAMPLES, seed=seed, condition_on="train")
    joint = np.stack([graph.encode(labels) for labels in own])
    shuffled = rng.permuted(joint, axis=0)
    independent = (rng.random(joint.shape) < p[:, 1]).astype(np.int64)
    independent[:, task.train] = task.truth[task.train]
    predicted = graph.encode(model.predict(condition_on="train"))
    labellings = {"joint": joint, "shuffled": shuffled, "independent": independent, "predicted": predicted}
    shares = {name: round(float(agrees(labels, graph).mean()), 6) for name, labels in labellings.items()}
    return {**shares, "num_samples": NUM_SAMPLES, "corner": _corner(graph, joint[0], shuffled[0])}


def _corner(graph: Graph, joint: NDArray[np.int64], shuffled: NDArray[np.int64]) -> dict[str, str]:
    """Some rows of the board as text, with a digit a cell; one row more than is drawn, as cells at its rim need it."""
    side = math.isqrt(graph.num_nodes)
    kept = min(SIDE + 1, side)

    def text(values: NDArray[np.int64]) -> str:
        corner = values.reshape(side, side)[:kept, :kept]
        return "/".join("".join("." if v == HIDDEN else ONE_DIGIT[v] for v in row) for row in corner.tolist())

    return {"counts": text(revealed_counts(graph)), "joint": text(joint), "shuffled": text(shuffled)}


def figure(documents: Sequence[Document]) -> Figure:
    """A corner of the board as a joint sample and as shuffled ones have it, with counts that are not agreed with; of
    the run whose joint samples agree with most, or nothing where there is none."""
    drawn = Figure(figsize=(9, 4.9))
    runs = [run for run in documents if "counts" in run["metrics"]]
    if not runs:
        return drawn
    run = max(runs, key=lambda run: run["metrics"]["counts"]["joint"])
    found, corner = run["metrics"]["counts"], run["metrics"]["counts"]["corner"]
    for ax, name in zip(drawn.subplots(1, 2), ("joint", "shuffled"), strict=True):
        _draw(ax, corner, name)
        kind = "joint samples" if name == "joint" else "each cell from another sample"
        ax.set_title(f"{kind}: {100 * found[name]:.1f} % of all counts are right", fontsize=11, color=INK)
    drawn.text(0.5, 0.02, f"{run['row']}; black: mines; marked: counts that the mines around contradict", ha="center")
    drawn.subplots_adjust(left=0.01, right=0.99, top=0.93, bottom=0.07, wspace=0.03)
    return drawn


def _draw(ax: Axes, corner: Mapping[str, str], name: str) -> None:
    counts = [[HIDDEN if cell == "." else int(cell) for cell in row] for row in corner["counts"].split("/")]
    mines = np.array([[int(cell) for cell in row] for row in corner[name].split("/")])
    padded = np.pad(mines, 1)
    size, n = len(mines), min(SIDE, len(mines))
    around = sum(padded[a : a + size, b : b + size] for a in range(3) for b in range(3)) - mines
    for i, j in np.ndindex(n, n):
        wrong = counts[i][j] != HIDDEN and min(around[i, j], MOST) != counts[i][j]
        colour = CHANGED if wrong else "#f4f4f4" if counts[i][j] == HIDDEN else "white"
        ax.fill([j, j + 1, j + 1, j], [i, i, i + 1, i + 1], colour, edgecolor="#dddddd", linewidth=0.5)
        if mines[i, j]:
            ax.plot(j + 0.5, i + 0.5, "o", color=INK, markersize=7 if counts[i][j] == HIDDEN else 9, alpha=0.9)
        if counts[i][j] != HIDDEN:
            colour, weight = "white" if mines[i, j] else WRONG if wrong else MUTED, "bold" if wrong else "normal"
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 7, "color": colour, "weight": weight}
            ax.text(j + 0.5, i + 0.53, str(counts[i][j]), **look)
    ax.set(xlim=(0, n), ylim=(n, 0), aspect="equal")
    ax.set_axis_off()
