"""The two dense products between label fields, which have few channels, and hidden fields, which have many.

How such a product is written matters. For 2708 nodes, 64 channels and 7 classes `h @ W.T` takes twice as long as the
transpose of `W @ h.T`, and in the backward pass `h.T @ g` six times as long as `g.T @ h`. The functions here write them
the fast way round, and `combine` adds in the passes over memory that the product needs anyway.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def combine(encoded: Tensor, spread: Tensor, weight: Tensor, shift: Tensor, reuse: bool = False) -> Tensor:
    """encoded + spread @ weight + shift: from few channels to many.

    `spread` is (nodes, batch, few); `encoded` and `shift` broadcast to (nodes, batch, many). Where no gradient is asked
    for, `reuse` allows the result to be written over `encoded`, which then has its full size.
    """
    if not torch.is_grad_enabled():
        return _combine(encoded, spread, weight, shift, reuse)
    return _Combine.apply(encoded, spread, weight, shift)


def project(h: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[h || y] @ weight.T + bias: from many channels, and a few others, to few."""
    if not torch.is_grad_enabled():
        return _project(h, y, weight, bias)
    return _Project.apply(h, y, weight, bias)


def narrow(h: Tensor, weight: Tensor) -> Tensor:
    """h @ weight.T from many channels to few, without a gradient."""
    return (weight @ h.flatten(0, -2).T).T.contiguous().view(*h.shape[:-1], -1)


def _combine(encoded: Tensor, spread: Tensor, weight: Tensor, shift: Tensor, reuse: bool = False) -> Tensor:
    z = encoded.add_(shift) if reuse else encoded + shift
    if z.shape[:2] != spread.shape[:2]:
        z = z.expand(*spread.shape[:2], -1).contiguous()
    z.view(-1, z.shape[-1]).addmm_(spread.flatten(0, 1), weight)
    return z


def _project(h: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    of_h, of_y = weight.tensor_split([h.shape[-1]], dim=1)
    out = torch.addmm(bias.unsqueeze(1), of_y, y.flatten(0, 1).T).addmm_(of_h, h.flatten(0, 1).T)
    return out.T.contiguous().view(*h.shape[:-1], -1)


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, encoded: Tensor, spread: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(spread, weight)
        ctx.shapes = encoded.shape, shift.shape
        return _combine(encoded, spread, weight, shift)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        spread, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (
            grad.sum_to_size(ctx.shapes[0]) if needs[0] else None,
            narrow(grad, weight) if needs[1] else None,
            spread.flatten(0, 1).T @ grad.flatten(0, 1) if needs[2] else None,
            grad.sum_to_size(ctx.shapes[1]) if needs[3] else None,
        )


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, y: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(h, y, weight)
        return _project(h, y, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, y, weight = ctx.saved_tensors
        needs, flat = ctx.needs_input_grad, grad.flatten(0, 1)
        of_h, of_y = weight.tensor_split([h.shape[-1]], dim=1)
        for_weight = torch.cat([flat.T @ h.flatten(0, 1), flat.T @ y.flatten(0, 1)], dim=1) if needs[2] else None
        return (
            grad @ of_h if needs[0] else None,
            grad @ of_y if needs[1] else None,
            for_weight,
            flat.sum(dim=0) if needs[3] else None,
        )


def softmax(logits: Tensor) -> Tensor:
    """Over the last axis, but computed over the first one: torch is ten times slower along an axis of a few classes."""
    return logits.movedim(-1, 0).softmax(dim=0).movedim(0, -1)
