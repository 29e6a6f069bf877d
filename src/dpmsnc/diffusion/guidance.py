r"""Conditioning a reverse step on known labels: Algorithm 2 of the paper (after Chung et al. 2022).

In a step from t to s, with y0_hat the network's label estimate at y_t and L the known nodes:

    y_s  <-  step(y_t) - gamma  d/dy_t ||y_L - y0_hat_L||^2                  (manifold-constrained gradient)
    y_s,L  <-  sqrt(alpha_bar_s) y_L + sqrt(1 - alpha_bar_s) z               (projection)

The paper sets gamma = 1 / ||r||^2 with r = y_L - y0_hat_L. Its algorithm prints 1/sqrt(alpha_t) in the step from t + 1
to t where alpha_{t+1} is meant; the steps here use the latter.

Where the authors' code differs, both readings are arguments: `projection="code"` scales by alpha_bar_t (no root, and
the level before the step), and leaves the last step unconstrained; `per_sample=False` takes ||r|| over the whole batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpmsnc.diffusion.objective import Estimate
from dpmsnc.diffusion.sampler import Denoise, Noise, Step
from dpmsnc.nn.denoiser import Known
from dpmsnc.options import Guidance


class Guided(Step):
    """Any step, followed by the gradient and the projection."""

    def __init__(self, step: Step, known: Known, guidance: Guidance) -> None:
        super().__init__(step.schedule)
        self.step, self.known, self.guidance = step, known, guidance

    def __call__(self, denoise: Denoise, y_t: Tensor, t: int, s: int, noise: Noise) -> tuple[Tensor, Estimate]:
        coded = self.guidance.projection == "code"
        if self.guidance.strength == 0 or (coded and s == 0):
            y_s, estimate = self.step(denoise, y_t, t, s, noise)
        else:
            y_s, estimate = self.follow_gradient(denoise, y_t, t, s, noise)
        if self.guidance.projection == "none" or (coded and s == 0):
            return y_s, estimate
        return torch.where(self.known.mask.unsqueeze(-1), self.project(y_s, t, s, noise), y_s), estimate

    def follow_gradient(self, denoise: Denoise, y_t: Tensor, t: int, s: int, noise: Noise) -> tuple[Tensor, Estimate]:
        with torch.enable_grad():
            y_t = y_t.detach().requires_grad_()
            estimate = denoise(y_t, t)
            r = (self.known.y - estimate.y0) * self.known.mask.unsqueeze(-1)
            r2 = r.square().sum(dim=(0, 2))
            (gradient,) = torch.autograd.grad(r2.sum(), y_t)
        y_t, estimate = y_t.detach(), Estimate(estimate.eps.detach(), estimate.y0.detach())
        size = (r2 if self.guidance.per_sample else r2.sum()).detach().clamp_min(1e-12)
        gamma = self.guidance.strength / (size.sqrt() if self.guidance.norm == "root" else size)
        return self.step.advance(y_t, estimate, t, s, noise) - gamma.unsqueeze(-1) * gradient, estimate

    def project(self, like: Tensor, t: int, s: int, noise: Noise) -> Tensor:
        alpha_bar_t, alpha_bar_s = self.schedule.alpha_bar[[t, s]]
        if self.guidance.projection == "code":
            return alpha_bar_t * self.known.y + (1 - alpha_bar_t) ** 0.5 * noise(like)
        return alpha_bar_s**0.5 * self.known.y + (1 - alpha_bar_s) ** 0.5 * noise(like)
