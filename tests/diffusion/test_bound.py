"""The bound against a linear-Gaussian model, where every term and the likelihood itself have closed forms."""

import math

import pytest
import torch

from dpmsnc.diffusion.bound import buffer_entropy, lower_bound
from dpmsnc.diffusion.schedule import Schedule

MEAN, VARIANCE = 0.3, 0.25


def optimal_eps(schedule):
    """E[eps | y_t] when y_0 ~ N(MEAN, VARIANCE I): linear in y_t."""
    alpha_bar = torch.as_tensor(schedule.alpha_bar)

    def eps(y_t, t):
        a = alpha_bar[t].unsqueeze(-1)
        return (1 - a).sqrt() * (y_t - a.sqrt() * MEAN) / (a * VARIANCE + 1 - a)

    return eps


def exact_log_likelihood(schedule, y_0):
    """log p_theta(y_0) of the reverse chain: each step is linear in y_t, so y_0 is Gaussian, dimension by dimension."""
    mean, variance = 0.0, 1.0
    for t in range(schedule.num_steps, 0, -1):
        a, alpha, beta = schedule.alpha_bar[t], schedule.alpha[t], schedule.beta[t]
        gain = beta / (a * VARIANCE + 1 - a)  # mu_theta = (y_t - gain (y_t - sqrt(a) MEAN)) / sqrt(alpha)
        mean = ((1 - gain) * mean + gain * a**0.5 * MEAN) / alpha**0.5
        variance = ((1 - gain) ** 2 / alpha) * variance + schedule.sigma[t] ** 2
    return float((-0.5 * ((y_0 - mean) ** 2 / variance + math.log(2 * math.pi * variance))).sum())


def exact_bound(schedule, y_0):
    """E over the noise of the same bound: errors of a linear estimate are quadratic in y_0."""
    d = y_0.numel()
    a_T = schedule.alpha_bar[-1]
    total = -0.5 * (a_T * float((y_0**2).sum()) + d * (-a_T - math.log(1 - a_T)))
    for t in range(1, schedule.num_steps + 1):
        a = schedule.alpha_bar[t]
        c = (1 - a) ** 0.5 / (a * VARIANCE + 1 - a)  # eps_hat - z = c sqrt(a) (y_0 - m) + (c sqrt(1-a) - 1) z
        error = c**2 * a * float(((y_0 - MEAN) ** 2).sum()) + d * (c * (1 - a) ** 0.5 - 1) ** 2
        total -= schedule.bound_weight[t] * error
        if t == 1:
            total -= 0.5 * d * math.log(2 * math.pi * schedule.sigma[1] ** 2)
        else:
            ratio = schedule.beta[t] * (1 - schedule.alpha_bar[t - 1]) / (1 - a) / schedule.sigma[t] ** 2
            total -= 0.5 * d * (ratio - 1 - math.log(ratio))
    return total


@pytest.mark.parametrize("variance", ["beta", "posterior"])
def test_bound_equals_its_closed_form_and_lies_below_the_likelihood(variance):
    schedule = Schedule(num_steps=50, variance=variance)
    y_0 = MEAN + VARIANCE**0.5 * torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    draws = 4000
    bound = lower_bound(
        optimal_eps(schedule), schedule, y_0.expand(-1, draws, -1), 0.0, torch.Generator().manual_seed(0)
    )
    assert bound.total == pytest.approx(exact_bound(schedule, y_0), abs=0.15)
    assert bound.total < exact_log_likelihood(schedule, y_0)


def test_entropy_of_the_buffer_counts_equal_entries_together():
    entries = torch.tensor([[0, 1], [0, 1], [1, 1], [1, 0]])
    assert buffer_entropy(entries) == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))
