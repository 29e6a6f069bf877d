"""Figure 1: a cyclic grid of 2 x 20 with eight known labels, as each method answers it.

Methods are fitted on the scattered 2 x 1000 grid and the small one together, as the paper's footnote has it; only the
small one is drawn, that of a single seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpmsnc.data import Task
from dpmsnc.data.grids import cyclic_grid, grid_positions, grid_scattered
from dpmsnc.evidence.experiments import table1_synthetic as synthetic
from dpmsnc.evidence.experiments.aggregate import accuracies, mean_std, metrics, num_seeds
from dpmsnc.evidence.run.estimators import own_labels
from dpmsnc.evidence.run.experiment import Experiment
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import UNKNOWN
from dpmsnc.plots import figures

DATASET = "grid_scattered"
EXTRA_COLUMNS = 20
"""Of the small grid, as `grid_scattered` appends it."""
ROWS = {name: synthetic.ROWS[name] for name in ("gcn", "gmnn", "clgnn", "masked-labels", "dpm-snc")}
NAMES = {"gcn": "GCN", "gmnn": "GMNN", "clgnn": "CLGNN", "dpm-snc": "DPM-SNC"}
NOTES = (
    "In %, mean±std over seeds. large: test nodes of the 2 x 1000 grid; small: the 32 nodes of the 2 x 20 grid whose",
    "label is not known, which are in no split. gmnn answers by its network on neighbours' labels.",
)


def load(dataset: str, seed: int) -> Task:
    """Both grids side by side."""
    return grid_scattered(seed=seed, extra_grid=True)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """The small grid, which stands behind the large one: known nodes and the answer, known labels filled in."""
    labels = np.where(task.train, task.truth, own_labels(model, task))
    small = slice(task.graph.num_nodes - 2 * EXTRA_COLUMNS, None)
    return {"small": {"known": task.train[small].tolist(), "labels": labels[small].tolist()}}


def table(documents: Sequence[Document]) -> Table:
    """One line per method."""
    rows = []
    for row in dict.fromkeys(d["row"] for d in documents):
        right = [_share_right(panel(found["small"])) for found in metrics(documents, DATASET, row)]
        rows.append(
            [row, mean_std(accuracies(documents, DATASET, row)), mean_std(right), num_seeds(documents, DATASET, row)]
        )
    return Table("Figure 1: a grid of 2 x 20", ["method", "large", "small", "seeds"], rows, NOTES)


def _share_right(answer: figures.Labelling) -> float:
    return 1 - float(answer.wrong.sum() / (~answer.known).sum())


def figure(documents: Sequence[Document]) -> Figure:
    """The question, and the answers of the first seed that most methods were run with."""
    counts = Counter(sorted(d["seed"] for d in documents))
    seed, _ = counts.most_common(1)[0]
    answers = {d["row"]: d["metrics"]["small"] for d in documents if d["seed"] == seed}
    question = panel(next(iter(answers.values())), asks=True)
    panels = {NAMES.get(row, row): panel(answer) for row, answer in answers.items()}
    return figures.grids({"the question": question, **panels}, columns=2)


def panel(answer: dict[str, Any], asks: bool = False) -> figures.Labelling:
    """The small grid with an answer, or with its known labels alone."""
    grid = cyclic_grid(EXTRA_COLUMNS)
    known, labels = np.array(answer["known"]), np.array(answer["labels"])
    shown = np.where(known, labels, UNKNOWN) if asks else labels
    return figures.Labelling(grid_positions(EXTRA_COLUMNS), grid.edge_index, grid.num_classes, shown, known, grid.y)


FIRST_FIGURE = Experiment("first-figure", (DATASET,), ROWS, (0, 1, 2), table, figure=figure, measure=measure, load=load)
