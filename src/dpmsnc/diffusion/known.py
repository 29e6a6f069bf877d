"""Labels that are given to a reverse process or to a network: which rows, and the field on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Known:
    """Labels that are given: `mask` (rows, 1 or batch) and the field `y` (rows, 1 or batch, channels) there."""

    mask: Tensor
    y: Tensor

    @classmethod
    def of(cls, y: Tensor, mask: Tensor) -> Known:
        """The same for all entries of a batch, from a field (rows, channels) and the rows (rows,) where it is given."""
        return cls(mask.unsqueeze(1), (y * mask.unsqueeze(1)).unsqueeze(1))

    def part(self, entries: slice) -> Known:
        """Some entries of the batch; labels given once for all of them stay as they are."""
        if self.mask.shape[1] == self.y.shape[1] == 1:
            return self
        mask, y = (every if every.shape[1] == 1 else every[:, entries] for every in (self.mask, self.y))
        return Known(mask, y)

    def to(self, device: torch.device) -> Known:
        return Known(self.mask.to(device), self.y.to(device))

    def at(self, rows: Tensor) -> Known:
        """Some rows."""
        return Known(self.mask[rows], self.y[rows])
