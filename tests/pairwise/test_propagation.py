"""Belief propagation against sums over all labellings, closed forms and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation
from pairwise_models import (
    MEAN_LOG,
    exact_marginal,
    graph_of,
    known_labels,
    path,
    random_potentials,
    random_theta,
    random_tree,
)

MANY = 200


@torch.no_grad()
def beliefs(potentials, graph, theta, known, iterations=MANY):
    return Propagation(potentials, Edges(graph), MEAN_LOG).beliefs(theta, known, iterations).softmax(dim=-1).numpy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("coupling", ["one", "full"])
@pytest.mark.parametrize("num_classes", [2, 3])
def test_it_is_exact_on_trees_also_at_known_nodes(coupling: Coupling, num_classes: int, seed: int):
    num_nodes = 7
    graph, potentials = random_tree(num_nodes, seed), random_potentials(num_classes, coupling, seed)
    theta, labels = random_theta(num_nodes, 1, num_classes, seed), {seed % 3: 0, 5: num_classes - 1}
    found = beliefs(potentials, graph, theta, known_labels(labels, num_nodes, num_classes))
    for node in range(num_nodes):
        expected = exact_marginal(potentials, graph, theta[:, 0], labels, node)
        np.testing.assert_allclose(found[node, 0], expected, atol=2e-4)


def test_entries_of_a_batch_have_their_own_unaries_and_known_labels():
    graph, potentials, theta = random_tree(6, 1), random_potentials(3, "full", 1), random_theta(6, 3, 3, 1)
    labels: list[dict[int, int]] = [{}, {0: 1, 4: 2}, {3: 0}]
    known = torch.cat([known_labels(each, 6, 3) for each in labels], dim=1)
    together = beliefs(potentials, graph, theta, known)
    for k, each in enumerate(labels):
        alone = beliefs(potentials, graph, theta[:, k : k + 1], known[:, k : k + 1])
        np.testing.assert_allclose(together[:, k], alone[:, 0], atol=2e-4)
        expected = [exact_marginal(potentials, graph, theta[:, k], each, node) for node in range(6)]
        np.testing.assert_allclose(together[:, k], expected, atol=2e-4)


@pytest.mark.parametrize("J", [-3.0, 0.5, 2.0])
def test_a_single_edge_with_a_known_end_in_closed_form(J: float):
    potentials = Potentials(3, "one", J=J, gamma=0.0)
    found = beliefs(potentials, path(2), torch.zeros(2, 1, 3), known_labels({0: 1}, 2, 3))
    e = np.exp(J)
    np.testing.assert_allclose(found[1, 0], np.array([1, e, 1]) / (2 + e), atol=1e-5)
    np.testing.assert_allclose(found[0, 0], [1 / 3] * 3, atol=1e-5)  # its own label says nothing about it


def test_the_hub_of_a_star_in_closed_form():
    n, J, gamma = 5, 1.2, 0.8
    graph = graph_of([(0, i) for i in range(1, n + 1)], n + 1)
    labels = {1: 0, 2: 0, 3: 0, 4: 1, 5: 1}
    potentials = Potentials(2, "one", J=J, gamma=gamma)
    found = beliefs(potentials, graph, torch.zeros(n + 1, 1, 2), known_labels(labels, n + 1, 2))
    scale = (n / np.exp(MEAN_LOG)) ** (-gamma / 2)  # of degrees n and 1; one vote is left of three against two
    assert found[0, 0, 0] == pytest.approx(1 / (1 + np.exp(-J * scale)), abs=1e-5)


@pytest.mark.parametrize("coupling", ["one", "full"])
def test_the_label_of_a_hub_is_not_overruled_by_its_neighbours(coupling: Coupling):
    n, J = 100, 2.0
    graph = graph_of([(0, i) for i in range(1, n + 1)], n + 1)
    labels = {0: 0} | dict.fromkeys(range(1, n), 1)
    potentials = Potentials(2, coupling, J=J, gamma=0.0)
    found = beliefs(potentials, graph, torch.zeros(n + 1, 1, 2), known_labels(labels, n + 1, 2))
    assert found[n, 0, 0] == pytest.approx(1 / (1 + np.exp(-J)), abs=1e-5)  # the leaf hears of the hub's label alone


@pytest.mark.parametrize("J", [-500.0, 500.0])
@pytest.mark.parametrize("coupling", ["one", "full"])
def test_a_rule_without_exceptions_is_kept_and_finite(coupling: Coupling, J: float):
    found = beliefs(Potentials(2, coupling, J=J), path(6), torch.zeros(6, 1, 2), known_labels({0: 0}, 6, 2))
    expected = np.zeros(5) if J > 0 else np.arange(1, 6) % 2
    assert np.isfinite(found).all() and (found[1:, 0].argmax(axis=1) == expected).all()
    assert found[1:, 0].max(axis=1).min() > 0.999


def test_without_edges_or_coupling_beliefs_are_the_unaries():
    theta = random_theta(3, 2, 3, 0)
    for potentials, graph in ((Potentials(3, "one", 1.0), graph_of([], 3)), (Potentials(3, "none"), path(3))):
        for known in (None, known_labels({0: 1}, 3, 3).expand(-1, 2, -1)):
            np.testing.assert_allclose(beliefs(potentials, graph, theta, known), theta.softmax(dim=-1), atol=1e-6)


@pytest.mark.parametrize("coupling", ["one", "full"])
def test_the_gradient_through_propagation_is_that_of_finite_differences(coupling: Coupling):
    # a cycle: messages come back, and belief propagation is not exact, but its gradient has to be
    graph = graph_of([(0, 1), (1, 2), (2, 3), (3, 0), (2, 4)], 5)
    potentials, theta = random_potentials(3, coupling, 2), random_theta(5, 1, 3, 2)
    known, edges = known_labels({0: 1}, 5, 3), Edges(graph)
    learned = [p.requires_grad_() for p in (potentials.J, potentials.gamma, *([potentials.R] * potentials.has_rest))]
    theta.requires_grad_()

    def loss() -> torch.Tensor:
        found = Propagation(potentials, edges, MEAN_LOG).beliefs(theta, known, 12)
        return -found[[2, 4], 0].log_softmax(dim=-1)[:, 2].sum()

    gradients = torch.autograd.grad(loss(), [*learned, theta])
    h = 1e-2
    for parameter, gradient in zip([*learned, theta], gradients):
        direction = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3))
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.add_(sign * h * direction)
            # with gradients on, there is no early stop
            values.append(loss().item())
            with torch.no_grad():
                parameter.sub_(sign * h * direction)
        slope = (values[0] - values[1]) / (2 * h)
        assert slope == pytest.approx((gradient * direction).sum().item(), rel=0.01, abs=1e-3)
    assert not theta.grad and gradients[-1][0].abs().max() == 0  # at a known node, theta does not matter to others


def test_it_stops_once_messages_no_longer_change(monkeypatch):
    calls = []
    passed_on = Propagation.passed_on
    monkeypatch.setattr(Propagation, "passed_on", lambda self, *a: calls.append(1) or passed_on(self, *a))
    beliefs(Potentials(3, "one", 0.5), path(4), random_theta(4, 1, 3, 0), None, iterations=10_000)
    assert len(calls) < 60
