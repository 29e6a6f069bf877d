"""GCN (Kipf and Welling 2017): A_hat H W + b with A_hat = D^-1/2 (A + c I) D^-1/2, c = 1 or 2."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.operator import GraphTensors, Operator


class GCNConv(Conv):
    improved = False

    def __init__(self, in_channels: int, label_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        propagate = graph.gcn_improved if self.improved else graph.gcn
        if isinstance(h, Tensor) and h.shape[-1] < weight.shape[-1]:  # propagate whichever is narrower
            return propagate(h) @ weight
        return propagate(multiply(h, weight))

    def finish(self, z: Tensor, graph: GraphTensors) -> Tensor:
        return z + self.bias


class ImprovedGCNConv(GCNConv):
    improved = True


class GCN(Backbone):
    """The self-loop has weight 1, as in PyG's default."""

    conv = GCNConv


class ImprovedGCN(Backbone):
    """The self-loop has weight 2, as the authors use it on real graphs."""

    conv = ImprovedGCNConv
