"""What a search may vary: the paper's ranges (appendix E) for each setting, and ours beyond them.

Ranges are listed by quantity. Which argument stands for a quantity is declared with each method (`SearchSpace`). A
method's default always belongs to its space, so that a search can begin with it, and so does what is suggested for
graphs like those of table 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpmsnc.baselines import METHODS
from dpmsnc.errors import InputError
from dpmsnc.estimators.methods import is_deep
from dpmsnc.estimators.search_space import Value
from dpmsnc.evidence.run.settings import flat

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
    "inductive": {
        "learning_rate": (0.001, 0.005, 0.01),
        "weight_decay": (0.001, 0.005, 0.01),
        "num_layers": (2, 4),
        "hidden_channels": (64, 128),
    },
    "inductive-huge": {
        "learning_rate": (3e-5, 1e-4, 3e-4),
        "weight_decay": (0.0, 1e-5, 1e-4),
        "num_layers": (2, 4),
        "hidden_channels": (512, 1024),
    },
    "reasoning": {"learning_rate": (1e-4, 3e-4, 1e-3), "weight_decay": (0.0, 1e-5, 1e-4)},
}
"""The ranges of appendix E, by the settings of `dpmsnc.presets`: those of tables 1 to 5."""
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
    "quick_learning_rate": (0.002, 0.01, 0.05),  # of shallow networks, whose authors search about here
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
    "inductive": {**_ALWAYS, **_WITH_FEATURES},
    "inductive-huge": {**_ALWAYS, **_WITH_FEATURES},
    "reasoning": {},
    # no features, and networks of one layer with 16 channels in the paper
    "synthetic": {**_ALWAYS, "weight_decay": (0.0, 5e-4), "temperature": (0.1, 0.3, 1.0), "num_layers": (1, 2)},
}
_HETEROPHILIC = (
    "roman_empire",
    "roman_empire_nofeat",
    "amazon_ratings",
    "minesweeper",
    "tolokers",
    "chameleon_filtered",
)
_DATASETS = {
    "synthetic": ("grid_scattered", "grid_localized"),
    "heterophilic": _HETEROPHILIC,
    "inductive": ("cora_ego", "citeseer_ego", "pubmed_ego"),
    "inductive-huge": ("ppi",),
    "reasoning": ("edge_copy", "connected_components", "shortest_path"),
}
SETTINGS = {dataset: setting for setting, datasets in _DATASETS.items() for dataset in datasets}
"""The setting of a data set; homophilic where it is not listed."""


def space(method: str, dataset: str, default: Any) -> Space:
    """What a search varies, given the method's estimator with its default settings."""
    declared = METHODS[method].search if method in METHODS else None
    if declared is None or not declared.arguments:
        searched = ", ".join(name for name, found in METHODS.items() if found.search.arguments)
        raise InputError(f"there is no search space for {method!r}; there is one for {searched}")
    setting = SETTINGS.get(dataset, "homophilic")
    ranges = {**OURS[setting], **PAPER[setting]}
    defaults = flat(default.configuration())
    if deep := is_deep(defaults.get("backbone")):
        ranges["num_layers"] = DEPTHS
    choices: Space = {
        argument: (*ranges[quantity], defaults[argument])
        for quantity, argument in declared.arguments.items()
        if quantity in ranges
    }
    if setting == "homophilic":
        for argument, value in (item for suggestion in declared.suggestions for item in suggestion.items()):
            choices[argument] = (*choices.get(argument, (defaults[argument],)), value)
    if deep or 1 in choices.get("num_layers", ()):
        choices.pop("head", None)  # a head that is a convolution takes a backbone that has one, and two layers
    return {argument: tuple(dict.fromkeys(values)) for argument, values in choices.items()}
