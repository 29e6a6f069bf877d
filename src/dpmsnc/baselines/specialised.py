"""Networks made for graphs on which neighbours differ, as plain classifiers with settings of their own.

Each is a `GNN` on a backbone that is described in its file in `dpmsnc.nn.backbones`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dpmsnc.baselines.gnn import GNN
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import NETWORK, OPTIMISER, SearchSpace, same

SETTINGS: dict[str, dict[str, Any]] = {
    "h2gcn": {},
    "cpgnn": {},
    "gpr-gnn": {"num_layers": 10},
    "fsgnn": {"num_layers": 3},
    "glognn": {},
    "fagcn": {},
    "gbk-gnn": {},
    "jacobiconv": {"num_layers": 10, "dropout": 0.1},
    "polynormer": {"num_layers": 4, "dropout": 0.3},
}
SEARCHED = SearchSpace({**NETWORK, **OPTIMISER, **same("input_dropout")})

for _name, _settings in SETTINGS.items():
    METHODS[_name] = Method(partial(seeded, partial(GNN, backbone=_name, **_settings)), search=SEARCHED)
