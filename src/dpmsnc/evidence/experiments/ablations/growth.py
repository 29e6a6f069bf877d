r"""Nodes that arrive after the fit, against a fit that saw them from the beginning.

A tenth of the nodes, drawn among those without a training or validation label, is taken out of the graph. The method is
fitted to what is left, the nodes are added again (`Graph.grown`), and their labels are predicted without a refit. On
the same nodes A,

    arrived     accuracy of the model fitted without them,
    present     accuracy of the same method fitted to the whole graph, no label of A being known in either case,
    difference  arrived less present, with the standard error of the paired differences over draws.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.errors import FitWarning
from dpmsnc.evidence.experiments.aggregate import SEEDS
from dpmsnc.evidence.run.estimators import own_labels, supports_progress
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import Graph
from dpmsnc.metrics import accuracy

DATASETS = ("cora", "citeseer")
ROWS = {name: Row(name) for name in ("dpm-snc", "crf", "gcn")}
DRAWS, SHARE = 5, 0.1
HEADER = ("data set", "method", "arrived", "present", "difference", "nodes", "draws")
NOTES = (
    f"In every draw {SHARE:.0%} of the nodes, without a training or validation label, are missing from the fit and are",
    "added again afterwards. arrived: their accuracy in %, without a refit; present: that of a fit to the whole graph.",
    "difference: in points, mean±standard error over the draws of all seeds.",
)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """Accuracy of nodes that were missing from a fit, and of the same nodes in the fit to the whole graph."""
    present = own_labels(model, task)
    return {"growth": [_draw(model, task, present, seed, draw) for draw in range(DRAWS)]}


def _draw(model: Any, task: Task, present: NDArray[Any], seed: int, draw: int) -> dict[str, Any]:
    new = missing_nodes(task, seed, draw)
    arrived = np.full_like(present, -1)
    arrived[new] = task.graph.encode(_predicted_after_growth(model, task, new))
    scored = new & (task.truth >= 0)
    found = {name: accuracy(y, task.truth, scored) for name, y in (("arrived", arrived), ("present", present))}
    return {"nodes": int(scored.sum())} | {name: round(value, 6) for name, value in found.items()}


def missing_nodes(task: Task, seed: int, draw: int) -> NDArray[np.bool_]:
    """A share of all nodes, drawn among those without a known label."""
    candidates = np.flatnonzero(~task.graph.known)
    count = round(SHARE * task.graph.num_nodes)
    chosen = np.random.default_rng([seed, draw]).choice(candidates, count, replace=False)
    return np.isin(np.arange(task.graph.num_nodes), chosen)


def _predicted_after_growth(model: Any, task: Task, new: NDArray[np.bool_]) -> NDArray[Any]:
    """The labels of nodes that a fit of the same method did not have, given the training labels."""
    from sklearn.base import clone

    again, smaller = clone(model), task.graph.subgraph(~new)
    if supports_progress(again):
        again.verbose = False  # one report a run is enough
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        again.fit(smaller, validation=task.validation[~new])
    known = smaller.hide(task.validation[~new])  # validation labels condition neither answer
    return again.predict(grown_again(known, task.graph, new))[known.num_nodes :]


def grown_again(smaller: Graph, whole: Graph, new: NDArray[np.bool_]) -> Graph:
    """The smaller graph with the missing nodes, which then stand behind the others, and all their edges."""
    edges = whole.edge_index[:, new[whole.edge_index].any(axis=0)]
    return smaller.grown(whole.ids[new].tolist(), whole.ids[edges].T, x=None if whole.x is None else whole.x[new])


def table(documents: Sequence[Document]) -> Table:
    """A line per data set and method."""
    rows = [
        _line(dataset, row, runs)
        for dataset in DATASETS
        for row in ROWS
        if (runs := [d for d in documents if (d["dataset"], d["row"]) == (dataset, row)])
    ]
    return Table("Nodes that arrive after the fit", HEADER, rows, NOTES)


def _line(dataset: str, row: str, runs: Sequence[Document]) -> list[str]:
    draws = [draw for run in runs for draw in run["metrics"]["growth"]]
    arrived, present = (100 * statistics.fmean(draw[name] for draw in draws) for name in ("arrived", "present"))
    points = [100 * (draw["arrived"] - draw["present"]) for draw in draws]
    error = statistics.stdev(points) / math.sqrt(len(points)) if len(points) > 1 else 0.0
    difference = f"{statistics.fmean(points):+.2f}±{error:.2f}"
    nodes = f"{statistics.fmean(draw['nodes'] for draw in draws):.0f}"
    return [dataset, row, f"{arrived:.1f}", f"{present:.1f}", difference, nodes, str(len(draws))]


GROWTH = Experiment("growth", DATASETS, ROWS, SEEDS, table=table, measure=measure)
