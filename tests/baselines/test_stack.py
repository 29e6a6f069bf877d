"""Stacking: temperatures and weights against known answers, and what may decide them."""

import numpy as np
import pytest

from clusters import OWN
from dpmsnc import Training
from dpmsnc.baselines import G3NN, GNN, GRAND, METHODS, PTA, Stack
from dpmsnc.baselines.stack import MEMBERS, calibrated, mixture, reweighted, sharpened
from dpmsnc.data import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier

SHORT = {"gcn": {"epochs": 5}, "g3nn": {"epochs": 5}}


@pytest.fixture(scope="module")
def task():
    return grid_scattered(columns=30)


def short(model, limit):
    setattr(model, limit, 3)
    return model


def labels_from(p, rng):
    return (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)


def test_a_temperature_is_found():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4), 50_000)
    y = labels_from(truth, rng)
    blurred = truth**0.4 / (truth**0.4).sum(axis=1, keepdims=True)
    found = calibrated(blurred, np.arange(len(y)), y)
    assert np.abs(found - truth).max() < 0.02 and np.allclose(found.sum(axis=1), 1)


def test_a_label_that_weighs_twice_counts_like_two():
    rng = np.random.default_rng(2)
    p, y, weight = rng.dirichlet(np.ones(3), 60), rng.integers(3, size=60), rng.integers(1, 4, size=60)
    repeated = np.repeat(np.arange(60), weight)
    expected = calibrated(p, repeated, y[repeated])
    np.testing.assert_allclose(calibrated(p, np.arange(60), y, weight), expected, atol=1e-5)
    assert np.abs(calibrated(p, np.arange(60), y) - expected).max() > 1e-3


def test_a_member_that_is_sure_of_nothing_or_always_right_stays_finite():
    sure, y = np.eye(3)[[0, 1, 2, 2]], np.array([0, 1, 2, 2])
    for p in (sure, np.full((4, 3), 1 / 3), np.roll(sure, 1, axis=1)):
        found = calibrated(p, np.arange(4), y)
        assert np.isfinite(found).all() and np.allclose(found.sum(axis=1), 1)


def test_weights_are_those_of_the_most_likely_mixture():
    rng = np.random.default_rng(1)
    a, b = rng.random(200), rng.random(200) ** 1.2
    grid = np.linspace(0, 1, 2001)
    best = grid[np.argmax([np.log(w * a + (1 - w) * b).sum() for w in grid])]
    weights = mixture([a, b])
    assert 0.05 < best < 0.95 and weights == pytest.approx([best, 1 - best], abs=1e-3)


def test_a_useless_member_gets_no_weight():
    assert mixture([np.full(100, 0.9), np.full(100, 0.2)]) == pytest.approx([1, 0], abs=1e-6)


def test_class_shares_are_found_from_answers_that_assume_equal_ones():
    rng = np.random.default_rng(2)
    shares = np.array([0.7, 0.2, 0.1])
    y = np.concatenate([np.repeat([0, 1, 2], 2000), rng.choice(3, 20_000, p=shares)])
    z = np.eye(3)[y] * 1.5 + rng.normal(size=(len(y), 3))  # one normal density a class
    likelihood = np.exp(-((z[:, None] - 1.5 * np.eye(3)) ** 2).sum(axis=2) / 2)
    q, exact = (w / w.sum(axis=1, keepdims=True) for w in (likelihood, likelihood * shares))
    even, among = np.arange(6000), np.arange(len(y)) >= 6000
    r = reweighted(q, even, y[even], among)
    assert r[among].mean(axis=0) == pytest.approx(shares, abs=0.02) and np.abs(r - exact).max() < 0.05
    assert ((r.argmax(axis=1) == y)[among]).mean() > ((q.argmax(axis=1) == y)[among]).mean() + 0.03


def test_no_class_is_lost_though_the_estimate_of_its_share_is_zero():
    y = np.repeat([0, 1, 2], 10)
    q = np.full((1000, 3), [0.5, 0.3, 0.2])
    q[np.arange(30), y] += 1
    q /= q.sum(axis=1, keepdims=True)
    q[30:, 2] = 1e-3  # no node without a label looks like class 2
    r = reweighted(q, np.arange(30), y, np.ones(1000, bool))
    assert r[20:30, 2].min() > 0.01  # ten in a thousand nodes are known to be of class 2


@pytest.mark.parametrize(
    ("class_shares", "counts", "estimated"),
    [
        ("auto", (12, 12), True),
        ("auto", (12, 11), False),
        ("auto", (5, 5), False),  # too few to tell
        ("estimated", (5, 4), True),
        ("estimated", (5, 0), False),
        ("as-validation", (12, 12), False),
    ],
)
def test_class_shares_are_estimated_where_validation_nodes_do_not_tell_them(class_shares, counts, estimated):
    task = grid_scattered(columns=200)
    validation = np.zeros(task.graph.num_nodes, bool)
    for label, count in enumerate(counts):
        validation[np.flatnonzero(task.validation & (task.graph.y == label))[:count]] = True
    answer = Stack({"gcn": {"epochs": 5}}, class_shares).fit(task.graph, validation=validation).predict_proba(**OWN)
    nodes = np.flatnonzero(validation)
    member = GNN(epochs=5).fit(task.graph, validation=validation).predict_proba(**OWN)
    plain = calibrated(member, nodes, task.graph.y[nodes])
    assert np.allclose(answer, plain, atol=1e-12) != estimated


