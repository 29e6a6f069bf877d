r"""What the denoising networks of edge labels share: the interface of `Denoiser`, with edges as rows.

`encode(graph)` computes all that depends on neither y_t nor t; `forward(y_t, t, context)` the rest, for a batch of
label fields at once. A network says what it computes of edges that are worked on together in `encode_part` and
`answer`. It never knows whether these are complete graphs or any others (`dpmsnc.nn.edges.tensors`). Edges without a
direction are worked on as two opposite ones with the same label, and the mean of both answers counts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpmsnc.diffusion.known import Known
from dpmsnc.nn.denoiser import CHUNK, TIME_CHANNELS, Context, known_beside, sinusoid
from dpmsnc.nn.edges.tensors import EdgeTensors, Part
from dpmsnc.registry import Registry

EDGE_DENOISERS: Registry[type[EdgeDenoiser]] = Registry("network on edges")


class EdgeDenoiser(nn.Module):
    """eps_theta(y_t, G, t), or the output that a label is read from: (edges, batch, channels)."""

    has_backward: ClassVar[bool] = False
    width: int
    """Channels of an edge's hidden state."""

    shift: Tensor
    scale: Tensor

    def __init__(self, edge_channels: int, width: int, shows_known: bool = False) -> None:
        super().__init__()
        self.width, self.shows_known = width, shows_known
        self.time = nn.Sequential(
            nn.Linear(TIME_CHANNELS, 2 * TIME_CHANNELS), nn.ReLU(), nn.Linear(2 * TIME_CHANNELS, width)
        )
        self.register_buffer("shift", torch.zeros(edge_channels))
        self.register_buffer("scale", torch.ones(edge_channels))

    def standardise(self, edge_attr: Tensor) -> None:
        """Read edge attributes by their mean and deviation among these (edges, D) from now on."""
        deviation, mean = torch.std_mean(edge_attr.double(), dim=0, correction=0)
        varies = edge_attr.amax(dim=0) > edge_attr.amin(dim=0)  # rounding lets a constant deviate from its mean
        self.shift.copy_(mean)
        self.scale.copy_(torch.where(varies, deviation, 1.0))

    def encode_part(self, part: Part, x: Tensor | None, edge_attr: Tensor) -> Tensor:
        """What of edges depends on neither y_t nor t (rows, 1, ...), from features of nodes and edges."""
        raise NotImplementedError

    def answer(
        self,
        part: Part,
        x: Tensor | None,
        encoded: Tensor,
        labels: Tensor,
        t: Tensor,
        times: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The output (rows, batch, channels) from labels as they are shown; f(t) is `times[t]`, with an entry of t
        (rows, batch) for every edge. A generator is there in training alone, for what is drawn then."""
        raise NotImplementedError

    def encode(self, graph: EdgeTensors) -> Any:
        encoded = self.encode_part(graph.part, graph.x, (graph.edge_attr - self.shift) / self.scale)
        return Context(encoded, graph)  # type: ignore[arg-type]

    @torch.no_grad()
    def precompute(self, graph: EdgeTensors, num_steps: int) -> Any:
        """The context of weights that no longer change, with all times from 0 to `num_steps`."""
        return replace(self.encode(graph), times=self.embed(torch.arange(num_steps + 1, device=graph.device)))

    def forward(
        self,
        y_t: Tensor,
        t: Tensor | int,
        context: Any,
        known: Known | None = None,
        generator: torch.Generator | None = None,
        recorder: Any = None,
    ) -> Tensor:
        """The output for noisy labels y_t (rows, batch, channels) at times t: one for all, one per batch entry (batch,)
        or one per row and batch entry (rows, batch)."""
        if torch.is_grad_enabled():
            return self.evaluate(y_t, t, context, known, generator)
        outputs = [
            self.evaluate(
                y_t[:, entries],
                t if isinstance(t, int) or t.shape[-1] == 1 else t[..., entries],
                context,
                known and known.part(entries),
            )
            for entries in self.chunks(*y_t.shape[:2])
        ]
        return torch.cat(outputs, dim=1)

    def chunks(self, num_rows: int, batch: int) -> list[slice]:
        """The batch in parts of nearly equal size."""
        count = max(1, min(batch, math.ceil(batch * num_rows * self.width / (8 * CHUNK))))
        return [slice(*ends) for ends in pairwise(batch * k // count for k in range(count + 1))]

    def evaluate(
        self,
        y_t: Tensor,
        t: Tensor | int,
        context: Any,
        known: Known | None = None,
        generator: torch.Generator | None = None,
        recorder: Any = None,
    ) -> Tensor:
        """`forward` on all of the batch at once."""
        graph: EdgeTensors = context.graph
        labels = known_beside(y_t, known) if self.shows_known else y_t
        t, times = self.indexed(t, context)
        t = t.to(y_t.device).expand(len(y_t), -1)
        rows = (context.encoded, graph.directed(labels), graph.directed(t))
        return graph.undirected(self.answer(graph.part, graph.x, *rows, times, generator))

    def indexed(self, t: Tensor | int, context: Any) -> tuple[Tensor, Tensor]:
        """t as an index (1 or rows, 1 or batch) into a table of f(t)."""
        t = torch.as_tensor(t)
        t = t if t.dim() == 2 else t.view(1, -1)
        if context.times is not None:
            return t, context.times
        times, index = t.unique(return_inverse=True)
        return index, self.embed(times)

    def embed(self, t: Tensor) -> Tensor:
        """f(t) of times (count,)."""
        return self.time(sinusoid(t).to(next(self.time.parameters())))
