"""The invented company (`dpmsnc.data.company`), read from its raw tables: how good every method is on rare classes.

Half of what can be known about a label is in columns of every kind, half in the labels of neighbours. Of the 120 known
labels a fifth is held back for validation. The notes below the table hold two statements against it, for dpm-snc at its
defaults and where macro-F1 is asked for: macro-F1 is at most a paired standard error below logistic regression on the
labels of neighbours, and accuracy at most a point below the best other row.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmsnc.config import Training
from dpmsnc.data import Task
from dpmsnc.data.company import company
from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.aggregate import metrics
from dpmsnc.evidence.run.experiment import Experiment, Row, score
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.summary import cpu
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import Graph

NAME = "company"
DATASETS = (NAME,)
SIMPLE = "label-counts"
OURS = {
    "dpm-snc": Row("dpm-snc"),
    "dpm-snc, select_by macro_f1": Row("dpm-snc", {"training": Training(select_by="macro_f1")}),
}
ROWS = {
    SIMPLE: Row("label-counts"),
    "label-counts, balanced": Row("label-counts", {"balanced": True}),
    **{name: Row(name) for name in ("neighbourhood", "gcn", "sage", "crf", "masked-labels")},
    **OURS,
}
METRICS = {"accuracy": "accuracy", "macro_f1": "macro-F1"}
VALIDATION_SHARE = 0.2
TOLERANCE = 1.0
"""Points of accuracy."""
HOLDS = ("does not hold", "holds")
Points = Mapping[tuple[str, str], Sequence[float]]
"""Of a row and a metric, one for every seed, in per cent."""
NOTES = (
    "label-counts: logistic regression on own features and on counts of neighbours' known labels, by weight; balanced:",
    "classes count alike. select_by macro_f1: validation labels choose by it, and rare classes weigh more in answers.",
    "All others at their defaults. CPU s: fit and prediction.",
)


def load(name: str, seed: int = 0) -> Task:
    """The company of a seed, as it is read from files."""
    if name != NAME:
        raise InputError(f"there is no data set {name!r} here; it is called {NAME}")
    tables = company(seed)
    with tempfile.TemporaryDirectory() as folder:
        tables.write(Path(folder))
        files = (Path(folder) / "contacts.csv", Path(folder) / "people.csv")
        graph = Graph.from_tables(*files, id="person", label="team", edge_weight="hours")
    known = np.flatnonzero(graph.known)
    held_back = np.random.default_rng([seed, 1]).permutation(known)[: round(VALIDATION_SHARE * len(known))]
    validation = np.isin(np.arange(graph.num_nodes), held_back)
    truth = graph.encode(tables.truth["team"].tolist())
    return Task(name, graph, truth, graph.known & ~validation, validation, ~graph.known)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """What answering with the most frequent training label scores."""
    majority = np.bincount(task.truth[task.train]).argmax()
    return {"majority": score(np.full(len(task.truth), majority), task)}


def table(documents: Sequence[Document]) -> Table:
    """Accuracy and macro-F1 of every method."""
    title = "An invented company from raw tables"
    notes = [*NOTES, *_majority(documents), *_statements(documents)]
    return compare(title, documents, DATASETS, ROWS, metrics=METRICS, extra={"CPU s": cpu}, notes=notes)


def _majority(documents: Sequence[Document]) -> list[str]:
    runs = metrics(documents, NAME, SIMPLE)
    if not runs:
        return []
    means = [100 * statistics.fmean(run["majority"][metric] for run in runs) for metric in METRICS]
    return [f"The most frequent class everywhere: accuracy {means[0]:.1f}, macro-F1 {means[1]:.1f}."]


def _statements(documents: Sequence[Document]) -> list[str]:
    """The two statements for each of our rows, on the seeds that all rows have."""
    runs = {row: {d["seed"]: d["metrics"]["selected"] for d in documents if d["row"] == row} for row in ROWS}
    seeds = sorted(set.intersection(*(set(found) for found in runs.values())))
    if len(seeds) < 2:
        return []
    points = {
        (row, metric): [100 * found[seed][metric] for seed in seeds]
        for row, found in runs.items()
        for metric in METRICS
    }
    return [text for row in OURS for text in (_of_macro_f1(row, points), _of_accuracy(row, points))]


def _of_macro_f1(row: str, points: Points) -> str:
    gains = [ours - theirs for ours, theirs in zip(points[row, "macro_f1"], points[SIMPLE, "macro_f1"])]
    gain, error = statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    return (
        f"macro-F1 of {row} less {SIMPLE}: {gain:+.1f} points, paired standard error {error:.1f} "
        f"({HOLDS[gain >= -error]}: not below by more than that)."
    )


def _of_accuracy(row: str, points: Points) -> str:
    mean = {name: statistics.fmean(points[name, "accuracy"]) for name in ROWS}
    best = max((name for name in ROWS if name not in OURS), key=lambda name: mean[name])
    behind = mean[best] - mean[row]
    return (
        f"accuracy of {row} less the best other row, {best}: {-behind:+.1f} points "
        f"({HOLDS[behind <= TOLERANCE]}: at least that less {TOLERANCE:g})."
    )


COMPANY = Experiment(NAME, DATASETS, ROWS, seeds=(0, 1, 2, 3, 4), table=table, measure=measure, load=load)
