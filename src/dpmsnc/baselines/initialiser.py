"""Who fills the first buffer of Algorithm 1: a baseline by name, or any object with the same two verbs."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines import lp  # noqa: F401 (registers its method)
from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.crf import CRF
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.stack import MEMBERS, Stack
from dpmsnc.baselines.supplied import Supplied
from dpmsnc.baselines.tag_pool import TagPool
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import METHODS, Estimator, only
from dpmsnc.graph import Graph
from dpmsnc.targets import RealValue, Tags


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


def _seeded(build: Callable[..., Baseline]) -> Callable[..., Baseline]:
    """With the classifier's seed, and nothing else of it."""
    return lambda classifier, **settings: build(seed=classifier.seed, **settings)


INITIALISERS: dict[str, Callable[..., Baseline]] = {
    "auto": _seeded(CRF),
    "gnn": _gnn,
    **{name: _seeded(build) for name, build in MEMBERS.items()},
    "stack": _seeded(Stack),
    "lp": _seeded(METHODS["lp"].build),
    "uniform": lambda classifier: Uniform(),
}


def make_initialiser(classifier: Any) -> Any:
    """The initialiser of a `NodeClassifier`, ready to be fitted: a name, a name with settings, or an object."""
    initialiser = classifier.initialiser
    if hasattr(initialiser, "fit") and hasattr(initialiser, "predict_proba") and not isinstance(initialiser, type):
        return initialiser
    target = getattr(classifier, "target_", None)
    if initialiser == "auto" and isinstance(target, Tags):
        return TagPool(seed=classifier.seed)
    if initialiser == "auto" and isinstance(target, RealValue):
        return Uniform()
    name, settings = (initialiser, {}) if isinstance(initialiser, str) else _named(initialiser)
    if name not in INITIALISERS and name not in METHODS:
        raise InputError(
            f"initialiser={initialiser!r} is neither one of {', '.join(INITIALISERS)} nor has it fit and predict_proba"
        )
    try:
        build = INITIALISERS[name] if name in INITIALISERS else _seeded(METHODS[name].build)
        return build(classifier, **settings)
    except TypeError as error:
        raise InputError(f"the initialiser {name!r} does not take the settings {settings} ({error})") from error


def make_crf(classifier: Any) -> CRF:
    """The initialiser of a `NodeClassifier` under a pairwise model, ready to be fitted."""
    initialiser = make_initialiser(classifier)
    if isinstance(initialiser, CRF):
        return copy.deepcopy(initialiser)  # a user's own stays as it is
    return CRF(initialiser if isinstance(initialiser, Baseline) else Supplied(initialiser), seed=classifier.seed)


def fitted_to(initialiser: Any, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any]) -> bool:
    """Whether it is a pairwise model that `fit` made of just these labels of this graph: the same fit would give the
    same again, and several classifiers can share the work."""
    return (
        isinstance(initialiser, CRF)
        and hasattr(initialiser, "_fold_answers")  # which a saved one lacks
        and initialiser._is_fitted_graph(graph)
        and np.array_equal(only(initialiser.graph_, initialiser.train_), y_train)
        and np.array_equal(only(initialiser.graph_, initialiser.validation_), y_validation)
    )


def make_tag_pool(classifier: Any) -> TagPool:
    """The initialiser of a `NodeClassifier` of tags, ready to be fitted."""
    initialiser = make_initialiser(classifier)
    if isinstance(initialiser, TagPool):
        return copy.deepcopy(initialiser)
    return TagPool(initialiser if isinstance(initialiser, Baseline) else Supplied(initialiser), seed=classifier.seed)


def ask_initialiser(initialiser: Any, graph: Graph, validation: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The probabilities of an initialiser that learned from training labels alone.

    One of ours chooses by validation labels and answers without them. Of an object of the user's own nobody knows what
    it would do with them, so it does not see them.
    """
    if isinstance(initialiser, Estimator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # the model that it begins is asked, and gives its own
            fitted = initialiser.fit(graph, validation=validation if validation.any() else None)
        asked = fitted._asked(None, None, "train")
        return fitted._marginals(asked, asked.y)
    own = copy.deepcopy(initialiser)  # the user's stays as it is
    own.fit(graph.hide(validation) if validation.any() else graph, validation=None)
    return np.asarray(own.predict_proba())


def _named(initialiser: Any) -> tuple[str, dict[str, Any]]:
    match initialiser:
        case [str(name), Mapping() as settings]:
            return name, dict(settings)
    return "", {}
