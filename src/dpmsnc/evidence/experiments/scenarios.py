"""The two scenarios of the synthetic data (appendix D.1): which nodes are known and which are asked for.

The pictures are of smaller grids, as the paper's are. Label propagation, which believes that neighbours are alike,
stands for the methods: it takes no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.data.grids import grid_localized, grid_positions, grid_scattered
from dpmsnc.evidence.experiments.aggregate import accuracies, mean_std
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import UNKNOWN
from dpmsnc.plots import figures

SCENARIOS: dict[str, Callable[..., Task]] = {"grid_scattered": grid_scattered, "grid_localized": grid_localized}
COLUMNS = 20
NOTES = (
    "Nodes of each part; near: share of test nodes with a training node among their neighbours, in %; lp: accuracy of",
    "label propagation in %, mean±std over seeds.",
)


def table(documents: Sequence[Document]) -> Table:
    """Sizes of the two data sets as they are used, seed 0."""
    rows = []
    for name, make in SCENARIOS.items():
        task = make(seed=0)
        parts = [str(int(mask.sum())) for mask in (task.train, task.validation, task.test)]
        near = (task.graph.adjacency @ task.train.astype(np.float32) > 0)[task.test].mean()
        lp = mean_std(accuracies(documents, name, "lp"))
        rows.append([name, str(task.graph.num_nodes), *parts, f"{100 * near:.1f}", lp])
    header = ["scenario", "nodes", "training", "validation", "test", "near", "lp"]
    return Table("Scenarios of the synthetic data", header, rows, NOTES)


def figure(documents: Sequence[Document]) -> Figure:
    """Training nodes, and validation and test nodes, of a grid of each scenario."""
    panels = {}
    for name, make in SCENARIOS.items():
        task = make(columns=COLUMNS, seed=0)
        scenario = name.removeprefix("grid_")
        panels[f"{scenario}: training"] = panel(task, task.train)
        panels[f"{scenario}: asked for"] = panel(task, task.validation | task.test)
    return figures.grids(panels, columns=2)


def panel(task: Task, shown: NDArray[np.bool_]) -> figures.Labelling:
    """The true labels of some nodes; training nodes stand in a ring."""
    labels = np.where(shown, task.truth, UNKNOWN)
    edges = task.graph.edge_index
    return figures.Labelling(grid_positions(COLUMNS), edges, task.num_classes, labels, task.train & shown)


SCENARIO_PICTURES = Experiment("scenarios", tuple(SCENARIOS), {"lp": Row("lp")}, (0, 1, 2), table, figure=figure)
