"""The optimiser of both trainings: Adam with clipped gradients, a rate that may decay, and averaged weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpmsnc.config import Training


class Optimiser:
    """Steps of Adam on a module; `averaged` holds the running mean of its weights, which are the ones that sample."""

    def __init__(self, module: torch.nn.Module, options: Training) -> None:
        self.module, self.options = module, options
        self.adam = torch.optim.Adam(module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
        self.averaged = {name: value.detach().clone() for name, value in module.named_parameters()}

    def zero_grad(self) -> None:
        self.adam.zero_grad()

    def descend(self, step: int) -> None:
        """Follow the gradient that has been accumulated, at the step counted from 0, and average."""
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.options.clip)
        for group in self.adam.param_groups:
            group["lr"] = self.options.learning_rate * (self.decay(step) if self.options.decay else 1)
        self.adam.step()
        self.average(step)

    def decay(self, step: int) -> float:
        """Half a cosine, from 1 down to 1/20 at the last step."""
        return 0.05 + 0.95 * (1 + math.cos(math.pi * step / self.options.steps)) / 2

    def average(self, step: int) -> None:
        # the first steps average over what there is, or the initial weights would linger
        decay = min(self.options.averaging, (1 + step) / (10 + step))
        with torch.no_grad():
            for name, value in self.module.named_parameters():
                self.averaged[name].lerp_(value, 1 - decay)

    def averaged_weights(self) -> swapped:
        return swapped(self.module, self.averaged)


class swapped:
    """Inside the block the module has other weights, without gradients; after it, its own again."""

    def __init__(self, module: torch.nn.Module, weights: dict[str, Tensor]) -> None:
        self.module, self.weights = module, weights

    def __enter__(self) -> None:
        self.own = {name: value.data for name, value in self.module.named_parameters()}
        for name, value in self.module.named_parameters():
            value.data = self.weights[name]
            value.requires_grad_(False)

    def __exit__(self, *exception: object) -> None:
        for name, value in self.module.named_parameters():
            value.data = self.own[name]
            value.requires_grad_(True)
