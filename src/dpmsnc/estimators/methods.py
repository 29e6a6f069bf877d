"""The diffusion model and its variants as methods of the tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from dpmsnc.config import BackboneSpec
from dpmsnc.estimators.base import METHODS, Method
from dpmsnc.estimators.masked_labels import MaskedLabels
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.estimators.search_space import DPM_SNC, MASKED_LABELS
from dpmsnc.presets import preset

DEEP = ("gcnii",)
"""Networks that are made to be deep, and of which two layers would be no fair example."""


def is_deep(backbone: BackboneSpec | None) -> bool:
    """Whether a network, whatever its options, is made to be deep."""
    from dpmsnc.nn.backbones import backbone_name

    return backbone is not None and backbone_name(backbone).partition("(")[0] in DEEP


def _classifier(kind: type[NodeClassifier], seed: int, **settings: Any) -> NodeClassifier:
    if is_deep(settings.get("backbone")):
        settings = {"num_layers": 8, **settings}
    return kind(seed=seed, **settings)


def _paper(seed: int, setting: str = "homophilic", steps: int | None = None, **settings: Any) -> NodeClassifier:
    """The paper's preset for a setting; `steps` shortens it."""
    if steps is not None:
        settings["training"] = replace(preset("paper", setting)["training"], steps=steps)
    return NodeClassifier.from_preset("paper", setting=setting, seed=seed, **settings)


METHODS["masked-labels"] = Method(partial(_classifier, MaskedLabels), like="dpm-snc", search=MASKED_LABELS)
METHODS["dpm-snc"] = Method(partial(_classifier, NodeClassifier), search=DPM_SNC)
METHODS["dpm-snc-paper"] = Method(_paper)
