"""The buffer of Algorithm 1: the variational distribution q(y_U | y_L) as the last K joint labellings."""

from __future__ import annotations

import torch
from torch import Tensor


class Buffer:
    """The last `size` labellings of all nodes; true labels stand on the training nodes of each.

    A labelling whose class shares lie further than `tolerance` (total variation) from the expected ones is taken for a
    collapse, most often into a single class, and refused: it would be taught to the model for many steps to come.
    """

    def __init__(self, size: int, labels: Tensor, mask: Tensor, expected: Tensor, tolerance: float = 0.4) -> None:
        self.size, self.labels, self.mask = size, labels, mask
        self.expected, self.tolerance = expected, tolerance
        self.entries = labels.new_empty((0, len(labels)))
        self.refused = 0
        self.summarise()

    def add(self, labellings: Tensor, guarded: bool = True) -> None:
        """Append labellings (count, nodes), dropping the oldest beyond `size`; `guarded` refuses collapsed ones."""
        healthy = [entry for entry in labellings if not (guarded and self.collapsed(entry))]
        self.refused += len(labellings) - len(healthy)
        if healthy:
            entries = torch.where(self.mask, self.labels, torch.stack(healthy))
            self.entries = torch.cat([self.entries, entries])[-self.size :]
            self.summarise()

    def collapsed(self, labelling: Tensor) -> bool:
        shares = torch.bincount(labelling[~self.mask], minlength=len(self.expected)).double()
        shares /= shares.sum().clamp_min(1)
        return bool((shares - self.expected).abs().sum() / 2 > self.tolerance)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """`count` labellings (count, nodes), each uniform over the buffer."""
        return self.entries[torch.randint(len(self.entries), (count,), generator=generator)]

    def summarise(self) -> None:
        """`mean`: class frequencies of each node (nodes, classes)."""
        counts = torch.zeros(len(self.labels), len(self.expected), device=self.labels.device)
        for entry in self.entries:  # one by one, or the one-hot vectors of all would take more memory than training
            counts.scatter_add_(1, entry.unsqueeze(1), torch.ones_like(counts[:, :1]))
        self.mean = counts / max(len(self.entries), 1)
