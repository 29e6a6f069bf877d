"""Dropout whose random numbers are drawn in bulk from a generator of our own.

On a CPU, torch draws one Bernoulli number per entry, which costs more than the layer it follows. Here one 64-bit draw
gives 64 masks at rate 1/2, or eight at any other rate (rounded to a multiple of 1/256, and rescaled by that).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor


def dropout(h: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Zero entries with probability `rate` and rescale the rest; no generator means evaluation: h itself.

    Example:
        >>> h = torch.ones(1000)
        >>> dropout(h, 0.5, torch.Generator().manual_seed(0)).unique().tolist()
        [0.0, 2.0]
    """
    if rate == 0 or generator is None:
        return h
    keep, kept = keep_mask(h.numel(), rate, generator)
    return h * (keep.view(h.shape).to(h.device, h.dtype) * (1 / kept))


def relu_dropout(z: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """dropout(relu(z)) in place, without a mask to remember: an entry that is positive afterwards was kept."""
    if rate == 0 or generator is None:
        return torch.relu_(z)
    keep, kept = keep_mask(z.numel(), rate, generator)
    return _ReluDropout.apply(z, keep.view(z.shape).to(z.device), 1 / kept)


class _ReluDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.mark_dirty(z)
        ctx.scale = scale
        z.relu_().mul_(keep.to(z.dtype).mul_(scale))
        ctx.save_for_backward(z)
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (h,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(grad, h, 0).mul_(ctx.scale), None, None


def keep_mask(size: int, rate: float, generator: torch.Generator) -> tuple[Tensor, float]:
    """A flat mask of entries to keep (uint8), and the exact probability with which each is kept."""
    if rate == 0.5:
        return torch.from_numpy(np.unpackbits(_random_bytes(-(-size // 8), generator), count=size)), 0.5
    threshold = max(1, round(256 * (1 - rate)))
    return torch.from_numpy((_random_bytes(size, generator) < threshold).view(np.uint8)), threshold / 256


def _random_bytes(size: int, generator: torch.Generator) -> np.ndarray:
    words = torch.randint(-(2**63), 2**63 - 1, (-(-size // 8),), generator=generator)
    return words.numpy().view(np.uint8)[:size]
