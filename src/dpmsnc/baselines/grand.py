r"""GRAND: what a node is told varies at random, what the network says must not.

Each training step propagates the features several times, each time with other nodes left out (DropNode), and a network
with one hidden layer looks at the results. With S = D^-1/2 (A + I) D^-1/2, a 0/1 diagonal D_m that keeps a node with
probability 1 - delta, and M such draws,

    p_m = softmax(relu(P D_m X W_1 + b_1) W_2 + b_2),      P = 1 / (K + 1) sum_{k=0..K} S^k,
    J   = mean_m CE_L(p_m) + lambda mean_{m, i} |p_mi - z_i|^2,      z = sharpen(mean_m p_m) without gradient,

where sharpen(p) is p^{1/T} brought to sum 1. At inference all nodes are kept and X is multiplied by 1 - delta.

Propagation is linear, so P (D_m X W_1) takes the place of (P D_m X) W_1: what spreads is the hidden layer, all M draws
in one sparse product, and not the many features. Dropout on the input therefore acts on the entries of X, before they
spread and not after, as in the released code; there is no batch normalisation.

Reference: Feng et al., "Graph Random Neural Networks for Semi-Supervised Learning on Graphs", NeurIPS 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.descent import descend, release
from dpmsnc.config import ScalingName
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import OPTIMISER, SearchSpace, same
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.backbones.base import multiply
from dpmsnc.nn.dropout import keep_mask, relu_dropout
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.operator import Operator


@dataclass(eq=False, repr=False)
class GRAND(Baseline):
    """Random propagation with a consistency loss; the defaults are those of the reference for Cora.

    As in `PTA`, dividing rows by their sum leaves values that are too small where a node has hundreds of features.
    """

    hidden_channels: int = 32
    num_layers: int = 8
    drop_node: float = 0.5
    augmentations: int = 4
    temperature: float = 0.5
    consistency_weight: float = 1.0
    input_dropout: float = 0.5
    dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 2000
    patience: int = 200
    evaluate_every: int = 10
    scaling: ScalingName = "rows"
    seed: int = 0

    ranges: ClassVar[Ranges] = {
        "augmentations": (1, inf),
        "num_layers": (0, inf),
        "temperature": (1e-3, inf),
        "drop_node": (0, 0.99),
        "consistency_weight": (0, inf),
    }

    def _build(self, in_channels: int, num_classes: int) -> RandomPropagation:
        return RandomPropagation(in_channels, num_classes, self)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, network, y = self._tensors(graph), self._network(), torch.from_numpy(y_train)
        S, thin, generator = tensors.operator("gcn"), InputDropout(tensors.x), self._generator()
        descend(
            network,
            lambda: self._loss(network(S, network.dropped(thin, generator), generator), y),
            lambda: network(S, network.expected(tensors.x))[:, 0].softmax(dim=1),
            torch.optim.Adam(network.parameters(), lr=self.lr, weight_decay=self.weight_decay),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )
        self.network_ = release(network)

    @torch.no_grad()
    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        tensors, network = self._tensors(graph), self.network_
        assert isinstance(network, RandomPropagation)
        logits = network(tensors.operator("gcn"), network.expected(tensors.x))
        return logits[:, 0].softmax(dim=1).double().numpy()

    def _loss(self, logits: Tensor, y: Tensor) -> Tensor:
        labelled = y != UNKNOWN
        told = logits[labelled]
        supervised = F.cross_entropy(told.flatten(0, 1), y[labelled].repeat_interleave(told.shape[1]))
        return supervised + self.consistency_weight * inconsistency(logits.softmax(dim=-1), self.temperature)


class RandomPropagation(nn.Module):
    """Logits (nodes, draws, classes) of a network on randomly propagated features."""

    def __init__(self, in_channels: int, num_classes: int, options: GRAND) -> None:
        super().__init__()
        self.num_layers, self.augmentations = options.num_layers, options.augmentations
        self.drop_node, self.input_dropout, self.dropout = options.drop_node, options.input_dropout, options.dropout
        self.weight = nn.Parameter(torch.empty(in_channels, options.hidden_channels))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(options.hidden_channels))
        self.head = nn.Linear(options.hidden_channels, num_classes)

    def forward(self, S: Operator, h: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """From X W_1 with nodes left out (`dropped`), or its expectation (`expected`); a generator turns dropout on."""
        return self.head(relu_dropout(mixed_orders(S, h, self.num_layers) + self.bias, self.dropout, generator))

    def expected(self, x: Tensor | Operator) -> Tensor:
        """(1 - delta) X W_1."""
        return (1 - self.drop_node) * multiply(x, self.weight).unsqueeze(1)

    def dropped(self, thin: InputDropout, generator: torch.Generator) -> Tensor:
        """D_m X W_1, for as many draws as there are augmentations."""
        count = self.augmentations
        if self.input_dropout == 0:
            h = multiply(thin.x, self.weight).unsqueeze(1)
        else:
            thinned = (thin(self.input_dropout, generator) for _ in range(count))
            h = torch.stack([multiply(x, self.weight) for x in thinned], dim=1)
        return drop_nodes(h, count, self.drop_node, generator)


def drop_nodes(h: Tensor, count: int, rate: float, generator: torch.Generator) -> Tensor:
    """h (nodes, 1 or count, channels) with whole nodes set to zero, others in each of `count` entries; not rescaled."""
    if rate == 0:
        return h.expand(-1, count, -1)
    keep, _ = keep_mask(len(h) * count, rate, generator)
    return h * keep.view(len(h), count, 1).to(h.dtype)


def mixed_orders(S: Operator, h: Tensor, orders: int) -> Tensor:
    """1 / (K + 1) sum_{k=0..K} S^k h, by Horner's rule."""
    total = h
    for _ in range(orders):
        total = h + S(total)
    return total / (orders + 1)


def inconsistency(p: Tensor, temperature: float) -> Tensor:
    """Mean squared distance of p (nodes, draws, classes) from the sharpened mean over draws, which is held constant."""
    z = p.detach().mean(dim=1, keepdim=True) ** (1 / temperature)
    return (p - z / z.sum(dim=-1, keepdim=True)).square().sum(dim=-1).mean()


METHODS["grand"] = Method(
    partial(seeded, GRAND),
    search=SearchSpace(
        {
            **same("hidden_channels", "dropout", "input_dropout", "consistency_weight", "scaling"),
            **OPTIMISER,
            **{"mixed_orders": "num_layers", "sharpening": "temperature"},
        },
        (
            {
                **{"num_layers": 2, "augmentations": 2, "input_dropout": 0.0, "dropout": 0.2},
                **{"temperature": 0.3, "consistency_weight": 0.7},
            },
            # ours: nodes of hundreds of words
            {"scaling": "binary", "num_layers": 5, "patience": 100},
            {
                **{"scaling": "binary", "num_layers": 5, "patience": 100},
                **{"temperature": 0.2, "input_dropout": 0.6, "dropout": 0.8},
            },
        ),
    ),
)
