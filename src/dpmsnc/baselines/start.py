"""Who fills the first buffer of Algorithm 1: a baseline by name, or any object with the same two verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.g3nn import G3NN
from dpmsnc.baselines.gnn import GNN, validation_accuracy
from dpmsnc.baselines.grand import GRAND
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.pta import PTA
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph


class Uniform(Baseline):
    """Knows nothing: every class is as likely as any other."""

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)


@dataclass(eq=False)
class ScaledPTA(Baseline):
    """PTA with rows of features brought to sum 1 or to length 1, whichever finds more of the validation labels.

    Sums suit nodes with a few dozen words, lengths those with hundreds; without validation labels it is lengths, which
    never fail badly.
    """

    seed: int = 0

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        by_length = PTA(scaling="unit", seed=self.seed)._fit(graph, y_train, y_validation)
        if graph.x is None or not (y_validation >= 0).any():
            return by_length
        by_sum = PTA(scaling="rows", seed=self.seed)._fit(graph, y_train, y_validation)
        return max(by_length, by_sum, key=lambda proba: validation_accuracy(proba, y_validation))


def _pta(classifier: Any, **settings: Any) -> Baseline:
    return PTA(seed=classifier.seed, **settings) if settings else ScaledPTA(classifier.seed)


def _gnn(classifier: Any, **settings: Any) -> GNN:
    """The classifier's own network, plain."""
    own = {
        "backbone": classifier.backbone,
        "hidden_channels": classifier.hidden_channels,
        "num_layers": max(classifier.num_layers, 1),
        "dropout": classifier.dropout,
        "lr": classifier.training.learning_rate,
        "weight_decay": classifier.training.weight_decay,
        "epochs": 500,
        "scaling": classifier.scaling,
    }
    return GNN(**(own | settings), seed=classifier.seed)


STARTS: dict[str, Callable[..., Baseline]] = {
    "pta": _pta,
    "gnn": _gnn,
    "grand": lambda classifier, **settings: GRAND(seed=classifier.seed, **settings),
    "g3nn": lambda classifier, **settings: G3NN(seed=classifier.seed, **settings),
    "lp": lambda classifier, **settings: LabelPropagation(**settings),
    "uniform": lambda classifier: Uniform(),
}


def make_start(classifier: Any) -> Any:
    """The start of a `NodeClassifier`, ready to be fitted: a name, a name with settings, or an object."""
    start = classifier.start
    if hasattr(start, "fit") and hasattr(start, "predict_proba"):
        return start
    name, settings = (start, {}) if isinstance(start, str) else _named(start)
    if name not in STARTS:
        raise InputError(
            f"start={start!r} is neither one of {', '.join(STARTS)} nor an object with fit and predict_proba"
        )
    try:
        return STARTS[name](classifier, **settings)
    except TypeError as error:
        raise InputError(f"the start {name!r} does not take the settings {settings} ({error})") from error


def _named(start: Any) -> tuple[str, dict[str, Any]]:
    match start:
        case [str(name), Mapping() as settings]:
            return name, dict(settings)
    return "", {}
