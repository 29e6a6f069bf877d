"""The methods that tables compare, by name: how each is built for a seed and with the settings of an experiment.

Every method is an estimator with `fit(graph, validation=mask)` and `predict()`. A method's version goes up when its
numbers may change although its configuration does not: runs of older versions are then run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dpmsnc.baselines import (
    APPNP,
    CLGNN,
    G3NN,
    GCNLPA,
    GMNN,
    GNN,
    GRAND,
    PTA,
    Baseline,
    CorrectAndSmooth,
    EntropySharpening,
    LabelPropagation,
    MaskedLabels,
)
from dpmsnc.config import BackboneName
from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.presets import preset

DEEP = ("gcnii", "gcnii-timeless")
"""Networks that are made to be deep, and of which two layers would be no fair example."""


@dataclass(frozen=True)
class Method:
    """`build(seed, **settings)` gives the estimator, not yet fitted.

    `like` names the method of which this is a variant: without a search of its own it takes what was found for that.
    """

    build: Callable[..., Any]
    version: int = 1
    like: str | None = None


def _gnn(backbone: BackboneName, seed: int, **settings: Any) -> GNN:
    return GNN(backbone, seed=seed, **settings)


def _lp(seed: int, **settings: Any) -> LabelPropagation:
    return LabelPropagation(**settings)


def _pta(seed: int, **settings: Any) -> PTA:
    return PTA(seed=seed, **settings)


def _seeded(kind: Callable[..., Baseline], seed: int, **settings: Any) -> Baseline:
    """Any baseline that draws random numbers."""
    return kind(seed=seed, **settings)


def _classifier(kind: type[NodeClassifier], seed: int, **settings: Any) -> NodeClassifier:
    if settings.get("backbone") in DEEP:
        settings = {"num_layers": 8, **settings}
    return kind(seed=seed, **settings)


def _dpm_snc_paper(seed: int, setting: str = "homophilic", steps: int | None = None, **settings: Any) -> NodeClassifier:
    """The paper's preset for a setting; `steps` shortens it."""
    if steps is not None:
        settings["training"] = replace(preset("paper", setting)["training"], steps=steps)
    return NodeClassifier.from_preset("paper", setting=setting, seed=seed, **settings)


METHODS: dict[str, Method] = {
    "gcn": Method(partial(_gnn, "gcn")),
    "gat": Method(partial(_gnn, "gat-dropout")),  # attention is dropped, as in the original
    "gcnii": Method(partial(_gnn, "gcnii", num_layers=16)),
    "sage": Method(partial(_gnn, "sage")),
    "lp": Method(_lp),
    "pta": Method(_pta),
    "appnp": Method(partial(_seeded, APPNP)),
    "correct-and-smooth": Method(partial(_seeded, CorrectAndSmooth)),
    "gcn-lpa": Method(partial(_seeded, GCNLPA)),
    "gmnn": Method(partial(_seeded, GMNN), version=2),
    "g3nn": Method(partial(_seeded, G3NN)),
    "clgnn": Method(partial(_seeded, CLGNN)),
    "grand": Method(partial(_seeded, GRAND)),
    "entropy": Method(partial(_seeded, EntropySharpening)),
    "masked-labels": Method(partial(_classifier, MaskedLabels), like="dpm-snc"),
    "dpm-snc": Method(partial(_classifier, NodeClassifier)),
    "dpm-snc-paper": Method(_dpm_snc_paper),
}


PLAIN = ("gcn", "gat", "gcnii", "sage")
"""Methods that are a network and nothing else."""


def method(name: str) -> Method:
    """The method of that name."""
    if name not in METHODS:
        raise InputError(f"unknown method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]
