"""Balanced couplings: marginals of the base models until a label is known, and then what that label tells exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import SWEEPS, Gibbs
from dpmsnc.pairwise.potentials import Potentials
from dpmsnc.pairwise.propagation import Propagation
from pairwise_models import MEAN_LOG, exact_marginal, graph_of, known_labels, path, random_theta, random_tree

CYCLE = [(i, (i + 1) % 6) for i in range(6)]


def model(graph, J: float, num_classes: int = 3) -> Propagation:
    potentials = Potentials(num_classes, "balanced", J=J, gamma=1.0).requires_grad_(False)
    return Propagation(potentials, Edges(graph), MEAN_LOG)


def asked(propagation: Propagation, log_p: torch.Tensor, labels: dict[int, int]) -> np.ndarray:
    """Beliefs (nodes, classes) given labels."""
    theta, known = propagation.unaries(log_p.unsqueeze(0)).theta, known_labels(labels, *log_p.shape[::2])
    with torch.no_grad():
        return propagation.beliefs(theta, known, 300).softmax(dim=-1)[:, 0].numpy()


@pytest.mark.parametrize("J", [-2.0, 0.7, 3.0])
@pytest.mark.parametrize("graph", [random_tree(7, 0), graph_of(CYCLE, 6)], ids=["tree", "cycle"])
def test_without_labels_beliefs_are_those_of_the_base_model(graph, J: float):
    log_p = random_theta(graph.num_nodes, 1, 3, 0).log_softmax(dim=-1)
    np.testing.assert_allclose(asked(model(graph, J), log_p, {}), log_p[:, 0].exp(), atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_on_a_tree_beliefs_are_exact_given_labels(seed: int):
    graph, labels = random_tree(7, seed), {1: 0, 4: 2}
    propagation, log_p = model(graph, 1.5), random_theta(7, 1, 3, seed).log_softmax(dim=-1)
    found, theta = asked(propagation, log_p, labels), propagation.unaries(log_p.unsqueeze(0)).theta[:, 0]
    for node in range(7):
        expected = exact_marginal(propagation.potentials, graph, theta, labels, node)
        np.testing.assert_allclose(found[node], expected, atol=5e-4)


def test_a_label_changes_its_neighbour_by_as_much_as_it_surprises():
    """An edge whose ends have the marginals p and a joint distribution of the form u_a exp(J [a = b]) u_b."""
    changes = []
    for p in (0.99, 0.5, 0.01):
        log_p = torch.tensor([[p, 1 - p], [0.5, 0.5]]).log().unsqueeze(1)
        changes.append(asked(model(path(2), 1.0, 2), log_p, {0: 0})[1, 0] - 0.5)
    assert 0 < changes[0] < 0.02 and changes[0] < changes[1] < changes[2]
    assert changes[1] == pytest.approx(
        np.e ** np.exp(MEAN_LOG / 2) / (1 + np.e ** np.exp(MEAN_LOG / 2)) - 0.5, abs=1e-3
    )


def test_joint_samples_have_the_marginals_of_the_base_model():
    graph = random_tree(8, 1)
    propagation, log_p = model(graph, 1.0), random_theta(8, 1, 3, 1).log_softmax(dim=-1)
    theta = propagation.unaries(log_p.unsqueeze(0)).theta.expand(-1, 4000, -1).contiguous()
    start, nothing = log_p.expand(-1, 4000, -1), torch.zeros_like(theta)
    chains = Gibbs(propagation.potentials, propagation.edges, MEAN_LOG)
    y = chains.sample(theta, start, nothing, SWEEPS, torch.Generator().manual_seed(0)).numpy()
    shares = np.stack([(y == c).mean(axis=1) for c in range(3)], axis=1)
    np.testing.assert_allclose(shares, log_p[:, 0].exp(), atol=0.035)
    i, j = graph.edge_index[:, 0]
    assert (y[i] == y[j]).mean() > (shares[i] * shares[j]).sum() + 0.1  # and yet neighbours go together


def test_several_questions_are_balanced_each_on_its_own():
    graph, log_p = graph_of(CYCLE, 6), random_theta(6, 4, 3, 2).log_softmax(dim=-1)
    propagation = model(graph, 0.8)
    together = propagation.unaries(log_p.unsqueeze(0)).theta
    for k in range(4):
        alone = propagation.unaries(log_p[None, :, k : k + 1]).theta
        assert torch.allclose(together[:, k : k + 1], alone, atol=1e-3)


def test_without_edges_or_couplings_unaries_stay():
    log_p = random_theta(3, 1, 3, 0)
    for propagation in (model(graph_of([], 3), 1.0), model(path(3), 0.0)):
        found = propagation.unaries(log_p.unsqueeze(0)).theta
        assert torch.allclose(found.softmax(dim=-1), log_p.softmax(dim=-1), atol=1e-6)
