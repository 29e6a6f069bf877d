"""Who fills the first buffer of Algorithm 1: a baseline by name, or any object with the same two verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.options import ScalingName


class Uniform(Baseline):
    """Knows nothing: every class is as likely as any other."""

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)


@dataclass(eq=False)
class ScaledPTA(Baseline):
    """PTA with the scaling of features that finds most of the validation labels.

    Rows of sum 1 suit nodes with a few dozen words and fail where they have hundreds; without validation labels, or
    without features, it is rows of length 1.
    """

    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        choice = graph.x is not None and bool((y_validation != UNKNOWN).any())
        scalings: tuple[ScalingName, ...] = ("unit", "rows", "binary") if choice else ("unit",)
        answers = (
            PTA(**{"scaling": scaling, **self.settings}, seed=self.seed)._fit(graph, y_train, y_validation)
            for scaling in scalings
        )
        return max(answers, key=lambda proba: validation_accuracy(proba, y_validation))


def _pta(classifier: Any, **settings: Any) -> Baseline:
    pta = PTA(seed=classifier.seed, **settings)  # complains of settings that it does not take
    return pta if "scaling" in settings else ScaledPTA(classifier.seed, settings)


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
