"""Number of samples (appendix F): the majority vote of joint samples, node by node, against the deterministic answer.

A vote of n samples is taken in up to `GROUPS` disjoint groups of the samples drawn, because a few samples alone say
little about how right such votes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments.ablations.samplers import with_sampler
from dpmsnc.evidence.experiments.aggregate import CITATION, SPAN, mean_std, metrics, num_seeds, per_cent
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy, subgraph_accuracy
from dpmsnc.plots import figures

ROW = "dpm-snc"
COUNTS = (1, 4, 16, 64, 256, 1024)
GROUPS = 16
SCORES = {"accuracy": "accuracy", "subgraph_accuracy": "subgraph accuracy"}
NOTES = (
    "In %, mean±std over seeds: each node's most frequent class among so many joint samples at temperature 1, and the",
    "deterministic answer, from the same weights. Training labels are returned unchanged. Single runs, without",
    f"progressive rounds; up to {GROUPS} disjoint groups of samples a seed.",
)


def record(model: NodeClassifier, task: Task, samples: NDArray[np.int64]) -> dict[str, Any]:
    """Scores of votes of growing numbers of the samples, and of the deterministic answer."""
    still = task.graph.encode(with_sampler(model, temperature=0.0).predict(condition_on="train"))
    votes = {str(count): _mean_scores(samples, count, task) for count in COUNTS if count <= len(samples)}
    return {"votes": votes, "deterministic": _scores(still, task)}


def majority(samples: NDArray[np.int64], num_classes: int) -> NDArray[np.int64]:
    """The most frequent class of each node; the first of equals."""
    return np.stack([(samples == c).sum(axis=0) for c in range(num_classes)]).argmax(axis=0)


def _mean_scores(samples: NDArray[np.int64], count: int, task: Task) -> dict[str, float]:
    groups = np.split(samples[: len(samples) // count * count], len(samples) // count)[:GROUPS]
    found = [_scores(majority(group, task.num_classes), task) for group in groups]
    return {name: round(float(np.mean([scores[name] for scores in found])), 6) for name in SCORES}


def _scores(labels: NDArray[np.int64], task: Task) -> dict[str, float]:
    return {
        "accuracy": round(accuracy(labels, task.truth, task.test), 6),
        "subgraph_accuracy": round(subgraph_accuracy(labels, task.truth, task.test, task.graph), 6),
    }


def table(documents: Sequence[Document]) -> Table:
    """One line per data set and score."""
    header = ["data set", "score", *map(str, COUNTS), "deterministic", "seeds"]
    rows = [
        [
            name,
            words,
            *(mean_std(values(documents, dataset, score, count)) for count in COUNTS),
            mean_std(values(documents, dataset, score, None)),
            num_seeds(documents, dataset, ROW),
        ]
        for dataset, name in CITATION.items()
        for score, words in SCORES.items()
    ]
    return Table("Votes of joint samples against the deterministic answer", header, rows, NOTES)


def figure(documents: Sequence[Document]) -> Figure:
    """A panel per data set and score, with the deterministic answer as a dashed line."""
    panels, levels = {}, {}
    for dataset, name in CITATION.items():
        for score, words in SCORES.items():
            counts = [count for count in COUNTS if values(documents, dataset, score, count)]
            if not counts:
                continue
            title = f"{name}, {words}"
            by_count = [values(documents, dataset, score, count) for count in counts]
            panels[title] = {"vote": figures.Curve(counts, per_cent(by_count))}
            levels[title] = ("deterministic", 100 * float(np.mean(values(documents, dataset, score, None))))
    return figures.curves(
        panels,
        "number of samples",
        "right (%)",
        title="Number of samples",
        log_base=4,
        levels=levels,
        bars=True,
        least_span=SPAN,
    )


def values(documents: Sequence[Document], dataset: str, score: str, count: int | None) -> list[float]:
    """A score of every seed; `count` None stands for the deterministic answer."""
    found = [run["number_of_samples"] for run in metrics(documents, dataset, ROW)]
    if count is None:
        return [run["deterministic"][score] for run in found]
    return [run["votes"][str(count)][score] for run in found if str(count) in run["votes"]]
