"""Joint labellings to learn from, each with the labels it gives and the fold of training labels that it hides."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Chains:
    """Labellings of all rows, each to be found by a model that has not seen the training labels it hides.

    A chain gives all training labels but those of one fold, and possibly some of its own labels besides.
    """

    labels: Tensor
    """Class indices (chains, rows); the true ones on all training rows."""
    shown: Tensor
    """Rows whose labels are given (chains, rows)."""
    fold: Tensor
    """The fold that is hidden (chains,)."""

    def draw(self, count: int, generator: torch.Generator) -> Chains:
        """So many of them, each uniformly."""
        chosen = torch.randint(len(self.labels), (count,), generator=generator)
        return Chains(*(getattr(self, part.name)[chosen] for part in fields(self)))

    def followed_by(self, newer: Chains, size: int) -> Chains:
        """These and newer ones, without the oldest beyond `size`."""
        both = (torch.cat([getattr(self, part.name), getattr(newer, part.name)])[-size:] for part in fields(self))
        return Chains(*both)

    def to(self, device: torch.device) -> Chains:
        return Chains(*(getattr(self, part.name).to(device) for part in fields(self)))
