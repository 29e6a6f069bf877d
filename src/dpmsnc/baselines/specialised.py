"""Networks made for graphs on which neighbours differ, as plain classifiers with settings of their own.

Each is a `GNN` on a backbone that is described in its file in `dpmsnc.nn.backbones`. Settings other than those of `GNN`
and options of the backbones were chosen by a few fits, on validation labels of the first split of minesweeper and of
chameleon_filtered.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dpmsnc.baselines.gnn import GNN
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import SearchSpace, same

SPECIALISED: dict[str, dict[str, Any]] = {
    "h2gcn": {"weight_decay": 1e-5},
    "cpgnn": {},
    "gpr-gnn": {"num_layers": 10},
    "fsgnn": {"num_layers": 3},
    "glognn": {},
    "fagcn": {},
    "gbk-gnn": {},
    "jacobiconv": {"num_layers": 10, "dropout": 0.1, "epochs": 1000},
    "polynormer": {"num_layers": 4, "dropout": 0.3, "weight_decay": 0.0, "lr": 0.003},
}
"""Settings by method; `backbone` may be given too, with options."""

_RATES = {**same("dropout", "input_dropout", "scaling"), "quick_learning_rate": "lr", "weight_decay": "weight_decay"}
_SHAPES = {
    "fsgnn": {"mixed_orders": "num_layers", **same("hidden_channels")},
    # ten steps, two rounds of beliefs and polynomials of degree ten stay as they are
    **dict.fromkeys(("gpr-gnn", "cpgnn"), same("hidden_channels")),
    "jacobiconv": {},
}
_SHAPE = same("num_layers", "hidden_channels")

for _name, _settings in SPECIALISED.items():
    METHODS[_name] = Method(
        partial(seeded, partial(GNN, backbone=_name, **_settings)),
        search=SearchSpace({**_SHAPES.get(_name, _SHAPE), **_RATES}),
    )
