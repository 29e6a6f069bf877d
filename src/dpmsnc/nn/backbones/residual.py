r"""Residual networks of Platonov et al. ("A critical look at the evaluation of GNNs under heterophily", ICLR 2023).

With one feed-forward module for all, FFN(z) = drop(W_2 GELU(drop(W_1 z + b_1)) + b_2), the network is

    h_0 = GELU(drop(W [x || y_t] + b)),    h_l = h_{l-1} + module_l(LN(h_{l-1}) + V_l y_t) + f(t),    h = LN(h_L),

and modules are, with N the neighbours of i, u = U z + c, and * standing for "with i among its own neighbours",

    resnet          FFN(z_i)
    residual-gcn    FFN(sum_j z_j / sqrt(d_i d_j))*
    residual-sage   FFN([z_i || mean_j z_j])
    residual-gat    FFN(sum_j a_ij u_j)*                  a_ij = softmax_j LeakyReLU(<p, u_j> + <q, u_i> + e), by head
    gat-sep         FFN([u_i || sum_j a_ij u_j])          the same a
    gt              O (sum_j a_ij v_j)*                   a_ij = softmax_j <q_j, k_i> / sqrt(channels of a head)
    gt-sep          O [z_i || sum_j a_ij v_j]             the same a

where q, k and v are linear in z, and a layer of the last two is followed by a block of its own with FFN. "sep" keeps
what a node is apart from what arrives at it; a node without neighbours receives zero.

Without y_t and f(t) this is the original. How labels and time enter is our decision: the paper only says that every
layer reads [h || y_t], which leaves open what becomes of residual connection and normalisation. Here the residual
stream keeps its width, labels are added by a linear map behind the normalisation, where their scale does not depend on
the depth, the time is added to the output of every block, and the denoiser's head reads y_t once more.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Linear
from dpmsnc.nn.backbones.gat import (
    MAX_HEADS,
    Edges,
    additive_scores,
    attend,
    inner_products,
    most_heads,
    split_heads,
)
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.products import combine
from dpmsnc.nn.receptive_field import HiddenRecorder


class FeedForward(nn.Module):
    """FFN of what a node takes in: of itself alone, unless a subclass says otherwise."""

    inputs = 1
    """How many fields of the network's width W_1 reads side by side."""

    def __init__(self, channels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.first, self.second = nn.Linear(self.inputs * channels, channels), nn.Linear(channels, channels)

    def forward(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        inner = dropout(self.first(self.gather(z, graph)), self.dropout, generator)
        return dropout(self.second(nn.functional.gelu(inner)), self.dropout, generator)

    def gather(self, z: Tensor, graph: GraphTensors) -> Tensor:
        """What W_1 reads at every node."""
        return z


class GCNModule(FeedForward):
    def gather(self, z: Tensor, graph: GraphTensors) -> Tensor:
        return graph.operator("gcn")(z)


class SAGEModule(FeedForward):
    inputs = 2

    def gather(self, z: Tensor, graph: GraphTensors) -> Tensor:
        return torch.cat([z, graph.operator("mean")(z)], dim=-1)


class GATModule(FeedForward):
    loops = True

    def __init__(self, channels: int, dropout: float, heads: int) -> None:
        super().__init__(channels, dropout)
        self.heads = most_heads(channels, heads)
        self.lift = nn.Linear(channels, channels)
        self.source, self.target = nn.Linear(channels, self.heads), nn.Linear(channels, self.heads, bias=False)

    def gather(self, z: Tensor, graph: GraphTensors) -> Tensor:
        return self.mix(self.lift(z), graph)

    def mix(self, u: Tensor, graph: GraphTensors) -> Tensor:
        """sum_j a_ij u_j in every head."""
        edges = Edges.of(graph, self.loops)
        attention = edges.attention(additive_scores(edges, self.source(u), self.target(u)))
        return attend(edges, attention, split_heads(u, self.heads)).view(u.shape)


class GATSepModule(GATModule):
    loops, inputs = False, 2

    def gather(self, z: Tensor, graph: GraphTensors) -> Tensor:
        u = self.lift(z)
        return torch.cat([u, self.mix(u, graph)], dim=-1)


class GTModule(nn.Module):
    """Attention by inner products, of the neighbours alone or with the node itself."""

    def __init__(self, channels: int, dropout: float, heads: int, sep: bool) -> None:
        super().__init__()
        self.dropout, self.sep, self.heads = dropout, sep, most_heads(channels, heads)
        self.lift, self.out = nn.Linear(channels, 3 * channels), nn.Linear((1 + sep) * channels, channels)

    def forward(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        edges = Edges.of(graph, loops=not self.sep)
        query, key, value = (split_heads(part, self.heads) for part in self.lift(z).chunk(3, dim=-1))
        attention = edges.attention(inner_products(edges, query, key) / math.sqrt(value.shape[-1]))
        mixed = attend(edges, attention, value).view(z.shape)
        return dropout(self.out(torch.cat([z, mixed], dim=-1) if self.sep else mixed), self.dropout, generator)


class ResidualBlock(nn.Module):
    """h + module(LN(h) + V y)."""

    def __init__(self, module: nn.Module, channels: int, label_channels: int) -> None:
        super().__init__()
        self.norm, self.module = nn.LayerNorm(channels), module
        self.label_weight = nn.Parameter(torch.empty(label_channels, channels)) if label_channels else None
        if self.label_weight is not None:
            nn.init.xavier_uniform_(self.label_weight)

    def forward(
        self, h: Tensor, y: Tensor | None, graph: GraphTensors, generator: torch.Generator | None = None
    ) -> Tensor:
        z = self.norm(h)
        if y is not None and self.label_weight is not None:
            z = combine(z, y, self.label_weight, z.new_zeros(()))
        return h + self.module(z, graph, generator)


class ResidualNet(Backbone):
    """The skeleton; a subclass says which modules a layer has."""

    conv = Linear
    convolves_last = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        modules = [module for _ in range(num_layers) for module in self.layer(hidden_channels, dropout)]
        self.convs.extend(ResidualBlock(module, hidden_channels, label_channels) for module in modules)
        self.norm = nn.LayerNorm(hidden_channels)

    @abstractmethod
    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        """The modules of one layer, each for a residual block of its own."""

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        first, *blocks = self.convs
        h = nn.functional.gelu(dropout(first(encoded, y, graph), self.dropout, generator))
        for block in blocks:
            h = block(h, y, graph, generator)
            h = h if time is None else h + time
        return self.norm(h)


class ResNet(ResidualNet):
    """No neighbours at all."""

    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [FeedForward(channels, dropout)]


class ResidualGCN(ResidualNet):
    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [GCNModule(channels, dropout)]


class ResidualSAGE(ResidualNet):
    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [SAGEModule(channels, dropout)]


class ResidualGAT(ResidualNet):
    """Options: `heads`, at most so many."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        heads: int = MAX_HEADS,
    ) -> None:
        check_number("heads", heads, 1, whole=True)
        self.heads = heads
        super().__init__(in_channels, hidden_channels, num_layers, label_channels, dropout)

    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [GATModule(channels, dropout, self.heads)]


class GATSep(ResidualGAT):
    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [GATSepModule(channels, dropout, self.heads)]


class GT(ResidualGAT):
    sep = False

    def layer(self, channels: int, dropout: float) -> list[nn.Module]:
        return [GTModule(channels, dropout, self.heads, self.sep), FeedForward(channels, dropout)]


class GTSep(GT):
    sep = True
