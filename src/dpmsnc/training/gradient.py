"""What a training step is made of, and the gradient of its loss, a few time draws at a time.

What depends on neither labels nor time is computed once and its gradient collected from all draws before it goes
further back; the rest is worked on in parts that fit the processor's cache, each forward and backward at once, so that
memory does not grow with the number of draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors


@dataclass(frozen=True)
class Draw:
    """What one step is trained on: label fields, times and noise on the rows of some graphs."""

    graph: GraphTensors
    y_0: Tensor
    """Labels (rows, draws, channels)."""
    t: Tensor
    """Times (draws,), or (rows, draws) where every graph has its own."""
    eps: Tensor
    """Noise of the shape of y_0."""
    weights: Tensor
    """Weight of the loss at each row in each draw (rows, draws)."""
    shown: Known | None = None
    """Labels that the network is shown, for amortised conditioning."""
    keep: Tensor | None = None
    """Zero where a row goes without features (rows, draws, 1)."""
    offset: Tensor | None = None
    """Logits (rows, draws, channels) that the network corrects."""


def accumulate(denoiser: Denoiser, objective: Objective, draw: Draw, generator: torch.Generator) -> float:
    """Add the gradient of sum(weights * loss) to the parameters, and return that sum."""
    context = denoiser.encode(draw.graph)
    encoded = context.encoded.detach().requires_grad_()
    y_0, t, eps = draw.y_0, draw.t, draw.eps
    y_t = objective.scale_input(objective.corrupt(y_0, t, eps), t)
    context = replace(context, offset=draw.offset)
    total = 0.0
    for part in denoiser.chunks(*eps.shape[:2]):
        seen = encoded if draw.keep is None else encoded * draw.keep[:, part]
        shown = None if draw.shown is None else draw.shown.part(part)
        seen_part = replace(context.part(part), encoded=seen)
        output = denoiser.evaluate(y_t[:, part], t[..., part], seen_part, shown, generator)
        losses = objective.loss(output, y_0[:, part], eps[:, part], t[..., part])
        loss = (draw.weights[:, part] * losses).sum()
        loss.backward()
        total += loss.item()
    context.encoded.backward(encoded.grad)
    return total
