"""The gradient of the training loss, a few time draws at a time.

What depends on neither labels nor time is computed once and its gradient collected from all draws before it goes
further back; the rest is worked on in parts that fit the processor's cache, each forward and backward at once, so that
memory does not grow with the number of draws.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from dpmsnc.diffusion.objective import Objective
from dpmsnc.nn.denoiser import Context, Denoiser, Known


def accumulate(
    denoiser: Denoiser,
    objective: Objective,
    context: Context,
    y_0: Tensor,
    t: Tensor,
    eps: Tensor,
    weights: Tensor,
    shown: Known | None,
    generator: torch.Generator,
    keep: Tensor | None = None,
) -> float:
    """Add the gradient of sum(weights * loss) to the parameters, and return that sum.

    Labels y_0 and noise eps are (nodes, draws, classes), weights (nodes, draws), times t (draws,) or (nodes, draws).
    `keep` (nodes, draws, 1) is zero where a node goes without features.
    """
    encoded = context.encoded.detach().requires_grad_()
    y_t = objective.corrupt(y_0, t, eps)
    presented = objective.scale_input(y_t, t)
    total = 0.0
    for part in denoiser.chunks(*eps.shape[:2]):
        seen = encoded if keep is None else encoded * keep[:, part]
        known = None if shown is None else shown.part(part)
        output = denoiser.evaluate(presented[:, part], t[..., part], replace(context, encoded=seen), known, generator)
        losses = objective.loss(output, y_0[:, part], eps[:, part], t[..., part])
        loss = (weights[:, part] * losses).sum()
        loss.backward()
        total += loss.item()
    context.encoded.backward(encoded.grad)
    return total
