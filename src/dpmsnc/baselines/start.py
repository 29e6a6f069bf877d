"""Who fills the first buffer of Algorithm 1: a baseline by name, or any object with the same two verbs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.pta import PTA
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph


class Uniform(Baseline):
    """Knows nothing: every class is as likely as any other."""

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)


def make_start(classifier: Any) -> Any:
    """The start of a `NodeClassifier`, ready to be fitted."""
    start = classifier.start
    if start == "pta":
        return PTA(seed=classifier.seed)
    if start == "lp":
        return LabelPropagation()
    if start == "uniform":
        return Uniform()
    if start == "gnn":
        return GNN(
            classifier.backbone,
            classifier.hidden_channels,
            max(classifier.num_layers, 1),
            classifier.dropout,
            lr=classifier.training.learning_rate,
            weight_decay=classifier.training.weight_decay,
            epochs=500,
            scaling=classifier.scaling,
            seed=classifier.seed,
        )
    if hasattr(start, "fit") and hasattr(start, "predict_proba"):
        return start
    raise InputError(f"start={start!r} is neither pta, gnn, lp or uniform nor an object with fit and predict_proba")
