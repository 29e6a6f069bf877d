"""A network with one hidden layer that looks at a node's own features only: what APPNP and C&S put propagation on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.descent import descend, release
from dpmsnc.config import ScalingName
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.backbones.base import multiply
from dpmsnc.nn.dropout import relu_dropout
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.operator import GraphTensors, Operator


@dataclass(eq=False, repr=False)
class MLP(Baseline):
    """Features alone, without the graph. Dropout is on the features and on the hidden layer.

    Example:
        >>> graph = Graph.build([(0, 1)], x=[[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]], y=["a", "b", None])
        >>> MLP(epochs=50).fit(graph).predict().tolist()
        ['a', 'b', 'a']
    """

    hidden_channels: int = 64
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 0.005
    epochs: int = 500
    patience: int = 200
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0

    def _build(self, in_channels: int, num_classes: int) -> Perceptron:
        return Perceptron(in_channels, num_classes, self.hidden_channels, self.dropout)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, network, generator = self._tensors(graph), self._network(), self._generator()
        thin, spread = InputDropout(tensors.x), self._propagation(tensors)
        nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        target = torch.from_numpy(y_train)[nodes]
        descend(
            network,
            lambda: F.cross_entropy(spread(network(thin(self.dropout, generator), generator))[nodes], target),
            lambda: spread(network(tensors.x)).softmax(dim=1),
            torch.optim.Adam(network.groups(self.weight_decay), lr=self.lr),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )
        self.network_ = release(network)

    @torch.no_grad()
    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        tensors = self._tensors(graph)
        return self._propagation(tensors)(self.network_(tensors.x)).softmax(dim=1).double().numpy()

    def _propagation(self, tensors: GraphTensors) -> Callable[[Tensor], Tensor]:
        """What the network's output goes through; subclasses use the graph here."""
        return lambda h: h


class Perceptron(nn.Module):
    """relu(X W_1 + b_1) W_2 + b_2; a generator turns dropout of the hidden layer on."""

    def __init__(self, in_channels: int, num_classes: int, hidden_channels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.head = nn.Linear(hidden_channels, num_classes)

    def forward(self, x: Tensor | Operator, generator: torch.Generator | None = None) -> Tensor:
        return self.head(relu_dropout(multiply(x, self.weight) + self.bias, self.dropout, generator))

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """For the optimiser: only W_1, which has a row per feature, decays."""
        return [
            {"params": [self.weight], "weight_decay": weight_decay},
            {"params": [self.bias, *self.head.parameters()]},
        ]
