"""Named settings. `"paper"` is what the paper prints and, where it is silent, what the authors' configurations say.

They resolve per setting (paper, appendices C and E); what is not listed here keeps its default. Where the paper prints
a range that it searched and no file says what was found, the value is one of that range; `PAPER` in
`dpmsnc.evidence.search.space` has the ranges. `docs/method.md` lists what still differs from the paper.
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
    stratified=False,
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
    refuse_collapsed=False,
    unlabelled_weight=1.0,
    fill="hard",
    average_over="groups",
    evaluate_every=100,
    patience=10**6,
    class_shares="as-validation",
)
_LONG = replace(_TRAINING, learning_rate=3e-4, weight_decay=0.0, clip=1.0, evaluate_every=1000)
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
    "inductive": {
        "scaling": "raw",
        "training": replace(_TRAINING, steps=10000, select_by="graph_accuracy"),
    },
    "inductive-huge": {
        "backbone": "gcn(improved=True, residual=True)",
        "hidden_channels": 1024,
        "num_layers": 4,
        "dropout": 0.0,
        "scaling": "raw",
        "training": replace(_LONG, steps=10**6, time_draws=1, batch_size=2),
    },
}
_REASONING: dict[str, Any] = {
    "network": "gine",
    "hidden_channels": 128,
    "num_layers": 3,
    "conditioning": "guided",
    "parameterisation": "epsilon",
    "schedule": Schedule(num_steps=80, offset=0.01, beta_min=0.01, beta_max=0.99),
    # one answer, drawn with all its noise but that of the last step, of which beta_1 would stay in every squared error
    "sampling": replace(_SAMPLING, method="ancestral-denoised", temperature=1.0),
    "num_averaged": 1,
    "clip": False,
    "training": replace(_LONG, steps=10**7, time_draws=8, batch_size=64),
}
"""Of an estimator of numbers on edges; its network is no backbone of nodes."""


def preset(name: str, setting: str) -> dict[str, Any]:
    """Arguments of `NodeClassifier` for a named preset in a setting; for "reasoning" those of an edge regressor."""
    settings = [*_PAPER, "reasoning"]
    if name != "paper" or setting not in settings:
        known = ", ".join(settings)
        raise InputError(f"no preset {name!r} for {setting!r}; there is 'paper' for the settings {known}")
    return dict(_REASONING) if setting == "reasoning" else _MODEL | _PAPER[setting]
