"""Unbalanced classes: arg max_c w_c p_i(c), with weights that validation labels and marginals choose."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpmsnc import Graph, NodeClassifier, Schedule, Training
from dpmsnc.baselines import GNN
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.decision import EXPONENTS, best_decision_weights, expected_macro_f1
from dpmsnc.estimators.diffusion_state import model_from, state_of
from dpmsnc.metrics import macro_f1

pytestmark = pytest.mark.usefixtures("brief_couplings")
TRAINING = Training(steps=10, evaluate_every=10, select_by="macro_f1")


def unbalanced(seed: int = 0, nodes: int = 120) -> tuple[Graph, np.ndarray]:
    """One of ten nodes is of the rare class, whose feature overlaps with that of the other; edges tell nothing."""
    rng = np.random.default_rng(seed)
    truth = (np.arange(nodes) % 10 == 0).astype(int)
    x = np.stack([truth + rng.normal(scale=0.5, size=nodes), np.ones(nodes)], axis=1)
    y = np.where(np.arange(nodes) < nodes // 2, truth, -1)
    return Graph.build(
        [(k, k + 1) for k in range(0, nodes, 40)], ids=range(nodes), x=x, y=y, classes=["common", "rare"]
    ), truth


GRAPH, TRUTH = unbalanced()
VALIDATION = np.isin(np.arange(120), range(40, 60))


def gcn(select_by: str | None = "macro_f1") -> GNN:
    return GNN(epochs=40, select_by=select_by, scaling="raw")


def classifier(**changes) -> NodeClassifier:
    settings = {
        "hidden_channels": 8,
        "training": TRAINING,
        "schedule": Schedule(20),
        "initialiser": ("gcn", {"epochs": 20}),
    }
    return NodeClassifier(**settings | {"device": "cpu", "scaling": "raw"} | changes)


@pytest.fixture(scope="module")
def fitted() -> NodeClassifier:
    return classifier().fit(GRAPH, VALIDATION)


@pytest.mark.parametrize("seed", range(5))
def test_expected_macro_f1_of_certain_labels_is_macro_f1(seed):
    rng = np.random.default_rng(seed)
    truth, answered = rng.integers(3, size=(2, 30))
    expected = macro_f1(answered, truth, np.ones(30, dtype=bool))
    assert expected_macro_f1(answered, np.eye(3)[truth]) == pytest.approx(expected)


def test_expected_macro_f1_leaves_out_a_class_that_is_nowhere():
    q = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert expected_macro_f1(np.array([0, 1]), q) == 1


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_the_best_of_all_exponents(seed):
    p = np.random.default_rng(seed).dirichlet([4, 2, 0.7], size=200)
    weights = best_decision_weights(p, p)
    share = p.mean(axis=0)
    exponent = np.log(weights[2]) / -np.log(share[2])
    assert np.allclose(weights, share**-exponent)
    values = [expected_macro_f1((share**-a * p).argmax(axis=1), p) for a in EXPONENTS]
    assert EXPONENTS[np.argmax(values)] == pytest.approx(exponent)


def test_classes_of_equal_shares_weigh_the_same():
    p = np.array([[0.7, 0.3], [0.3, 0.7]])
    assert best_decision_weights(p, p).tolist() == [1, 1]


def test_certain_validation_labels_outweigh_what_marginals_expect():
    p = np.array([[0.9, 0.1]] * 8 + [[0.6, 0.4]] * 2)
    common, rare = (np.eye(2)[[0] * 8 + labels] for labels in ([0, 1], [1, 1]))
    assert (best_decision_weights(p, rare) * p).argmax(axis=1).sum() == 2
    assert (best_decision_weights(p, np.eye(2)[[0] * 7 + [1] + [0, 0]]) * p).argmax(axis=1).sum() < 10
    assert expected_macro_f1((best_decision_weights(p, common) * p).argmax(axis=1), common) > 0.8


def test_a_gcn_finds_more_of_a_rare_class_and_keeps_its_probabilities(tmp_path):
    plain, weighted = gcn(None).fit(GRAPH, VALIDATION), gcn().fit(GRAPH, VALIDATION)
    assert not hasattr(plain, "decision_weights_") and weighted.decision_weights_[1] > weighted.decision_weights_[0]
    asked = ~GRAPH.known
    proba = weighted.predict_proba()
    assert np.array_equal(
        weighted.predict()[asked] == "rare", (proba * weighted.decision_weights_)[asked].argmax(1) == 1
    )
    assert (weighted.predict() == "rare").sum() > (proba.argmax(axis=1) == 1).sum()
    weighted.save(tmp_path / "model")
    assert np.array_equal(Estimator.load(tmp_path / "model").predict(), weighted.predict())


def test_no_weights_without_validation_labels():
    assert not hasattr(gcn().fit(GRAPH), "decision_weights_")


def test_a_diffusion_model_answers_by_weight_and_samples_as_before(fitted, tmp_path):
    asked = ~GRAPH.known
    weighted, proba, samples = fitted.predict(), fitted.predict_proba(), fitted.sample(3)
    assert np.array_equal(weighted[asked] == "rare", (proba * fitted.decision_weights_)[asked].argmax(axis=1) == 1)
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(), weighted)
    del loaded.decision_weights_
    assert np.array_equal(loaded.predict_proba(), proba) and np.array_equal(loaded.sample(3), samples)
    assert (loaded.predict() == "rare").sum() < (weighted == "rare").sum()
    assert (weighted[GRAPH.known] == np.array(["common", "rare"])[TRUTH[GRAPH.known]]).all()


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, "2"], [1.0, None]])
def test_damaged_weights_are_refused(fitted, weights):
    tensors, values = state_of(fitted)
    values = json.loads(json.dumps(values)) | {"decision_weights": weights}
    with pytest.raises((ValueError, InputError)):
        model_from(NodeClassifier, fitted.get_params(deep=False), tensors, values, GRAPH)


def test_the_next_fit_forgets_weights():
    model = gcn().fit(GRAPH, VALIDATION)
    assert not hasattr(model.set_params(select_by=None).fit(GRAPH, VALIDATION), "decision_weights_")
