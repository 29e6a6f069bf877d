"""What a search may vary: the paper's ranges (appendix E) for each setting, ours beyond them, and who takes which.

Ranges are listed by quantity; a method has its own name for each quantity it knows. A method's default always belongs
to its space, so that a search can begin with it, and so does what is suggested for graphs like those of table 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmsnc.errors import InputError
from dpmsnc.evidence.run.methods import DEEP
from dpmsnc.evidence.run.store import configuration
from dpmsnc.evidence.search.config_files import flat

Value = str | float | bool
Ranges = Mapping[str, tuple[Value, ...]]
Space = dict[str, tuple[Value, ...]]
"""Choices by argument of the constructor, with a dot where the argument belongs to a group."""

PAPER: dict[str, Ranges] = {
    "homophilic": {
        "learning_rate": (0.001, 0.005, 0.01),
        "weight_decay": (0.001, 0.005, 0.01),
        "num_layers": (2, 4),
        "hidden_channels": (64, 128),
        "temperature": (0.1, 0.3, 1.0),
        "propagations": (10, 100),
        "damping": (0.1, 0.3, 0.5),
        "constraint_weight": (0.1, 1.0, 10.0),
    },
    "heterophilic": {
        "learning_rate": (3e-5, 1e-4, 3e-4),
        "weight_decay": (0.0, 1e-5, 1e-4),
        "num_layers": (2, 4),
        "hidden_channels": (256, 512),
        "temperature": (0.1, 0.3, 1.0),
    },
    "synthetic": {"learning_rate": (0.001, 0.005, 0.01)},
}
DEPTHS = (4, 8, 16, 32)
"""Layers of networks that are made to be deep."""
_ALWAYS: Ranges = {
    "dropout": (0.2, 0.5, 0.7),
    "unlabelled_weight": ("confidence", 0.1, 1.0, 10.0),
    "time_draws": (4, 8),
    "clamp": (False, True),
    "constraint_weight": (0.1, 1.0, 10.0),
    "shown": (0.3, 0.6, 0.9),
    "entropy_weight": (0.1, 0.25, 0.5, 1.0),
    "labelled_entropy_weight": (-0.25, 0.0),
    "mixed_orders": (2, 5, 8),
    "sharpening": (0.2, 0.3, 0.5),
    "consistency_weight": (0.5, 0.7, 1.0),
    "input_dropout": (0.0, 0.5),
    "label_steps": (1, 5, 10),
    "rounds": (1, 3),
    "sees": ("neighbourhood", "neighbours"),
    "head": ("linear", "convolution"),
    "normalisation": ("rows", "symmetric"),
    "correct": (False, True),
    "correction_alpha": (0.5, 0.8, 0.95),
    "smoothing_alpha": (0.5, 0.8, 0.95),
}
_WITH_FEATURES: Ranges = {
    "scaling": ("unit", "rows", "binary"),
    "hide_features": (0.0, 0.05, 0.2),
}
OURS: dict[str, Ranges] = {
    "homophilic": {**_ALWAYS, **_WITH_FEATURES},
    "heterophilic": {**_ALWAYS, **_WITH_FEATURES, "propagations": (10, 100), "damping": (0.1, 0.3, 0.5)},
    # no features, and networks of one layer with 16 channels in the paper
    "synthetic": {**_ALWAYS, "weight_decay": (0.0, 5e-4), "temperature": (0.1, 0.3, 1.0), "num_layers": (1, 2)},
}
SETTINGS = {
    "grid_scattered": "synthetic",
    "grid_localized": "synthetic",
    "roman_empire": "heterophilic",
    "roman_empire_nofeat": "heterophilic",
    "amazon_ratings": "heterophilic",
    "minesweeper": "heterophilic",
    "tolokers": "heterophilic",
    "chameleon_filtered": "heterophilic",
}
"""The setting of a data set; homophilic where it is not listed."""

_NETWORK = {name: name for name in ("num_layers", "hidden_channels", "dropout", "scaling")}
_OPTIMISER = {"learning_rate": "lr", "weight_decay": "weight_decay"}
_GNN = {**_NETWORK, **_OPTIMISER, "input_dropout": "input_dropout", "head": "head"}
_DIFFUSION = {
    **_NETWORK,
    **{
        name: f"training.{name}"
        for name in ("learning_rate", "weight_decay", "temperature", "unlabelled_weight", "hide_features", "time_draws")
    },
}
ARGUMENTS: dict[str, dict[str, str]] = {
    "dpm-snc": _DIFFUSION,
    "masked-labels": _DIFFUSION,
    "gcn": _GNN,
    "gat": _GNN,
    "gcnii": _GNN,
    "sage": _GNN,
    "pta": {
        **_OPTIMISER,
        "hidden_channels": "hidden_channels",
        "scaling": "scaling",
        "propagations": "num_layers",
        "damping": "alpha",
    },
    "appnp": {
        **{name: name for name in ("hidden_channels", "dropout", "scaling")},
        **_OPTIMISER,
        "propagations": "num_layers",
        "damping": "alpha",
    },
    "correct-and-smooth": {
        **{name: name for name in ("hidden_channels", "dropout", "scaling", "propagations")},
        **{name: name for name in ("correct", "correction_alpha", "smoothing_alpha")},
        **_OPTIMISER,
    },
    "gcn-lpa": {
        **_GNN,
        **{"constraint_weight": "label_weight", "label_steps": "propagations", "normalisation": "normalisation"},
    },
    "gmnn": {**_GNN, **{name: name for name in ("temperature", "rounds", "sees")}},
    "g3nn": {**_GNN, "constraint_weight": "constraint_weight"},
    "clgnn": {**_GNN, "temperature": "temperature", "shown": "shown"},
    "entropy": {**_GNN, **{name: name for name in ("entropy_weight", "labelled_entropy_weight")}},
    "grand": {
        **{name: name for name in ("hidden_channels", "dropout", "input_dropout", "consistency_weight", "scaling")},
        **_OPTIMISER,
        "mixed_orders": "num_layers",
        "sharpening": "temperature",
    },
    "lp": {"propagations": "num_layers", "damping": "alpha", "clamp": "clamp"},
}
"""By method, its argument for each quantity that a search varies."""


_CLOSELY: Mapping[str, Value] = {"training.unlabelled_weight": 10.0, "training.hide_features": 0.0}
_FOLLOWING: tuple[Mapping[str, Value], ...] = (
    {"training.unlabelled_weight": 10.0},
    _CLOSELY,
    {**_CLOSELY, "scaling": "binary"},
    {**_CLOSELY, "dropout": 0.2},
    {**_CLOSELY, "training.steps": 500, "training.initialiser_refreshes": 2},
)
_BINARY: Mapping[str, Value] = {"scaling": "binary", "weight_decay": 0.01}
"""Of all baselines of the authors of DPM-SNC, who do not scale features down."""
_SLOWLY: Mapping[str, Value] = {"scaling": "binary", "lr": 0.001, "weight_decay": 0.001}
"""What the authors of DPM-SNC have for their own method on Computers: where a node has hundreds of words, answers jump
from epoch to epoch at larger rates, and the best epoch is a matter of luck."""
_CONVOLVING: Mapping[str, Value] = {"head": "convolution"}
"""As the GCN and GAT of their own authors end, and G3NN, GMNN, GCN-LPA and CLGNN."""
_OURS: Mapping[str, Value] = {"scaling": "rows", "input_dropout": 0.5, **_CONVOLVING}
"""Wider than Kipf's GCN and with more weight decay: what did best in a few fits on Citeseer's validation nodes."""
SUGGESTIONS: dict[str, tuple[Mapping[str, Value], ...]] = {
    "dpm-snc": _FOLLOWING,
    "masked-labels": _FOLLOWING,
    "gcn": (
        {**_SLOWLY, "epochs": 500},
        {**_BINARY, "epochs": 500},
        {"scaling": "rows", "hidden_channels": 16, "input_dropout": 0.5, "weight_decay": 5e-4, **_CONVOLVING},
        _OURS,
    ),
    "gat": (
        {**_SLOWLY, "epochs": 500},
        {**_BINARY, "lr": 0.005, "epochs": 500},
        {
            **{"scaling": "rows", "input_dropout": 0.6, "dropout": 0.6, "lr": 0.005, "weight_decay": 5e-4},
            "epochs": 500,
            **_CONVOLVING,
        },
        _OURS,
    ),
    "gcnii": (
        {**_SLOWLY, "epochs": 500},
        {**_BINARY, "epochs": 500},
        {"scaling": "rows", "num_layers": 32, "input_dropout": 0.6, "dropout": 0.6, "epochs": 500},
    ),
    "gcn-lpa": (
        {**_SLOWLY, "epochs": 500},
        {**_BINARY, "label_weight": 10.0, "propagations": 10, "epochs": 1000, "normalisation": "symmetric"},
        _OURS,
        {**_OURS, "normalisation": "symmetric"},
    ),
    "gmnn": (
        {**_SLOWLY, "epochs": 500},
        {
            **{"scaling": "rows", "hidden_channels": 16, "dropout": 0.0},
            **{"optimiser": "rmsprop", "lr": 0.05, "weight_decay": 5e-4, **_CONVOLVING},
        },
        _OURS,
        {**_BINARY, "optimiser": "rmsprop", "rounds": 10, "temperature": 0.3, "epochs": 200},
    ),
    "g3nn": (_SLOWLY, _BINARY, {"scaling": "rows", "weight_decay": 5e-4, **_CONVOLVING}),
    "clgnn": (
        {**_SLOWLY, "first_steps": 1000, "steps": 200},
        _BINARY,
        {"scaling": "rows", "hidden_channels": 16, "weight_decay": 5e-4, **_CONVOLVING},
        _OURS,
    ),
    "grand": (
        {
            **{"num_layers": 2, "augmentations": 2, "input_dropout": 0.0, "dropout": 0.2},
            **{"temperature": 0.3, "consistency_weight": 0.7},
        },
        {"scaling": "binary", "num_layers": 5, "patience": 100},
        {
            **{"scaling": "binary", "num_layers": 5, "patience": 100},
            **{"temperature": 0.2, "input_dropout": 0.6, "dropout": 0.8},
        },
    ),
}
"""What is worth a trial before trials are drawn: what the authors of DPM-SNC and those of the method use, as far as it
is an option here; a slow one; and ours (`_OURS`, a symmetric GCN-LPA with it, GRAND on binary features). Of dpm-snc and
masked-labels, where the initialiser is good, a model that follows it closely."""


def space(method: str, dataset: str, default: Any) -> Space:
    """What a search varies, given the method's estimator with its default settings."""
    if method not in ARGUMENTS:
        raise InputError(f"there is no search space for {method!r}; there is one for {', '.join(ARGUMENTS)}")
    setting = SETTINGS.get(dataset, "homophilic")
    ranges = {**OURS[setting], **PAPER[setting]}
    defaults = flat(configuration(default))
    if deep := defaults.get("backbone") in DEEP:
        ranges["num_layers"] = DEPTHS
    choices: Space = {
        argument: (*ranges[quantity], defaults[argument])
        for quantity, argument in ARGUMENTS[method].items()
        if quantity in ranges
    }
    if setting == "homophilic":
        for argument, value in (item for suggestion in SUGGESTIONS.get(method, ()) for item in suggestion.items()):
            choices[argument] = (*choices.get(argument, (defaults[argument],)), value)
    if deep or 1 in choices.get("num_layers", ()):
        choices.pop("head", None)  # a head that is a convolution takes a backbone that has one, and two layers
    return {argument: tuple(dict.fromkeys(values)) for argument, values in choices.items()}
