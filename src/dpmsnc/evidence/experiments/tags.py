"""Several labels a node: on one graph without features, blogcatalog, and on graphs never seen, ppi (table 4).

Half of the nodes of blogcatalog are for training and a quarter for validation; ppi has 20 training and 2 validation
graphs. Every method answers with the tags whose probability exceeds a threshold that its validation labels chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpmsnc.evidence.experiments.aggregate import SEEDS
from dpmsnc.evidence.experiments.table4_inductive import BACKBONES, PAPER
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.summary import cpu
from dpmsnc.evidence.show.table import Table

DATASETS = ("blogcatalog", "ppi")
WIDE = {"hidden_channels": 1024, "num_layers": 4, "dropout": 0.0}
"""The largest network of the paper's search on ppi; every layer has a linear skip (`residual`)."""


def on_ppi(backbone: str, **settings: Any) -> dict[str, Any]:
    """The settings of a row on ppi: linear skips in every layer, and weights that do not decay."""
    return {"ppi": {"backbone": [backbone, {"residual": True}], **WIDE, **settings}}


NETWORKS = {
    name: Row(name, by_dataset=on_ppi(backbone, lr=1e-3, weight_decay=0.0, epochs=1000))
    for name, backbone in BACKBONES.items()
}
DIFFUSION = {"training": {"learning_rate": 3e-4, "weight_decay": 0.0, "batch_size": 2, "steps": 20000}}
ROWS = {
    **{name: Row(name) for name in ("lp", "spectral", "sage")},
    **NETWORKS,
    **{
        f"{name} ({on})": Row(name, {"backbone": on}, on_ppi(on, **DIFFUSION))
        for name in ("masked-labels", "dpm-snc")
        for on in BACKBONES
    },
}
METRICS = {"micro_f1": "micro-F1", "macro_f1": "macro-F1"}
NOTES = (
    "lp: label propagation of tags; gcn, sage: on degrees and return probabilities, since there are no features;",
    "spectral: logistic regression on a spectral embedding. CPU s: fit and prediction.",
    "ppi: 4 layers of 1024 channels with linear skips; its files have to be downloaded.",
)


def table(documents: Sequence[Document]) -> Table:
    """Micro- and macro-F1 of every method."""
    title = "Several labels a node"
    return compare(
        title, documents, DATASETS, ROWS, paper=PAPER, metrics=METRICS, extra={"CPU s": cpu}, notes=NOTES, others=False
    )


TAGS = Experiment("tags", DATASETS, ROWS, SEEDS, table=table)
