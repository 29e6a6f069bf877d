r"""The forward process and the objective (paper, appendix A.3), for two parameterisations of the same model family.

    y_t = sqrt(alpha_bar_t) y_0 + sqrt(1 - alpha_bar_t) eps,        eps ~ N(0, I)

*epsilon*: the network gives eps_theta and is trained by ||eps - eps_theta||^2 (the paper's; weights 1, or those of the
exact bound). *label*: the network gives the output behind a target's link and is trained by that target's loss, for
classes logits and cross-entropy; with y0_hat = link(output), for classes softmax(logits),

    eps_theta = (y_t - sqrt(alpha_bar_t) y0_hat) / sqrt(1 - alpha_bar_t),

so that every formula of the reverse process stays as it is. The minimiser of either loss is y0_hat = E[y_0 | y_t].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dpmsnc.config import ParameterisationName, ProcessName, WeightingName
from dpmsnc.diffusion.schedule import Array, Schedule
from dpmsnc.targets import OneClass, Tags, Target

CLASSES = OneClass()


class Estimate(NamedTuple):
    """What the network says about y_t: the noise in it and the label behind it. Either follows from the other."""

    eps: Tensor
    y0: Tensor


def at(values: Array, t: Tensor | int, like: Tensor) -> Tensor | float:
    """Schedule values at times t, shaped to broadcast over (rows, batch, channels); a number where t is one."""
    if isinstance(t, int):
        return float(values[t])
    return torch.as_tensor(values, dtype=like.dtype, device=like.device)[t].unsqueeze(-1)


@dataclass(frozen=True)
class Objective:
    """How the output of the network is read and trained."""

    schedule: Schedule
    parameterisation: ParameterisationName = "epsilon"
    weighting: WeightingName = "unit"
    process: ProcessName = "gaussian"
    """"blank" leaves diffusion out: y_t is zero and t is T, so that the network predicts from shown labels alone."""
    target: Target = CLASSES
    """What a label is: its link and its loss."""

    def draw_times(self, count: int, generator: torch.Generator, power: float = 1.0, stratified: bool = True) -> Tensor:
        """Times for `count` label fields, one from each of `count` equal parts of 1 .. T (which steadies the loss), or
        each on its own.

        t = T u^power with u uniform: a power below 1 visits high noise more often, where a label has to be found from
        others and not read off.
        """
        T = self.schedule.num_steps
        u = torch.rand(count, generator=generator)
        u = (torch.arange(count) + u) / count if stratified else u
        t = (u**power * T).long().clamp_(max=T - 1) + 1
        return t if self.process == "gaussian" else torch.full_like(t, T)

    def corrupt(self, y_0: Tensor, t: Tensor, eps: Tensor) -> Tensor:
        """y_t for times t, one per batch entry (or per row and batch entry)."""
        if self.process == "blank":
            return torch.zeros_like(eps)
        return at(self.schedule.signal, t, eps) * y_0 + at(self.schedule.noise, t, eps) * eps

    def scale_input(self, y_t: Tensor, t: Tensor | int) -> Tensor:
        """y_t as the network is given it: as it is where noise is predicted, times sqrt(alpha_bar_t) where labels are.

        That is as much as y_t says about y_0. At t = T nothing is left of it, and shown labels are not drowned in noise
        that a linear first layer could not tell from them.
        """
        if self.parameterisation == "epsilon":
            return y_t
        return at(self.schedule.signal, t, y_t) * y_t

    def evidence(self, y_t: Tensor, t: Tensor | int) -> Tensor:
        """log p(y_t | y_0 = c) of every class c, up to a constant: what y_t says about a label on its own.

        Log-probabilities of independent labels plus this are the exact logits of y_0 given y_t. Of a tag it is
        log p(y_t | 1) - log p(y_t | 0), which log-odds are added to.
        """
        signal, noise = at(self.schedule.signal, t, y_t), at(self.schedule.noise, t, y_t)
        if isinstance(self.target, Tags):
            return signal / noise**2 * (y_t - signal / 2)
        return signal / noise**2 * y_t

    def estimate(self, output: Tensor, y_t: Tensor, t: Tensor | int) -> Estimate:
        """(eps, y_0) as the network's output at time t implies them."""
        signal, noise = at(self.schedule.signal, t, y_t), at(self.schedule.noise, t, y_t)
        if self.parameterisation == "epsilon":
            return Estimate(output, (y_t - noise * output) / signal)
        y0 = self.target.link(output)
        return Estimate((y_t - signal * y0) / noise, y0)

    def backward(self, grad: Tensor, y0: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """From the gradient by the estimate y0 at time t: that by the output, and that by y_t apart from the output."""
        if self.parameterisation == "epsilon":
            by_y = grad / self.schedule.signal[t]
            return by_y * -self.schedule.noise[t], by_y
        return self.target.link_backward(grad, y0), torch.zeros_like(grad)

    def loss(self, output: Tensor, y_0: Tensor, eps: Tensor, t: Tensor) -> Tensor:
        """Loss of every row and batch entry, shaped (rows, batch), before any weight of rows."""
        if self.parameterisation == "label":
            loss = self.target.loss(output, y_0)
        else:
            loss = (eps - output).square().sum(dim=-1)
        if self.weighting == "bound":
            loss = loss * torch.as_tensor(at(self.bound_weight, t, output)).squeeze(-1)
        return loss

    @property
    def bound_weight(self) -> Array:
        """Weight of the error at t in the exact bound: of eps, or of y_0 (eps differs by the signal-to-noise ratio)."""
        weight = self.schedule.bound_weight.copy()
        if self.parameterisation == "label":
            weight[1:] *= self.schedule.alpha_bar[1:] / (1 - self.schedule.alpha_bar[1:])
        return weight
