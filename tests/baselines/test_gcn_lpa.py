import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import GCNLPA
from dpmsnc.baselines.gcn_lpa import WeightedGraph, arrived_labels
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from random_graphs import random_graph

QUICK = {"epochs": 60, "hidden_channels": 16}


def fitted(task, **options):
    return GCNLPA(**{**QUICK, **options}).fit(task.graph, task.validation)


def weighted(like_gcn=True, spread=1.0, graph=None, symmetric=False):
    tensors = WeightedGraph(graph or random_graph(), "unit", like_gcn, symmetric)
    with torch.no_grad():
        tensors.w.copy_(spread * torch.randn(tensors.w.shape, generator=torch.Generator().manual_seed(0)))
    return tensors


def dense(tensors):
    return tensors.transition(torch.eye(tensors.graph.num_nodes)).detach().double().numpy()


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gat(attention_dropout=True)"])
def test_clusters_are_told_apart(backbone):
    task = clusters()
    proba = fitted(task, backbone=backbone).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


@pytest.mark.parametrize("like_gcn", [True, False])
def test_rows_sum_to_one_on_the_edges_and_on_self_loops(like_gcn):
    tensors = weighted(like_gcn, spread=3.0)
    A = dense(tensors)
    np.testing.assert_allclose(A.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(A > 0, tensors.graph.adjacency.toarray() + np.eye(20) > 0)
    i, j = (ends[5] for ends in reversed(tensors.directed_edges(loops=True)))
    k = int(tensors.edges.column[tensors.edges.row_start[i]])
    scores = dict(
        zip(zip(*(ends.tolist() for ends in reversed(tensors.directed_edges(loops=True)))), tensors.w[:, 0].tolist())
    )
    prior = (A.astype(bool).sum(axis=1)) ** -0.5 if like_gcn else np.ones(20)
    expected = prior[j] / prior[k] * np.exp(scores[int(i), int(j)] - scores[int(i), k])
    assert A[i, j] / A[i, k] == pytest.approx(expected, rel=1e-4)


def test_weights_of_zero_are_the_normalised_graph_and_a_plain_network():
    graph = random_graph()
    loops = graph.adjacency.toarray() + np.eye(20)
    S = loops / np.sqrt(np.outer(loops.sum(axis=1), loops.sum(axis=1)))
    A = dense(weighted(spread=0.0, graph=graph))
    np.testing.assert_allclose(A, S / S.sum(axis=1, keepdims=True), atol=1e-6)
    uniform = dense(weighted(like_gcn=False, spread=0.0, graph=graph))
    np.testing.assert_allclose(uniform, loops / loops.sum(axis=1, keepdims=True), atol=1e-6)
    for backbone in ("gat", "gat(attention_dropout=True)"):
        plain = MeanField(backbone, 6, 3, 16)
        network = GCNLPA(backbone, 16)._build(6, 3)
        network.load_state_dict(plain.state_dict())
        torch.testing.assert_close(network(weighted(False, 0.0, graph)), plain(GraphTensors.of(graph)))
        assert not torch.allclose(network(weighted(False, 1.0, graph)), network(weighted(False, 0.0, graph)))
        assert [conv.dropout for conv in network.backbone.convs] == [
            0.5 * (backbone == "gat(attention_dropout=True)")
        ] * 2


def test_symmetric_weights_are_divided_by_the_roots_of_both_row_sums():
    tensors = weighted(symmetric=True)
    target, source = (ends.tolist() for ends in reversed(tensors.directed_edges(loops=True)))
    W = np.zeros((20, 20))
    W[target, source] = np.exp(tensors.w[:, 0].detach().double().numpy())
    d = W.sum(axis=1)
    np.testing.assert_allclose(dense(tensors), W / np.sqrt(np.outer(d, d)), atol=1e-6)
    plain = GraphTensors.of(tensors.graph, "unit").operator("gcn")(torch.eye(20))
    np.testing.assert_allclose(dense(weighted(spread=0.0, symmetric=True)), plain.numpy(), atol=1e-6)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_normalisation_acts_on_the_labels_that_arrive_and_on_a_gcn_but_not_on_attention(backbone):
    rows, symmetric = (weighted(backbone == "gcn", symmetric=choice) for choice in (False, True))
    network = GCNLPA(backbone, 16)._build(rows.num_features, 3)
    assert torch.equal(network(rows), network(symmetric)) == (backbone == "gat")
    nodes, y = torch.tensor([0, 3, 5, 8]), torch.tensor([2, 0, 1, 1])
    T = [arrived_labels(tensors.transition, nodes, y, 3, 3, False) for tensors in (rows, symmetric)]
    assert not torch.allclose(*T)
    task = clusters()
    fits = [fitted(task, backbone=backbone, normalisation=name).predict_proba(**OWN) for name in ("rows", "symmetric")]
    assert abs(fits[0] - fits[1]).max() > 1e-4


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_labels_arrive_as_by_dense_powers(leave_one_out):
    tensors = weighted()
    nodes, y = torch.tensor([0, 3, 5, 8, 19]), torch.tensor([2, 0, 1, 1, 0])
    power = np.linalg.matrix_power(dense(tensors), 4)
    if leave_one_out:
        np.fill_diagonal(power, 0)
    expected = power[np.ix_(nodes, nodes)] @ np.eye(3)[y]
    found = arrived_labels(tensors.transition, nodes, y, 3, 4, leave_one_out)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-6)


