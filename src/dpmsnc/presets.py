"""Named settings. `"paper"` is what the paper and, where it is silent, the authors' configuration files say.

They resolve per setting (paper, appendix E): what is not listed here keeps its default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpmsnc.config import Guidance, Sampling, Training
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError

FROM_RANDOM: dict[str, Any] = {"start": "random", "initialiser": "pta"}
"""The defaults until a network could begin as its initialiser: it begins at random, and PTA fills the first buffer.

Ablations are about this way of training, and their stored runs were made with it.
"""

_SAMPLING = Sampling(
    method="ancestral",
    steps=None,
    progressive=0.0,
    guidance=Guidance(norm="square", projection="paper", per_sample=True),
)
_TRAINING = Training(
    steps=20000,
    learning_rate=0.01,
    weight_decay=0.01,
    time_draws=16,
    time_power=1.0,
    hide_features=0.0,
    show_unlabelled=False,
    clip=float("inf"),
    averaging=0.0,
    decay=False,
    buffer_size=50,
    samples_per_refresh=5,
    refresh_every=100,
    initialiser_refreshes=20,
    temperature=0.1,
    unlabelled_weight=1.0,
    fill="hard",
    average_over="groups",
    evaluate_every=100,
    patience=10**6,
    class_shares="as-validation",
)
_MODEL: dict[str, Any] = {
    "backbone": "gcn(improved=True)",
    "hidden_channels": 64,
    "num_layers": 2,
    "dropout": 0.5,
    "head_layers": 1,
    "conditioning": "guided",
    "parameterisation": "epsilon",
    "initialiser": "gnn",
    "start": "random",
    "scaling": "binary",
    "schedule": Schedule(num_steps=80),
    "sampling": _SAMPLING,
    "training": _TRAINING,
}
_PAPER: dict[str, dict[str, Any]] = {
    "homophilic": {},
    "synthetic": {
        "backbone": "gcn",
        "hidden_channels": 16,
        "num_layers": 1,
        "dropout": 0.0,
        "head_layers": 2,
        "schedule": Schedule(num_steps=100),
        "training": replace(
            _TRAINING,
            steps=30000,
            learning_rate=0.005,
            weight_decay=0.0,
            time_draws=8,
            refresh_every=30,
            initialiser_refreshes=10,
            temperature=1.0,
        ),
    },
    "heterophilic": {
        "backbone": "gat-sep",
        "hidden_channels": 256,
        "scaling": "raw",
        "training": replace(_TRAINING, learning_rate=3e-4, weight_decay=1e-5, initialiser_refreshes=100),
    },
    "inductive": {},
    "reasoning": {"dropout": 0.0, "training": replace(_TRAINING, learning_rate=3e-4, weight_decay=0.0)},
}


def preset(name: str, setting: str) -> dict[str, Any]:
    """Arguments of `NodeClassifier` for a named preset in a setting."""
    if name != "paper" or setting not in _PAPER:
        known = ", ".join(_PAPER)
        raise InputError(f"no preset {name!r} for {setting!r}; there is 'paper' for the settings {known}")
    return _MODEL | _PAPER[setting]
