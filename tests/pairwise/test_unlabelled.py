"""Graphs and components of which no label is known."""

import numpy as np
import pytest
import torch

from dpmsnc import Graph, NodeClassifier
from dpmsnc.baselines.crf import CRF
from dpmsnc.baselines.other_graphs import continues, two_halves
from dpmsnc.config import Training
from dpmsnc.graph import UNKNOWN

LOG_3 = np.log(3)
BRIEF = Training(steps=10, evaluate_every=5)


def clusters(seed, known=0.4, spread=None, n=120):
    """Three classes of nodes that mostly know their own, with features around a mean of each class if asked for."""
    rng = np.random.default_rng(seed)
    y, edges = rng.integers(3, size=n), set()
    while len(edges) < 3 * n:
        i = rng.integers(n)
        j = rng.choice(np.flatnonzero((y == y[i]) == (rng.random() < 0.85)))
        if i != j:
            edges.add((int(min(i, j)), int(max(i, j))))
    x = None if spread is None else (2 * np.eye(3)[y] + spread * rng.normal(size=(n, 3))).astype(np.float32)
    given = [f"c{label}" if rng.random() < known else None for label in y]
    return Graph.build(sorted(edges), num_nodes=n, x=x, y=given, classes=["c0", "c1", "c2"]), y


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@pytest.fixture(scope="module")
def fitted():
    """A pairwise model of a graph without features, whose couplings are strong, and a network that corrects it."""
    graph, _ = clusters(0)
    crf = CRF().fit(graph, validation=0.2)
    return crf, NodeClassifier(initialiser=crf, training=BRIEF).fit(graph, validation=0.2)


@pytest.fixture(scope="module", params=["crf", "dpm-snc"])
def model(request, fitted):
    return fitted[request.param != "crf"]


def test_a_new_graph_without_labels_has_the_shares_of_classes_as_marginals(model):
    new, y = clusters(1, known=0)
    assert log_loss(model.predict_proba(new), y) < LOG_3 + 0.1


def test_samples_of_a_new_graph_without_labels_change_their_labels_together(model):
    new, _ = clusters(1, known=0)
    shares = (model.sample(30, new, seed=0)[:, :, None] == model.classes_).mean(axis=1)
    assert shares.max(axis=1).mean() > 0.6 and len(set(shares.argmax(axis=1))) == 3


def test_a_new_graph_with_labels_is_answered_by_them(model):
    new, y = clusters(1, known=0.4)
    assert (model.predict(new) == model.classes_[y])[~new.known].mean() > 0.75


@pytest.mark.slow
def test_a_component_without_labels_is_told_nothing_by_the_rest_of_the_graph():
    graph, _ = clusters(0)
    both = np.concatenate([graph.edge_index, graph.edge_index + graph.num_nodes], axis=1)
    labels = [None if k == UNKNOWN else graph.classes[k] for k in graph.y]
    crf = CRF().fit(Graph.build(both.T, num_nodes=240, y=labels + [None] * 120), validation=None)
    p = crf.predict_proba()
    assert p[120:].max() < 0.6 and p[:120].max(axis=1).mean() > 0.8
    shares = (crf.sample(20, seed=0)[:, 120:, None] == crf.classes_).mean(axis=1)
    assert shares.max(axis=1).mean() > 0.7 and len(set(shares.argmax(axis=1))) == 3


@pytest.mark.slow
def test_features_tell_the_classes_of_a_new_graph_without_labels():
    crf = CRF().fit(clusters(0, spread=1.0)[0], validation=0.2)
    new, y = clusters(1, known=0, spread=1.0)
    p = crf.predict_proba(new)
    assert (p.argmax(axis=1) == y).mean() > 0.9 and log_loss(p, y) < 0.3
    assert (crf.sample(4, new, seed=0) == crf.classes_[y]).mean() > 0.85


def test_a_saved_model_answers_for_new_graphs_as_before(model, tmp_path):
    new, _ = clusters(1, known=0)
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    np.testing.assert_array_equal(loaded.sample(3, new, seed=1), model.sample(3, new, seed=1))


def test_the_fitted_graph_is_answered_by_the_model_itself_also_where_it_has_changed(fitted):
    crf = fitted[0]
    graph = crf.graph_
    grown = graph.grown([500, 501], [(500, 0), (501, 500)])
    edges, classes = graph.edge_index.T, graph.classes
    backwards = Graph.build(edges, ids=graph.ids[::-1].tolist(), classes=classes)
    fewer = Graph.build(edges[3:], num_nodes=120, classes=classes)
    for asked in (graph, graph.with_labels(np.full(120, UNKNOWN)), grown, backwards, fewer):
        assert crf._for(asked) is crf
    for asked in (clusters(1)[0], graph.subgraph(graph.known)):
        assert crf._for(asked) is crf.elsewhere_


def test_nodes_of_the_same_name_with_other_features_are_others():
    path = [(k, k + 1) for k in range(9)]
    graph, other = (Graph.build(path, x=np.eye(10, 2, k, dtype=np.float32)) for k in (0, 1))
    assert continues(graph, graph) and not continues(other, graph)


def test_halves_have_labels_of_every_class():
    y = np.array([0] * 4 + [1] * 6 + [UNKNOWN] * 10)
    graph = Graph.build([(i, i + 1) for i in range(19)], num_nodes=20, y=y.tolist())
    first, second = two_halves(graph, y, 0)
    assert (first ^ second).all()
    assert [np.bincount(y[half & (y >= 0)]).tolist() for half in (first, second)] == [[2, 3], [2, 3]]
    assert two_halves(graph, np.where(np.arange(20) % 4 == 0, y, UNKNOWN), 0) is None


def test_where_no_couplings_are_wanted_there_are_none_elsewhere():
    assert CRF(coupling="none").fit(clusters(0)[0]).elsewhere_ is None


def test_a_component_with_a_label_is_answered_as_ever(fitted):
    crf = fitted[0]
    both, _ = clusters(1, known=0.4)
    before = crf.predict_proba(both)
    edges = np.concatenate([both.edge_index, both.edge_index + 120], axis=1)
    labels = [None if k == UNKNOWN else both.classes[k] for k in both.y]
    beside = Graph.build(edges.T, num_nodes=240, y=labels + [None] * 120)
    np.testing.assert_allclose(crf.predict_proba(beside)[:120], before, atol=1e-3)
    assert crf.predict_proba(beside)[120:].max() < 0.9


def test_progressive_samples_keep_the_labels_that_they_begin_with(fitted):
    new, _ = clusters(1, known=0)
    _, model = fitted
    once = model.sample(2, new, seed=0)
    model.progressive_ = 0.5
    np.testing.assert_array_equal(model.sample(2, new, seed=0), once)
    model.progressive_ = 0.0


def test_at_temperature_0_components_without_labels_have_their_most_probable_labels(fitted):
    new, _ = clusters(1, known=0)
    crf, model = fitted
    denoiser = crf.asked_denoiser(model._adapted(new))
    drawn = model.sample(1, new, temperature=0)[0]
    np.testing.assert_array_equal(drawn, model.classes_[model.predict_proba(new).argmax(axis=1)])
    assert torch.equal(denoiser.unlabelled.rows, torch.ones(120, dtype=torch.bool))
