"""The package's weights beside those of the plain network: which is which, copied, and compared."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dpmsnc.nn.denoiser import Denoiser


def pairs(denoiser: Denoiser, plain: nn.Module) -> Iterator[tuple[str, nn.Parameter, nn.Parameter, bool]]:
    """Name, the package's parameter, the plain one, and whether one is the other transposed."""
    for layer, (conv, other) in enumerate(zip(denoiser.backbone.convs, plain.convs, strict=True)):  # type: ignore[arg-type]
        for name, value in conv.named_parameters():
            partner, transposed = _partner(name, other)
            yield f"convs.{layer}.{name}", value, partner, transposed
    for part in ("time", "head"):
        owns, others = getattr(denoiser, part).named_parameters(), getattr(plain, part).parameters()
        for (name, value), partner in zip(owns, others, strict=True):
            yield f"{part}.{name}", value, partner, False


def _partner(name: str, plain: nn.Module) -> tuple[nn.Parameter, bool]:
    """A convolution's parameter under PyG's name, or torch's; linear maps there have their outputs first."""
    if name == "weight":
        if hasattr(plain, "weight1"):  # GCN2Conv multiplies from the right, as the package does
            return plain.weight1, False  # type: ignore[return-value]
        return getattr(plain, "lin", plain).weight, True  # type: ignore[return-value]
    return getattr(plain, {"source": "att_src", "target": "att_dst"}.get(name, name)), False


def copy_weights(denoiser: Denoiser, plain: nn.Module) -> None:
    with torch.no_grad():
        for _, own, other, transposed in pairs(denoiser, plain):
            other.copy_(own.T if transposed else own.view(other.shape))


def gradients(denoiser: Denoiser, plain: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """The gradients of both, in the package's shapes; zero where a parameter was not reached."""
    found = {}
    for name, own, other, transposed in pairs(denoiser, plain):
        mine, theirs = (torch.zeros_like(p) if p.grad is None else p.grad for p in (own, other))
        found[name] = mine, theirs.T if transposed else theirs.view(mine.shape)
    return found
