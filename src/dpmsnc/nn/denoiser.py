r"""The denoising network of appendix C.1, in two parts.

    h_0 = x || y_t,      h_l = act(conv_l(h_{l-1}) + f(t)) || y_t,      output = g(h_L)

`encode(graph)` computes all that depends on neither y_t nor t; `forward(y_t, t, context)` the rest, for a whole
batch of label fields at once. With `shows_known` the network is also told which labels are known ("amortised
conditioning"): known nodes carry their clean label instead of y_t, and one more input channel says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones import BACKBONES
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors

TIME_CHANNELS = 128


@dataclass(frozen=True)
class Known:
    """Labels that are given: `mask` (nodes, 1 or batch) and one-hot `y` (nodes, 1 or batch, classes)."""

    mask: Tensor
    y: Tensor


@dataclass(frozen=True)
class Context:
    """A graph as one set of weights sees it, before any label."""

    encoded: Tensor
    graph: GraphTensors


class Denoiser(nn.Module):
    """epsilon_theta(y_t, G, t), or logits of y_0: the network does not know which, the objective does."""

    def __init__(
        self,
        backbone: str,
        in_channels: int,
        num_classes: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        head_layers: int = 1,
        shows_known: bool = False,
    ) -> None:
        super().__init__()
        self.shows_known, self.dropout = shows_known, dropout
        label_channels = num_classes + shows_known
        self.backbone = BACKBONES[backbone](in_channels, hidden_channels, num_layers, label_channels, dropout)
        self.time = nn.Sequential(
            nn.Linear(TIME_CHANNELS, TIME_CHANNELS), nn.ELU(), nn.Linear(TIME_CHANNELS, hidden_channels)
        )
        width = hidden_channels + label_channels
        hidden = [2 * width] * (head_layers - 1)
        self.head = nn.ModuleList(
            nn.Linear(i, o) for i, o in zip([width, *hidden], [*hidden, num_classes], strict=True)
        )

    def encode(self, graph: GraphTensors) -> Context:
        return Context(self.backbone.encode(graph), graph)

    def forward(
        self,
        y_t: Tensor,
        t: Tensor,
        context: Context,
        known: Known | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The output (nodes, batch, classes) for noisy labels y_t of that shape at times t, one per batch entry
        (batch,) or per node and batch entry (nodes, batch).

        A generator turns dropout on and draws its masks.
        """
        labels = self.show(y_t, known)
        h = self.backbone(context.encoded, context.graph, labels, self.embed(t).to(y_t.dtype), generator)
        first, *rest = self.head
        width = h.shape[-1]
        h = h @ first.weight[:, :width].T + (labels @ first.weight[:, width:].T + first.bias)  # type: ignore[index,operator]
        for layer in rest:
            h = layer(dropout(nn.functional.elu(h), self.dropout, generator))
        return h

    def embed(self, t: Tensor) -> Tensor:
        """f(t); where every node has its own time, computed once for each time that occurs."""
        if t.dim() == 1:
            return self.time(sinusoid(t).to(next(self.time.parameters()).dtype))
        times, index = t.unique(return_inverse=True)
        return nn.functional.embedding(index, self.embed(times))

    def show(self, y_t: Tensor, known: Known | None) -> Tensor:
        """The labels as the network is shown them."""
        if not self.shows_known:
            return y_t
        if known is None:
            return torch.cat([y_t, y_t.new_zeros(*y_t.shape[:2], 1)], dim=-1)
        mask = known.mask.unsqueeze(-1)
        return torch.cat([torch.where(mask, known.y, y_t), mask.to(y_t.dtype).expand(*y_t.shape[:2], 1)], dim=-1)


def sinusoid(t: Tensor) -> Tensor:
    """Sinusoidal embedding of 4 t in 128 channels, as the authors scale it (Vaswani et al. 2017)."""
    half = TIME_CHANNELS // 2
    frequency = torch.exp(-math.log(10000) / (half - 1) * torch.arange(half, device=t.device, dtype=torch.float32))
    angle = 4 * t.to(torch.float32).unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)
