"""Learning: what a pairwise model finds in labels that it was not shown."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc.baselines.folds import assign_folds
from dpmsnc.graph import UNKNOWN
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import Gibbs
from dpmsnc.pairwise.learning import (
    FACTORS,
    LEARNING,
    WIDTHS,
    Folds,
    asking_iterations,
    direction,
    learn,
    loss_of,
    penalty,
    rescale,
    told_by_labels,
    with_coupling,
)
from dpmsnc.pairwise.potentials import Potentials
from dpmsnc.pairwise.propagation import Propagation
from pairwise_models import bipartite_tree, folds_of, graph_of, random_theta


def uninformed(y: np.ndarray, num_classes: int, num_folds: int = 4) -> Folds:
    """Folds of a base model that knows nothing; y is -1 where there is no label."""
    log_p = torch.full((len(y), num_folds, num_classes), -np.log(num_classes), dtype=torch.float32)
    return folds_of(log_p, y, assign_folds(y, 0, num_folds))


def potts_sample(J: float, num_classes: int = 3, num_nodes: int = 400, seed: int = 0):
    """A random graph of mean degree 4 and a labelling that was drawn from one coupling."""
    graph = graph_of([tuple(e) for e in nx.gnm_random_graph(num_nodes, 2 * num_nodes, seed=seed).edges], num_nodes)
    edges, zero = Edges(graph), torch.zeros(num_nodes, 1, num_classes)
    truth = Potentials(num_classes, "one", J=J, gamma=0.0)
    y = Gibbs(truth, edges, edges.mean_log).sample(zero, zero, zero, 200, torch.Generator().manual_seed(seed))
    return edges, y[:, 0].numpy()


@pytest.mark.parametrize("J", [-0.8, 0.8])
def test_a_coupling_is_found_again_in_sign_and_size(J):
    edges, y = potts_sample(J)
    found = learn(uninformed(y, 3), edges, "one", steps=20)
    scale = found.J.item() * np.mean(edges.scales(found.gamma.detach(), edges.mean_log).numpy()[edges.level])
    assert scale == pytest.approx(J, rel=0.35)


def test_labels_that_do_not_depend_on_each_other_have_hardly_any_coupling():
    edges, _ = potts_sample(0.5)
    y = np.random.default_rng(0).integers(3, size=edges.num_nodes)
    assert abs(learn(uninformed(y, 3), edges, "one", steps=20).J.item()) < 0.2


@pytest.mark.parametrize("seed", [0, 1])
def test_a_two_colouring_is_found_from_a_tenth_of_the_labels(seed):
    graph, truth = bipartite_tree(200, seed)
    rng = np.random.default_rng(seed)
    labelled = rng.permutation(200)[:20]
    y = np.full(200, UNKNOWN)
    y[labelled] = truth[labelled]
    edges = Edges(graph)
    found = learn(uninformed(y, 2), edges, "one", steps=25)
    known = torch.nn.functional.one_hot(torch.from_numpy(y).clamp_min(0), 2).float() * torch.from_numpy(y >= 0)[:, None]
    with torch.no_grad():
        beliefs = Propagation(found, edges, edges.mean_log).beliefs(torch.zeros(200, 1, 2), known.unsqueeze(1), 200)
    assert found.J.item() < -1 and (beliefs[:, 0].argmax(dim=1).numpy() == truth).all()


def test_classes_that_go_in_pairs_need_the_whole_matrix():
    # 0 is next to 1, and 2 next to 3: that neighbours differ says little of it
    rng, n = np.random.default_rng(0), 300
    y = rng.integers(4, size=n)
    i, j = rng.integers(n, size=(2, 20 * n))
    linked = (y[i] ^ 1) == y[j]
    edges = Edges(graph_of(list(zip(i[linked][:600].tolist(), j[linked][:600].tolist())), n))
    folds = uninformed(y, 4)
    one, full = (learn(folds, edges, kind, steps=15) for kind in ("one", "full"))
    assert loss_of(full, folds, edges, 6) < 0.5 * loss_of(one, folds, edges, 6)
    H = full.H.detach()
    assert (H.argmax(dim=1) == torch.tensor([1, 0, 3, 2])).all() and torch.allclose(H, H.T)


def test_without_a_coupling_the_base_model_is_calibrated():
    # a base model that is twice as sure as it should be
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(3000, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    log_p = torch.from_numpy(2 * logits).float().log_softmax(dim=1).unsqueeze(1).expand(-1, 4, -1)
    folds = folds_of(log_p, y, assign_folds(y, 0))
    found = learn(folds, Edges(graph_of([(0, 1)], 3000)), "none")
    assert found.a.item() == pytest.approx(0.5, abs=0.05) and found.b.abs().max() < 0.15
    assert found.J == 0 and not found.J.requires_grad


def test_base_models_that_know_different_things_are_pooled():
    # two views of the class that are independent given it: their logits add up; the third one is made up
    rng, n, strength = np.random.default_rng(0), 2000, 1.5
    y = rng.integers(3, size=n)
    views = strength * (strength * np.eye(3)[y] + rng.normal(size=(2, n, 3)))
    logits = torch.from_numpy(np.concatenate([views, rng.normal(size=(1, n, 3))])).float()
    log_p = logits.log_softmax(dim=-1).unsqueeze(2).expand(-1, -1, 4, -1)
    edges, fold = Edges(graph_of([(0, 1)], n)), assign_folds(y, 0)
    folds = folds_of(log_p, y, fold)
    assert Potentials(3, num_bases=3).a.tolist() == pytest.approx([1 / 3] * 3)
    pool = learn(folds, edges, "none")
    assert pool.a.tolist() == pytest.approx([1, 1, 0], abs=0.12)
    loss = loss_of(pool, folds, edges)
    for m in range(3):
        alone = folds_of(log_p[m], y, fold)
        assert loss < loss_of(learn(alone, edges, "none"), alone, edges) - 0.1
    kept = Potentials.like(pool, "one")
    assert torch.equal(kept.unary(log_p), pool.unary(log_p)) and kept.unary(log_p).shape == (n, 4, 3)


def test_a_label_is_hidden_in_its_own_fold_alone():
    y = np.array([0, 1, UNKNOWN, 1, 0, 1])
    fold = np.array([0, 1, -1, 0, 1, 2])
    folds = folds_of(torch.zeros(6, 3, 2), y, fold)
    for i in range(6):
        for k in range(3):
            shown = y[i] != UNKNOWN and fold[i] != k
            assert folds.known[i, k].tolist() == ([float(y[i] == c) for c in range(2)] if shown else [0, 0])
    assert list(zip(folds.row.tolist(), folds.entry.tolist())) == [(0, 0), (1, 1), (3, 0), (4, 1), (5, 2)]
    assert folds.size == 5


def test_labels_of_several_graphs_are_asked_for_without_any_and_half_by_half():
    y, half = torch.tensor([0, 1, UNKNOWN, 1]), torch.tensor([0, 1, -1, 0])
    folds = Folds.of_graphs(torch.zeros(1, 4, 1, 2), y, half)
    shown = folds.known.sum(dim=-1).T.tolist()
    assert shown == [[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]]
    asked = sorted(zip(folds.entry.tolist(), folds.row.tolist()))
    assert asked == [(0, 0), (0, 1), (0, 3), (1, 1), (2, 0), (2, 3)] and folds.size == 3


def test_the_score_of_a_label_comes_from_its_fold():
    beliefs = random_theta(4, 2, 3, 0)
    y, fold = np.array([2, 0, UNKNOWN, 1]), np.array([1, 0, -1, 1])
    found = folds_of(beliefs, y, fold).log_likelihood(beliefs)
    expected = [beliefs[i, k].log_softmax(dim=0)[c] for i, k, c in ((0, 1, 2), (1, 0, 0), (3, 1, 1))]
    assert torch.allclose(found, torch.stack(expected))


def test_the_prior_is_of_learned_parameters_alone():
    potentials = Potentials(2, "one", J=3.0, gamma=1.5)
    with torch.no_grad():
        potentials.a.fill_(2.0)
        potentials.R.fill_(9.0)  # is left out
    values = {"a": 2.0, "gamma": 1.5}  # b is where its prior is
    expected = sum(((value - WIDTHS[name][0]) / WIDTHS[name][1]) ** 2 / 2 for name, value in values.items())
    expected += np.log(1 + 9)  # Cauchy's
    assert penalty(potentials).item() == pytest.approx(expected)
    assert penalty(Potentials(2, "none", J=3.0)).item() == penalty(Potentials(2, "none")).item()


def told(edges: Edges, y: np.ndarray) -> float:
    return told_by_labels(torch.from_numpy(y), torch.from_numpy(assign_folds(y, 0)), int(y.max()) + 1, edges)


@pytest.mark.parametrize("J", [0.7, -1.0])
def test_labels_tell_how_much_neighbours_agree(J: float):
    edges, y = potts_sample(J)
    assert 0.4 < told(edges, y) / J < 2


@pytest.mark.parametrize("J", [1.0, -1.0])
def test_labels_tell_the_direction(J: float):
    edges, y = potts_sample(J)
    assert direction(torch.from_numpy(y), torch.from_numpy(assign_folds(y, 0)), 3, edges) == J


def test_neighbours_of_one_frequent_class_need_not_agree_by_more_than_chance():
    edges, _ = potts_sample(1.0)
    labels = [(np.random.default_rng(seed).random(400) < 0.15).astype(np.int64) for seed in range(5)]
    found = [told(edges, y) for y in labels]
    assert abs(np.mean(found)) < 0.15 and max(np.abs(found)) < 0.5


def test_labels_tell_that_neighbours_agree_on_a_dense_graph():
    """Where a strong coupling would give all nodes one class, a gradient from there finds none."""
    rng, y = np.random.default_rng(0), np.arange(200) % 4
    pairs = np.argwhere(np.triu(rng.random((200, 200)) < np.where(y[:, None] == y, 0.5, 0.1), k=1))
    assert told(Edges(graph_of(pairs.tolist(), 200)), y) > 0.03


def test_another_strength_leaves_the_original_alone():
    edges, y = potts_sample(-0.5, num_nodes=100)
    folds, potentials = uninformed(y, 3), Potentials(3, "one", J=-0.1)
    stronger = with_coupling(potentials, -0.5, folds, edges, steps=3)
    assert stronger.J.item() == -0.5 and potentials.J.item() == pytest.approx(-0.1) and potentials.J.requires_grad


@pytest.mark.parametrize("J, factor", [(1.0, 4), (-1.0, 0.5)])
def test_couplings_are_scaled_as_far_as_that_helps(J, factor):
    graph, _ = bipartite_tree(100, 0)
    folds = uninformed(np.zeros(100, dtype=np.int64), 2)  # all neighbours agree
    found = rescale(Potentials(2, "one", J=J), folds, Edges(graph))
    assert found.J.item() == pytest.approx(factor * J)


@pytest.mark.parametrize("J, factor", [(1.0, 2.0), (4.0, 0.7)])
def test_couplings_are_scaled_by_what_propagation_to_its_end_makes_of_them(J, factor):
    # near labels agree, and far ones, of which a few iterations do not hear, differ
    n, copies, pairs = 22, 40, []
    y, fold = np.full(n * copies, UNKNOWN), np.full(n * copies, -1)
    for k in range(copies):
        pairs += [(n * k + i, n * k + i + 1) for i in range(n - 1)]
        y[[n * k, n * k + 1, n * k + n - 1]], fold[[n * k, n * k + 1, n * k + n - 1]] = (
            (k % 2, k % 2, 1 - k % 2),
            (0, 1, 2),
        )
    edges, folds = Edges(graph_of(pairs, n * copies)), folds_of(torch.zeros(n * copies, 3, 2), y, fold)
    potentials = Potentials(2, "full", J=J, gamma=0.0)
    with torch.no_grad():
        potentials.R.copy_(torch.tensor([[0.01, 0.0], [0.0, -0.01]]))

    def best(iterations: int) -> float:
        def loss(factor: float) -> float:
            scaled = Potentials.like(potentials, "full").requires_grad_(False)
            scaled.J.mul_(factor)
            scaled.R.mul_(factor)
            return loss_of(scaled.requires_grad_(), folds, edges, iterations).item()

        return min(FACTORS, key=loss)

    found = rescale(potentials, folds, edges)
    assert found.J.item() == pytest.approx(factor * J) and torch.allclose(found.R, factor * potentials.R)
    assert potentials.J.item() == J and found.J.requires_grad
    few, many = edges.iterations(2, **LEARNING), asking_iterations(edges, 2)
    assert few < n - 2 < many and best(few) > best(many)


def test_unseen_labels_are_asked_for_given_their_other_half():
    y, fold = np.array([0, 1, 0, 1, 2, 1]), torch.tensor([0, 1, 0, 1, -1, -1])
    outside, half = torch.tensor([False] * 4 + [True, False]), torch.tensor([0, 0, 1, 1, 1, 0])
    folds = Folds.of_halves(torch.zeros(1, 6, 2, 3), torch.from_numpy(y), fold, outside, half)
    shown = [folds.known[:, entry].any(dim=-1).nonzero().flatten().tolist() for entry in range(4)]
    asked = [folds.row[folds.entry == entry].tolist() for entry in range(4)]
    # folds 0 and 1 given their first half, then given their second one; node 4 is outside, node 5 has no label
    assert shown == [[0, 1, 3], [0, 1, 2], [1, 2, 3, 4], [0, 2, 3, 4]]
    assert asked == [[2, 4], [3, 4], [0], [1]]
