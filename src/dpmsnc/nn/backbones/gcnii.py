r"""GCNII (Chen et al. 2020): with h_0 = act([x || y_t] W_0 + b), the layers l = 1, 2, ... are

    h_l = act(((1 - beta_l) I + beta_l W_l) ((1 - alpha) A_hat h_{l-1} + alpha h_0)),      beta_l = log(1 + theta / l).

All widths are equal, so labels enter through the input layer only (and, in a denoiser, again in its head). So does the
time, which h_0 carries to every layer: layers are near the identity, and what is added in each of them adds up and
drowns the rest (a denoiser of 8 such layers answers one class for all of Cora). The input layer is counted:
`num_layers` is one linear map and `num_layers - 1` convolutions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Backbone, Linear
from dpmsnc.nn.backbones.block import Norm, NormName
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder

ALPHA, THETA = 0.1, 0.5


class GCN2Conv(nn.Module):
    def __init__(
        self,
        channels: int,
        layer: int,
        alpha: float = ALPHA,
        theta: float = THETA,
        residual: bool = False,
        norm: NormName | None = None,
    ) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, math.log(1 + theta / layer)
        self.weight = nn.Parameter(torch.empty(channels, channels))
        nn.init.xavier_uniform_(self.weight)
        self.residual = Linear(channels, 0, channels) if residual else None
        self.norm = None if norm is None else Norm(norm, channels)

    def forward(self, h: Tensor, h_0: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        z = torch.lerp(graph.operator("gcn")(h), h_0, self.alpha)
        z = torch.lerp(z, z @ self.weight, self.beta)
        if self.residual is not None:
            z = z + self.residual(self.residual.encode(h, graph), None, graph)
        return z if self.norm is None else self.norm(z, generator)


class GCNII(Backbone):
    """Options: `time=False` tells no layer the time, as the authors use it; `alpha`; `theta`.

    The residual connection and the normalisation are those of the layers l = 1, 2, ...
    """

    conv = Linear
    convolves_last = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        time: bool = True,
        alpha: float = ALPHA,
        theta: float = THETA,
        residual: bool = False,
        norm: NormName | None = None,
        input_layer: bool = False,
    ) -> None:
        if num_layers < 2:
            raise InputError(f"GCNII counts its input layer, so it needs num_layers of at least 2, got {num_layers}")
        check_number("alpha", alpha, 0, 1)
        check_number("theta", theta, 0)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout, input_layer=input_layer)
        self.adds_time = time
        self.convs.extend(
            GCN2Conv(hidden_channels, layer, alpha, theta, residual, norm) for layer in range(1, num_layers)
        )

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
        if self.input is not None:
            encoded = first.encode(self.leave(self.input(encoded, y, graph), generator), graph)
        h = h_0 = self.leave(first(encoded, y, graph, time if self.adds_time else None), generator)
        for conv in rest:
            h = self.leave(conv(h, h_0, graph, generator), generator)
        return h
