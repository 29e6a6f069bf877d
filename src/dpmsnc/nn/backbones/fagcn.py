r"""FAGCN (Bo et al. 2021): neighbours are added or subtracted. With h_0 = act([x || y_t] W + b + f(t)), the layers are

    h_i <- eps h_0i + sum_j g_ij / sqrt(d_i d_j) h_j,      g_ij = tanh(<u, h_i> + <v, h_j> + c),

over neighbours j without i itself. It is torch_geometric's FAConv without self-loops, with the gate's bias that the
original has, and with a batch axis. Coefficients are dropped in training as hidden fields are. Labels and time enter
h_0, which every layer reads.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Linear
from dpmsnc.nn.backbones.gat import Edges, attend
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder


class FAConv(nn.Module):
    def __init__(self, channels: int, eps: float, dropout: float) -> None:
        super().__init__()
        self.eps, self.dropout = eps, dropout
        self.gate = nn.Linear(channels, 2)
        nn.init.xavier_normal_(self.gate.weight, gain=math.sqrt(2))

    def forward(self, h: Tensor, h_0: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        edges = Edges.of(graph, loops=False)
        at_target, at_source = self.gate(h).unbind(dim=-1)
        gate = torch.tanh(edges.from_target(at_target) + edges.from_source(at_source))
        # both are sorted by row and then by column, so the entries of the matrix stand in the order of the edges
        norm = graph.operator("neighbours").matrix.values().unsqueeze(1)
        return self.eps * h_0 + attend(edges, dropout(gate * norm, self.dropout, generator), h)


class FAGCN(Backbone):
    """Options: `eps`, the weight of h_0 in every layer."""

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
        eps: float = 0.3,
    ) -> None:
        check_number("eps", eps, 0)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.convs.extend(FAConv(hidden_channels, eps, dropout) for _ in range(num_layers))

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
        h = h_0 = self.leave(first(encoded, y, graph, time), generator)
        for conv in rest:
            h = conv(h, h_0, graph, generator)
        return h
