"""Several labels a node on one graph: blogcatalog, which has no features.

Half of the nodes are for training and a quarter for validation. Every method answers with the tags whose probability
exceeds a threshold that its validation labels chose.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpmsnc.evidence.experiments.aggregate import SEEDS
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.summary import cpu
from dpmsnc.evidence.show.table import Table

DATASETS = ("blogcatalog",)
ROWS = {name: Row(name) for name in ("lp", "gcn", "sage", "spectral", "masked-labels", "dpm-snc")}
METRICS = {"micro_f1": "micro-F1", "macro_f1": "macro-F1"}
NOTES = (
    "lp: label propagation of tags; gcn, sage: on degrees and return probabilities, since there are no features;",
    "spectral: logistic regression on a spectral embedding. CPU s: fit and prediction.",
)


def table(documents: Sequence[Document]) -> Table:
    """Micro- and macro-F1 of every method."""
    title = "Several labels a node"
    return compare(title, documents, DATASETS, ROWS, metrics=METRICS, extra={"CPU s": cpu}, notes=NOTES)


TAGS = Experiment("tags", DATASETS, ROWS, SEEDS, table=table)
