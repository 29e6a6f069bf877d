r"""Options that every backbone has: a linear residual connection and a normalisation around each convolution,

    block([h || y]) = norm(conv([h || y]) + lin([h || y])) + f(t),

as tuned graph networks have them (Luo et al. 2024), here with the time added right before the activation. A backbone
without these options holds its convolutions bare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from dpmsnc.nn.operator import GraphTensors, Operator

if TYPE_CHECKING:
    from dpmsnc.nn.backbones.base import Conv, Linear

NormName = Literal["layer", "batch", "nodes"]


class NodeNorm(nn.Module):
    """Batch normalisation of every batch entry by itself, over its nodes, in training and evaluation alike.

    In a denoiser, recorded statistics would be those of labels at all levels of noise, and fit none of them.
    """

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, z: Tensor) -> Tensor:
        variance, mean = torch.var_mean(z, dim=0, correction=0, keepdim=True)
        scale = self.weight * (variance + self.eps).rsqrt()
        return torch.addcmul(self.bias - mean * scale, z, scale)


NORMS = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, "nodes": NodeNorm}


class Norm(nn.Module):
    """torch's LayerNorm or BatchNorm1d on the channels of a field (nodes, batch, channels), or `NodeNorm`.

    Batch statistics run over nodes and batch entries of one pass: over the chunk where a `Denoiser` works in chunks.
    They are used, and recorded, in training; evaluation takes the recorded ones. Training is told as it is told to
    dropout, by a generator, whatever `nn.Module.train` was called with.
    """

    def __init__(self, kind: NormName, channels: int) -> None:
        super().__init__()
        self.norm: nn.Module = NORMS[kind](channels)

    def forward(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        self.norm.train(generator is not None)
        if isinstance(self.norm, NodeNorm):
            return self.norm(z)
        return self.norm(z.flatten(0, 1)).unflatten(0, z.shape[:2])


class Block(nn.Module):
    """A convolution with a residual connection, a normalisation or both; it is called as a `Conv` is.

    What convolution and residual connection make of h, and of the labels, stands side by side in the last axis.
    """

    def __init__(self, conv: Conv, residual: Linear | None, norm: Norm | None) -> None:
        super().__init__()
        self.conv, self.residual, self.norm = conv, residual, norm

    def encode(self, h: Tensor | Operator, graph: GraphTensors) -> Tensor:
        encoded = self.conv.encode(h, graph)
        return encoded if self.residual is None else torch.cat([encoded, self.residual.encode(h, graph)], dim=-1)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        spread = self.conv.spread(y, graph)
        return spread if self.residual is None else torch.cat([spread, y], dim=-1)

    def forward(
        self,
        encoded: Tensor,
        spread: Tensor | None,
        graph: GraphTensors,
        time: Tensor | None = None,
        reuse: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        if self.norm is None:
            return self.add(encoded, spread, graph, time, reuse, generator)
        z = self.norm(self.add(encoded, spread, graph, None, reuse, generator), generator)
        return z if time is None else z + time

    def add(
        self,
        encoded: Tensor,
        spread: Tensor | None,
        graph: GraphTensors,
        time: Tensor | None,
        reuse: bool,
        generator: torch.Generator | None,
    ) -> Tensor:
        """conv([h || y]) + lin([h || y]) + f(t)."""
        if self.residual is None:
            return self.conv(encoded, spread, graph, time, reuse, generator)
        channels, labels = len(self.residual.bias), len(self.residual.label_weight)
        encoded, skipped = encoded.tensor_split([-channels], dim=-1)
        spread, y = (None, None) if spread is None else spread.tensor_split([-labels], dim=-1)
        return self.conv(encoded, spread, graph, time, generator=generator) + self.residual(skipped, y, graph)
