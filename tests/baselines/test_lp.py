import numpy as np
import pytest
import torch
from torch_geometric.nn import LabelPropagation as PyGLabelPropagation

from clusters import OWN
from dpmsnc.baselines import LabelPropagation
from dpmsnc.data import Task, benchmarks, grid_scattered, load
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.metrics import accuracy, subgraph_accuracy
from dpmsnc.targets import OneClass

needs_data = pytest.mark.skipif(
    not benchmarks.data_folder().joinpath("cora.npz").is_file(), reason="no data sets: set DPMSNC_DATA to their folder"
)


@pytest.fixture(params=range(3))
def graph(request):
    """Random, with a pair and a single node that no label reaches."""
    rng = np.random.default_rng(request.param)
    i, j = np.triu_indices(37, 1)
    chosen = rng.random(len(i)) < 0.1
    edges = np.concatenate([np.stack([i[chosen], j[chosen]]), [[37], [38]]], axis=1)
    y = np.where(rng.random(40) < 0.3, rng.integers(0, 3, 40), -1)
    y[:6], y[37:] = [0, 1, 2, 2, 2, 2], -1
    return Graph(num_nodes=40, edge_index=edges, x=None, y=y, target=OneClass(("a", "b", "c")), ids=np.arange(40))


def dense_parts(graph):
    A = graph.adjacency.toarray().astype(float)
    scale = np.diag(1 / np.sqrt(np.maximum(A.sum(axis=1), 1)))
    Y0 = np.zeros((graph.num_nodes, graph.num_classes))
    Y0[graph.known, graph.y[graph.known]] = 1
    return scale @ A @ scale, Y0


def normalised(F):
    return F / F.sum(axis=1, keepdims=True)


def test_restarted_propagation_converges_to_its_closed_form(graph):
    S, Y0 = dense_parts(graph)
    exact = np.linalg.solve(np.eye(40) - 0.6 * S, 0.4 * Y0)
    # the closed form is within [0, 1] here, so that clipping plays no part
    assert exact.max() <= 1
    found = LabelPropagation(num_layers=200, alpha=0.6).fit(graph).predict_proba(**OWN)
    reached = exact.any(axis=1)
    np.testing.assert_allclose(found[reached], normalised(exact[reached]), atol=1e-12)


def test_clamped_propagation_converges_to_the_harmonic_solution(graph):
    S, Y0 = dense_parts(graph)
    U, L = ~graph.known, graph.known
    exact = Y0.copy()
    exact[U] = np.linalg.pinv(np.eye(U.sum()) - S[np.ix_(U, U)]) @ S[np.ix_(U, L)] @ Y0[L]
    found = LabelPropagation(num_layers=3000, clamp=True).fit(graph).predict_proba(**OWN)
    reached = exact.sum(axis=1) > 1e-9
    np.testing.assert_allclose(found[reached], normalised(exact[reached]), atol=1e-6)
    assert (found.argmax(axis=1)[graph.known] == graph.y[graph.known]).all()


@pytest.mark.parametrize("num_layers, alpha", [(1, 0.5), (10, 0.5), (10, 0.9)])
def test_a_finite_number_of_steps_equals_pyg(graph, num_layers, alpha):
    edges = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
    F = PyGLabelPropagation(num_layers, alpha)(
        torch.from_numpy(np.maximum(graph.y, 0)), edges, mask=torch.from_numpy(graph.known)
    ).numpy()
    found = LabelPropagation(num_layers, alpha).fit(graph).predict_proba(**OWN)
    reached = F.any(axis=1)
    np.testing.assert_allclose(found[reached], normalised(F[reached]), atol=1e-5)


def test_nodes_out_of_reach_get_the_frequencies_of_training_labels(graph):
    found = LabelPropagation().fit(graph)
    prior = np.bincount(graph.y[graph.known]) / graph.known.sum()
    np.testing.assert_allclose(found.predict_proba(**OWN)[37:], np.tile(prior, (3, 1)))
    assert found.predict()[38] == graph.classes[prior.argmax()]
    np.testing.assert_allclose(found.predict_proba(**OWN).sum(axis=1), 1)


def test_names_come_back_and_validation_labels_are_not_used(graph):
    held_out = graph.known & (np.arange(40) >= 6)
    fitted = LabelPropagation(clamp=True).fit(graph, validation=held_out)
    without = LabelPropagation(clamp=True).fit(graph.with_labels(np.where(held_out, -1, graph.y)))
    np.testing.assert_array_equal(fitted.predict_proba(**OWN), without.predict_proba(**OWN))
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.predict()[:6].tolist() == ["a", "b", "c", "c", "c", "c"]


def test_poisoned_test_labels_change_nothing():
    task = grid_scattered(columns=30)
    poisoned = np.where(task.test, 1 - task.truth, task.truth)
    other = Task.hiding("poisoned", task.graph.with_labels(poisoned), task.train, task.validation, task.test)
    answers = [LabelPropagation().fit(t.graph, t.validation).predict_proba(**OWN) for t in (task, other)]
    assert (other.truth != task.truth).any()
    np.testing.assert_array_equal(*answers)


def test_on_another_graph_its_own_labels_spread():
    path = Graph.build([("a", "b"), ("b", "c")], ids=list("abc"), y=["red", None, "blue"])
    ring = Graph.build([(0, 1), (1, 2), (2, 3), (0, 3)], y=["blue", None, None, None], classes=["blue", "red"])
    model = LabelPropagation(clamp=True).fit(path)
    assert model.predict(ring).tolist() == ["blue"] * 4
    alone = LabelPropagation(clamp=True).fit(ring.reveal({2: "red"}))
    np.testing.assert_array_equal(model.predict_proba(ring, {2: "red"}), alone.predict_proba())
    # where no label is known, nodes get the class frequencies of the fit
    blank = model.predict_proba(ring.with_labels(np.full(4, -1)))
    np.testing.assert_allclose(blank, np.full((4, 2), 0.5))


def test_asking_before_fitting_is_explained():
    with pytest.raises(InputError, match=r"LabelPropagation is not fitted.*fit"):
        LabelPropagation().predict()


@needs_data
@pytest.mark.parametrize(
    "name, node, subgraph", [("cora", 68.1, 46.9), ("citeseer", 46.1, 29.9), ("pubmed", 69.1, 45.7)]
)
def test_public_splits_give_the_published_figures(name, node, subgraph):
    task = load(name)
    predicted = (
        LabelPropagation(num_layers=10, alpha=0.5).fit(task.graph, task.validation).predict_proba(**OWN).argmax(axis=1)
    )
    assert 100 * accuracy(predicted, task.truth, task.test) == pytest.approx(node, abs=0.05)
    assert 100 * subgraph_accuracy(predicted, task.truth, task.test, task.graph) == pytest.approx(subgraph, abs=0.05)
