from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import GRAND
from dpmsnc.baselines.grand import RandomPropagation, drop_nodes, inconsistency, mixed_orders
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.operator import GraphTensors

QUICK = {"epochs": 150, "num_layers": 3, "scaling": "unit"}


def fitted(task, **options):
    return GRAND(**{**QUICK, **options}).fit(task.graph, task.validation)


def dense_propagation(graph, orders):
    A = graph.adjacency.toarray().astype(float) + np.eye(graph.num_nodes)
    S = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    return sum(np.linalg.matrix_power(S, k) for k in range(orders + 1)) / (orders + 1)


@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_clusters_are_told_apart(features):
    task = clusters(features=features)
    proba = fitted(task).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.85


def test_propagation_equals_the_dense_polynomial_and_its_draws_average_to_inference():
    graph = clusters(size=15).graph
    tensors, P = GraphTensors.of(graph, dtype=torch.float64), dense_propagation(graph, 4)
    h = torch.randn(45, 1, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = mixed_orders(tensors.operator("gcn"), h, 4)
    np.testing.assert_allclose(found[:, 0], P @ h[:, 0].numpy(), atol=1e-12)
    draws = drop_nodes(h, 20000, 0.25, torch.Generator().manual_seed(1))
    whole = (draws != 0).all(dim=2)
    assert (whole | (draws == 0).all(dim=2)).all()  # nodes are dropped as a whole
    spread = mixed_orders(tensors.operator("gcn"), draws, 4)
    np.testing.assert_allclose(spread.mean(dim=1), 0.75 * P @ h[:, 0].numpy(), atol=0.02)


def test_spreading_the_hidden_layer_equals_spreading_the_features():
    graph = clusters(size=15).graph
    tensors = GraphTensors.of(graph, "rows")
    network = RandomPropagation(tensors.num_features, 3, GRAND(num_layers=3, drop_node=0.5))
    X = 0.5 * graph.x.toarray() / np.maximum(graph.x.toarray().sum(axis=1, keepdims=True), 1)
    W_1, b_1 = network.weight.detach().numpy(), network.bias.detach().numpy()
    hidden = np.maximum(dense_propagation(graph, 3) @ X @ W_1 + b_1, 0)
    expected = hidden @ network.head.weight.detach().numpy().T + network.head.bias.detach().numpy()
    found = network(tensors.operator("gcn"), network.expected(tensors.x))[:, 0]
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_thinned_features_average_to_the_features_with_their_gradient(features):
    graph = clusters(size=10, features=features).graph
    x = sp.diags_array(1 / np.sqrt((graph.x * graph.x).sum(axis=1))) @ graph.x
    tensors = GraphTensors.of(replace(graph, x=x.astype(np.float32)), "raw")
    network = RandomPropagation(24, 3, GRAND(augmentations=3000, drop_node=0.0, input_dropout=0.25))
    drawn = network.dropped(InputDropout(tensors.x), torch.Generator().manual_seed(0))
    exact = network.expected(tensors.x)
    np.testing.assert_allclose(drawn.detach().mean(dim=1), exact.detach()[:, 0], atol=0.03)
    upstream = torch.randn(30, 1, 32, generator=torch.Generator().manual_seed(1))
    gradients = [torch.autograd.grad((h * upstream).sum(dim=(0, 2)).mean(), network.weight)[0] for h in (drawn, exact)]
    assert (gradients[0] - gradients[1]).norm() < 0.05 * gradients[1].norm()


def test_consistency_pulls_towards_the_sharpened_mean_which_carries_no_gradient():
    p = torch.tensor([[[0.6, 0.4], [0.8, 0.2]]], requires_grad=True)
    z = torch.tensor([0.49, 0.09]) / 0.58
    loss = inconsistency(p, temperature=0.5)
    torch.testing.assert_close(loss, (p.detach() - z).square().sum(dim=-1).mean())
    torch.testing.assert_close(torch.autograd.grad(loss, p)[0], p.detach() - z)


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted, epochs=20)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


@pytest.mark.parametrize("wrong", [{"temperature": 0}, {"augmentations": 0}, {"drop_node": 1.0}, {"scaling": "none"}])
def test_impossible_options_are_explained(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(clusters(), **wrong)
