"""PonderNet: its loss in closed form, expectations, and rounds that are drawn."""

import numpy as np
import pytest
import torch

from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.estimators.base import METHODS
from dpmsnc.nn.edges.ponder import log_halting
from dpmsnc.reasoning import methods  # noqa: F401 (which registers them)
from dpmsnc.reasoning.ponder import KL_WEIGHT, PRIOR_HALTS, Pondering, drawn_rounds, log_prior
from dpmsnc.reasoning.tasks import TASKS, TaskStream, generator
from dpmsnc.targets import RealValue

OBJECTIVE = Pondering(Schedule(), "label", "unit", "blank", RealValue(on="edge"))
P = torch.tensor([0.5, 0.125, 0.375], dtype=torch.double)
ANSWERS = torch.tensor([1.0, 2.0, 4.0], dtype=torch.double)
OUTPUT = torch.cat([ANSWERS, P.log()]).view(1, 1, 6)


def test_the_last_round_takes_what_is_left():
    halts = torch.tensor([0.5, 0.25, 0.9], dtype=torch.double)
    torch.testing.assert_close(log_halting(halts.logit()).exp(), P)


def test_the_prior_is_a_geometric_distribution_that_ends():
    q = log_prior(4).exp()
    torch.testing.assert_close(q.sum(), torch.ones((), dtype=torch.double))
    torch.testing.assert_close(q[1:] / q[:-1], torch.full((3,), 1 - PRIOR_HALTS, dtype=torch.double))


def test_the_loss_is_expected_and_pays_for_its_distance_from_the_prior():
    y = torch.full((1, 1, 1), 3.0, dtype=torch.double)
    divergence = sum(p * np.log(p / q) for p, q in zip(P.tolist(), log_prior(3).exp().tolist()))
    expected = 0.5 * 4 + 0.125 * 1 + 0.375 * 1 + KL_WEIGHT * divergence
    assert OBJECTIVE.loss(OUTPUT, y, y, torch.tensor(80)).item() == pytest.approx(expected)
    assert OBJECTIVE.estimate(OUTPUT, y, 80).y0.item() == pytest.approx(0.5 + 0.25 + 1.5)


def test_rounds_are_drawn_by_their_probabilities():
    u = torch.tensor([[0.0, 0.49, 0.51, 0.62, 0.63, 0.999]])
    assert drawn_rounds(P.log().view(1, 1, 3), u).tolist() == [[0, 0, 1, 1, 2, 2]]


def test_samples_are_answers_of_rounds_and_predictions_their_expectation():
    model = METHODS["pondernet"].build(0, steps=2, hidden_channels=8, num_layers=1)
    model.fit(TaskStream("shortest_path", num_validation=2))
    attributes, _ = TASKS["shortest_path"].draw(2, 4, generator(0, "test"))
    samples, answer = model.sample(2000, attributes, seed=1), model.predict(attributes)
    assert 1 < len(np.unique(samples[:, 0, 0, 1])) <= 4  # as many rounds as an answer has
    rounds = [np.unique(samples[:, 0, *edge], return_inverse=True)[1] for edge in ((0, 1), (2, 3))]
    pairs = set(zip(*rounds))
    assert len(pairs) == len(set(rounds[0]))  # one round for all edges of a graph
    spread = samples.std(axis=0) / np.sqrt(2000)
    assert (np.abs(samples.mean(axis=0) - answer) < 5 * spread + 1e-6).all()
