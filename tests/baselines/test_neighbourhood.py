"""Tables of neighbourhood features hold what they say, and their classifiers are scikit-learn's, kept as arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from clusters import OWN, clusters, poisoned
from dpmsnc import NodeClassifier
from dpmsnc.baselines import NeighbourhoodFeatures
from dpmsnc.baselines.neighbourhood import (
    LinearTable,
    completed,
    cross_validated,
    folds,
    log_degree,
    logistic,
    neighbour_mean,
    spread,
)
from dpmsnc.baselines.trees import Trees, boosted
from dpmsnc.config import Training
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import Graph

SETTINGS = [{"model": "linear"}, {"model": "trees", "num_trees": 5}, {"model": "auto", "num_trees": 5}]


def threshold_graph(num_nodes=240, seed=0, features=True):
    """The class is an exclusive or of two measurements, which no line can tell."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_nodes, 2)).astype(np.float32)
    y = (x[:, 0] > 0) ^ (x[:, 1] > 0)
    edges = rng.integers(0, num_nodes, size=(num_nodes, 2))
    edges = [(i, j) for i, j in edges.tolist() if i != j]
    return Graph.build(edges, x=x if features else None, y=["b" if one else "a" for one in y], num_nodes=num_nodes)


def dense(table):
    return table.toarray() if sp.issparse(table) else table


def test_columns_are_those_of_a_path_by_hand():
    path = Graph.build([(0, 1), (1, 2)], x=[[1.0], [2.0], [4.0], [8.0]], y=["a", "b", None, None], num_nodes=4)
    model = NeighbourhoodFeatures(scaling="raw").fit(path)
    table = dense(model._table(path, np.arange(4)))
    expected = [[1, 2, 2.5, np.log(2)], [2, 2.5, 2, np.log(3)], [4, 2, 2.5, np.log(2)], [8, 0, 0, 0]]
    np.testing.assert_allclose(table, expected, rtol=1e-6)


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("nodes", [[7], [3, 50], list(range(120))], ids=len)
def test_rows_are_the_same_from_few_nodes_outwards_and_from_all(wrap, nodes):
    task = clusters()
    S, x = neighbour_mean(task.graph), wrap(dense(task.graph.x))
    whole = [x.T, (S @ x).T, (S @ S @ x).T, (S @ S @ S @ x).T]
    for found, expected in zip(spread(S, x, 3, np.array(nodes)), whole, strict=True):
        np.testing.assert_allclose(dense(found), dense(expected).T[nodes], atol=1e-6)


@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_the_linear_answer_is_that_of_the_table(features):
    task = clusters(features=features)
    model = NeighbourhoodFeatures("linear", num_hops=3).fit(task.graph, task.validation)
    table = dense(model._table(task.graph, np.arange(120))).astype(float)
    expected = softmax(table @ model.learned_["weight"] + model.learned_["bias"], axis=1)
    np.testing.assert_allclose(model.predict_proba(**OWN), expected, atol=1e-6)


def test_a_table_that_is_wider_than_long_is_solved_on_a_square_one():
    rng = np.random.default_rng(0)
    table, y = rng.normal(size=(30, 3 * 24 + 1)).astype(np.float32), np.arange(30) % 3
    turned = LinearTable.of(table, 3)
    assert turned.rows.shape == (30, 30)
    weight, bias = logistic(turned.rows, y, 1.0)
    direct = LogisticRegression(C=1.0, tol=1e-8, max_iter=10_000).fit(table * turned.scale, y)
    np.testing.assert_allclose(
        softmax(table @ turned.unscaled(weight) + bias, axis=1),
        direct.predict_proba(table * turned.scale),
        atol=1e-3,
    )


