"""Who fills the first buffer of Algorithm 1: a baseline by name, or any object with the same two verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.stack import MEMBERS, Stack
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph


class Uniform(Baseline):
    """Knows nothing: every class is as likely as any other."""

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)


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


def _member(name: str) -> Callable[..., Baseline]:
    return lambda classifier, **settings: MEMBERS[name](seed=classifier.seed, **settings)


INITIALISERS: dict[str, Callable[..., Baseline]] = {
    "gnn": _gnn,
    **{name: _member(name) for name in MEMBERS},
    "stack": lambda classifier, **settings: Stack(seed=classifier.seed, **settings),
    "lp": lambda classifier, **settings: LabelPropagation(**settings),
    "uniform": lambda classifier: Uniform(),
}


def make_initialiser(classifier: Any) -> Any:
    """The initialiser of a `NodeClassifier`, ready to be fitted: a name, a name with settings, or an object."""
    initialiser = classifier.initialiser
    if hasattr(initialiser, "fit") and hasattr(initialiser, "predict_proba"):
        return initialiser
    name, settings = (initialiser, {}) if isinstance(initialiser, str) else _named(initialiser)
    if name not in INITIALISERS:
        raise InputError(
            f"initialiser={initialiser!r} is neither one of {', '.join(INITIALISERS)} nor has it fit and predict_proba"
        )
    try:
        return INITIALISERS[name](classifier, **settings)
    except TypeError as error:
        raise InputError(f"the initialiser {name!r} does not take the settings {settings} ({error})") from error


def _named(initialiser: Any) -> tuple[str, dict[str, Any]]:
    match initialiser:
        case [str(name), Mapping() as settings]:
            return name, dict(settings)
    return "", {}
