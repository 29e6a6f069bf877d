"""Gibbs sampling against sums over all labellings."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import MOST_COLOURS, Gibbs, colouring, drawn
from dpmsnc.pairwise.potentials import Potentials
from dpmsnc.pairwise.propagation import Propagation
from pairwise_models import MEAN_LOG, exact_pair, graph_of, known_labels, random_potentials, random_theta

CYCLE = graph_of([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)], 5)


def samples(potentials, graph, theta, known, count, sweeps=20, seed=0):
    """Labellings (count, nodes)."""
    edges = Edges(graph)
    with torch.no_grad():
        beliefs = Propagation(potentials, edges, MEAN_LOG).beliefs(theta, known, 50)
    theta, beliefs, known = (part.expand(-1, count, -1) for part in (theta, beliefs, known))
    generator = torch.Generator().manual_seed(seed)
    return Gibbs(potentials, edges, MEAN_LOG).sample(theta, beliefs, known, sweeps, generator).T.numpy()


@pytest.mark.parametrize("coupling", ["one", "full"])
def test_pairs_are_as_frequent_as_in_the_sum_over_all_labellings(coupling):
    count, potentials, theta, labels = 20_000, random_potentials(3, coupling, 5), random_theta(5, 1, 3, 5), {4: 2}
    y = samples(potentials, CYCLE, theta, known_labels(labels, 5, 3), count)
    assert (y[:, 4] == 2).all()
    for i, j in [(0, 1), (1, 3), (2, 4)]:
        expected = exact_pair(potentials, CYCLE, theta[:, 0], labels, i, j)
        found = np.bincount(y[:, i] * 3 + y[:, j], minlength=9).reshape(3, 3) / count
        assert np.abs(found - expected).max() < 5 * 0.5 / count**0.5  # five standard errors of the least sure frequency


def test_neighbours_are_not_drawn_on_their_own():
    # the exact joint is far from the product of its marginals, and so must the samples be
    potentials, theta = Potentials(2, "one", J=2.0, gamma=0.0), torch.zeros(5, 1, 2)
    y = samples(potentials, CYCLE, theta, known_labels({}, 5, 2), 4000)
    assert (y[:, 0] == y[:, 1]).mean() > 0.8 and y.mean() == pytest.approx(0.5, abs=0.04)


def test_the_same_seed_gives_the_same_samples():
    potentials, theta = random_potentials(3, "one", 1), random_theta(5, 1, 3, 1)
    first, again, other = (samples(potentials, CYCLE, theta, known_labels({}, 5, 3), 40, seed=s) for s in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


def test_chains_have_known_labels_of_their_own():
    potentials, theta = random_potentials(3, "one", 1), random_theta(5, 1, 3, 1)
    known = torch.cat([known_labels({1: k}, 5, 3) for k in range(3)], dim=1)
    y = Gibbs(potentials, Edges(CYCLE), MEAN_LOG).sample(
        *(theta.expand(-1, 3, -1),) * 2, known, 5, torch.Generator().manual_seed(0)
    )
    assert y[1].tolist() == [0, 1, 2]


@pytest.mark.parametrize("J", [5.0, -5.0])
def test_a_component_without_labels_is_drawn_in_either_phase_as_a_whole(J):
    pairs = [(i, j) for i in range(3) for j in range(3, 6)]  # complete between two halves
    y = samples(
        Potentials(2, "one", J=J, gamma=0.0), graph_of(pairs, 6), torch.zeros(6, 1, 2), torch.zeros(6, 1, 2), 400
    )
    flipped = y.copy()
    if J < 0:
        flipped[:, 3:] = 1 - flipped[:, 3:]
    whole = (flipped == flipped[:, :1]).all(axis=1)
    assert whole.mean() > 0.95
    assert 0.4 < flipped[whole, 0].mean() < 0.6


def test_marginals_of_a_component_without_labels_are_at_the_prior():
    potentials = Potentials(2, "one", J=3.0)
    graph = graph_of([(0, 1), (1, 2), (3, 4), (4, 5)], 6)
    known = known_labels({0: 1}, 6, 2)
    with torch.no_grad():
        p = Propagation(potentials, Edges(graph), MEAN_LOG).beliefs(torch.zeros(6, 1, 2), known, 50).softmax(dim=-1)
    np.testing.assert_allclose(p[3:, 0], 0.5, atol=1e-6)
    assert p[1, 0, 1] > 0.9


def test_without_coupling_nodes_are_drawn_from_their_unaries():
    theta = random_theta(5, 1, 3, 2)
    y = samples(Potentials(3, "none"), CYCLE, theta, known_labels({}, 5, 3), 20_000)
    found = np.stack([(y == c).mean(axis=0) for c in range(3)], axis=1)
    np.testing.assert_allclose(found, theta[:, 0].softmax(dim=-1), atol=0.02)


def test_logits_are_drawn_by_their_softmax():
    logits = torch.tensor([[0.0, 1.0, -2.0]]).expand(50_000, -1)
    found = np.bincount(drawn(logits, torch.Generator().manual_seed(0)), minlength=3) / 50_000
    np.testing.assert_allclose(found, logits[0].softmax(dim=0), atol=0.012)


def test_neighbours_have_different_colours():
    graph = graph_of([tuple(e) for e in nx.gnm_random_graph(60, 150, seed=0).edges], 60)
    colour = colouring(graph)
    assert (colour[graph.edge_index[0]] != colour[graph.edge_index[1]]).all() and colour.max() < MOST_COLOURS
    assert colouring(graph_of([(i, i + 1) for i in range(9)], 10)).max() <= 2


def test_every_node_is_in_one_group_though_colours_are_merged():
    clique = graph_of([(i, j) for i in range(20) for j in range(i)], 20)
    groups = Gibbs(Potentials(2, "one", 1.0), Edges(clique), MEAN_LOG).groups
    assert len(groups) == MOST_COLOURS
    assert sorted(torch.cat([nodes for nodes, _ in groups]).tolist()) == list(range(20))
