"""Iterative feedforward: noise levels, what it is trained to give, and how it is iterated."""

import numpy as np
import pytest
import torch

from dpmsnc.diffusion.sampler import Noise, reverse
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.reasoning.iterative import OneStepLess, OutputStep
from dpmsnc.targets import RealValue

T = 4
OBJECTIVE = OneStepLess(Schedule(num_steps=T), "label", "unit", "gaussian", RealValue(on="edge"))


def field(value):
    return torch.full((1, 1, 1), value, dtype=torch.double)


@pytest.mark.parametrize("t", range(1, T + 1))
def test_the_target_has_the_same_noise_one_step_earlier(t):
    y, eps, when = field(3.0), field(-2.0), torch.tensor([t])
    noisy = [np.sqrt(1 - s / T) * 3 - np.sqrt(s / T) * 2 for s in (t, t - 1)]
    assert OBJECTIVE.corrupt(y, when, eps).item() == pytest.approx(noisy[0])
    assert OBJECTIVE.loss(field(1.0), y, eps, when).item() == pytest.approx((1 - noisy[1]) ** 2)


def test_the_network_is_applied_as_often_as_there_are_steps():
    def halve(y_t, t):
        return OBJECTIVE.estimate(y_t / 2, y_t, t)

    start = Noise(1.0, torch.Generator().manual_seed(0))(field(0.0))
    last = reverse(
        halve, OutputStep(OBJECTIVE.schedule), (1, 1, 1), Noise(1.0, torch.Generator().manual_seed(0)), start
    )
    torch.testing.assert_close(last, start / 2**T)
    assert OBJECTIVE.scale_input(start, T) is start
