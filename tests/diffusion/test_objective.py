import numpy as np
import pytest
import torch

from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.schedule import Schedule

SCHEDULE = Schedule(num_steps=80)
LABELS = torch.eye(3)[torch.tensor([0, 2, 1, 1])].unsqueeze(1)


def noisy(t, process="gaussian"):
    objective = Objective(SCHEDULE, process=process)
    eps = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    t = torch.full((2,), t)
    return objective.corrupt(LABELS, t, eps), eps, t


def test_the_true_noise_gives_back_the_label_and_costs_nothing():
    y_t, eps, t = noisy(40)
    objective = Objective(SCHEDULE, "epsilon")
    assert torch.allclose(objective.estimate(eps, y_t, t).y0, LABELS.expand(-1, 2, -1), atol=1e-5)
    assert objective.loss(eps, LABELS, eps, t).abs().max() == 0


def test_the_true_label_gives_back_the_noise():
    y_t, eps, t = noisy(40)
    certain = 100 * LABELS.expand(-1, 2, -1)
    assert torch.allclose(Objective(SCHEDULE, "label").estimate(certain, y_t, t).eps, eps, atol=1e-5)


def test_cross_entropy_of_soft_labels():
    logits = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(3))
    soft = torch.full((4, 2, 3), 1 / 3)
    loss = Objective(SCHEDULE, "label").loss(logits, soft, soft, torch.tensor([1, 2]))
    assert torch.allclose(loss, -logits.log_softmax(-1).mean(-1))


@pytest.mark.parametrize("parameterisation", ["epsilon", "label"])
def test_weights_of_the_bound_are_those_of_the_error_that_the_network_makes(parameterisation):
    """A unit error of eps and the error of y_0 that it amounts to must weigh the same in the bound."""
    weight = Objective(SCHEDULE, parameterisation, "bound").bound_weight
    alpha_bar = SCHEDULE.alpha_bar[1:]
    error_of_y0 = np.sqrt((1 - alpha_bar) / alpha_bar)
    squared = 1.0 if parameterisation == "epsilon" else error_of_y0**2
    assert weight[1:] * squared == pytest.approx(SCHEDULE.bound_weight[1:])
    unit = Objective(SCHEDULE, parameterisation).loss(torch.zeros(4, 2, 3), LABELS, LABELS, torch.tensor([7, 80]))
    bound = Objective(SCHEDULE, parameterisation, "bound").loss(
        torch.zeros(4, 2, 3), LABELS, LABELS, torch.tensor([7, 80])
    )
    assert torch.allclose(bound, unit * torch.tensor(weight[[7, 80]], dtype=torch.float32))


def test_corrupted_labels_have_the_variance_of_the_forward_process():
    eps = torch.randn(1, 200_000, 1, generator=torch.Generator().manual_seed(0))
    y_t = Objective(SCHEDULE).corrupt(torch.full((1, 1, 1), 0.7), torch.full((200_000,), 30), eps)
    assert y_t.mean().item() == pytest.approx(0.7 * SCHEDULE.alpha_bar[30] ** 0.5, abs=0.01)
    assert y_t.var().item() == pytest.approx(1 - SCHEDULE.alpha_bar[30], rel=0.02)


def test_times_cover_every_step_and_each_draw_has_its_part():
    objective, generator = Objective(SCHEDULE), torch.Generator().manual_seed(0)
    t = torch.stack([objective.draw_times(4, generator) for _ in range(3000)])
    assert t.unique().tolist() == list(range(1, 81))
    for part in range(4):
        assert t[:, part].min() == 20 * part + 1 and t[:, part].max() == 20 * part + 20


def test_times_drawn_each_on_its_own_are_uniform_in_every_place():
    objective, generator = Objective(SCHEDULE), torch.Generator().manual_seed(0)
    t = torch.stack([objective.draw_times(4, generator, stratified=False) for _ in range(3000)]).float()
    for part in range(4):
        assert t[:, part].min() == 1 and t[:, part].max() == 80
        assert t[:, part].mean().item() == pytest.approx(40.5, abs=1.5)
    assert torch.corrcoef(t.T).fill_diagonal_(0).abs().max() < 0.07


def test_the_blank_process_shows_nothing_at_all():
    y_t, _, _ = noisy(10, process="blank")
    assert y_t.abs().max() == 0
    times = Objective(SCHEDULE, process="blank").draw_times(3, torch.Generator())
    assert times.tolist() == [80, 80, 80]
