"""The denoiser of the pairwise model against sums over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.sampler import STEPS, Noise, reverse
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.pairwise import denoiser as module
from dpmsnc.pairwise import propagation
from dpmsnc.pairwise.denoiser import PairwiseDenoiser
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation
from pairwise_models import (
    MEAN_LOG,
    exact_marginal,
    exact_pair,
    known_labels,
    path,
    random_potentials,
    random_theta,
    random_tree,
)

OBJECTIVE = Objective(Schedule(num_steps=20), "label")


def known_of(labels: dict[int, int], num_nodes: int, num_classes: int) -> Known:
    y = known_labels(labels, num_nodes, num_classes)
    return Known(y.sum(dim=-1) > 0, y)


def denoiser_of(potentials, graph, theta) -> PairwiseDenoiser:
    return PairwiseDenoiser(Propagation(potentials, Edges(graph), MEAN_LOG), theta)


@pytest.mark.parametrize("t", [1, 8, 20])
@pytest.mark.parametrize("coupling", ["one", "full"])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_exact_posterior_of_noisy_labels_on_trees(monkeypatch, coupling: Coupling, seed: int, t: int):
    monkeypatch.setattr(module, "WARM_ITERATIONS", 200)
    num_nodes, num_classes = 6, 3
    graph, potentials = random_tree(num_nodes, seed), random_potentials(num_classes, coupling, seed)
    theta, labels = random_theta(num_nodes, 1, num_classes, seed), {seed: 1}
    y_t = random_theta(num_nodes, 4, num_classes, seed + 10)
    # p(y_t | y) is a normal density around the one-hot label, scaled
    one_hot, signal, noise = torch.eye(num_classes), OBJECTIVE.schedule.signal[t], OBJECTIVE.schedule.noise[t]
    log_density = -((y_t.unsqueeze(-2) - signal * one_hot) ** 2).sum(dim=-1) / (2 * noise**2)
    beliefs = denoiser_of(potentials, graph, theta).given(known_of(labels, num_nodes, num_classes))
    found = beliefs(OBJECTIVE.evidence(y_t, t)).softmax(dim=-1).numpy()
    for k in range(4):
        unaries = theta[:, 0] + log_density[:, k]
        expected = [exact_marginal(potentials, graph, unaries, labels, node) for node in range(num_nodes)]
        np.testing.assert_allclose(found[:, k], expected, atol=3e-4)


def test_messages_go_on_from_one_time_to_the_next():
    graph, potentials, theta = path(40), Potentials(3, "one", J=6.0).requires_grad_(False), torch.zeros(40, 1, 3)
    evidence = torch.zeros(40, 2, 3)
    evidence[0, 0, 1] = 30.0  # which has to travel along the whole path in one of two samples
    beliefs = denoiser_of(potentials, graph, theta).given(known_of({}, 40, 3))
    first = beliefs(evidence).softmax(dim=-1)
    assert first[1, 0, 1] > 0.9 and first[39, 0].max() < 0.35
    for _ in range(20):
        last = beliefs(evidence).softmax(dim=-1)
    expected = denoiser_of(potentials, graph, theta).propagation.beliefs(theta + evidence, None, 200).softmax(dim=-1)
    torch.testing.assert_close(last, expected, atol=1e-2, rtol=0)
    assert expected[39, 0, 1] > 0.5 and (last[:, 1] - 1 / 3).abs().max() < 1e-4  # samples do not hear each other


def test_known_labels_are_there_from_the_first_step_however_far_away():
    graph, potentials, theta = path(60), Potentials(2, "one", J=-20.0).requires_grad_(False), torch.zeros(60, 1, 2)
    p = denoiser_of(potentials, graph, theta).given(known_of({0: 1}, 60, 2))(torch.zeros(60, 3, 2)).softmax(dim=-1)
    assert (p[1:].argmax(dim=-1) == (torch.arange(1, 60).unsqueeze(1) + 1) % 2).all() and p[1:].amax(dim=-1).min() > 0.9


def test_it_is_worked_on_in_parts_and_says_how_many_samples_fit(monkeypatch):
    graph, potentials, theta = random_tree(8, 0), random_potentials(3, "full", 0), random_theta(8, 1, 3, 0)
    evidence, known = random_theta(8, 5, 3, 1), known_of({2: 0}, 8, 3)
    whole = denoiser_of(potentials, graph, theta).given(known)(evidence)
    monkeypatch.setattr(propagation, "ENTRIES", 2 * 14 * 3)
    torch.testing.assert_close(denoiser_of(potentials, graph, theta).given(known)(evidence), whole)
    monkeypatch.setattr(module, "MOST_ENTRIES", 100 * 14 * 3)
    assert denoiser_of(potentials, graph, theta).most_samples == 100
    monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    assert denoiser_of(potentials, graph, theta).most_samples == 1
    assert (
        denoiser_of(potentials, graph, theta.expand(-1, 4, -1)).most_samples == 4
    )  # every entry has a theta of its own


def test_entries_may_have_unaries_of_their_own_and_share_known_labels():
    graph, potentials, theta = random_tree(8, 0), random_potentials(3, "one", 0), random_theta(8, 2, 3, 0)
    evidence, known = random_theta(8, 2, 3, 1), known_of({2: 0}, 8, 3)
    both = denoiser_of(potentials, graph, theta).given(known)(evidence)
    for k in range(2):
        one = denoiser_of(potentials, graph, theta[:, [k]]).given(known)(evidence[:, [k]])
        torch.testing.assert_close(both[:, [k]].softmax(dim=-1), one.softmax(dim=-1), atol=1e-3, rtol=0)


@pytest.mark.parametrize("graph", [path(1), random_tree(5, 0)], ids=["no edge", "no coupling"])
def test_without_couplings_labels_are_independent(graph):
    n = graph.num_nodes
    potentials = Potentials(3, "none" if n > 1 else "one").requires_grad_(False)
    theta, evidence = random_theta(n, 1, 3, 0), random_theta(n, 4, 3, 1)
    assert torch.equal(denoiser_of(potentials, graph, theta).given(known_of({}, n, 3))(evidence), theta + evidence)


@pytest.mark.parametrize("J", [2.0, -4.0])
def test_a_reverse_process_draws_joint_labellings(J: float):
    graph, potentials = path(4), Potentials(3, "one", J=J).requires_grad_(False)
    theta, labels, n = random_theta(4, 1, 3, 3) / 2, {0: 2}, 4000
    known = known_of(labels, 4, 3)
    beliefs = denoiser_of(potentials, graph, theta).given(known)
    schedule = Schedule(num_steps=80)
    objective = Objective(schedule, "label")
    noise = Noise(1.0, torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = reverse(
            lambda y_t, t: objective.estimate(beliefs(objective.evidence(y_t, t)), y_t, t),
            STEPS["multistep"](schedule),
            (4, n, 3),
            noise,
            theta,
            40,
        ).argmax(dim=-1)
    pair = np.bincount((3 * y[2] + y[3]).numpy(), minlength=9).reshape(3, 3) / n
    expected = exact_pair(potentials, graph, theta[:, 0], labels, 2, 3)
    assert abs(pair - expected).sum() / 2 < 0.05
    apart = expected.sum(axis=1, keepdims=True) * expected.sum(axis=0)
    assert abs(apart - expected).sum() / 2 > 0.15
