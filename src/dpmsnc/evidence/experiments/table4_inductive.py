"""Table 4: graphs that were not trained on, with node and graph accuracy; and twitch, which the paper does not have.

Methods learn from training graphs, validation graphs choose, and no label of a test graph is known. The weights of
dpm-snc are chosen by validation graph accuracy, as in the authors' code.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from dpmsnc.config import Training
from dpmsnc.data import InductiveTask
from dpmsnc.evidence.run.estimators import own_probabilities
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.paper import Printed, columns
from dpmsnc.evidence.show.summary import cpu, initialiser, last, percent, score
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import log_loss, roc_auc

PAPER = Printed(
    number=4,
    columns=(
        *columns(("pubmed_ego", "cora_ego", "citeseer_ego"), ("accuracy", "graph_accuracy")),
        ("ppi", "micro_f1"),
    ),
    digits=2,
    fewer_seeds={"ppi": 5},
    rows={
        ("gcn", "gcn"): "80.25±0.42 54.58±0.51 83.36±0.43 59.67±0.51 76.37±0.35 49.84±0.47 99.15±0.03",
        ("g3nn", "gcn"): "80.32±0.30 53.93±0.71 83.60±0.25 59.78±0.47 76.34±0.37 50.76±0.47 99.33±0.02",
        ("clgnn", "gcn"): "80.22±0.45 53.98±0.54 83.45±0.34 60.24±0.38 75.71±0.40 50.51±0.38 99.22±0.04",
        ("spn", "gcn"): "80.78±0.34 54.91±0.40 83.85±0.60 60.35±0.57 76.25±0.48 51.02±1.06 99.35±0.02",
        ("dpm-snc", "gcn"): "80.58±0.41 55.16±0.43 84.09±0.27 60.88±0.36 77.01±0.49 51.44±0.56 99.46±0.02",
        ("gat", "gat"): "80.10±0.45 54.38±0.54 79.71±1.41 56.66±1.40 74.91±0.22 49.87±0.44 99.54±0.01",
        ("g3nn", "gat"): "79.88±0.62 54.66±0.29 81.19±0.45 58.68±0.38 75.45±0.26 50.86±0.46 99.56±0.01",
        ("clgnn", "gat"): "80.23±0.40 54.51±0.36 81.38±0.55 58.81±0.61 75.45±0.36 50.66±0.45 99.55±0.01",
        ("spn", "gat"): "79.95±0.34 54.82±0.33 81.61±0.31 59.17±0.31 75.41±0.35 51.04±0.53 99.46±0.02",
        ("dpm-snc", "gat"): "80.26±0.37 54.26±0.47 81.79±0.46 59.55±0.49 76.46±0.60 52.05±0.71 99.63±0.01",
    },
)
EGO = ("cora_ego", "citeseer_ego", "pubmed_ego")
DATASETS = (*EGO, "twitch")
BACKBONES = {"gcn": "gcn", "gat": "gat(attention_dropout=True)"}
STRUCTURED = ("g3nn", "clgnn", "spn")
TRAINING = Training(weight_decay=0.01, select_by="graph_accuracy")
"""There are few labels to learn from and no unlabelled nodes beside them, so weights decay faster than by default."""
BY_DATASET: dict[str, dict[str, Any]] = {"twitch": {"training": {"select_by": None}}}
"""There is one validation graph, whose nodes are never all right."""
ON_CORA = {"cora_ego": {"backbone": "gcn(residual=True)", "initialiser": "gnn"}}
"""A GCN with linear skips that begins as its plain version: better by validation graph accuracy there than base models
chosen by likelihood (62.2 against 59.8 %, seed 0), and not better on the two other sets."""
METRICS = {"accuracy": "accuracy", "graph_accuracy": "graph-acc"}
ROWS = {
    **{name: Row(name) for name in ("gcn", "gat", "sage", "crf")},
    **{
        f"{name} ({on})": Row(name, {"backbone": backbone}) for name in STRUCTURED for on, backbone in BACKBONES.items()
    },
    **{
        f"{name} ({on})": Row(
            name, {"backbone": on, "training": TRAINING}, BY_DATASET | (ON_CORA if on == "gcn" else {})
        )
        for name in ("masked-labels", "dpm-snc")
        for on in BACKBONES
    },
}


def measure(model: Any, task: InductiveTask, seed: int) -> dict[str, Any]:
    """How good the probabilities are of nodes of test graphs; ROC-AUC where there are two classes."""
    p, tested = own_probabilities(model, task), task.tested
    found = {"log_loss": log_loss(p, tested.truth, tested.test)}
    if task.num_classes == 2:
        found["roc_auc"] = roc_auc(p, tested.truth, tested.test)
    return {"probabilities": {name: round(value, 6) for name, value in found.items()}}


def area(runs: Sequence[Document]) -> str:
    """ROC-AUC in per cent, over seeds."""
    found = [value for run in runs if (value := score(run, "probabilities", "roc_auc")) is not None]
    return percent(statistics.fmean(found) if found else None, statistics.stdev(found) if len(found) > 1 else None)


EXTRA = {"ROC-AUC": area, "last": last, "initialiser": initialiser, "CPU s": cpu}
NOTES = (
    "accuracy: share of the nodes of test graphs that are right; graph-acc: share of test graphs without a wrong node.",
    "last: mean accuracy at the last checkpoint; initialiser: that of the pairwise model which the network corrects.",
    "On cora_ego the GCN of dpm-snc and masked-labels has linear skips, chosen by validation graphs.",
    "crf: that pairwise model on its own. CPU s: fit and prediction, the initialiser's included.",
    "twitch: train on four countries, validate on one, test on two; ROC-AUC in %. ppi is in `dpmsnc table tags`.",
)


def table(documents: Sequence[Document]) -> Table:
    """Node and graph accuracy beside the paper's."""
    title = "Table 4: graphs that were not trained on"
    return compare(title, documents, DATASETS, ROWS, paper=PAPER, metrics=METRICS, extra=EXTRA, notes=NOTES)


INDUCTIVE = Experiment("inductive", DATASETS, ROWS, seeds=tuple(range(10)), table=table, paper=PAPER, measure=measure)
