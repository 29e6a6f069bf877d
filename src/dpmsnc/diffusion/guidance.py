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

from dpmsnc.config import Guidance
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Estimate, Objective
from dpmsnc.diffusion.sampler import Denoise, Noise, Step
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder, ReceptiveField


class LabelGradient:
    """||r||^2 and its gradient by y_t without autograd: backwards only where labelled nodes reach, no weights involved.

    The evaluation of the network that made the estimate is watched, and the way back starts from what was seen.
    """

    def __init__(self, denoiser: Denoiser, objective: Objective, graph: GraphTensors, known: Known) -> None:
        self.denoiser, self.objective = denoiser, objective
        self.receptive_field = ReceptiveField(graph, known.mask.any(dim=1), denoiser.num_layers)
        self.labelled = self.receptive_field.nodes(denoiser.num_layers - 1)
        self.known = known.at(self.labelled)

    def recorder(self) -> HiddenRecorder:
        self.watched = HiddenRecorder(self.receptive_field)
        return self.watched

    def __call__(self, estimate: Estimate, t: int) -> tuple[Tensor, Tensor]:
        """||r||^2 of each sample (batch,) and the gradient within the receptive field, for the recorded estimate."""
        y0 = estimate.y0.index_select(0, self.labelled)
        r = residual(self.known, y0)
        by_output, by_y = self.objective.backward(r.mul(-2), y0, t)
        gradient = self.objective.scale_input(self.denoiser.backward(by_output, self.watched), t)
        gradient[: len(by_y)] += by_y
        return r.square().sum(dim=(0, 2)), gradient


class Guided(Step):
    """Any step, followed by the gradient and the projection.

    The gradient comes from `label_gradient`, or else from autograd through all of `denoise`.
    """

    def __init__(
        self, step: Step, known: Known, guidance: Guidance, label_gradient: LabelGradient | None = None
    ) -> None:
        super().__init__(step.schedule)
        self.step, self.known, self.guidance, self.label_gradient = step, known, guidance, label_gradient
        self.rows = known.mask.any(dim=1).nonzero().squeeze(1)
        self.known_rows = known.at(self.rows)

    def __call__(self, denoise: Denoise, y_t: Tensor, t: int, s: int, noise: Noise) -> tuple[Tensor, Estimate]:
        coded = self.guidance.projection == "code"
        if self.guidance.strength == 0 or (coded and s == 0):
            y_s, estimate = self.step(denoise, y_t, t, s, noise)
        else:
            y_s, estimate = self.follow_gradient(denoise, y_t, t, s, noise)
        if self.guidance.projection == "none" or (coded and s == 0):
            return y_s, estimate
        return self.project(y_s, t, s, noise), estimate

    def follow_gradient(self, denoise: Denoise, y_t: Tensor, t: int, s: int, noise: Noise) -> tuple[Tensor, Estimate]:
        if self.label_gradient is not None:
            y_s, estimate = self.step(denoise, y_t, t, s, noise)
            r2, gradient = self.label_gradient(estimate, t)
            rows = self.label_gradient.receptive_field.index
            pulled = y_s.index_select(0, rows).sub_(self.gamma(r2) * gradient)
            return y_s.index_copy_(0, rows, pulled), estimate
        with torch.enable_grad():
            y_t = y_t.detach().requires_grad_()
            estimate = denoise(y_t, t)
            r2 = residual(self.known, estimate.y0).square().sum(dim=(0, 2))
            (gradient,) = torch.autograd.grad(r2.sum(), y_t)
        y_t, estimate = y_t.detach(), Estimate(estimate.eps.detach(), estimate.y0.detach())
        return self.step.advance(y_t, estimate, t, s, noise) - self.gamma(r2.detach()) * gradient, estimate

    def gamma(self, r2: Tensor) -> Tensor:
        """The length of the step along the gradient, shaped (batch, 1)."""
        size = (r2 if self.guidance.per_sample else r2.sum()).clamp_min(1e-12)
        return (self.guidance.strength / (size.sqrt() if self.guidance.norm == "root" else size)).unsqueeze(-1)

    def project(self, y_s: Tensor, t: int, s: int, noise: Noise) -> Tensor:
        """y_s, written over at known nodes."""
        schedule, known, free = self.schedule, self.known_rows, y_s.index_select(0, self.rows)
        coded = self.guidance.projection == "code"
        signal, spread = (
            (schedule.alpha_bar[t], schedule.noise[t]) if coded else (schedule.signal[s], schedule.noise[s])
        )
        bound = torch.add(signal * known.y, noise(free), alpha=spread)
        return y_s.index_copy_(0, self.rows, torch.where(known.mask.unsqueeze(-1), bound, free))


def residual(known: Known, y0: Tensor) -> Tensor:
    """r = y_L - y0_L, zero at unknown nodes."""
    return (known.y - y0) * known.mask.unsqueeze(-1)
