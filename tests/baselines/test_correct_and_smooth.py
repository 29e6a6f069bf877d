import numpy as np
import pytest
import torch
from torch_geometric.nn import CorrectAndSmooth as Reference

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import GNN, MLP, CorrectAndSmooth
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.metrics import accuracy
from random_graphs import both_directions

QUICK = {"epochs": 60, "hidden_channels": 16}
BASE = {**QUICK, "weight_decay": 0.001}


def fitted(task, backbone="mlp", **options):
    return CorrectAndSmooth(backbone, **{**QUICK, **options}).fit(task.graph, task.validation)


def right(model, task):
    return accuracy(model.predict_proba(**OWN).argmax(axis=1), task.truth, task.test)


def test_both_bases_tell_clusters_apart_and_propagation_helps_the_one_without_a_graph():
    task = clusters()
    for backbone in ("mlp", "gcn", "gat"):
        model = fitted(task, backbone)
        np.testing.assert_allclose(model.predict_proba(**OWN).sum(axis=1), 1, atol=1e-6)
        assert right(model, task) >= 0.75
    assert right(fitted(task), task) > right(MLP(**BASE).fit(task.graph, task.validation), task) + 0.1


@pytest.mark.parametrize("autoscale", [True, False])
@pytest.mark.parametrize("backbone", ["mlp", "gcn"])
def test_it_equals_pyg_called_by_hand(backbone, autoscale):
    task = clusters()
    base = MLP(**BASE) if backbone == "mlp" else GNN("gcn", **BASE)
    Z = torch.from_numpy(base.fit(task.graph, task.validation).predict_proba(**OWN))
    mask = torch.from_numpy(task.train)
    reference = Reference(20, 0.7, 20, 0.9, autoscale, 1.3)
    Z = reference(Z, torch.from_numpy(task.truth)[mask], mask, both_directions(task.graph))
    options = {"correction_alpha": 0.7, "smoothing_alpha": 0.9, "autoscale": autoscale, "scale": 1.3}
    found = fitted(task, backbone, propagations=20, **options).predict_proba(**OWN)
    np.testing.assert_allclose(found, Z / Z.sum(dim=1, keepdim=True), atol=1e-6)


def test_smoothing_equals_dense_propagation():
    task = clusters()
    A = task.graph.adjacency.toarray().astype(float)
    degree = np.maximum(A.sum(axis=1), 1)
    S = A / np.sqrt(np.outer(degree, degree))
    Z = MLP(**BASE).fit(task.graph, task.validation).predict_proba(**OWN)
    Z[task.train] = np.eye(3)[task.truth[task.train]]
    start = Z.copy()
    for _ in range(10):
        Z = np.clip(0.6 * S @ Z + 0.4 * start, 0, 1)
    found = fitted(task, correct=False, propagations=10, smoothing_alpha=0.6).predict_proba(**OWN)
    np.testing.assert_allclose(found, Z / Z.sum(axis=1, keepdims=True), atol=1e-5)


def test_without_propagation_training_nodes_are_known_and_the_others_as_before():
    task = clusters()
    base = MLP(**BASE).fit(task.graph, task.validation).predict_proba(**OWN)
    found = fitted(task, propagations=0, correct=False).predict_proba(**OWN)
    np.testing.assert_allclose(found[~task.train], base[~task.train], atol=1e-6)
    np.testing.assert_array_equal(found[task.train], np.eye(3)[task.truth[task.train]])


@pytest.mark.parametrize("autoscale", [True, False])
def test_a_base_without_error_and_lonely_nodes_get_probabilities(autoscale):
    graph = Graph.build([(0, 1), (2, 3)], num_nodes=5, y=["a", None, "b", None, None])
    Z = np.array([[1, 0], [0.3, 0.7], [0, 1], [0.6, 0.4], [0.2, 0.8]])
    found = CorrectAndSmooth(autoscale=autoscale)._spread(Z, graph, graph.y)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_allclose(found[4], Z[4], atol=1e-6)
    assert found.argmax(axis=1).tolist() == [0, 0, 1, 1, 1]


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_are_not_propagated():
    task = clusters()
    swapped = task.graph.with_labels(np.where(task.validation, (task.graph.y + 1) % 3, task.graph.y))
    # with a single epoch there is nothing to select
    once = [
        CorrectAndSmooth(epochs=1).fit(graph, task.validation).predict_proba(**OWN) for graph in (task.graph, swapped)
    ]
    np.testing.assert_array_equal(*once)


@pytest.mark.parametrize(
    "settings", [{"smoothing_alpha": 1.5}, {"backbone": "mpl"}, {"num_layers": 3}, {"propagations": -1}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        fitted(clusters(), **settings)


def test_labels_of_the_asked_graph_are_propagated_on_it():
    task, other = clusters(), clusters(size=15, seed=4)
    model = fitted(task)
    Z = model.base_.predict_proba(other.graph, clamp_known=False)
    expected = model._spread(Z, other.graph, other.graph.y)
    np.testing.assert_array_equal(model.predict_proba(other.graph, clamp_known=False), expected)
    blank = other.graph.with_labels(np.full(45, -1))
    assert np.isfinite(model.predict_proba(blank)).all() and (model.predict_proba(blank) != expected).any()
