import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import APPNP, MLP
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy
from dpmsnc.nn.operator import GraphTensors
from random_graphs import random_graph

QUICK = {"epochs": 60, "hidden_channels": 16}


def fitted(task, **options):
    return APPNP(**{**QUICK, **options}).fit(task.graph, task.validation)


def right(model, task):
    return accuracy(model.predict_proba(**OWN).argmax(axis=1), task.truth, task.test)


@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_clusters_are_told_apart_better_than_by_features_alone(features):
    task = clusters(features=features)
    model = fitted(task)
    np.testing.assert_allclose(model.predict_proba(**OWN).sum(axis=1), 1, atol=1e-5)
    assert right(model, task) >= 0.8
    assert right(model, task) > right(MLP(**QUICK).fit(task.graph, task.validation), task) + 0.1


def test_propagation_equals_dense_power_iteration():
    graph = random_graph()
    A = graph.adjacency.toarray().astype(float) + np.eye(20)
    S = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    H = np.random.default_rng(0).normal(size=(20, 3))
    Z = H
    for _ in range(7):
        Z = 0.8 * S @ Z + 0.2 * H
    h = torch.from_numpy(H).float().requires_grad_()
    found = APPNP(num_layers=7, alpha=0.2)._propagation(GraphTensors.of(graph))(h)
    np.testing.assert_allclose(found.detach(), Z, atol=1e-5)
    # many more steps come to the closed form, and so does the gradient, since S is symmetric
    exact = 0.2 * np.linalg.inv(np.eye(20) - 0.8 * S)
    found = APPNP(num_layers=100, alpha=0.2)._propagation(GraphTensors.of(graph))(h)
    np.testing.assert_allclose(found.detach(), exact @ H, atol=1e-5)
    np.testing.assert_allclose(torch.autograd.grad(found[4, 1], h)[0][:, 1], exact[4], atol=1e-5)


def test_without_propagation_it_is_the_mlp():
    task = clusters()
    mlp = MLP(**QUICK).fit(task.graph, task.validation).predict_proba(**OWN)
    np.testing.assert_array_equal(fitted(task, num_layers=0).predict_proba(**OWN), mlp)
    np.testing.assert_allclose(fitted(task, alpha=1.0).predict_proba(**OWN), mlp, atol=1e-4)


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_only_select():
    task = clusters()
    swapped = task.graph.with_labels(np.where(task.validation, (task.graph.y + 1) % 3, task.graph.y))
    once = [APPNP(epochs=1).fit(graph, task.validation).predict_proba(**OWN) for graph in (task.graph, swapped)]
    np.testing.assert_array_equal(*once)
    best = fitted(task, evaluate_every=1).predict_proba(**OWN).argmax(axis=1)
    last = fitted(task, evaluate_every=60).predict_proba(**OWN).argmax(axis=1)
    assert accuracy(best, task.truth, task.validation) >= accuracy(last, task.truth, task.validation)


@pytest.mark.parametrize("settings", [{"alpha": 1.5}, {"num_layers": -1}, {"scaling": "big"}, {"dropout": 1.0}])
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        fitted(clusters(), **settings)
