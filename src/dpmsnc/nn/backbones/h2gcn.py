r"""H2GCN (Zhu et al. 2020): what a node is, what its neighbours are and what those two steps away are, kept apart.

    r_0 = act([x || y_t] W_0 + b + f(t)),      r_k = [A_1 r_{k-1} || A_2 r_{k-1}],      h = drop([r_0 || ... || r_K])

A_1 is the adjacency and A_2 the ring of nodes at distance two (`dpmsnc.nn.two_hop`), both without self-loops and each
normalised symmetrically by its own degrees. `num_layers` is K, so h has 2^(K+1) - 1 times the hidden channels. The
original has no bias.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Linear
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.nn.two_hop import ring_operator

MOST_ROUNDS = 6


class H2GCN(Backbone):
    """Options: `shared`, with which only nodes that share so many neighbours or more belong to each other's ring: on
    graphs where a node reaches a third of all others in two steps, the ring is too large otherwise."""

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
        shared: int = 1,
    ) -> None:
        check_number("num_layers", num_layers, 1, MOST_ROUNDS, whole=True)
        check_number("shared", shared, 1, whole=True)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.rounds, self.shared = num_layers, shared
        self.out_channels = hidden_channels * (2 ** (num_layers + 1) - 1)

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        operators = graph.operator("neighbours"), ring_operator(graph, self.shared)
        fields = [torch.relu_(self.convs[0](encoded, y, graph, time))]
        for _ in range(self.rounds):
            fields.append(torch.cat([spread(fields[-1]) for spread in operators], dim=-1))
        return dropout(torch.cat(fields, dim=-1), self.dropout, generator)
