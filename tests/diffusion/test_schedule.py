import numpy as np
import pytest

from dpmsnc.diffusion.schedule import Schedule


def test_cosine_matches_the_values_read_from_the_authors_code():
    beta = Schedule(num_steps=80).beta
    assert beta[[1, 2, 40, 79, 80]] == pytest.approx([0.00127, 0.00202, 0.0381, 0.750, 0.999], rel=5e-3)


@pytest.mark.parametrize("kind", ["cosine", "linear"])
@pytest.mark.parametrize("num_steps", [10, 80, 100, 1000])
def test_noise_grows_and_ends_in_a_standard_normal(kind, num_steps):
    schedule = Schedule(num_steps=num_steps, kind=kind)
    assert schedule.beta[0] == 0 and schedule.alpha_bar[0] == 1
    assert (np.diff(schedule.beta) >= 0).all() and (np.diff(schedule.alpha_bar) < 0).all()
    assert schedule.alpha_bar[-1] < 1e-3
    assert schedule.beta[-1] <= schedule.beta_max


def test_weights_of_the_exact_bound_span_four_orders_of_magnitude():
    weight = Schedule(num_steps=80).bound_weight
    assert weight[80] == pytest.approx(499.5, abs=1)
    assert weight[1:].min() == pytest.approx(0.04, abs=0.01)


def test_posterior_variance_is_that_of_the_gaussian_product():
    schedule = Schedule(num_steps=50, variance="posterior")
    t = 20  # q(y_{t-1} | y_t, y_0) is proportional to q(y_t | y_{t-1}) q(y_{t-1} | y_0): precisions add
    precision = schedule.alpha[t] / schedule.beta[t] + 1 / (1 - schedule.alpha_bar[t - 1])
    assert schedule.sigma[t] ** 2 == pytest.approx(1 / precision)
    assert schedule.sigma[1] == schedule.sigma[2] > 0


def test_grid_starts_at_T_and_ends_at_0():
    schedule = Schedule(num_steps=80)
    assert schedule.grid() == list(range(80, -1, -1))
    assert schedule.grid(4) == [80, 60, 40, 20, 0]
    with pytest.raises(ValueError, match="between 1 and"):
        schedule.grid(81)
