"""GraphSAGE (Hamilton et al. 2017) with mean aggregation: mean_j(h_j) W_l + h_i W_r + b.

With `directions`, edges that arrive and edges that leave have weights of their own (Rossi et al. 2023, "Edge
Directionality Improves Learning on Heterophilic Graphs"): mean over arriving, W_in; mean over leaving, W_out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.operator import GraphTensors, Operator, OperatorName


class SAGEConv(Conv):
    """The weight is [W_l | W_r], or [W_in | W_out | W_r], side by side, so that a block of input channels owns rows of
    all."""

    def __init__(
        self,
        in_channels: int,
        label_channels: int,
        out_channels: int,
        *,
        normalize: bool = False,
        directions: bool = False,
    ) -> None:
        self.means: tuple[OperatorName, ...] = ("mean-in", "mean-out") if directions else ("mean",)
        super().__init__(in_channels, label_channels, (len(self.means) + 1) * out_channels)
        self.normalize = normalize
        for part in self.parts(self.weight):
            nn.init.xavier_uniform_(part)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def parts(self, h: Tensor) -> tuple[Tensor, ...]:
        """Those of the means, and that of the node itself."""
        return h.chunk(len(self.means) + 1, dim=-1)

    @property
    def label_weight(self) -> Tensor:
        return torch.cat(self.parts(super().label_weight))

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        if isinstance(h, Tensor) and h.shape[-1] < weight.shape[-1] // (len(self.means) + 1):  # whichever is narrower
            return self.spread(h, graph) @ torch.cat(self.parts(weight))
        *neighbours, own = self.parts(multiply(h, weight))
        for mean, part in zip(self.means, neighbours):
            own = graph.operator(mean)(part) + own
        return own

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return torch.cat([*(graph.operator(mean)(y) for mean in self.means), y], dim=-1)

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        z = z + self.bias
        return nn.functional.normalize(z, dim=-1) if self.normalize else z


class SAGE(Backbone):
    """Options: `normalize` brings outputs to unit length before the time and the activation, as the authors use it;
    `directions` tells edges that arrive from edges that leave."""

    conv = SAGEConv

    def last(self, in_channels: int, out_channels: int) -> SAGEConv:
        """Not normalised: logits of unit length could never be sure of anything."""
        return SAGEConv(in_channels, 0, out_channels, directions=self.conv_options.get("directions", False))