def test_blocks_weigh_the_same_whatever_the_unit_of_features():
    task = clusters(features="dense")
    answers = []
    for factor in (1, 1000):
        graph = Graph(
            task.graph.num_nodes,
            task.graph.edge_index,
            task.graph.x * np.float32(factor),
            task.graph.y,
            task.graph.target,
            task.graph.ids,
        )
        answers.append(NeighbourhoodFeatures("linear", scaling="raw").fit(graph, task.validation).predict_proba(**OWN))
    np.testing.assert_allclose(*answers, atol=1e-3)


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("rounds", [1, 30])
def test_trees_answer_as_scikit_learn_does(num_classes, rounds, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6)).astype(np.float32).round(1)  # with ties
    y = (x[:, :num_classes] + rng.normal(size=(300, num_classes))).argmax(axis=1)
    model = boosted(rounds, 0, x, y)
    monkeypatch.setattr("dpmsnc.baselines.trees.CHUNK", 1000)
    asked = np.concatenate([x, rng.normal(size=(200, 6)).astype(np.float32)])
    np.testing.assert_allclose(Trees.of(model).probabilities(asked), model.predict_proba(asked), atol=1e-10)
    assert Trees.of(model).probabilities(asked[:0]).shape == (0, num_classes)


def test_trees_are_taken_where_they_predict_better():
    graph = threshold_graph()
    model = NeighbourhoodFeatures().fit(graph)
    assert model.chosen_ == "trees" and model.losses_["trees"] < model.losses_["linear"] - 0.2
    other = threshold_graph(seed=1)
    assert model.score(other, other.with_labels(np.full(240, -1))) > 0.8
    assert NeighbourhoodFeatures("linear").fit(graph).score(other, other.with_labels(np.full(240, -1))) < 0.7
    few = graph.with_labels(np.where(np.arange(240) < 99, graph.y, -1))
    assert set(NeighbourhoodFeatures().fit(few).losses_) == {"linear"}


def test_words_are_read_by_the_linear_model_and_its_penalty_is_cross_validated():
    task = clusters()
    model = NeighbourhoodFeatures().fit(task.graph, task.validation)
    assert model.chosen_ == "linear" and set(model.losses_) == {"linear"}
    found = model.predict_proba(**OWN).argmax(axis=1)
    assert (found == task.truth)[task.test].mean() > 0.8
    strengths = [NeighbourhoodFeatures(strength=C).fit(task.graph, task.validation) for C in (1.0, 10.0, 100.0, 1000.0)]
    assert model.losses_["linear"] == min(one.losses_["linear"] for one in strengths)


def test_with_few_labels_there_is_nothing_to_cross_validate():
    path = Graph.build([(0, 1), (1, 2)], x=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], y=["a", None, "b"])
    for model in ("auto", "linear", "trees"):
        fitted = NeighbourhoodFeatures(model).fit(path)
        assert fitted.losses_ == {} and fitted.predict_proba().shape == (3, 2)


