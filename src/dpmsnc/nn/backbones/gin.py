"""GIN (Xu et al. 2019) with eps = 0: MLP(h_i + sum_j h_j), where the MLP is Linear-ReLU-Linear.

The first linear map of the MLP commutes with the sum and is the `lift`; the rest is the `finish`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.operator import GraphTensors, Operator


class GINConv(Conv):
    def __init__(self, in_channels: int, label_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.second = nn.Linear(out_channels, out_channels)

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        if isinstance(h, Tensor) and h.shape[-1] < weight.shape[-1]:  # propagate whichever is narrower
            return self.spread(h, graph) @ weight
        return self.spread(multiply(h, weight), graph)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return y + graph.operator("sum")(y)

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        return self.second(torch.relu(z + self.bias))


class GIN(Backbone):
    conv = GINConv
    convolves_last = False  # its convolution holds a layer as wide as its output, here as narrow as the classes
