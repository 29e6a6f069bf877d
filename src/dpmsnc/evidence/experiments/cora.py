"""Cora's public split with a GCN, and what labels revealed after training are worth there.

Per seed and draw, 100 validation labels are revealed to the fitted model, without refitting. The answers before and
after are compared on the same test nodes: those with a revealed neighbour, and all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmsnc.data import Task
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments.aggregate import paired_difference
from dpmsnc.evidence.experiments.table2_homophilic import PAPER
from dpmsnc.evidence.run.estimators import conditions_on_labels, own_labels
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.summary import MISSING, cpu, fall, last, percent, summary, worst
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy

ROWS = {name: Row(name) for name in ("gcn", "pta", "masked-labels", "dpm-snc")}
NUM_DRAWS, NUM_REVEALED = 5, 100
NOTES = (
    "worst: the worst seed; last: mean accuracy at the last checkpoint; fall: largest fall of validation accuracy",
    "after it first came within a point of its best. CPU s: fit and prediction.",
    "sub-acc: a node counts if it and all its neighbours are right by the model's own labels; known: training labels",
    "returned unchanged.",
    f"reveal: gain in points when {NUM_REVEALED} validation labels are revealed after training, mean±std over",
    f"{NUM_DRAWS} draws a seed, on test nodes with a revealed neighbour and on all test nodes.",
)


def reveal(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """Accuracy before and after labels are revealed, draw by draw, where the model can be conditioned on them."""
    if not conditions_on_labels(model):
        return {}
    before = own_labels(model, task)
    return {"reveal": [_draw(model, task, before, seed, draw) for draw in range(NUM_DRAWS)]}


def _draw(model: NodeClassifier, task: Task, before: Any, seed: int, draw: int) -> dict[str, float]:
    graph, candidates = task.graph, np.flatnonzero(task.validation)
    rng = np.random.default_rng([seed, draw])
    nodes = rng.choice(candidates, min(NUM_REVEALED, len(candidates)), replace=False)
    known = dict(zip(graph.ids[nodes].tolist(), graph.decode(graph.y[nodes])))
    after = graph.encode(model.predict(known=known, condition_on="train"))
    revealed = np.zeros(graph.num_nodes, dtype=np.float32)
    revealed[nodes] = 1
    neighbours = task.test & (graph.adjacency @ revealed > 0)
    parts = {"neighbours": neighbours, "test": task.test}
    answers = {"before": before, "after": after}
    return {
        "revealed": len(nodes),
        "num_neighbours": int(neighbours.sum()),
        **{
            f"{part}_{moment}": round(accuracy(labels, task.truth, mask), 6)
            for part, mask in parts.items()
            for moment, labels in answers.items()
        },
    }


def table(documents: Sequence[Document]) -> Table:
    """Beside the paper's column of Cora in table 2."""
    title = "Cora, public split, backbone GCN"
    return compare(title, documents, ("cora",), ROWS, paper=PAPER, extra=EXTRA, notes=NOTES, others=False)


def known_accuracy(runs: Sequence[Document]) -> str:
    """Subgraph accuracy with training labels returned unchanged."""
    found = summary(runs, "subgraph_accuracy_known")
    return MISSING if found is None else percent(found.mean, found.std)


def gain_near(runs: Sequence[Document]) -> str:
    """On test nodes with a revealed neighbour."""
    return gain(_draws(runs), "neighbours")


def gain_everywhere(runs: Sequence[Document]) -> str:
    """On all test nodes."""
    return gain(_draws(runs), "test")


def _draws(runs: Sequence[Document]) -> list[dict[str, float]]:
    return [draw for run in runs for draw in run["metrics"].get("reveal", [])]


def gain(draws: Sequence[dict[str, float]], part: str) -> str:
    """Of the answers after over those before, draw by draw, in points."""
    return paired_difference([(draw[f"{part}_before"], draw[f"{part}_after"]) for draw in draws])


EXTRA = {
    "known": known_accuracy,
    "worst": worst,
    "last": last,
    "fall": fall,
    "reveal: neighbours": gain_near,
    "reveal: all": gain_everywhere,
    "CPU s": cpu,
}
CORA = Experiment("cora", ("cora",), ROWS, seeds=(0, 1, 2), table=table, measure=reveal)
