r"""Entropy sharpening: a plain GNN that is also asked to be sure of itself where no label tells it what to say.

With p = softmax of the network, L the training nodes, U all others and H_q the entropy of order q,

    J = CE_L(p) + a mean_{i in U} H_q(p_i) + b mean_{i in L} H_q(p_i),      H_q(p) = (1 - sum_c p_c^q) / (q - 1),

with a = .25, b = -.25 and q = 2 (the Gini impurity); H_1 is Shannon's entropy. The second weight is negative: what is
known already need not be said ever louder.

References: Grandvalet & Bengio, "Semi-supervised Learning by Entropy Minimization", NIPS 2004; "Graph Transductive
Sharpening", arXiv 2605.20248, 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.descent import descend, release
from dpmsnc.baselines.gnn import probabilities
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.estimators import search_space
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import SearchSpace, same
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField


@dataclass(eq=False, repr=False)
class EntropySharpening(Baseline):
    """Any backbone as a plain classifier with an entropy term; the network is that of `GNN`.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> EntropySharpening(epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    entropy_weight: float = 0.25
    labelled_entropy_weight: float = -0.25
    order: float = 2.0
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    patience: int = 300
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0
    select_by: str | None = None

    added_later: ClassVar[Mapping[str, Any]] = {"select_by": None}
    ranges: ClassVar[Ranges] = {"order": (0, inf)}

    def _build(self, in_channels: int, num_classes: int) -> MeanField:
        shape = (self.hidden_channels, self.num_layers, self.dropout, self.head)
        return MeanField(self.backbone, in_channels, num_classes, *shape)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, network, y = self._tensors(graph), self._network(), torch.from_numpy(y_train)
        thinned, generator = GraphInputDropout(tensors), self._generator()
        descend(
            network,
            lambda: self._loss(network(thinned(self.input_dropout, generator), generator), y),
            lambda: network(tensors).softmax(dim=1),
            torch.optim.Adam(network.parameters(), lr=self.lr, weight_decay=self.weight_decay),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
            self.select_by,
        )
        self.network_ = release(network)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return probabilities(self.network_, self._tensors(graph))

    def _loss(self, logits: Tensor, y: Tensor) -> Tensor:
        labelled = y != UNKNOWN
        H = entropy(logits.log_softmax(dim=1), self.order)
        loss = F.cross_entropy(logits[labelled], y[labelled]) + self.labelled_entropy_weight * H[labelled].mean()
        return loss if labelled.all() else loss + self.entropy_weight * H[~labelled].mean()


def entropy(log_p: Tensor, order: float) -> Tensor:
    """H_q of every row, from log-probabilities.

    Example:
        >>> round(float(entropy(torch.tensor([[0.5, 0.5]]).log(), order=2)), 6)
        0.5
    """
    if order == 1:
        return -(log_p.exp() * log_p).sum(dim=1)
    return (1 - (order * log_p).exp().sum(dim=1)) / (order - 1)


METHODS["entropy"] = Method(
    partial(seeded, EntropySharpening),
    search=SearchSpace({**search_space.GNN, **same("entropy_weight", "labelled_entropy_weight")}),
)
