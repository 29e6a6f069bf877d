r"""Polynormer (Deng et al. 2024): local attention, then global attention whose cost is linear in the nodes.

From x_0 = drop([x || y_t] W + b + f(t)), with GAT attention over neighbours and the node itself, layers l = 1..L are

    u = drop(act(GAT(x_{l-1}) + x_{l-1} V)),      x_l = (1 - beta) LN(act(x_{l-1} U) * u) + beta u,

where beta is the sigmoid of a learned vector, * is the product by entries, and s = x_1 + ... + x_L. Each global layer
takes s, normalised before the first, to

    s <- drop(act(LN(attention(s)) * (s U + beta))),      attention(s)_i = sum_j <k_i, k_j> v_j / sum_j <k_i, k_j>,

with k = sigmoid(s K) and v = s V in every head. The sums over all j are formed once; of several graphs, every node
attends to those of its own. The local part is trained alone first (`warm_up` epochs, with a head of its own); the
global part joins it from its best weights. This is the variant with activations ("Polynormer-r").
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Linear
from dpmsnc.nn.backbones.gat import MAX_HEADS, GATConv
from dpmsnc.nn.dropout import dropout, relu_dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.nn.stages import Staged

WARM_UP = 100


class LocalLayer(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.attention = GATConv(channels, 0, channels, heads=heads)
        self.gate, self.skip = nn.Linear(channels, channels), nn.Linear(channels, channels)
        self.norm, self.beta = nn.LayerNorm(channels), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor, graph: GraphTensors, rate: float, generator: torch.Generator | None) -> Tensor:
        mixed = self.attention(self.attention.encode(x, graph), None, graph)
        u = relu_dropout(mixed + self.skip(x), rate, generator)
        return torch.lerp(self.norm(torch.relu(self.gate(x)) * u), u, self.beta.sigmoid())


class GlobalLayer(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.key, self.value, self.gate = (nn.Linear(channels, channels) for _ in range(3))
        self.norm, self.beta = nn.LayerNorm(channels), nn.Parameter(torch.zeros(channels))

    def forward(self, s: Tensor, graph: GraphTensors, rate: float, generator: torch.Generator | None) -> Tensor:
        k, v = (part.unflatten(-1, (self.heads, -1)) for part in (torch.sigmoid(self.key(s)), self.value(s)))
        mixed = self.norm(attend_to_all(k, v, graph).flatten(-2))
        return relu_dropout(mixed * (self.gate(s) + self.beta.sigmoid()), rate, generator)


def attend_to_all(k: Tensor, v: Tensor, graph: GraphTensors) -> Tensor:
    """sum_j <k_i, k_j> v_j / sum_j <k_i, k_j> for fields (nodes, batch, heads, channels), j in the graph of i."""
    member = graph.graph.member
    sizes = [len(k)] if member is None else np.bincount(member).tolist()
    return torch.cat([_attend(*parts) for parts in zip(k.split(sizes), v.split(sizes), strict=True)])


def _attend(k: Tensor, v: Tensor) -> Tensor:
    products = torch.einsum("nbhd,nbhm->bhdm", k, v)
    weights = torch.einsum("nbhd,bhd->nbh", k, k.sum(dim=0))
    return torch.einsum("nbhd,bhdm->nbhm", k, products) / weights.unsqueeze(-1)


class GlobalPart(nn.Module, Staged):
    """Global layers on s; while it is `warming`, s itself."""

    def __init__(self, channels: int, layers: int, heads: int, warm_up: int) -> None:
        super().__init__()
        self.warm_up = warm_up
        self.norm = nn.LayerNorm(channels)
        self.layers = nn.ModuleList(GlobalLayer(channels, heads) for _ in range(layers))

    def forward(self, s: Tensor, graph: GraphTensors, rate: float, generator: torch.Generator | None) -> Tensor:
        if self.warming:
            return s
        s = self.norm(s)
        for layer in self.layers:
            s = layer(s, graph, rate, generator)
        return s


class StagedHead(nn.Module, Staged):
    """A linear map for the local part while it is `warming`, and another for both parts."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.of_local, self.of_both = nn.Linear(in_channels, out_channels), nn.Linear(in_channels, out_channels)

    def forward(self, h: Tensor) -> Tensor:
        return self.of_local(h) if self.warming else self.of_both(h)


class Polynormer(Backbone):
    """Options: `heads`, at most so many; `global_layers`; `warm_up`, epochs."""

    conv = Linear
    convolves_last = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 4,
        label_channels: int = 0,
        dropout: float = 0.3,
        *,
        heads: int = MAX_HEADS,
        global_layers: int = 1,
        warm_up: int = WARM_UP,
    ) -> None:
        check_number("global_layers", global_layers, 1, 100, whole=True)
        check_number("warm_up", warm_up, 0, 10**6, whole=True)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        layers = [LocalLayer(hidden_channels, heads) for _ in range(num_layers)]
        self.convs.extend(layers)
        self.whole = GlobalPart(hidden_channels, global_layers, layers[0].attention.heads, warm_up)

    def head(self, num_classes: int) -> nn.Module:
        return StagedHead(self.out_channels, num_classes)

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        first, *rest = self.convs
        h = dropout(first(encoded, y, graph, time), self.dropout, generator)
        total = torch.zeros_like(h)
        for layer in rest:
            h = layer(h, graph, self.dropout, generator)
            total = total + h
        return self.whole(total, graph, self.dropout, generator)
