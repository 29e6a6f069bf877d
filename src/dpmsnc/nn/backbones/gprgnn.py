r"""GPR-GNN (Chien et al. 2021): a network without a graph, whose output spreads with a weight learned for every step,

    h = act([x || y_t] W_1 + b_1 + f(t)),      Z = sum_{k=0..K} gamma_k S^k (h W_2 + b_2),

with S = D^-1/2 (A + I) D^-1/2 and gamma_k = alpha (1 - alpha)^k at first, (1 - alpha)^K for the last. Negative weights
sharpen where neighbours differ. `num_layers` is K. In a plain classifier the logits spread, as in the original; a
network that reads labels spreads h, which its head then reads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Linear, Nodewise
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.nn.stages import Staged


class PageRank(nn.Module, Staged):
    """sum_k gamma_k S^k h."""

    undecayed = ("gamma",)

    def __init__(self, steps: int, alpha: float) -> None:
        super().__init__()
        weights = [alpha * (1 - alpha) ** k for k in range(steps)]
        self.gamma = nn.Parameter(torch.tensor([*weights, (1 - alpha) ** steps]))

    def forward(self, h: Tensor, graph: GraphTensors) -> Tensor:
        S, total = graph.operator("gcn"), self.gamma[0] * h
        for gamma in self.gamma[1:]:
            h = S(h)
            total = total + gamma * h
        return total


class SpreadHead(Nodewise):
    """A linear map whose output spreads, after dropout of its own."""

    def __init__(self, in_channels: int, out_channels: int, spreading: PageRank, dropout: float) -> None:
        super().__init__(in_channels, 0, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.spreading, self.dropout = spreading, dropout

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        return self.spreading(dropout(z + self.bias, self.dropout, generator), graph)


class GPRGNN(Backbone):
    """Options: `alpha`, with which it begins: 1 at the network without a graph, 0 at the last step alone;
    `spread_dropout`, a rate for what spreads."""

    conv = Linear
    convolves_last = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 10,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        alpha: float = 0.5,
        spread_dropout: float = 0.5,
    ) -> None:
        check_number("alpha", alpha, 0, 1)
        check_number("spread_dropout", spread_dropout, 0, 0.99)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.steps, self.alpha, self.spread_dropout = num_layers, alpha, spread_dropout
        self.spreading = PageRank(num_layers, alpha) if label_channels else None

    def head(self, num_classes: int) -> nn.Module:
        if self.spreading is not None:
            return super().head(num_classes)
        return SpreadHead(self.out_channels, num_classes, PageRank(self.steps, self.alpha), self.spread_dropout)

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        h = self.leave(self.convs[0](encoded, y, graph, time), generator)
        return h if self.spreading is None else self.spreading(h, graph)
