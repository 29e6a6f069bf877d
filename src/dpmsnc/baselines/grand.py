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
from math import inf

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
from dpmsnc.nn.dropout import keep_mask, relu_dropout
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.operator import GraphTensors, Operator


@dataclass(eq=False)
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

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_choices(self)
        counts = ("hidden_channels", "augmentations", "epochs", "evaluate_every")
        check_range(self, **dict.fromkeys(counts, (1, inf)), num_layers=(0, inf), temperature=(1e-3, inf))
        check_range(self, drop_node=(0, 0.99), input_dropout=(0, 0.99), dropout=(0, 0.99), consistency_weight=(0, inf))
        tensors, y = GraphTensors.of(graph, self.scaling), torch.from_numpy(y_train)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = RandomPropagation(tensors, graph.num_classes, self)
        generator = torch.Generator().manual_seed(int(self.seed))
        optimiser = torch.optim.Adam(network.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        return descend(
            lambda: self._loss(network(generator), y),
            lambda: network()[:, 0].softmax(dim=1),
            optimiser,
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )

    def _loss(self, logits: Tensor, y: Tensor) -> Tensor:
        labelled = y != UNKNOWN
        told = logits[labelled]
        supervised = F.cross_entropy(told.flatten(0, 1), y[labelled].repeat_interleave(told.shape[1]))
        return supervised + self.consistency_weight * inconsistency(logits.softmax(dim=-1), self.temperature)


class RandomPropagation(nn.Module):
    """Logits (nodes, draws, classes) of a network on randomly propagated features."""

    def __init__(self, graph: GraphTensors, num_classes: int, options: GRAND) -> None:
        super().__init__()
        self.options, self.S, self.thin = options, graph.operator("gcn"), InputDropout(graph.x)
        self.weight = nn.Parameter(torch.empty(graph.num_features, options.hidden_channels))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(options.hidden_channels))
        self.head = nn.Linear(options.hidden_channels, num_classes)

    def forward(self, generator: torch.Generator | None = None) -> Tensor:
        """As many draws as augmentations from the generator; without one, a single pass that drops nothing."""
        options = self.options
        z = mixed_orders(self.S, self.dropped(generator), options.num_layers) + self.bias
        return self.head(relu_dropout(z, options.dropout, generator))

    def dropped(self, generator: torch.Generator | None) -> Tensor:
        """D_m X W_1 of every draw; its expectation, (1 - delta) X W_1, without a generator."""
        options = self.options
        if generator is None:
            return (1 - options.drop_node) * multiply(self.thin.x, self.weight).unsqueeze(1)
        count = options.augmentations
        if options.input_dropout == 0:
            h = multiply(self.thin.x, self.weight).unsqueeze(1)
        else:
            thinned = (self.thin(options.input_dropout, generator) for _ in range(count))
            h = torch.stack([multiply(x, self.weight) for x in thinned], dim=1)
        return drop_nodes(h, count, options.drop_node, generator)


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
