r"""GBK-GNN (Du et al. 2022): two kernels, for neighbours of the same class and of others, and a gate between them,

    h_i <- act(W_f h_i + mean_j [g_ij W_s h_j + (1 - g_ij) W_d h_j] + b),
    g_ij = sigmoid(LeakyReLU(<l, h_i> + <r, h_j>)).

The gate learns from edges between training nodes whether both ends have the same class: the loss gets the mean binary
cross-entropy of g over these, times `gate_weight`, of every layer. This is the form of the paper; the released code
multiplies W_d by h_i and compares the numbers of classes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.config import check_number
from dpmsnc.graph import UNKNOWN
from dpmsnc.nn.backbones.base import Backbone, Nodewise
from dpmsnc.nn.backbones.gat import NEGATIVE_SLOPE, Edges, attend
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.stages import Staged


class GBKConv(Nodewise, Staged):
    """The weight is [W_f | W_s | W_d | l | r] side by side."""

    classes_only = True

    def __init__(self, in_channels: int, label_channels: int, out_channels: int, *, gate_weight: float = 1.0) -> None:
        check_number("gate_weight", gate_weight, 0)
        super().__init__(in_channels, label_channels, 3 * out_channels + 2)
        self.gate_weight, self.out_channels = gate_weight, out_channels
        for part in self.weight.split([out_channels] * 3 + [1, 1], dim=1):
            nn.init.xavier_uniform_(part)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.scores: Tensor | None = None

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        own, same, other, gates = z.split([self.out_channels] * 3 + [2], dim=-1)
        edges = Edges.of(graph, loops=False)
        at_target, at_source = gates.unbind(dim=-1)
        scores = F.leaky_relu(edges.from_target(at_target) + edges.from_source(at_source), NEGATIVE_SLOPE)
        self.scores = None if generator is None else scores
        weight = scores.sigmoid() * graph.operator("mean").matrix.values().unsqueeze(1)
        return own + self.bias + graph.operator("mean")(other) + attend(edges, weight, same - other)

    def penalty(self, graph: GraphTensors, y: Tensor) -> Tensor | float:
        scores, self.scores = self.scores, None
        if scores is None or self.gate_weight == 0:
            return 0.0
        source, target = graph.directed_edges(loops=False)
        known = ((y[source] != UNKNOWN) & (y[target] != UNKNOWN)).nonzero().squeeze(1)
        if not len(known):
            return 0.0
        alike = (y[source[known]] == y[target[known]]).to(scores.dtype)
        return self.gate_weight * F.binary_cross_entropy_with_logits(scores[known].mean(dim=1), alike)


class GBKGNN(Backbone):
    """Options: `gate_weight`, of the gates' loss."""

    conv = GBKConv
    convolves_last = False
