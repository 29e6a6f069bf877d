r"""The reverse process: one loop, and the steps it can take.

A step goes from time t to an earlier time s, given the network's estimate (eps, y_0) at y_t. With
alpha_{t|s} = alpha_bar_t / alpha_bar_s and beta_{t|s} = 1 - alpha_{t|s}:

*ancestral* (the paper's; equation for mu_theta in appendix A.2, s = t - 1, z ~ N(0, tau^2 I))

    y_s = (y_t - beta_{t|s} / sqrt(1 - alpha_bar_t) eps) / sqrt(alpha_{t|s}) + sigma_{t|s} z

*ancestral-denoised* (the authors' code for numbers on edges): the same with z = 0 in the last step. Algorithm 2 draws z
there too. Classes do not notice; the squared error of a number would be larger by beta_1.

*ddim* (Song et al. 2021, eta = 0): the same marginals along a deterministic path, for any number of steps

    y_s = sqrt(alpha_bar_s) y_0 + sqrt(1 - alpha_bar_s) eps

*multistep* (DPM-Solver++(2M), Lu et al. 2022): the same path with an error of second order. With
lambda_t = log(sqrt(alpha_bar_t) / sqrt(1 - alpha_bar_t)), the line through the last two estimates of y_0, at u and t,
is carried on to the middle of the step:

    D   = y_0 + (lambda_s - lambda_t) / (2 (lambda_t - lambda_u)) (y_0 - y_0 at u)
    y_s = sqrt(1 - alpha_bar_s) / sqrt(1 - alpha_bar_t) y_t + sqrt(alpha_bar_s) (1 - exp(lambda_t - lambda_s)) D

D = y_0 is DDIM. So are the first step, which has no u, and the last, where lambda_0 is infinite.

The temperature tau scales the standard deviation of the start, of z, and of the noise on projected labels; at tau = 0
the process is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from dpmsnc.deadline import check_time
from dpmsnc.diffusion.objective import Estimate
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.registry import Registry
from dpmsnc.targets import Target

Denoise = Callable[[Tensor, int], Estimate]
Callback = Callable[[int, Tensor, Estimate], None]


@dataclass(frozen=True)
class Noise:
    """Normal draws of standard deviation `temperature` from one generator; none are drawn at temperature 0."""

    temperature: float
    generator: torch.Generator

    def __call__(self, like: Tensor) -> Tensor:
        if self.temperature == 0:
            return torch.zeros_like(like)
        z = torch.randn(like.shape, generator=self.generator, dtype=like.dtype).to(like.device)
        return z if self.temperature == 1 else z.mul_(self.temperature)

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform draws from the same generator; all 1/2 at temperature 0."""
        if self.temperature == 0:
            return torch.full_like(like, 0.5)
        u = torch.rand(like.shape, generator=self.generator, dtype=like.dtype).clamp_min_(1e-30)
        return u.to(like.device)


class Step:
    """One step of the reverse process; subclasses say how `advance` uses the estimate."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __call__(self, denoise: Denoise, y_t: Tensor, t: int, s: int, noise: Noise) -> tuple[Tensor, Estimate]:
        """y_s, and the estimate it was made from."""
        with torch.no_grad():
            estimate = denoise(y_t, t)
            return self.advance(y_t, estimate, t, s, noise), estimate

    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        raise NotImplementedError


STEPS: Registry[type[Step]] = Registry("sampling method")


@STEPS.register("ancestral")
class Ancestral(Step):
    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        alpha = float(self.schedule.alpha_bar[t] / self.schedule.alpha_bar[s])
        mean = torch.sub(y_t, estimate.eps, alpha=(1 - alpha) / self.schedule.noise[t]).div_(alpha**0.5)
        return mean.add_(noise(y_t), alpha=self.sigma(t, s))

    def sigma(self, t: int, s: int) -> float:
        """sigma_t of the schedule for single steps, and its formula for longer ones."""
        if s == t - 1:
            return float(self.schedule.sigma[t])
        alpha_bar_t, alpha_bar_s = self.schedule.alpha_bar[[t, s]]
        variance = 1 - alpha_bar_t / alpha_bar_s
        if self.schedule.variance == "posterior":
            variance *= (1 - alpha_bar_s) / (1 - alpha_bar_t)
        return float(variance**0.5)


@STEPS.register("ancestral-denoised")
class AncestralDenoised(Ancestral):
    """Ancestral steps, the last of which answers with the mean."""

    def sigma(self, t: int, s: int) -> float:
        return super().sigma(t, s) if s > 0 else 0.0


@STEPS.register("ddim")
class DDIM(Step):
    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        return torch.add(self.schedule.signal[s] * estimate.y0, estimate.eps, alpha=self.schedule.noise[s])


@STEPS.register("multistep")
class Multistep(DDIM):
    """DPM-Solver++(2M). Its last step is remembered as long as the next begins where that ended; a run begins at T,
    where none ends."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self.last: tuple[int, int, Tensor] | None = None

    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        u, end, before = self.last or (t, t, estimate.y0)
        self.last = (t, s, estimate.y0) if s else None
        if u == t or end != t or s == 0:
            return super().advance(y_t, estimate, t, s, noise)
        signal, spread = self.schedule.signal, self.schedule.noise
        lam = np.log(signal[[u, t, s]] / spread[[u, t, s]])
        ahead = float((lam[2] - lam[1]) / (2 * (lam[1] - lam[0])))
        y0 = torch.lerp(before, estimate.y0, 1 + ahead)
        return (spread[s] / spread[t] * y_t).add_(y0, alpha=float(signal[s] * -np.expm1(lam[1] - lam[2])))


class Independent(Step):
    """The step of the blank process, straight to the end: every row is drawn from its own marginal."""

    def __init__(self, schedule: Schedule, target: Target) -> None:
        super().__init__(schedule)
        self.target = target

    def advance(self, y_t: Tensor, estimate: Estimate, t: int, s: int, noise: Noise) -> Tensor:
        return self.target.perturb(estimate.y0, noise.uniform(y_t), noise.temperature)


def reverse(
    denoise: Denoise,
    step: Step,
    shape: tuple[int, int, int],
    noise: Noise,
    like: Tensor,
    steps: int | None = None,
    callback: Callback | None = None,
) -> Tensor:
    """Run the reverse process from y_T ~ N(0, tau^2 I) and return the last y (rows, batch, channels).

    `callback(t, y_t, estimate)` is called at every step, for instance to draw accuracy over reverse steps.
    """
    y = noise(like.new_empty(shape))
    for t, s in pairwise(step.schedule.grid(steps)):
        check_time()
        y_t = y
        y, estimate = step(denoise, y_t, t, s, noise)
        if callback is not None:
            callback(t, y_t, estimate)
    return y
