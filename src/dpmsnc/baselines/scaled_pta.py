"""PTA on features as they suit it best: rows of sum 1 suit nodes with a few dozen words and fail where they have
hundreds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.gnn import validation_accuracy
from dpmsnc.baselines.pta import PTA
from dpmsnc.config import ScalingName
from dpmsnc.graph import UNKNOWN, Graph


@dataclass(eq=False, repr=False)
class ScaledPTA(Baseline):
    """PTA with the scaling of features that finds most of the validation labels.

    Without validation labels, or without features, it is rows of length 1.
    """

    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        choice = graph.x is not None and bool((y_validation != UNKNOWN).any())
        scalings: tuple[ScalingName, ...] = ("unit", "rows", "binary") if choice else ("unit",)
        fits = [PTA(**{"scaling": scaling, **self.settings}, seed=self.seed) for scaling in scalings]
        for pta in fits:
            pta._learn(graph, y_train, y_validation)
        self.pta_ = max(fits, key=lambda pta: validation_accuracy(pta._marginals(graph, y_train), y_validation))

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.pta_._marginals(graph, y)


def scaled_pta(seed: int = 0, **settings: Any) -> Baseline:
    """PTA, with a choice of scalings unless one is given."""
    pta = PTA(seed=seed, **settings)  # complains of settings that it does not take,
    pta._check_settings()  # and of values, which a choice of scalings would not look at before it is fitted
    return pta if "scaling" in settings else ScaledPTA(seed, settings)
