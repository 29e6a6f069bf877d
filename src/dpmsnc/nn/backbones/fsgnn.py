r"""FSGNN (Maurya et al. 2021): features at every distance have weights of their own, and a share of the attention,

    h = act([a_0 L(M_0 [x || y_t] W_0 + b_0) || a_1 L(M_1 [x || y_t] W_1 + b_1) || ...] + f(t)),      a = softmax(s),

where the M are I, A^k and (A + I)^k for k = 1..K, and L brings rows to length 1. A and A + I are normalised
symmetrically, as in the authors' code, or not at all, as in the runs of Platonov et al. `num_layers` is K, so h has
2K + 1 times the hidden channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.nn.receptive_field import HiddenRecorder

Spread = Callable[[Tensor], Tensor]
NormalisationName = Literal["symmetric", "none"]


class FSConv(Conv):
    """One branch for each of 2K + 1 matrices, side by side in the last axis."""

    def __init__(
        self, in_channels: int, label_channels: int, out_channels: int, *, hops: int, normalisation: NormalisationName
    ) -> None:
        super().__init__(in_channels, label_channels, (2 * hops + 1) * out_channels)
        self.hops, self.branches, self.normalisation = hops, 2 * hops + 1, normalisation
        for branch in self.weight.chunk(self.branches, dim=1):
            nn.init.xavier_uniform_(branch)
        self.bias = nn.Parameter(torch.zeros(self.branches * out_channels))
        self.attention = nn.Parameter(torch.zeros(self.branches))

    @property
    def label_weight(self) -> Tensor:
        return torch.block_diag(*super().label_weight.chunk(self.branches, dim=1))

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        weights = weight.chunk(self.branches, dim=1)
        if isinstance(h, Tensor) and h.shape[-1] < weights[0].shape[1]:  # propagate whichever is narrower
            powers = self.spread(h, graph).chunk(self.branches, dim=-1)
            return torch.cat([power @ part for power, part in zip(powers, weights)], dim=-1)
        own, *rest = multiply(h, weight).chunk(self.branches, dim=-1)
        halves = rest[: self.hops], rest[self.hops :]
        return torch.cat([own, *(rising(spread, half) for spread, half in zip(self.spreads(graph), halves))], dim=-1)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        fields = [y]
        for spread in self.spreads(graph):
            power = y
            for _ in range(self.hops):
                power = spread(power)
                fields.append(power)
        return torch.cat(fields, dim=-1)

    def spreads(self, graph: GraphTensors) -> tuple[Spread, Spread]:
        """Products by A and by A + I, as they are normalised."""
        if self.normalisation == "symmetric":
            return graph.operator("neighbours"), graph.operator("gcn")
        total = graph.operator("sum")
        return total, lambda h: h + total(h)

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        branches = (z + self.bias).unflatten(-1, (self.branches, -1))
        return (nn.functional.normalize(branches, dim=-1) * self.attention.softmax(dim=0).unsqueeze(-1)).flatten(-2)


def rising(spread: Spread, fields: list[Tensor]) -> Tensor:
    """[M f_1 || M^2 f_2 || ...], of which every product serves all powers that are still to rise."""
    rest = spread(fields[-1])
    for field in reversed(fields[:-1]):
        rest = spread(torch.cat([field, rest], dim=-1))
    return rest


class FSGNN(Backbone):
    """Options: `normalisation`, "symmetric" or "none"."""

    conv = FSConv
    convolves_last = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 3,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        normalisation: NormalisationName = "symmetric",
    ) -> None:
        of_conv: dict[str, Any] = {"hops": num_layers, "normalisation": normalisation}
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout, **of_conv)
        self.out_channels = (2 * num_layers + 1) * hidden_channels

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        (conv,) = self.convs
        spread = None if y is None else conv.spread(y, graph)
        everywhere = None if time is None else torch.cat([time] * conv.branches, dim=-1)
        return self.leave(conv(encoded, spread, graph, everywhere), generator)
