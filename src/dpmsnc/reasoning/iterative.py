r"""Iterative feedforward, a baseline of table 5: a network that makes labels one step less noisy, and is not told when.

    y_t = sqrt(1 - t/T) y + sqrt(t/T) e,        L = |f(x, y_t) - y_{t-1}|^2   with the same noise e,   t = 1 .. T

and from noise y_T an answer is f(f(... f(y_T))), T times. Du et al. 2022 cite Sohl-Dickstein et al. 2015 for it, and
this is what the noise in their code amounts to; their code for matrices has y + f(x, y) instead, trained on the last y,
and their code for graphs does not run. The noise level has to be read off y_t itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpmsnc.diffusion.objective import Estimate, Objective
from dpmsnc.diffusion.sampler import STEPS, Noise, Step
from dpmsnc.estimators.edge_regressor import EdgeRegressor

STEP = "output"
"""The name of the reverse step, for `Sampling.method`."""


@STEPS.register(STEP)
class OutputStep(Step):
    """The output of the network is the next y."""

    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        return estimate.y0


@dataclass(frozen=True)
class OneStepLess(Objective):
    """The network is trained to give y_{t-1}; of the schedule only T counts."""

    def corrupt(self, y_0: Tensor, t: Tensor, eps: Tensor) -> Tensor:
        share = (t.to(y_0) / self.schedule.num_steps).unsqueeze(-1)
        return torch.sqrt(1 - share) * y_0 + torch.sqrt(share) * eps

    def scale_input(self, y_t: Tensor, t: Tensor | int) -> Tensor:
        return y_t

    def loss(self, output: Tensor, y_0: Tensor, eps: Tensor, t: Tensor) -> Tensor:
        return self.target.loss(output, self.corrupt(y_0, t - 1, eps))

    def estimate(self, output: Tensor, y_t: Tensor, t: Tensor | int) -> Estimate:
        return Estimate(y_t - output, output)


class IterativeRegressor(EdgeRegressor):
    """Labels that are made less noisy step by step; its network is "ends", its reverse step "output"."""

    def _objective(self) -> Objective:
        return OneStepLess(self.schedule, self.parameterisation, self.training.weighting, self.process, self._modelled)
