"""Reverse steps and conditioning against the formulas, written out."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from dpmsnc.config import Guidance
from dpmsnc.diffusion.guidance import Guided
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Estimate
from dpmsnc.diffusion.posterior import adopt_confident
from dpmsnc.diffusion.sampler import DDIM, STEPS, Ancestral, Multistep, Noise, reverse
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.targets import OneClass

SCHEDULE = Schedule(num_steps=20)
A = SCHEDULE.alpha_bar


TARGET = OneClass((0, 1))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def linear_denoise(y_t, t):
    """A made-up network that mixes nodes, so that gradients reach across them."""
    mix = torch.tensor([[0.5, 0.3, 0.0], [0.3, 0.2, 0.4], [0.0, 0.4, 0.6]], dtype=y_t.dtype)
    eps = torch.tanh(torch.einsum("ij,jbc->ibc", mix, y_t)) * (0.1 + t / 20)
    return Estimate(eps, (y_t - (1 - A[t]) ** 0.5 * eps) / A[t] ** 0.5)


def fields(batch=2):
    return torch.randn(3, batch, 2, generator=generator(5), dtype=torch.float64)


def known_first_node(batch=1):
    y = torch.zeros(3, batch, 2, dtype=torch.float64)
    y[0, :, 1] = 1
    return Known(torch.tensor([[True], [False], [False]]).expand(3, batch), y)


@pytest.mark.parametrize("t", [1, 7, 20])
def test_ancestral_mean_is_the_papers(t):
    y_t = fields()
    y_s, estimate = Ancestral(SCHEDULE)(linear_denoise, y_t, t, t - 1, Noise(0, generator()))
    beta, alpha = SCHEDULE.beta[t], SCHEDULE.alpha[t]
    assert torch.allclose(y_s, (y_t - beta / (1 - A[t]) ** 0.5 * estimate.eps) / alpha**0.5)


def test_ancestral_noise_has_the_temperature_and_sigma():
    t, y_t = 7, torch.zeros(1, 100_000, 1, dtype=torch.float64)

    def silent(y, t):
        return Estimate(torch.zeros_like(y), y)

    y_s, _ = Ancestral(SCHEDULE)(silent, y_t, t, t - 1, Noise(0.5, generator()))
    assert y_s.std().item() == pytest.approx(0.5 * SCHEDULE.sigma[t], rel=0.02)


@pytest.mark.parametrize(("name", "added"), [("ancestral", SCHEDULE.beta[1]), ("ancestral-denoised", 0.0)])
def test_a_perfect_network_errs_by_the_noise_of_the_last_step(name, added):
    truth = torch.full((1, 20_000, 1), 0.3, dtype=torch.float64)

    def perfect(y_t, t):
        return Estimate((y_t - A[t] ** 0.5 * truth) / (1 - A[t]) ** 0.5, truth)

    y = reverse(perfect, STEPS[name](SCHEDULE), (1, 20_000, 1), Noise(1, generator()), truth)
    assert (y - truth).square().mean().item() == pytest.approx(added, rel=0.05, abs=1e-12)


@pytest.mark.parametrize("variance", ["beta", "posterior"])
def test_long_ancestral_steps_agree_with_single_ones(variance):
    schedule = Schedule(num_steps=20, variance=variance)
    step = Ancestral(schedule)
    alpha = A[9] / A[8]
    expected = (1 - alpha) * ((1 - A[8]) / (1 - A[9]) if variance == "posterior" else 1)
    assert step.sigma(9, 8) ** 2 == pytest.approx(expected)
    longer = (1 - A[9] / A[4]) * ((1 - A[4]) / (1 - A[9]) if variance == "posterior" else 1)
    assert step.sigma(9, 4) ** 2 == pytest.approx(longer)


def test_ddim_keeps_the_forward_marginals_when_the_estimate_is_true():
    y_0, eps = fields(), torch.randn(3, 2, 2, generator=generator(6), dtype=torch.float64)
    y_s, _ = DDIM(SCHEDULE)(lambda y, t: Estimate(eps, y_0), fields(), 15, 4, Noise(0, generator()))
    assert torch.allclose(y_s, A[4] ** 0.5 * y_0 + (1 - A[4]) ** 0.5 * eps)


class TestMultistep:
    @staticmethod
    def walk(step, denoise, y, times, noise=None):
        for t, s in pairwise(times):
            y, _ = step(denoise, y, t, s, noise or Noise(0, generator()))
        return y

    def test_second_step_is_the_formula_and_the_first_and_last_are_ddim(self):
        lam, y, seen = 0.5 * np.log(A[1:] / (1 - A[1:])), fields(), []
        lam = np.concatenate([[np.inf], lam])

        def denoise(y_t, t):
            seen.append(linear_denoise(y_t, t))
            return seen[-1]

        step, ddim = Multistep(SCHEDULE), DDIM(SCHEDULE)
        first, _ = step(denoise, y, 20, 15, Noise(0, generator()))
        assert torch.allclose(first, ddim(linear_denoise, y, 20, 15, Noise(0, generator()))[0])
        second, _ = step(denoise, first, 15, 4, Noise(0, generator()))
        h, r = lam[4] - lam[15], (lam[15] - lam[20]) / (lam[4] - lam[15])
        D = (1 + 1 / (2 * r)) * seen[1].y0 - 1 / (2 * r) * seen[0].y0
        expected = ((1 - A[4]) / (1 - A[15])) ** 0.5 * first - A[4] ** 0.5 * (np.exp(-h) - 1) * D
        assert torch.allclose(second, expected)
        last, _ = step(denoise, second, 4, 0, Noise(0, generator()))
        assert torch.allclose(last, seen[2].y0)

    @pytest.mark.parametrize(("sampler", "order"), [(DDIM, 1), (Multistep, 2)])
    def test_error_on_gaussian_data_falls_with_the_order(self, sampler, order):
        """y_0 ~ N(m, c^2): the path keeps (y_t - E y_t) / std y_t. The last step, of first order, is left out."""
        schedule, m, c = Schedule(num_steps=6400, kind="linear"), 0.7, 0.5
        signal, std = schedule.signal, np.sqrt(c**2 * schedule.alpha_bar + 1 - schedule.alpha_bar)

        def denoise(y, t):
            y0 = m + c**2 * signal[t] / std[t] ** 2 * (y - signal[t] * m)
            return Estimate((y - signal[t] * y0) / schedule.noise[t], y0)

        y_T, end = fields(), 640
        exact = signal[end] * m + std[end] / std[-1] * (y_T - signal[-1] * m)
        errors = []
        for steps in (100, 200, 400):
            times = [t for t in schedule.grid(steps) if t >= end]
            errors.append((self.walk(sampler(schedule), denoise, y_T, times) - exact).abs().max().item())
        assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx(order, abs=0.15)

    @pytest.mark.parametrize("sampler", [DDIM, Multistep])
    def test_an_estimate_that_does_not_change_is_followed_exactly(self, sampler):
        y_0, y_T = fields(), torch.randn(3, 2, 2, generator=generator(6), dtype=torch.float64)
        eps = (y_T - A[20] ** 0.5 * y_0) / (1 - A[20]) ** 0.5

        def denoise(y, t):
            return Estimate((y - A[t] ** 0.5 * y_0) / (1 - A[t]) ** 0.5, y_0)

        for times in ([20, 13, 9, 2], [20, 13, 9, 2, 0]):
            end = times[-1]
            expected = A[end] ** 0.5 * y_0 + (1 - A[end]) ** 0.5 * eps
            assert torch.allclose(self.walk(sampler(SCHEDULE), denoise, y_T, times), expected, atol=1e-12, rtol=0)

    def test_a_run_does_not_see_the_one_before_even_if_that_was_cut_short(self):
        step, shape, like = Multistep(SCHEDULE), (3, 2, 2), fields()
        fresh = reverse(linear_denoise, Multistep(SCHEDULE), shape, Noise(1, generator()), like, steps=6)
        self.walk(step, linear_denoise, 9 * fields(), [20, 11, 4])
        for _ in range(2):
            again = reverse(linear_denoise, step, shape, Noise(1, generator()), like, steps=6)
            assert torch.equal(again, fresh)

    def test_guidance_wraps_it_and_leaves_its_memory_alone(self):
        step = Guided(Multistep(SCHEDULE), known_first_node(), Guidance(strength=0, projection="none"))
        times = SCHEDULE.grid(6)
        plain = self.walk(Multistep(SCHEDULE), linear_denoise, fields(), times)
        assert torch.equal(self.walk(step, linear_denoise, fields(), times), plain)
        known = known_first_node()
        guided = self.walk(Guided(Multistep(SCHEDULE), known, Guidance()), linear_denoise, fields(), times)
        by_hand, before = fields(), None
        for t, s in pairwise(times):
            y_t = by_hand.clone().requires_grad_()
            estimate = linear_denoise(y_t, t)
            r2 = (known.y[0] - estimate.y0[0]).square().sum(-1)
            (gradient,) = torch.autograd.grad(r2.sum(), y_t)
            inner = Multistep(SCHEDULE)
            inner.last = before
            estimate = Estimate(estimate.eps.detach(), estimate.y0.detach())
            by_hand = inner.advance(y_t.detach(), estimate, t, s, Noise(0, generator()))
            by_hand = by_hand - (1 / r2.detach().sqrt()).unsqueeze(-1) * gradient
            by_hand[0], before = A[s] ** 0.5 * known.y[0], (t, s, estimate.y0)
        assert torch.allclose(guided, by_hand)


@pytest.mark.parametrize("norm", ["root", "square"])
@pytest.mark.parametrize("per_sample", [True, False])
def test_guided_step_is_algorithm_2(norm, per_sample):
    t, y_t, known = 9, fields(), known_first_node()
    guidance = Guidance(strength=0.7, norm=norm, per_sample=per_sample)
    y_s, _ = Guided(Ancestral(SCHEDULE), known, guidance)(linear_denoise, y_t, t, t - 1, Noise(0, generator()))

    y = y_t.clone().requires_grad_()
    estimate = linear_denoise(y, t)
    r2 = (known.y[0] - estimate.y0[0]).square().sum(-1)
    (gradient,) = torch.autograd.grad(r2.sum(), y)
    size = r2 if per_sample else r2.sum()
    gamma = 0.7 / (size.sqrt() if norm == "root" else size)
    plain = (y_t - SCHEDULE.beta[t] / (1 - A[t]) ** 0.5 * estimate.eps) / SCHEDULE.alpha[t] ** 0.5
    expected = (plain - gamma.reshape(-1, 1) * gradient).detach()
    expected[0] = A[t - 1] ** 0.5 * known.y[0]
    assert torch.allclose(y_s, expected)


def test_projection_as_the_authors_code_has_it():
    known = known_first_node()
    step = Guided(Ancestral(SCHEDULE), known, Guidance(projection="code"))
    y_s, _ = step(linear_denoise, fields(), 9, 8, Noise(0, generator()))
    assert torch.allclose(y_s[0], (A[9] * known.y[0]).expand(2, 2))
    free, _ = Ancestral(SCHEDULE)(linear_denoise, fields(), 1, 0, Noise(0, generator()))
    last, _ = step(linear_denoise, fields(), 1, 0, Noise(0, generator()))
    assert torch.allclose(last, free)


def test_without_strength_and_projection_guidance_is_absent():
    step = Guided(Ancestral(SCHEDULE), known_first_node(), Guidance(strength=0, projection="none"))
    guided, _ = step(linear_denoise, fields(), 9, 8, Noise(1, generator()))
    free, _ = Ancestral(SCHEDULE)(linear_denoise, fields(), 9, 8, Noise(1, generator()))
    assert torch.equal(guided, free)


def test_reverse_visits_the_grid_and_is_deterministic_at_temperature_0():
    visited, shape, like = [], (3, 2, 2), fields()

    def denoise(y, t):
        visited.append(t)
        return linear_denoise(y, t)

    runs = [reverse(denoise, DDIM(SCHEDULE), shape, Noise(0, generator(s)), like, steps=5) for s in (0, 1)]
    assert visited[:5] == [t for t, _ in pairwise(SCHEDULE.grid(5))] and torch.equal(*runs)
    same = [reverse(denoise, Ancestral(SCHEDULE), shape, Noise(1, generator(7)), like) for _ in range(2)]
    other = reverse(denoise, Ancestral(SCHEDULE), shape, Noise(1, generator(8)), like)
    assert torch.equal(*same) and not torch.equal(same[0], other)


def test_gumbel_noise_draws_from_the_tempered_distribution():
    p = torch.tensor([0.2, 0.8])
    u = Noise(0.5, generator()).uniform(torch.zeros(200_000, 2))
    z = TARGET.perturb(p, u, 0.5)
    expected = 0.8**2 / (0.8**2 + 0.2**2)
    assert z.argmax(-1).double().mean().item() == pytest.approx(expected, abs=0.005)


class TestAdoption:
    y = torch.tensor([[[0.1, 0.9]], [[0.8, 0.2]], [[0.3, 0.7]], [[0.6, 0.4]]])
    known = Known(torch.tensor([[True], [False], [False], [False]]), torch.tensor([[[1.0, 0.0]]]).expand(4, 1, 2))

    def test_takes_the_most_confident_share_and_keeps_what_is_known(self):
        after = adopt_confident(TARGET, self.known, self.y, torch.tensor([[0.99], [0.9], [0.6], [0.5]]), share=0.3)
        assert after.mask.squeeze(1).tolist() == [True, True, False, False]
        assert after.y[0, 0].tolist() == [1, 0] and after.y[1, 0].tolist() == [1, 0]

    def test_stops_short_of_the_share_where_only_few_stand_out(self):
        after = adopt_confident(TARGET, self.known, self.y, torch.tensor([[0.0], [0.9], [0.5], [0.5]]), share=1.0)
        assert after.mask.squeeze(1).tolist() == [True, True, False, False]

    def test_every_round_adopts_a_node_so_that_rounds_end(self):
        known, rounds = self.known, 0
        while not known.mask.all():
            known, rounds = (
                adopt_confident(TARGET, known, self.y, torch.full((4, 1), 0.5), share=0.01),
                rounds + 1,
            )
        assert rounds <= 3

    def test_each_sample_adopts_its_own(self):
        y = self.y.expand(4, 2, 2)
        confidence = torch.tensor([[0.9, 0.9], [0.9, 0.1], [0.1, 0.9], [0.1, 0.1]])
        after = adopt_confident(TARGET, self.known, y, confidence, share=0.3)
        assert after.mask[1].tolist() == [True, False] and after.mask[2].tolist() == [False, True]
