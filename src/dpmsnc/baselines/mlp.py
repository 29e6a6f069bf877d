"""A network with one hidden layer that looks at a node's own features only: what APPNP and C&S put propagation on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.descent import descend
from dpmsnc.config import ScalingName, check_choices, check_range
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.backbones.base import multiply
from dpmsnc.nn.dropout import relu_dropout
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.operator import GraphTensors


@dataclass(eq=False)
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

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_choices(self)
        counts = ("hidden_channels", "epochs", "patience", "evaluate_every")
        check_range(self, **dict.fromkeys(counts, (1, inf)), dropout=(0, 0.99))
        tensors = GraphTensors.of(graph, self.scaling)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = Perceptron(tensors, graph.num_classes, self.hidden_channels, self.dropout)
        generator = torch.Generator().manual_seed(int(self.seed))
        spread = self._propagation(tensors)
        nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        target = torch.from_numpy(y_train)[nodes]
        return descend(
            lambda: F.cross_entropy(spread(network(generator))[nodes], target),
            lambda: spread(network()).softmax(dim=1),
            torch.optim.Adam(network.groups(self.weight_decay), lr=self.lr),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )

    def _propagation(self, tensors: GraphTensors) -> Callable[[Tensor], Tensor]:
        """What the network's output goes through; subclasses use the graph here."""
        return lambda h: h


class Perceptron(nn.Module):
    """relu(X W_1 + b_1) W_2 + b_2; a generator turns dropout on."""

    def __init__(self, graph: GraphTensors, num_classes: int, hidden_channels: int, dropout: float) -> None:
        super().__init__()
        self.thin, self.dropout = InputDropout(graph.x), dropout
        self.weight = nn.Parameter(torch.empty(graph.num_features, hidden_channels))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.head = nn.Linear(hidden_channels, num_classes)

    def forward(self, generator: torch.Generator | None = None) -> Tensor:
        z = multiply(self.thin(self.dropout, generator), self.weight) + self.bias
        return self.head(relu_dropout(z, self.dropout, generator))

    def groups(self, weight_decay: float) -> list[dict[str, Any]]:
        """For the optimiser: only W_1, which has a row per feature, decays."""
        return [
            {"params": [self.weight], "weight_decay": weight_decay},
            {"params": [self.bias, *self.head.parameters()]},
        ]
