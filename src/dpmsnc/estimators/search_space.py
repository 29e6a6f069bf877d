"""What a search varies of a method, declared beside the method; `dpmsnc.evidence.search.space` has the ranges.

Ranges are listed by quantity; a method has its own argument for each quantity it knows. Here stand the arguments and
suggestions that several methods share, and those of the diffusion model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Value = str | float | bool
Suggestion = Mapping[str, Value]


@dataclass(frozen=True)
class SearchSpace:
    """The argument of a method for each quantity that a search varies, and settings worth a trial before any is drawn.

    Arguments have a dot where they belong to a group, as in "training.steps". Suggestions are for graphs like those of
    table 2: what the authors of DPM-SNC and those of the method use, as far as it is an option here, and ours.
    """

    arguments: Mapping[str, str]
    suggestions: tuple[Suggestion, ...] = ()


def same(*names: str) -> dict[str, str]:
    """Quantities that a method's arguments are named after."""
    return {name: name for name in names}


NETWORK = same("num_layers", "hidden_channels", "dropout", "scaling")
OPTIMISER = {"learning_rate": "lr", "weight_decay": "weight_decay"}
GNN = {**NETWORK, **OPTIMISER, **same("input_dropout", "head")}

BINARY: Suggestion = {"scaling": "binary", "weight_decay": 0.01}
"""All baselines of the authors of DPM-SNC have these settings: they do not scale features down."""
SLOWLY: Suggestion = {"scaling": "binary", "lr": 0.001, "weight_decay": 0.001}
"""The authors of DPM-SNC have these for their own method on Computers: where a node has hundreds of words, answers jump
from epoch to epoch at larger rates, and the best epoch is a matter of luck."""
CONVOLVING: Suggestion = {"head": "convolution"}
"""GCN and GAT of their own authors end in a convolution, and so do G3NN, GMNN, GCN-LPA and CLGNN."""
OURS: Suggestion = {"scaling": "rows", "input_dropout": 0.5, **CONVOLVING}
"""Wider than Kipf's GCN and with more weight decay: what did best in a few fits on Citeseer's validation nodes."""

_CLOSELY: Suggestion = {"training.unlabelled_weight": 10.0, "training.hide_features": 0.0}
_OF_TRAINING = ("learning_rate", "weight_decay", "temperature", "unlabelled_weight", "hide_features", "time_draws")
DPM_SNC = SearchSpace(
    {**NETWORK, **{name: f"training.{name}" for name in _OF_TRAINING}},
    # where the initialiser is good, a model that follows it closely
    (
        {"training.unlabelled_weight": 10.0},
        _CLOSELY,
        {**_CLOSELY, "scaling": "binary"},
        {**_CLOSELY, "dropout": 0.2},
        {**_CLOSELY, "training.steps": 500, "training.initialiser_refreshes": 2},
    ),
)
MASKED_LABELS = DPM_SNC
