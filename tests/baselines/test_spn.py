"""SPN: potentials, proxy training, choice and refinement, and that its answers are those of the field it learned."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import dpmsnc.baselines.spn as spn
from clusters import OWN, clusters, seeded_answers
from coupled_trees import partly_known_trees, tree_of, trees
from dpmsnc.baselines import METHODS, SPN
from dpmsnc.baselines.spn import Moments, Score, Validation, best_of, edge_potentials
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.metrics import accuracy, graph_accuracy
from dpmsnc.pairwise.edge_potentials import once
from dpmsnc.pairwise.edges import Edges, edges_of
from pairwise_models import (
    graph_of,
    known_labels,
    labellings_and_energies,
    marginals_of,
    random_edge_matrices,
    random_theta,
    random_tree,
)

QUICK: dict[str, Any] = {"epochs": 40, "refinement_epochs": 10, "hidden_channels": 16, "evaluate_every": 10}


def fitted(task: Any, **options: Any) -> SPN:
    return SPN(**{**QUICK, **options}).fit(task.graph, task.validation)


@cache
def forest_model(count: int = 40, **options: Any) -> tuple[Graph, NDArray[np.bool_], SPN]:
    """A model of many small trees, of which every fourth is for validation."""
    batch = GraphBatch.of(trees(count, 0))
    validation = batch.member % 4 == 3
    settings = {**QUICK, "scaling": "raw", "dropout": 0.0, "input_dropout": 0.0, **options}
    return batch.graph, validation, SPN(**settings).fit(batch.graph, validation)


def own_field(model: SPN, graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """theta (nodes, classes), and W of every edge once."""
    theta, W = model._potentials(graph)
    return theta[:, 0], W


def test_potentials_are_those_of_the_formula():
    logits = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(0))
    for g, c in ((1.0, 1.0), (0.5, 0.1)):
        T = (g * logits).flatten(1).softmax(dim=1).view(4, 3, 3)
        expected = T.log() - c * (T.sum(dim=2, keepdim=True).log() + T.sum(dim=1, keepdim=True).log())
        torch.testing.assert_close(edge_potentials(logits, g, c), expected)
    flat = edge_potentials(logits, 0.0, 1.0)
    torch.testing.assert_close(flat, torch.zeros(4, 3, 3), atol=1e-6, rtol=0)  # nodes are independent


def test_true_marginals_make_the_true_field_of_a_tree():
    edges = Edges(random_tree(6, 0))
    W, theta = random_edge_matrices(edges, 3, 0), random_theta(6, 1, 3, 0)
    found, log_p = labellings_and_energies(edges, theta[:, 0], W, {})
    tau = torch.from_numpy(marginals_of(found, log_p, 3))
    chosen = once(edges).numpy()
    cells = (found[:, edges.start[chosen]] * 3 + found[:, edges.end[chosen]]).T
    pairs = np.stack([np.bincount(cell, weights=np.exp(log_p), minlength=9).reshape(3, 3) for cell in cells])
    again = labellings_and_energies(edges, tau.log(), edge_potentials(torch.from_numpy(pairs).log(), 1.0, 1.0), {})
    np.testing.assert_allclose(again[1], log_p, atol=1e-6)


def test_logits_of_a_pair_do_not_depend_on_its_direction():
    graph, _, model = forest_model()
    edges = edges_of(graph)
    s, t = edges.leaves, edges.arrives
    forth, back = (model._networks.edge(model._tensors(graph), i, j) for i, j in ((s, t), (t, s)))
    torch.testing.assert_close(forth, back.transpose(1, 2))
    assert forth.shape == (len(edges), 3, 3) and forth.std(dim=0).max() > 0.01


def test_the_gradient_is_that_of_the_exact_likelihood_of_some_labels():
    edges, labels = Edges(random_tree(5, 3)), {0: 1, 3: 2, 4: 0}
    W, theta = random_edge_matrices(edges, 3, 3), random_theta(5, 1, 3, 3)
    theta.requires_grad_(), W.requires_grad_()
    moments = Moments(edges, known_labels(labels, 5, 3))
    got = torch.autograd.grad(moments.surrogate(theta, W), [theta, W])

    def negative_log_likelihood(theta: torch.Tensor, W: torch.Tensor) -> float:
        found, log_p = labellings_and_energies(edges, theta.detach()[:, 0], W.detach(), {})
        agree = np.all([found[:, i] == label for i, label in labels.items()], axis=0)
        return -np.logaddexp.reduce(log_p[agree]) / len(labels)

    for k, part in enumerate((theta, W)):
        direction = torch.randn(part.shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
        values = []
        for sign in (1, -1):
            moved = [theta.double(), W.double()]
            moved[k] = moved[k] + sign * 1e-4 * direction
            values.append(negative_log_likelihood(*moved))
        assert (values[0] - values[1]) / 2e-4 == pytest.approx(float((got[k] * direction).sum()), abs=1e-3)


def test_components_without_a_training_label_have_no_gradient():
    edges = Edges(graph_of([(0, 1), (2, 3), (3, 4)], 5))
    theta, W = random_theta(5, 1, 3, 0).requires_grad_(), random_edge_matrices(edges, 3, 0).requires_grad_()
    by_theta, by_W = torch.autograd.grad(Moments(edges, known_labels({0: 1}, 5, 3)).surrogate(theta, W), [theta, W])
    here = torch.from_numpy(edges.start)[once(edges)] < 2
    assert (by_theta[2:] == 0).all() and (by_W[~here] == 0).all() and by_theta[:2].abs().max() > 0.01


def test_the_likelihood_of_validation_labels_is_exact_on_a_tree():
    edges, y_train = Edges(random_tree(6, 4)), np.full(6, UNKNOWN)
    W, theta = random_edge_matrices(edges, 3, 4), random_theta(6, 1, 3, 4)
    y = np.array([0, 2, 1, 1, 0, 2])
    found, log_p = labellings_and_energies(edges, theta[:, 0], W, {})
    expected = log_p[(found == y).all(axis=1)][0] / 6
    for by, right in (("accuracy", 6), ("graph_accuracy", 1)):
        score = Validation(edges, y_train, y, by, 3).score(theta, W)  # type: ignore[arg-type]
        assert score.log_likelihood == pytest.approx(expected, abs=1e-3) and len(score.right) == right
        best = found[log_p.argmax()] == y
        np.testing.assert_array_equal(score.right, best if by == "accuracy" else [best.all()])


def test_graph_accuracy_is_asked_component_by_component():
    edges = Edges(graph_of([(0, 1), (2, 3)], 6))
    theta = torch.eye(3)[torch.tensor([0, 0, 1, 1, 2, 2])].unsqueeze(1)
    W, y_train = torch.zeros(2, 3, 3), np.array([UNKNOWN] * 5 + [2])
    y = np.array([0, 1, 1, 1, 2, UNKNOWN])
    by_node = Validation(edges, y_train, y, "accuracy", 3).score(theta, W)
    by_graph = Validation(edges, y_train, y, "graph_accuracy", 3).score(theta, W)
    assert by_node.right.tolist() == [True, False, True, True, True]
    assert sorted(by_graph.right) == [False, True, True] and by_graph.accuracy == pytest.approx(2 / 3)


def test_of_fields_that_are_about_as_right_the_most_likely_is_taken():
    each = np.arange(100)
    scores = [Score(each < right, each, value) for right, value in ((80, -3.0), (78, -1.0), (60, 0.0))]
    assert best_of(scores) == 1
    # where the nodes of a component go wrong together, twenty of them are as little a proof as one
    together = [Score(score.right, each // 20, score.log_likelihood) for score in scores]
    assert best_of(together) == 2
    assert scores[1].behind(scores[0]) == pytest.approx(2**0.5) and scores[0].behind(scores[0]) == 0


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_clusters_are_told_apart(backbone: str):
    task = clusters()
    model = fitted(task, backbone=backbone)
    assert accuracy(model.predict_proba(**OWN).argmax(axis=1), task.truth, task.test) >= 0.8
    answer = model._answer(task.graph.with_labels(np.where(task.train, task.truth, UNKNOWN)), clamp_known=False)
    assert accuracy(answer, task.truth, task.test) >= 0.8


def test_its_answers_are_those_of_its_field():
    _, _, model = forest_model()
    tree, labels = tree_of(6, 500), {0: 2, 4: 1}
    assert model.g_ > 0
    known = {tree.ids[i].item(): "abc"[c] for i, c in labels.items()}
    asked = tree.with_labels(np.full(6, UNKNOWN))
    theta, W = own_field(model, tree)
    found, log_p = labellings_and_energies(edges_of(tree), theta, W, labels)
    np.testing.assert_allclose(model.predict_proba(asked, known), marginals_of(found, log_p, 3), atol=1e-3)
    assert model.predict(asked, known).tolist() == ["abc"[c] for c in found[log_p.argmax()]]
    samples = np.vectorize("abc".index)(model.sample(20_000, asked, known, seed=1))
    powers = 3 ** np.arange(6)
    frequency = np.bincount(samples @ powers, minlength=3**6)[found @ powers] / len(samples)
    assert frequency.sum() == pytest.approx(1) and np.abs(frequency - np.exp(log_p)).max() < 0.018


def test_what_is_learned_couples_neighbours():
    # few trees, but H is strong: given a label, its neighbour is most often what H says
    _, _, model = forest_model()
    pair = replace(graph_of([(0, 1)], 2), x=np.zeros((2, 3), dtype=np.float32))
    given_b = model.predict_proba(pair, {0: "b"})[1]
    assert given_b.argmax() == 2 and model.predict_proba(pair, {0: "a"})[1].argmax() == 0


def test_permuted_nodes_have_permuted_answers():
    graph, _, model = forest_model()
    asked = graph.with_labels(np.where(np.arange(graph.num_nodes) % 3 == 0, graph.y, UNKNOWN))
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    ends = np.sort(np.argsort(order)[graph.edge_index], axis=0)
    assert graph.x is not None
    turned = replace(asked, edge_index=ends, x=graph.x[order], y=asked.y[order])
    np.testing.assert_allclose(model.predict_proba(turned), model.predict_proba(asked)[order], atol=1e-4)
    np.testing.assert_array_equal(model.predict(turned), model.predict(asked)[order])


def test_a_saved_model_answers_the_same(tmp_path):
    _, _, model = forest_model()
    model.save(tmp_path / "model")
    loaded = Estimator.load(tmp_path / "model")
    assert isinstance(loaded, SPN) and (loaded.g_, loaded.c_) == (model.g_, model.c_)
    tree = tree_of(7, 600).with_labels(np.array([1] + [UNKNOWN] * 6))
    np.testing.assert_array_equal(loaded.predict_proba(tree), model.predict_proba(tree))
    np.testing.assert_array_equal(loaded.sample(3, tree, seed=2), model.sample(3, tree, seed=2))
    np.testing.assert_array_equal(np.concatenate(loaded.predict()), np.concatenate(model.predict()))


def test_graphs_without_edges_have_the_node_network_alone():
    x = np.eye(3)[np.arange(30) % 3] + 0.1 * np.random.default_rng(0).normal(size=(30, 3))
    y = ["abc"[k % 3] if k < 20 else None for k in range(30)]
    graph = Graph.build(np.zeros((0, 2), int), num_nodes=30, x=x, y=y)
    model = SPN(**QUICK).fit(graph, validation=np.arange(30) // 5 == 3)
    assert model.g_ == 0 and model.predict().tolist() == ["abc"[k % 3] for k in range(30)]
    node = model._networks.node(model._tensors(graph)).softmax(dim=1).numpy()
    np.testing.assert_allclose(model.predict_proba(clamp_known=False), node, atol=1e-6)
    assert model.sample(4).shape == (4, 30)
    _, _, coupled = forest_model()
    alone = replace(graph_of([], 2), x=np.zeros((2, 3), dtype=np.float32))
    assert coupled.predict(alone).shape == (2,) and coupled.sample(5, alone).shape == (5, 2)


def test_edges_without_two_training_labels_have_no_coupling():
    # on a path every second node is labelled
    y = ["ab"[k // 10] if k % 2 else None for k in range(20)]
    x = np.arange(20)[:, None] >= np.array([0, 10])
    path = Graph.build([(k, k + 1) for k in range(19)], x=x.astype(float), y=y)
    model = SPN(**QUICK).fit(path, validation=[3, 13])
    node = model._networks.node(model._tensors(path)).softmax(dim=1).numpy()
    assert model.g_ == 0
    np.testing.assert_allclose(model.predict_proba(clamp_known=False), node, atol=1e-5)


def test_without_validation_labels_the_potentials_are_those_of_the_released_code():
    task = clusters()
    model = SPN(**QUICK).fit(task.graph.with_labels(np.where(task.train, task.truth, UNKNOWN)))
    assert (model.g_, model.c_) == (1.0, 0.1)
    assert accuracy(model.predict_proba(**OWN).argmax(axis=1), task.truth, task.test) >= 0.7


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted, epochs=20)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_are_never_learned_from(monkeypatch):
    graph, validation, _ = forest_model()
    poisoned = graph.with_labels(np.where(validation, (graph.y + 1) % 3, graph.y))
    seen: list[list[torch.Tensor]] = []
    learned = spn.F.cross_entropy
    monkeypatch.setattr(spn.F, "cross_entropy", lambda *a: seen[-1].append(a[1].clone()) or learned(*a))
    monkeypatch.setattr(spn, "Moments", lambda edges, known: seen[-1].append(known) or Moments(edges, known))
    for labelled in (graph, poisoned):
        seen.append([])
        SPN(**{**QUICK, "epochs": 3, "evaluate_every": 1}).fit(labelled, validation)
    assert len(seen[0]) == len(seen[1]) == 2 * 3 + 1
    assert all(torch.equal(a, b) for a, b in zip(*seen))
    expected = graph.y[~validation]
    np.testing.assert_array_equal(seen[0][0], expected)
    np.testing.assert_array_equal(seen[0][-1].sum(dim=(1, 2)), ~validation)
    pairs = graph.edge_index[:, (~validation)[graph.edge_index].all(axis=0)]
    assert sorted(seen[0][3].tolist()) == sorted((3 * graph.y[pairs[0]] + graph.y[pairs[1]]).tolist())


def test_validation_labels_only_select():
    graph, validation, _ = forest_model()
    # with one evaluation of each network and one field there is nothing to select
    poisoned = graph.with_labels(np.where(validation, (graph.y + 1) % 3, graph.y))
    single = {**QUICK, "epochs": 5, "evaluate_every": 5, "refinement_epochs": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spn, "SHARPNESS", (1.0,))
        patch.setattr(spn, "CORRECTIONS", (1.0,))
        fits = [SPN(**single).fit(g, validation) for g in (graph, poisoned)]
    answers = [np.concatenate(model.predict_proba(**OWN)) for model in fits]
    np.testing.assert_array_equal(*answers)


def test_refinement_is_kept_only_where_validation_gets_better():
    graph, validation, _ = forest_model()
    asked = graph.with_labels(np.where(validation, UNKNOWN, graph.y))
    edges, y_train = edges_of(graph), asked.y
    y = np.where(validation, graph.y, UNKNOWN)
    scores = []
    for lr in (0.0, 0.003, 10.0):
        model = forest_model(epochs=5, refinement_epochs=60, refinement_lr=lr)[2]  # much is left to be learned
        scores.append(Validation(edges, y_train, y, "accuracy", 3).score(*model._potentials(graph)))
    none, some, absurd = scores
    assert some.log_likelihood > none.log_likelihood + 0.001 and some.accuracy >= none.accuracy
    assert absurd.log_likelihood >= none.log_likelihood and absurd.accuracy >= none.accuracy


def test_graphs_can_be_selected_by():
    graph, validation, model = forest_model(select_by="graph_accuracy")
    member = GraphBatch.of(trees(40, 0)).member
    asked = graph.with_labels(np.where(validation, UNKNOWN, graph.y))
    answer = model._answer(asked)
    y = np.where(validation, graph.y, UNKNOWN)
    score = Validation(edges_of(graph), asked.y, y, "graph_accuracy", 3).score(*model._potentials(graph))
    assert score.accuracy == graph_accuracy(answer, graph.y, validation, member)


@pytest.mark.parametrize(
    "wrong", [{"backbone": "gnc"}, {"refinement_epochs": -1}, {"select_by": "luck"}, {"refinement_lr": -1.0}]
)
def test_impossible_options_are_explained(wrong: dict[str, Any]):
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(clusters(), **wrong)


def test_it_is_a_method():
    method = METHODS["spn"].build(3, select_by="graph_accuracy")
    assert isinstance(method, SPN) and method.seed == 3


@pytest.mark.slow
def test_marginals_of_fresh_trees_are_near_the_exact_ones():
    batch = GraphBatch.of([*trees(200, 0), *trees(60, 1000)])
    model = SPN(scaling="raw", dropout=0.0, input_dropout=0.0, weight_decay=0.005)
    model.fit(batch.graph, batch.member >= 200)
    errors, blind = [], []
    for tree, asked, shown, expected in partly_known_trees():
        errors.append(np.abs(model.predict_proba(asked) - expected)[~shown])
        without = own_field(model, tree)[0].softmax(dim=-1).numpy()
        blind.append(np.abs(without - expected)[~shown])
    assert np.concatenate(errors).mean() <= 0.05 and np.concatenate(blind).mean() >= 0.12