def test_a_gcn_on_the_weighted_graph_equals_dense_products():
    tensors = weighted()
    network = GCNLPA("gcn", 16)._build(tensors.num_features, 3)
    A = torch.from_numpy(dense(tensors)).float()
    h = torch.from_numpy(
        tensors.graph.x.toarray() / np.maximum(np.sqrt((tensors.graph.x**2).sum(axis=1)), 1e-9)[:, None]
    )
    for conv in network.backbone.convs:
        h = torch.relu(A @ h.float() @ conv.weight + conv.bias)
    torch.testing.assert_close(network(tensors), network.head(h), atol=1e-5, rtol=1e-5)


def test_the_gradient_of_edges_is_that_of_the_dense_softmax():
    tensors = weighted()
    nodes, y = torch.tensor([0, 3, 5, 8]), torch.tensor([2, 0, 1, 1])

    def loss():
        return arrived_labels(tensors.transition, nodes, y, 3, 3, False).square().sum()

    (grad,) = torch.autograd.grad(loss(), tensors.w)
    for edge in (0, 7, 20):
        values = []
        for step in (0.01, -0.02):
            with torch.no_grad():
                tensors.w[edge] += step
                values.append(float(loss()))
        with torch.no_grad():
            tensors.w[edge] += 0.01
        assert float(grad[edge]) == pytest.approx((values[0] - values[1]) / 0.02, abs=2e-4)


def test_labels_pull_towards_edges_between_equals():
    task = clusters()
    tensors = WeightedGraph(task.graph, "unit", like_gcn=True)
    nodes = torch.from_numpy(np.flatnonzero(task.graph.known))
    y = torch.from_numpy(task.graph.y)[nodes]
    optimiser = torch.optim.Adam([tensors.w], lr=0.05)
    for _ in range(50):
        T = arrived_labels(tensors.transition, nodes, y, 3, 3, leave_one_out=True)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(T, y).backward()
        optimiser.step()
    source, target = tensors.directed_edges(loops=True)
    truth = torch.from_numpy(task.truth)
    within = (truth[source] == truth[target]) & (source != target)
    across = truth[source] != truth[target]
    w = tensors.w.detach()
    assert w[within].mean() > w[across].mean() + 0.1


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_only_select_and_the_label_term_matters():
    task = clusters()
    swapped = task.graph.with_labels(np.where(task.validation, (task.graph.y + 1) % 3, task.graph.y))
    once = [GCNLPA(epochs=1).fit(graph, task.validation).predict_proba(**OWN) for graph in (task.graph, swapped)]
    np.testing.assert_array_equal(*once)
    answers = [fitted(task, label_weight=weight, evaluate_every=60).predict_proba(**OWN) for weight in (0.0, 10.0)]
    assert np.abs(answers[0] - answers[1]).max() > 1e-3


@pytest.mark.parametrize("settings", [{"backbone": "sage"}, {"propagations": 0}, {"label_weight": -1.0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        fitted(clusters(), **settings)


def test_only_the_fitted_graph_has_edge_weights():
    task, other = clusters(), clusters(size=15, seed=4)
    model = fitted(task)
    assert model.edge_weights_.abs().max() > 0
    relabelled = task.graph.with_labels(np.full(task.graph.num_nodes, -1))
    np.testing.assert_array_equal(model.predict_proba(relabelled), model.predict_proba(**OWN))
    with pytest.raises(InputError, match="fit it on the other graph"):
        model.predict(other.graph)
