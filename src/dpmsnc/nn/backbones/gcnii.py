r"""GCNII (Chen et al. 2020): with h_0 = act([x || y_t] W_0 + b), the layers l = 1, 2, ... are

    h_l = act(((1 - beta_l) I + beta_l W_l) ((1 - alpha) A_hat h_{l-1} + alpha h_0)),      beta_l = log(1 + theta / l).

All widths are equal, so labels enter through the input layer only (and, in a denoiser, again in its head). So does the
time, which h_0 carries to every layer: layers are near the identity, and what is added in each of them adds up and
drowns the rest (a denoiser of 8 such layers answers one class for all of Cora). The input layer is counted:
`num_layers` is one linear map and `num_layers - 1` convolutions.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Additive, Backbone, multiply
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.nn.receptive_field import HiddenRecorder

ALPHA, THETA = 0.1, 0.5


class Input(Additive):
    """A linear map, split into what x and what the labels contribute."""

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        return multiply(h, weight)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return y


class GCN2Conv(nn.Module):
    def __init__(self, channels: int, layer: int) -> None:
        super().__init__()
        self.beta = math.log(1 + THETA / layer)
        self.weight = nn.Parameter(torch.empty(channels, channels))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, h: Tensor, h_0: Tensor, graph: GraphTensors) -> Tensor:
        z = torch.lerp(graph.operator("gcn")(h), h_0, ALPHA)
        return torch.lerp(z, z @ self.weight, self.beta)


class GCNII(Backbone):
    """Time is added in the input layer."""

    conv = Input
    convolves_last = False
    adds_time: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
    ) -> None:
        if num_layers < 2:
            raise InputError(f"GCNII counts its input layer, so it needs num_layers of at least 2, got {num_layers}")
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.convs.extend(GCN2Conv(hidden_channels, layer) for layer in range(1, num_layers))

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        time = time if self.adds_time else None
        first, *rest = self.convs
        h = h_0 = self.leave(first(encoded, y, graph, time), generator)
        for conv in rest:
            h = self.leave(conv(h, h_0, graph), generator)
        return h


class TimelessGCNII(GCNII):
    """No layer is told the time, as the authors use it."""

    adds_time = False