@pytest.mark.parametrize("settings", SETTINGS)
def test_classes_without_a_training_label_have_a_small_probability(settings):
    graph = threshold_graph()
    wider = Graph.build([(0, 1)], x=graph.x, y=graph.decode(graph.y), classes=["0", "a", "aa", "b"], num_nodes=240)
    proba = NeighbourhoodFeatures(**settings).fit(wider).predict_proba(**OWN)
    np.testing.assert_allclose(proba[:, [0, 2]], 1 / 241 / 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_a_single_class_among_training_labels_has_nearly_all_mass():
    graph = threshold_graph()
    alone = graph.with_labels(np.where((graph.y == 0) | (np.arange(240) < 20), graph.y, -1))
    for settings in SETTINGS:
        proba = NeighbourhoodFeatures(**settings).fit(alone, validation=alone.y == 1).predict_proba(**OWN)
        assert (proba[:, 0] > 0.99).all() and (proba[:, 1] > 0).all()


@pytest.mark.parametrize("settings", SETTINGS)
def test_validation_and_test_labels_are_not_used(settings):
    task = clusters()
    turned = np.where(task.validation, (task.truth + 1) % 3, task.truth)
    wrong = task.graph.with_labels(np.where(task.graph.known, turned, -1))
    expected = NeighbourhoodFeatures(**settings).fit(task.graph, task.validation).predict_proba(**OWN)
    for graph in (wrong, poisoned(task).graph):
        found = NeighbourhoodFeatures(**settings).fit(graph, task.validation).predict_proba(**OWN)
        np.testing.assert_array_equal(found, expected)
    without = NeighbourhoodFeatures(**settings).fit(task.graph.hide(task.validation)).predict_proba(**OWN)
    np.testing.assert_array_equal(without, expected)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("settings", SETTINGS)
def test_saved_and_loaded_it_answers_the_same_for_any_graph(settings, features, tmp_path):
    graph, other = threshold_graph(features=features), threshold_graph(90, seed=1, features=features)
    model = NeighbourhoodFeatures(**settings).fit(graph, validation=0.2)
    model.save(tmp_path / "model")
    again = Estimator.load(tmp_path / "model")
    for asked in ((), (other.with_labels(np.full(90, -1)),)):
        np.testing.assert_array_equal(again.predict_proba(*asked), model.predict_proba(*asked))
    assert again.losses_ == model.losses_ and model.features_.width == (2 if features else 30)


@pytest.mark.parametrize("settings", SETTINGS)
def test_permuted_graphs_have_permuted_answers_without_features(settings):
    graph = threshold_graph(features=False)
    order = np.random.default_rng(0).permutation(240)
    other = Graph.build(np.argsort(order)[graph.edge_index].T.tolist(), y=graph.decode(graph.y)[order], num_nodes=240)
    model = NeighbourhoodFeatures(**settings).fit(graph)
    found, expected = (model.predict_proba(asked, clamp_known=False) for asked in (other, graph))
    np.testing.assert_allclose(found, expected[order], atol=1e-5)


def damage(model, name, change):
    """The model again, from a state in which one array is another."""
    model.learned_ = {**model.learned_, name: change(model.learned_[name])}
    return type(model)._from_state(model.get_params(deep=False), *model._state(), model.graph_)


@pytest.mark.parametrize(
    "name, change",
    [
        ("left", lambda a: a[::-1].copy()),
        ("right", lambda a: a + len(a)),
        ("feature", lambda a: a + 7),
        ("feature", lambda a: a - 1),
        ("root", lambda a: a.ravel()),
        ("first", lambda a: np.zeros(2)),
        ("value", lambda a: a[1:]),
    ],
)
def test_arrays_that_are_no_trees_are_refused(name, change):
    model = NeighbourhoodFeatures("trees", num_trees=3).fit(threshold_graph())
    with pytest.raises(ModelFileError, match="does not fit its settings; fit again"):
        damage(model, name, change)


def test_weights_of_another_table_are_refused():
    model = NeighbourhoodFeatures("linear").fit(threshold_graph())
    with pytest.raises(ModelFileError, match="does not fit its settings"):
        damage(model, "weight", lambda a: a[1:])


def test_folds_hold_every_class_evenly():
    y = np.repeat([0, 1, 2], [30, 9, 2])
    part, fold = folds(y, 0)
    assert sorted(part) == list(range(41))
    counts = np.array([np.bincount(y[part][fold == k], minlength=3) for k in range(3)])
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()
    assert (folds(y, 1)[0] != part).any()


def test_the_loss_of_constant_answers_is_their_entropy():
    y = np.arange(60) % 2

    def constant(x, y, asked):
        return [np.tile(q, (len(asked), 1)) for q in ([0.5, 0.5], [0.8, 0.2])]

    found = cross_validated(constant, np.zeros((60, 1)), y, np.arange(60) % 3)
    np.testing.assert_allclose(found, [np.log(2), -(np.log(0.8) + np.log(0.2)) / 2])


def test_absent_classes_share_the_probability_of_one_more_label():
    found = completed(np.array([[0.25, 0.75]]), np.array([1, 3]), 4, 9)
    np.testing.assert_allclose(found, [[0.05, 0.225, 0.05, 0.675]])


def test_log_degree():
    np.testing.assert_allclose(log_degree(Graph.build([(0, 1), (0, 2)], num_nodes=4)), np.log([3, 2, 2, 1]), rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"strength": 0}, {"strength": "best"}, {"num_hops": -1}, {"model": "forest"}])
def test_wrong_settings_are_named(wrong):
    (name,) = wrong
    with pytest.raises(InputError, match=name):
        NeighbourhoodFeatures(**wrong).fit(threshold_graph())


def test_it_is_an_initialiser_by_name():
    task = clusters(size=15)
    short = Training(steps=4, evaluate_every=2, refresh_every=2, initialiser_refreshes=1, buffer_size=4)
    model = NodeClassifier(initialiser="neighbourhood", start="random", hidden_channels=8, training=short, device="cpu")
    model.fit(task.graph, task.validation)
    own = NeighbourhoodFeatures().fit(task.graph, task.validation).predict_proba(**OWN)
    np.testing.assert_allclose(model.initialiser_proba_, own, atol=1e-6)
