"""The optimiser of a training run: Adam with clipped gradients, a rate that may decay, and averaged weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.optim.swa_utils import AveragedModel

from dpmsnc.config import Training
from dpmsnc.files import group

LAST_RATE = 0.05
"""Of the learning rate, what is left at the last step where it decays."""


class Optimiser:
    """Steps of Adam on a module; `averaged` is a copy with the running mean of its weights, the one that samples."""

    def __init__(self, module: torch.nn.Module, options: Training) -> None:
        self.module, self.options = module, options
        self.adam = torch.optim.Adam(module.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay)
        self.decay = CosineAnnealingLR(self.adam, options.steps, LAST_RATE * options.learning_rate)
        self._average = AveragedModel(module, avg_fn=self._mean, use_buffers=True)
        self._average.n_averaged += 1  # the initial weights count as the first, which are overwritten else
        self.averaged: Any = self._average.module.requires_grad_(False)

    def zero_grad(self) -> None:
        self.adam.zero_grad()

    def descend(self) -> None:
        """Follow the gradient that has been accumulated, and average."""
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), self.options.clip)
        self.adam.step()
        if self.options.decay:
            self.decay.step()
        self._average.update_parameters(self.module)

    def _mean(self, averaged: Tensor, value: Tensor, count: Tensor | int) -> Tensor:
        # the first steps average over what there is, or the initial weights would linger
        if not averaged.is_floating_point():  # a count of batches
            return value
        decay = min(self.options.averaging, int(count) / (9 + int(count)))
        return averaged.lerp(value, 1 - decay)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that changes, as tensors and JSON values."""
        tensors = {f"weights/{name}": value for name, value in self.module.state_dict().items()}
        tensors |= {f"averaged/{name}": value for name, value in self.averaged.state_dict().items()}
        for index, moments in self.adam.state_dict()["state"].items():
            tensors |= {f"moments/{index}/{name}": value for name, value in moments.items()}
        return tensors, {"averages": int(self._average.n_averaged), "decay": self.decay.state_dict()}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go back to a `state()`."""
        self.module.load_state_dict(group(tensors, "weights/"))
        self.averaged.load_state_dict(group(tensors, "averaged/"))
        self._average.n_averaged.fill_(values["averages"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key, tensor in group(tensors, "moments/").items():
            index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = tensor
        self.adam.load_state_dict(self.adam.state_dict() | {"state": moments})
        self.decay.load_state_dict(values["decay"])
        for rate, parameters in zip(self.decay.get_last_lr(), self.adam.param_groups):
            parameters["lr"] = rate
