r"""The variational lower bound of equation 1, with all its terms, in nats.

    log p_theta(y_L | G)  >=  E_q(y_U|y_L) [ prior + steps + reconstruction ] + entropy

    prior            - KL(q(y_T | y) || p(y_T))
    steps            - sum_{t=2}^T  E_q(y_t|y) KL(q(y_{t-1} | y_t, y) || p_theta(y_{t-1} | y_t, G))
    reconstruction   E_q(y_1|y) log p_theta(y | y_1, G)
    entropy          - E_q(y_U|y_L) log q(y_U | y_L), of the buffer

Labels are one-hot vectors and the model is a density on them, so the bound is a log density, which may be positive; it
compares models on one graph, not graphs. With q(y_{t-1} | y_t, y) = N(mu_tilde, beta_tilde I) and
p_theta = N(mu_theta, sigma_t^2 I), each KL is

    |mu_tilde - mu_theta|^2 / (2 sigma_t^2) + d/2 (beta_tilde / sigma_t^2 - 1 - log(beta_tilde / sigma_t^2)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmsnc.diffusion.schedule import Schedule

EpsAtTimes = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Bound:
    """The four terms, each with the sign it has in the bound."""

    prior: float
    steps: float
    reconstruction: float
    entropy: float

    @property
    def total(self) -> float:
        return self.prior + self.steps + self.reconstruction + self.entropy


def lower_bound(eps: EpsAtTimes, schedule: Schedule, y_0: Tensor, entropy: float, generator: torch.Generator) -> Bound:
    """The bound for labellings y_0 (nodes, draws, classes) from q, averaged over draws, with every step visited.

    `eps(y_t, t)` is the network's estimate of the noise for times t, one per draw.
    """
    draws = y_0.shape[1]
    prior = -gaussian_prior_kl(y_0, schedule.alpha_bar[-1]) / draws
    steps = reconstruction = 0.0
    with torch.no_grad():
        for t in range(1, schedule.num_steps + 1):
            times = torch.full((draws,), t, device=y_0.device)
            z = torch.randn(y_0.shape, generator=generator, dtype=y_0.dtype).to(y_0.device)
            y_t = schedule.signal[t] * y_0 + schedule.noise[t] * z
            error = (z - eps(y_t, times)).square().sum().item() / draws
            if t == 1:
                reconstruction = -schedule.bound_weight[1] * error + reconstruction_constant(schedule, y_0)
            else:
                steps -= schedule.bound_weight[t] * error + variance_kl(schedule, t) * y_0[:, 0].numel()
    return Bound(prior, steps, reconstruction, entropy)


def gaussian_prior_kl(y_0: Tensor, alpha_bar_T: float) -> float:
    """Sum over draws of KL(N(sqrt(alpha_bar_T) y_0, (1 - alpha_bar_T) I) || N(0, I))."""
    variance = 1 - alpha_bar_T
    constant = variance - 1 - math.log(variance)
    return 0.5 * (alpha_bar_T * y_0.square().sum().item() + constant * y_0.numel())


def variance_kl(schedule: Schedule, t: int) -> float:
    """The part of a step's KL that comes from beta_tilde and sigma_t^2 alone, for one dimension."""
    beta_tilde = schedule.beta[t] * (1 - schedule.alpha_bar[t - 1]) / (1 - schedule.alpha_bar[t])
    ratio = beta_tilde / schedule.sigma[t] ** 2
    return 0.5 * (ratio - 1 - math.log(ratio))


def reconstruction_constant(schedule: Schedule, y_0: Tensor) -> float:
    """log p(y_0 | y_1) is Gaussian around mu_theta(y_1), whose distance from y_0 is the error of eps, rescaled."""
    return -0.5 * y_0[:, 0].numel() * math.log(2 * math.pi * schedule.sigma[1] ** 2)


def buffer_entropy(entries: Tensor) -> float:
    """Entropy of the uniform distribution over buffer entries (count, nodes), equal entries counted together."""
    _, counts = entries.unique(dim=0, return_counts=True)
    share = counts.double() / counts.sum()
    return float(-(share * share.log()).sum())
