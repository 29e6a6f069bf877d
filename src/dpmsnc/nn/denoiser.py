r"""The denoising network of appendix C.1, in two parts.

    h_0 = x || y_t,      h_l = act(conv_l(h_{l-1}) + f(t)) || y_t,      output = g(h_L)

`encode(graph)` computes all that depends on neither y_t nor t; `forward(y_t, t, context)` the rest, for a whole
batch of label fields at once. With `shows_known` the network is also told which labels are known ("amortised
conditioning"): known nodes carry their clean label instead of y_t, and one more input channel says so.

A network that `corrects` an initialiser is given the `offset` of the context: the logits of the initialiser's own
denoiser at y_t. It reads their softmax (of tags, the sigmoid) beside the labels, and adds the offset to its output. Its
last layer begins at zero, so that it begins as that denoiser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from dpmsnc.config import BackboneSpec
from dpmsnc.diffusion.known import Known
from dpmsnc.nn.backbones import make_backbone
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.products import project, softmax
from dpmsnc.nn.receptive_field import HiddenRecorder

TIME_CHANNELS = 128
CHUNK = 2**20
"""Entries of a hidden field that are worked on at a time. What stays in the processor's cache is added, rectified and
dropped out several times faster; and memory does not grow with the number of draws or samples."""


@dataclass(frozen=True)
class Context:
    """A graph as one set of weights sees it, before any label."""

    encoded: Tensor
    graph: GraphTensors
    times: Tensor | None = None
    """f(t) of every time t (T + 1, channels), where no gradient of it is asked for."""
    offset: Tensor | None = None
    """Logits (nodes, 1 or batch, classes) that the output is added to."""

    def part(self, entries: slice) -> Context:
        """Some entries of a batch; an offset given once for all of them stays as it is."""
        if self.offset is None or self.offset.shape[1] == 1:
            return self
        return replace(self, offset=self.offset[:, entries])


class Denoiser(nn.Module):
    """epsilon_theta(y_t, G, t), or logits of y_0: the network does not know which, the objective does."""

    head: Any

    def __init__(
        self,
        backbone: BackboneSpec,
        in_channels: int,
        num_classes: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        head_layers: int = 1,
        shows_known: bool = False,
        corrects: bool = False,
        link: Callable[[Tensor], Tensor] = softmax,
    ) -> None:
        """`link` makes probabilities of the offset that a network corrects."""
        super().__init__()
        self.link = link
        self.shows_known, self.corrects = shows_known, corrects
        self.dropout, self.hidden_channels = dropout, hidden_channels
        label_channels = num_classes * (1 + corrects) + shows_known
        self.backbone = make_backbone(backbone, in_channels, hidden_channels, num_layers, label_channels, dropout)
        self.time = nn.Sequential(
            nn.Linear(TIME_CHANNELS, TIME_CHANNELS), nn.ELU(), nn.Linear(TIME_CHANNELS, hidden_channels)
        )
        width = self.backbone.out_channels + label_channels
        hidden = [2 * width] * (head_layers - 1)
        self.head = nn.ModuleList(
            nn.Linear(i, o) for i, o in zip([width, *hidden], [*hidden, num_classes], strict=True)
        )
        if corrects:
            nn.init.zeros_(self.head[-1].weight)
            nn.init.zeros_(self.head[-1].bias)

    def encode(self, graph: GraphTensors) -> Context:
        return Context(self.backbone.encode(graph), graph)

    @torch.no_grad()
    def precompute(self, graph: GraphTensors, num_steps: int) -> Context:
        """The context of weights that no longer change, with all times from 0 to `num_steps`."""
        times = self.embed(torch.arange(num_steps + 1, device=graph.device)).to(graph.dtype)
        return replace(self.encode(graph), times=times)

    def forward(
        self,
        y_t: Tensor,
        t: Tensor | int,
        context: Context,
        known: Known | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        """The output (nodes, batch, classes) for noisy labels y_t of that shape at times t: one for all, one per batch
        entry (batch,) or one per node and batch entry (nodes, batch).

        A generator turns dropout on and draws its masks. A recorder keeps hidden fields, for `backward`.
        """
        chunks = self.chunks(*y_t.shape[:2])
        if len(chunks) == 1:
            return self.evaluate(y_t, t, context, known, generator, recorder)
        outputs = [
            self.evaluate(y_t[:, part], t_part, context.part(part), known and known.part(part), generator, recorder)
            for part in chunks
            for t_part in [t if isinstance(t, int) or t.shape[-1] == 1 else t[..., part]]
        ]
        return torch.cat(outputs, dim=1)

    def chunks(self, num_nodes: int, batch: int) -> list[slice]:
        """The batch in parts of nearly equal size, none much larger than the cache."""
        count = min(batch, math.ceil(batch * num_nodes * self.hidden_channels / CHUNK))
        ends = [batch * k // count for k in range(count + 1)]
        return [slice(*pair) for pair in pairwise(ends)]

    def evaluate(
        self,
        y_t: Tensor,
        t: Tensor | int,
        context: Context,
        known: Known | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        """`forward` on a batch that is small enough."""
        labels = self.show(y_t, known, context.offset)
        h = self.backbone(context.encoded, context.graph, labels, self.time_shift(t, context), generator, recorder)
        first, *rest = self.head
        h = project(h, labels, first.weight, first.bias)
        for layer in rest:
            h = layer(dropout(nn.functional.elu(h), self.dropout, generator))
        return h + context.offset if self.corrects and context.offset is not None else h

    @property
    def num_layers(self) -> int:
        return len(self.backbone.convs)

    @property
    def has_backward(self) -> bool:
        return self.backbone.has_backward and not (self.shows_known or self.corrects) and len(list(self.head)) == 1

    def backward(self, grad: Tensor, recorder: HiddenRecorder) -> Tensor:
        """The gradient by y_t at all nodes of a receptive field, from that by the output at the nodes it began with."""
        (head,) = self.head
        of_h, of_y = head.weight.tensor_split([self.hidden_channels], dim=1)
        by_y = self.backbone.backward(grad @ of_h, recorder)
        by_y[: len(grad)] += grad @ of_y
        return by_y

    def time_shift(self, t: Tensor | int, context: Context) -> Tensor:
        """f(t), from the context if it has it."""
        if context.times is not None:
            return context.times[t]
        return self.embed(torch.as_tensor([t]) if isinstance(t, int) else t)

    def embed(self, t: Tensor) -> Tensor:
        """f(t); where every node has its own time, computed once for each time that occurs."""
        if t.dim() == 1:
            return self.time(sinusoid(t).to(next(self.time.parameters()).dtype))
        times, index = t.unique(return_inverse=True)
        return nn.functional.embedding(index, self.embed(times))

    def show(self, y_t: Tensor, known: Known | None, offset: Tensor | None = None) -> Tensor:
        """The labels as the network is shown them, and beside them what its initialiser says."""
        parts = [known_beside(y_t, known) if self.shows_known else y_t]
        if self.corrects:
            parts.append(torch.zeros_like(y_t) if offset is None else self.link(offset.to(y_t.dtype)).expand_as(y_t))
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def sinusoid(t: Tensor) -> Tensor:
    """Sinusoidal embedding of 4 t in 128 channels, as the authors scale it (Vaswani et al. 2017)."""
    half = TIME_CHANNELS // 2
    frequency = torch.exp(-math.log(10000) / (half - 1) * torch.arange(half, device=t.device, dtype=torch.float32))
    angle = 4 * t.to(torch.float32).unsqueeze(-1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def known_beside(y_t: Tensor, known: Known | None) -> Tensor:
    """y_t with known labels in their place, and beside it which they are."""
    if known is None:
        return torch.cat([y_t, torch.zeros_like(y_t[..., :1])], dim=-1)
    mask = known.mask.unsqueeze(-1).expand(*y_t.shape[:2], 1)
    return torch.cat([torch.where(mask, known.y, y_t), mask.to(y_t.dtype)], dim=-1)
