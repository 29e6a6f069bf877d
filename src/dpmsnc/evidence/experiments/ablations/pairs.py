"""What joint samples are worth: probabilities of the labels of two neighbours, against the product of their marginals.

Both come from the same samples at temperature 1 and both ends are test nodes (`dpmsnc.metrics` has the mathematics). A
model whose labels are independent given what it is shown gains nothing here, and loses what counting costs: cells of a
table are counted less surely than marginals.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.data import Task
from dpmsnc.evidence.experiments.aggregate import CITATION
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import percent
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import pair_calibration_error, pair_log_score, pair_tables, product_of_marginals

DATASETS = {"grid_scattered": "scattered grid", "grid_localized": "localized grid", **CITATION}
NUM_SAMPLES = 1024
RUNS = {"single": "single", "fitted": "progressive"}
HEADER = (
    "method", "data set", "runs", "joint", "product", "difference", "s.e. edges", "ECE joint", "ECE product", "edges",
    "samples", "seeds",
)  # fmt: skip
NOTES = (
    "Edges between two test nodes, joint samples at temperature 1 given the training labels.",
    "joint, product: log-score of the true pair of labels in nats per edge, by the frequency of the pair and by the",
    "product of the marginals of the same samples. difference: joint - product, mean±std over seeds; s.e. edges: its",
    "standard error over the edges of one seed, taken as if they were independent. ECE: calibration error in % of the",
    "most probable pair, in 15 bins. runs: single, or with progressive rounds, for the seeds whose fit chose them.",
    "masked-labels in single runs draws every node on its own: its difference is what counting pairs costs.",
)


def edges_between_test_nodes(task: Task) -> NDArray[np.int64]:
    """Edges (2, edges) whose ends are both test nodes."""
    return task.graph.edge_index[:, task.test[task.graph.edge_index].all(axis=0)]


def record(samples: NDArray[np.int64], task: Task) -> dict[str, float] | None:
    """Scores of joint samples and of their marginals on the same edges; None where there are none."""
    edges = edges_between_test_nodes(task)
    if not edges.shape[1]:
        return None
    joint = pair_tables(samples, edges, task.num_classes)
    product = product_of_marginals(joint)
    log_joint, log_product = (pair_log_score(tables, task.truth, edges) for tables in (joint, product))
    difference = log_joint - log_product
    spread = difference.std(ddof=1) if len(difference) > 1 else 0.0
    found = {
        "num_edges": edges.shape[1],
        "num_samples": len(samples),
        "joint": log_joint.mean(),
        "product": log_product.mean(),
        "difference": difference.mean(),
        "standard_error": spread / np.sqrt(len(difference)),
        "calibration_joint": pair_calibration_error(joint, task.truth, edges),
        "calibration_product": pair_calibration_error(product, task.truth, edges),
    }
    return {name: value if isinstance(value, int) else round(float(value), 6) for name, value in found.items()}


def table(documents: Sequence[Document]) -> Table:
    """One line per method, data set and kind of run."""
    rows = [
        row
        for method in dict.fromkeys(d["row"] for d in documents)
        for dataset in DATASETS
        for row in _rows(documents, method, dataset)
    ]
    return Table("Pairs of neighbours: joint samples against the product of marginals", HEADER, rows, NOTES)


def _rows(documents: Sequence[Document], method: str, dataset: str) -> Iterator[list[str]]:
    for kind, words in RUNS.items():
        runs: list[dict[str, Any]] = [
            pairs
            for d in documents
            if d["row"] == method and d["dataset"] == dataset and (pairs := d["metrics"]["pairs"].get(kind))
        ]
        if not runs:
            continue

        def mean(name: str, runs: list[dict[str, Any]] = runs) -> float:
            return statistics.fmean(run[name] for run in runs)

        differences = [run["difference"] for run in runs]
        spread = f"±{statistics.stdev(differences):.3f}" if len(runs) > 1 else ""
        yield [
            method,
            DATASETS[dataset],
            words,
            *(f"{mean(name):.3f}" for name in ("joint", "product")),
            f"{mean('difference'):+.3f}{spread}",
            f"{mean('standard_error'):.3f}",
            *(percent(mean(f"calibration_{name}")) for name in ("joint", "product")),
            f"{mean('num_edges'):.0f}",
            f"{mean('num_samples'):.0f}",
            str(len(runs)),
        ]
