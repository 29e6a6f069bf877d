"""The buffer of Algorithm 1: the variational distribution q(y_U | y_L) as the last K joint labellings."""

from __future__ import annotations

import torch
from torch import Tensor

from dpmsnc.targets import Target

TOLERANCE = 0.4
"""Distance of a labelling's average from the expected one beyond which it is taken for a collapse."""


class Buffer:
    """The last `size` labellings of all rows; true labels stand on the training rows of each.

    A labelling whose average lies further than `tolerance` from the expected one (for classes: the shares of the
    classes, in total variation) is taken for a collapse, most often into a single class, and refused: it would be
    taught to the model for many steps to come.
    """

    def __init__(
        self, size: int, target: Target, labels: Tensor, mask: Tensor, expected: Tensor, tolerance: float = TOLERANCE
    ) -> None:
        self.size, self.target, self.labels, self.mask = size, target, labels, mask
        self.expected, self.tolerance = expected, tolerance
        self.entries = labels.new_empty((0, *labels.shape))
        self.refused = 0
        self.summarise()

    def add(self, labellings: Tensor, guarded: bool = True) -> None:
        """Append labellings (count, rows, ...), dropping the oldest beyond `size`; `guarded` refuses collapsed ones."""
        healthy = [entry for entry in labellings if not (guarded and self.collapsed(entry))]
        self.refused += len(labellings) - len(healthy)
        if healthy:
            mask = self.mask.view(-1, *[1] * (self.labels.dim() - 1))
            entries = torch.where(mask, self.labels, torch.stack(healthy))
            self.entries = torch.cat([self.entries, entries])[-self.size :]
            self.summarise()

    def collapsed(self, labelling: Tensor) -> bool:
        return self.target.distance(self.target.average(labelling[~self.mask]), self.expected) > self.tolerance

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """`count` labellings (count, rows, ...), each uniform over the buffer."""
        return self.entries[torch.randint(len(self.entries), (count,), generator=generator)]

    def summarise(self) -> None:
        """`mean`: mean of the field at each row (rows, channels), for classes their frequencies."""
        total = torch.zeros(len(self.labels), self.target.channels, device=self.labels.device)
        for entry in self.entries:
            self.target.add_field(total, entry)
        self.mean = total / max(len(self.entries), 1)