def test_another_graph_has_the_stored_temperatures_and_weights_and_no_class_shares():
    task = grid_scattered(columns=200)
    settings = {"gcn": {"epochs": 5, "input_dropout": 0.1}, "gmnn": {"pretraining": 5, "epochs": 5, "prediction": "p"}}
    stack = Stack(settings, "estimated").fit(task.graph, validation=task.validation)
    assert stack.class_weights_ is not None and list(stack.inverse_temperatures_) == ["gcn", "gmnn"]
    other = grid_scattered(columns=40, seed=3).graph
    expected = sum(
        weight * sharpened(stack.members_[name][0]._marginals(other, other.y), stack.inverse_temperatures_[name])
        for name, weight in stack.weights_.items()
    )
    np.testing.assert_allclose(stack.predict_proba(other, clamp_known=False), expected)
    shares = stack.predict_proba(**OWN) / stack.class_weights_  # on the fitted graph, answers are weighed
    stack.class_weights_ = None
    np.testing.assert_allclose(shares / shares.sum(axis=1, keepdims=True), stack.predict_proba(**OWN))


def test_members_that_are_fitted_several_times_answer_with_their_mean(task):
    stack = Stack({"gcn": {"epochs": 5}}, repeats=2, seed=3).fit(task.graph)
    fits = [GNN(epochs=5, seed=seed).fit(task.graph).predict_proba(**OWN) for seed in (3, 1003)]
    assert np.allclose(stack.predict_proba(**OWN), np.mean(fits, axis=0)) and not np.allclose(fits[0], fits[1])


def test_it_is_the_mixture_of_its_members(task):
    stack = Stack(SHORT, seed=3).fit(task.graph, validation=task.validation)
    nodes = np.flatnonzero(task.validation)
    members = [
        calibrated(model.fit(task.graph, validation=task.validation).predict_proba(**OWN), nodes, task.truth[nodes])
        for model in (GNN(epochs=5, seed=3), G3NN(epochs=5, seed=3))
    ]
    expected = sum(w * p for w, p in zip(stack.weights_.values(), members, strict=True))
    assert np.allclose(stack.predict_proba(**OWN), expected) and list(stack.weights_) == ["gcn", "g3nn"]


def test_without_validation_labels_all_vote_equally(task):
    stack = Stack(SHORT).fit(task.graph, validation=None)
    members = [model.fit(task.graph).predict_proba(**OWN) for model in (GNN(epochs=5), G3NN(epochs=5))]
    assert stack.weights_ == {"gcn": 0.5, "g3nn": 0.5}
    assert np.allclose(stack.predict_proba(**OWN), np.mean(members, axis=0))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"gin": {}}, "no member of a stack is called gin"),
        ({}, "settings by member"),
        (["pta", "grand"], "settings by member"),
        ("gcn", "settings by member"),
        ({"pta": {"epochs": 5}}, "'pta' does not take the settings"),
        ({"gcn": None}, "'gcn' does not take the settings None"),
        ({"gcn": {"seed": 2}}, "'gcn' does not take the settings"),
    ],
)
def test_bad_members_are_refused(task, members, words):
    with pytest.raises(InputError, match=words):
        Stack(members).fit(task.graph, validation=task.validation)


def test_every_member_takes_a_seed():
    assert all(build(seed=7).seed == 7 for build in MEMBERS.values())


def test_members_are_the_methods_of_the_tables():
    for name in ("gcn", "gat", "sage"):
        assert MEMBERS[name](seed=7).configuration() == METHODS[name].build(7).configuration()


def test_by_default_it_mixes_the_three_that_start_best(task, monkeypatch):
    for kind, limit in ((PTA, "max_epochs"), (GRAND, "epochs"), (G3NN, "epochs")):
        monkeypatch.setattr(kind, "_fit", lambda self, *a, fit=kind._fit, name=limit: fit(short(self, name), *a))
    stack = Stack().fit(task.graph, validation=task.validation)
    assert list(stack.weights_) == ["pta", "grand", "g3nn"] and np.allclose(stack.predict_proba(**OWN).sum(axis=1), 1)


def test_a_classifier_starts_from_it_and_keeps_that_through_a_folder(task, tmp_path):
    training = Training(steps=2, evaluate_every=2)
    model = NodeClassifier(initialiser=("stack", {"members": SHORT}), start="random", training=training, seed=3)
    model.fit(task.graph, validation=task.validation)
    model.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").initialiser == ["stack", {"members": SHORT}]
    expected = Stack(SHORT, seed=3).fit(task.graph, validation=task.validation).predict_proba(**OWN)
    assert np.allclose(model.initialiser_proba_, expected, atol=1e-6)


@pytest.mark.parametrize(
    "members, words",
    [
        ({"gcn": {"epochs": 0}}, "epochs must be at least 1"),
        ({"gcn": {"lr": -1}}, "lr must be at least 0"),
        ({"pta": {"alpha": 7}}, "alpha must be at least 0 and at most 1"),
    ],
)
def test_settings_of_members_that_are_out_of_range_are_refused(members, words):
    task = grid_scattered(columns=20)
    with pytest.raises(InputError, match=words):
        Stack(members).fit(task.graph, validation=task.validation)
