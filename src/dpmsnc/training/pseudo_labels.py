"""Pseudo-labels: what the M-step may believe of rows without a label, and how much.

The initialiser, and later the buffer, give every row mean-field probabilities. `soft` are the labels that fill
unlabelled rows in a training step; `trust` is the weight of each in the loss, and the chance that it is shown as if it
were known. Both fade where there is no skill, and trust also where a row is told no more than the average of all.

Sampled labels that mean nothing still differ from row to row, and a network would learn training labels by heart from
such fingerprints. So the initialiser's labels are not sampled, and for lack of skill they are drawn to the average.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmsnc.targets import Target

SHOWN_FOR_SKILL = 0.5
"""Share of the training labels that are shown when the model is asked for the others, to measure its skill."""


class PseudoLabels:
    """Soft labels (rows, channels) and trust (rows,) in them."""

    def __init__(self, target: Target, initial: Tensor, labelled: Tensor) -> None:
        self.target, self.labelled = target, labelled
        self.soft, self.trust = initial, torch.zeros_like(initial[:, 0])

    def believe(self, probabilities: Tensor, sharpened: Tensor, skill: float) -> None:
        """Take over what `probabilities` say, filled in as `sharpened`, with that much skill behind them."""
        average = probabilities[~self.labelled].mean(dim=0)
        self.trust = skill * self.target.information(probabilities, average)
        self.soft = torch.lerp(average.expand_as(sharpened), sharpened, skill)


def divide(training: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Training rows that are shown, and those that are asked for, to measure skill."""
    shown = training & (torch.rand(len(training), generator=generator) < SHOWN_FOR_SKILL).to(training.device)
    return shown, training & ~shown
