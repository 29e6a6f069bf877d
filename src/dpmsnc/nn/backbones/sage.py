"""GraphSAGE (Hamilton et al. 2017) with mean aggregation: mean_j(h_j) W_l + h_i W_r + b."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.operator import GraphTensors, Operator


class SAGEConv(Conv):
    """The weight is [W_l | W_r] side by side, so that a block of input channels owns rows of both."""

    def __init__(self, in_channels: int, label_channels: int, out_channels: int, *, normalize: bool = False) -> None:
        super().__init__(in_channels, label_channels, 2 * out_channels)
        self.normalize = normalize
        for half in self.weight.chunk(2, dim=1):
            nn.init.xavier_uniform_(half)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    @property
    def label_weight(self) -> Tensor:
        return torch.cat(super().label_weight.chunk(2, dim=1))

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        if isinstance(h, Tensor) and h.shape[-1] < weight.shape[-1] // 2:  # propagate whichever is narrower
            return self.spread(h, graph) @ torch.cat(weight.chunk(2, dim=1))
        neighbours, own = multiply(h, weight).chunk(2, dim=-1)
        return graph.operator("mean")(neighbours) + own

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return torch.cat([graph.operator("mean")(y), y], dim=-1)

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        z = z + self.bias
        return nn.functional.normalize(z, dim=-1) if self.normalize else z


class SAGE(Backbone):
    """Options: `normalize` brings outputs to unit length before the time and the activation, as the authors use it."""

    conv = SAGEConv

    def last(self, in_channels: int, out_channels: int) -> SAGEConv:
        """Not normalised: logits of unit length could never be sure of anything."""
        return SAGEConv(in_channels, 0, out_channels)
