r"""Correct and smooth: two propagations after a classifier is trained, one of its errors and one of its answers.

With Z the class probabilities of the base, L the known nodes and S = D^-1/2 A D^-1/2 without self-loops,

    correct   E_L <- Y_L - Z_L, 0 elsewhere, spread with alpha_1;  Z <- Z + gamma E,
    smooth    Z_L <- Y_L, spread with alpha_2,

where "spread with alpha" means K times E <- alpha S E + (1 - alpha) E_0. With `autoscale`, gamma brings the error of
every node to the mean size of the known errors; else it is `scale`, and known errors are held fixed on the way.
The propagations are torch_geometric's. L are the labels that condition an answer. In the tables these are the training
labels: the original adds validation labels for the prediction of test nodes, which would make its row incomparable with
the others.

A GNN has spread already what a correction can add (and fits its training labels so well that little error is left), so
for such a base the authors advise `correct=False`.

Reference: Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural Networks", ICLR 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.mlp import MLP
from dpmsnc.config import BackboneSpec, ScalingName
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import OPTIMISER, SearchSpace, same
from dpmsnc.graph import UNKNOWN, Graph


@dataclass(eq=False, repr=False)
class CorrectAndSmooth(Baseline):
    """C&S on an `MLP` or on a plain `GNN`, which is selected on validation nodes before anything is propagated.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> CorrectAndSmooth("gcn", epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "mlp"
    hidden_channels: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    propagations: int = 50
    correct: bool = True
    correction_alpha: float = 0.8
    smoothing_alpha: float = 0.8
    autoscale: bool = True
    scale: float = 1.0
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    scaling: ScalingName = "unit"
    seed: int = 0

    learns_answers = False
    ranges: ClassVar[Ranges] = {
        "propagations": (0, inf),
        "correction_alpha": (0, 1),
        "smoothing_alpha": (0, 1),
        "scale": (0, inf),
    }

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        self.base_ = self._base()
        self.base_._learn(graph, y_train, y_validation)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._spread(self.base_._marginals(graph, y), graph, y)

    def _base(self) -> Baseline:
        common = {
            name: getattr(self, name)
            for name in ("hidden_channels", "dropout", "lr", "weight_decay", "epochs", "scaling", "seed")
        }
        if self.backbone != "mlp":
            return GNN(self.backbone, num_layers=self.num_layers, **common)
        if self.num_layers != 2:
            raise InputError(f"the mlp has one hidden layer, so num_layers is 2 with it, not {self.num_layers}")
        return MLP(**common)

    def _spread(self, Z: NDArray[np.float64], graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        # takes seconds, which only this method should cost
        from torch_geometric.nn import CorrectAndSmooth as Propagation
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        propagation = Propagation(
            self.propagations,
            self.correction_alpha,
            self.propagations,
            self.smoothing_alpha,
            self.autoscale,
            self.scale,
        )
        labelled = torch.from_numpy(y != UNKNOWN)
        edges = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
        known: tuple[Any, ...] = (torch.from_numpy(y)[labelled], labelled, torch.from_numpy(edges))
        if (weight := graph.relative_weight) is not None:  # which PyG takes as it is, not normalised
            both = torch.from_numpy(np.concatenate([weight, weight]))
            known = (*known[:2], *gcn_norm(known[2], both, graph.num_nodes, add_self_loops=False))
        found = torch.from_numpy(Z)
        if self.correct and labelled.any():
            # where no error arrives and none was made, gamma is 0 / 0
            found = torch.where(torch.isfinite(corrected := propagation.correct(found, *known)), corrected, found)
        p = propagation.smooth(found, *known).numpy()
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=Z.copy(), where=total > 0)


METHODS["correct-and-smooth"] = Method(
    partial(seeded, CorrectAndSmooth),
    search=SearchSpace(
        {
            **same("hidden_channels", "dropout", "scaling", "propagations"),
            **same("correct", "correction_alpha", "smoothing_alpha"),
            **OPTIMISER,
        }
    ),
)
