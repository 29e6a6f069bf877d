"""Belief propagation and joint draws with a matrix for every edge, against sums over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edge_potentials import EdgeGibbs, EdgePropagation, both_ways, once, spanning_forest
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Potentials
from dpmsnc.pairwise.propagation import Propagation, clamped
from pairwise_models import (
    graph_of,
    known_labels,
    labellings_and_energies,
    marginals_of,
    path,
    random_edge_matrices,
    random_theta,
    random_tree,
)

MANY = 300
CYCLE = graph_of([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)], 5)


def propagated(edges, theta, W, known, maximise=False):
    """Propagation, evidence and messages."""
    propagation, evidence = EdgePropagation(edges, both_ways(edges, W), maximise), clamped(theta, known)
    with torch.no_grad():
        return propagation, evidence, propagation.propagate(evidence, propagation.silence(theta), MANY)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("num_nodes", "num_classes"), [(8, 2), (7, 3), (2, 4)])
def test_marginals_of_trees_are_exact_also_at_known_nodes(num_nodes: int, num_classes: int, seed: int):
    edges = Edges(random_tree(num_nodes, seed))
    W, theta = random_edge_matrices(edges, num_classes, seed), random_theta(num_nodes, 1, num_classes, seed)
    labels = {seed % num_nodes: 0, num_nodes - 1: num_classes - 1}
    with torch.no_grad():
        propagation = EdgePropagation(edges, both_ways(edges, W))
        beliefs = propagation.beliefs(theta, known_labels(labels, num_nodes, num_classes), MANY)[:, 0]
    for node in range(num_nodes):  # what all labels but its own say
        others = {i: label for i, label in labels.items() if i != node}
        expected = marginals_of(*labellings_and_energies(edges, theta[:, 0], W, others), num_classes)[node]
        np.testing.assert_allclose(beliefs[node].softmax(dim=-1), expected, atol=2e-4)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("labels", [{}, {1: 0, 6: 2}])
def test_max_product_finds_the_most_probable_labelling_of_a_tree(seed: int, labels: dict[int, int]):
    edges = Edges(random_tree(7, seed))
    W, theta = random_edge_matrices(edges, 3, seed), random_theta(7, 1, 3, seed)
    found, log_p = labellings_and_energies(edges, theta[:, 0], W, labels)
    propagation, *found_by = propagated(edges, theta, W, known_labels(labels, 7, 3), maximise=True)
    total = propagation.total(*found_by)[:, 0]
    np.testing.assert_array_equal(total.argmax(dim=-1), found[log_p.argmax()])
    for node in set(range(7)) - set(labels):  # differences of logits are those of the best labellings with each class
        best = np.array([log_p[found[:, node] == c].max() for c in range(3)])
        np.testing.assert_allclose(total[node] - total[node].max(), best - best.max(), atol=2e-3)


def test_beliefs_of_edges_are_exact_on_a_tree():
    edges, labels = Edges(random_tree(6, 2)), {4: 1}
    W, theta = random_edge_matrices(edges, 3, 2), random_theta(6, 1, 3, 2)
    found, log_p = labellings_and_energies(edges, theta[:, 0], W, labels)
    pairs = propagated(edges, theta, W, known_labels(labels, 6, 3))
    for chosen in (once(edges), edges.reverse[once(edges)]):
        b = pairs[0].pair_beliefs(*pairs[1:], chosen).exp()[:, 0]
        for k, edge in enumerate(chosen.tolist()):
            i, j = edges.start[edge], edges.end[edge]
            expected = np.bincount(found[:, i] * 3 + found[:, j], weights=np.exp(log_p), minlength=9)
            np.testing.assert_allclose(b[k].flatten(), expected, atol=2e-4)


def test_equal_matrices_give_the_messages_of_the_model_with_one_matrix():
    edges, theta, known = Edges(CYCLE), random_theta(5, 2, 3, 1), known_labels({1: 2}, 5, 3).expand(-1, 2, -1)
    potentials = Potentials(3, "full", J=0.8, gamma=0.0).requires_grad_(False)
    potentials.R.copy_(torch.randn(3, 3, generator=torch.Generator().manual_seed(0)))
    with torch.no_grad():
        one = Propagation(potentials, edges, 0.0).beliefs(theta, known, MANY).log_softmax(dim=-1)
        each = EdgePropagation(edges, potentials.H.expand(len(edges), 3, 3)).beliefs(theta, known, MANY)
    torch.testing.assert_close(each.log_softmax(dim=-1), one, atol=1e-3, rtol=0)


def test_no_message_is_lost_beside_a_strong_compatibility():
    # the label that is known is so unlikely that its row is far below the others, but the row has a message of its own
    W = torch.tensor([[[0.0, 0.0], [-80.0, -83.0]]])
    edges = Edges(path(2))
    with torch.no_grad():
        p = EdgePropagation(edges, both_ways(edges, W)).beliefs(torch.zeros(2, 1, 2), known_labels({0: 1}, 2, 2), 50)
    assert p[1, 0].softmax(dim=0)[0] == pytest.approx(1 / (1 + np.exp(-3)), abs=1e-4)


def test_matrices_are_turned_for_the_way_back():
    edges = Edges(CYCLE)
    W = both_ways(edges, random_edge_matrices(edges, 3, 0))
    torch.testing.assert_close(W[edges.reverse], W.transpose(1, 2))
    assert (edges.start[once(edges)] < edges.end[once(edges)]).all()


def test_without_edges_beliefs_are_the_unaries_and_nodes_are_drawn_on_their_own():
    edges, theta, W = Edges(graph_of([], 3)), random_theta(3, 1, 3, 0), torch.zeros(0, 3, 3)
    propagation, evidence, messages = propagated(edges, theta, W, torch.zeros_like(theta))
    torch.testing.assert_close(propagation.beliefs(theta, torch.zeros_like(theta), MANY), theta)
    y = EdgeGibbs(propagation).draw(
        evidence, messages, torch.zeros(3, dtype=torch.bool), 20_000, 5, torch.Generator().manual_seed(0)
    )
    found = torch.stack([(y == c).float().mean(dim=1) for c in range(3)], dim=1)
    torch.testing.assert_close(found, theta[:, 0].softmax(dim=-1), atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "graph", [random_tree(4, 1), CYCLE, graph_of([(0, 1), (2, 3)], 5)], ids=["tree", "cycles", "3"]
)
def test_joint_draws_are_as_frequent_as_labellings_are_probable(graph):
    edges, num_nodes, count = Edges(graph), graph.num_nodes, 40_000
    W, theta, labels = random_edge_matrices(edges, 2, 3, scale=1.0), random_theta(num_nodes, 1, 2, 3), {1: 1}
    found, log_p = labellings_and_energies(edges, theta[:, 0], W, labels)
    propagation, evidence, messages = propagated(edges, theta, W, known_labels(labels, num_nodes, 2))
    given = torch.arange(num_nodes) == 1
    y = EdgeGibbs(propagation).draw(evidence, messages, given, count, 20, torch.Generator().manual_seed(0))
    powers = 2 ** np.arange(num_nodes)
    frequency = np.bincount(powers @ y.numpy(), minlength=2**num_nodes)[found @ powers] / count
    assert frequency.sum() == pytest.approx(1)  # no labelling contradicts the known label
    assert np.abs(frequency - np.exp(log_p)).max() < 5 * 0.5 / count**0.5


def test_draws_along_a_tree_need_no_sweeps():
    """So strong a coupling would keep chains that begin at independent draws apart for ever."""
    edges = Edges(path(6))
    W = 12 * torch.eye(2).expand(5, 2, 2)
    propagation, evidence, messages = propagated(edges, torch.zeros(6, 1, 2), W, torch.zeros(6, 1, 2))
    y = EdgeGibbs(propagation).draw(
        evidence, messages, torch.zeros(6, dtype=torch.bool), 2000, 0, torch.Generator().manual_seed(0)
    )
    assert (y == y[:1]).all(dim=0).float().mean() > 0.99 and 0.45 < y.float().mean() < 0.55


def test_a_spanning_forest_has_every_node_below_its_parent():
    edges = Edges(graph_of([(0, 1), (1, 2), (2, 0), (2, 3), (5, 6)], 7))
    depth, towards = spanning_forest(edges)
    assert (depth == 0).sum() == 3 and ((towards == -1) == (depth == 0)).all()  # one root a component
    below = np.flatnonzero(depth > 0)
    np.testing.assert_array_equal(edges.end[towards[below]], below)
    np.testing.assert_array_equal(depth[edges.start[towards[below]]], depth[below] - 1)
