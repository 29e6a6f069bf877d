"""The base of all estimators, by a method that is written here and nowhere registered."""

import subprocess
import sys
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone, is_classifier
from torch_geometric.data import Data

from dpmsnc.baselines import GMNN, GNN, METHODS, MLP, LabelPropagation
from dpmsnc.config import Guidance, Sampling, Training
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import Estimator, Method
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.registry import Registry

PATH = Graph.build([("a", "b"), ("b", "c"), ("c", "d")], ids=list("abcd"), y=["red", None, "blue", "blue"])


class Majority(Estimator):
    """Every node has the shares of the training labels; an argument may be a group of settings."""

    def __init__(self, training=Training(), sampling=Sampling(), inner=None, seed=0, threads=1):  # noqa: B008 (frozen)
        self.training, self.sampling, self.inner, self.seed, self.threads = training, sampling, inner, seed, threads

    def _check_settings(self):
        if self.threads < 1:
            raise InputError("threads must be at least 1")

    def _fit(self, graph, y_train, y_validation, *, fails=False):
        if fails:
            raise RuntimeError("out of memory")
        counts = np.bincount(y_train[y_train != UNKNOWN], minlength=graph.num_classes)
        self.shares_, self.held_back_ = counts / counts.sum(), int((y_validation != UNKNOWN).sum())

    def _marginals(self, graph, y):
        return np.tile(self.shares_, (graph.num_nodes, 1))


def test_fit_divides_the_labels_and_returns_the_estimator():
    model = Majority().fit(PATH, validation=["d"])
    assert model.shares_.tolist() == [0.5, 0.5] and model.held_back_ == 1
    assert model.train_.tolist() == [True, False, True, False] and model.validation_.tolist() == [False] * 3 + [True]
    assert model.target_ is PATH.target and model.features_.scaling == "raw" and model.n_features_in_ == 0
    assert Majority().fit([PATH]).graph_ is PATH


def test_features_are_scaled_as_the_method_says_and_as_decided_at_the_fit():
    x = np.random.default_rng(0).normal(size=(4, 3))
    graph = replace(PATH, x=x.astype(np.float32))
    model = GNN(epochs=1, scaling="rows").fit(graph)
    assert model.features_.scaling == "rows" and model.n_features_in_ == 3
    np.testing.assert_allclose(model.features_.mean, x.mean(axis=0), atol=1e-6)
    # a row of a graph whose own columns have other means is scaled by those of the fit
    alone = Graph.build([], ids=["z"], x=x[:1] + 5, y=["red"])
    np.testing.assert_allclose(model._tensors(alone).x, (x[:1] + 5 - x.mean(axis=0)) / x.std(axis=0), rtol=1e-4)


def test_a_fit_that_fails_leaves_an_estimator_that_is_not_fitted():
    model = Majority().fit(PATH)
    with pytest.raises(RuntimeError):
        model._fit_split(PATH, None, fails=True)
    with pytest.raises(InputError, match="not fitted"):
        model.predict()
    assert vars(model).keys() == vars(Majority()).keys()
    with pytest.raises(InputError, match="threads"):
        Majority(threads=0).fit(PATH)


def test_a_second_fit_leaves_nothing_of_the_first():
    model = GMNN(prediction="p", pretraining=1, epochs=1).fit(PATH)
    assert hasattr(model, "draws_") and not hasattr(model.set_params(prediction="q").fit(PATH), "draws_")


def test_answers_go_by_name_and_known_labels_may_come_in_three_forms():
    model = Majority().fit(PATH, validation=["c"])
    assert model.predict().tolist() == ["red", "blue", "blue", "blue"]
    assert model.predict(clamp_known=False).tolist() == ["blue"] * 4
    assert model.predict(condition_on="train").tolist() == ["red", "blue", "blue", "blue"]
    for known in ({"b": "red"}, pd.Series({"b": "red"}), [None, "red", None, None]):
        assert model.predict(known=known).tolist() == ["red", "red", "blue", "blue"]
        assert model.predict_proba(known=known)[1].tolist() == [0, 1]
    assert model.score({"b": "red"}) == 0 and model.score({"b": "blue", "c": "red"}) == 1
    with pytest.raises(InputError, match="one of known, train"):
        model.predict(condition_on="all")


def test_samples_follow_the_marginals_and_a_seed_fixes_them():
    model = Majority().fit(PATH)
    drawn = model.sample(4000, seed=3)
    assert drawn.shape == (4000, 4) and set(drawn[:, 0]) == {"red"} and set(drawn[:, 3]) == {"blue"}
    assert (drawn[:, 1] == "blue").mean() == pytest.approx(2 / 3, abs=0.03)
    np.testing.assert_array_equal(drawn, model.sample(4000, seed=3))
    for wrong in (0, 1.5, "two"):
        with pytest.raises(InputError, match="num_samples"):
            model.sample(wrong)
    with pytest.raises(InputError, match="seed"):
        model.sample(1, seed=-1)


@pytest.mark.parametrize(
    ("what", "advice"),
    [
        (pd.DataFrame({"source": [1]}), r"from_tables\(edges, nodes\)"),
        (nx.path_graph(3), r"from_networkx"),
        (Data(edge_index=torch.tensor([[0], [1]])), r"from_pyg"),
        (sp.csr_array(np.eye(3)), r"from_scipy"),
        (np.eye(3), r"Graph.build"),
        ("cora", r"from_npz\(path\)"),
        ([], r"Graph.build"),
        ([PATH, "cora"], r"from_npz\(path\)"),
        (None, r"Graph.build"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_way_to_make_one(what, advice):
    with pytest.raises(InputError, match=advice):
        Majority().fit(what)


def test_labels_of_another_kind_are_refused():
    tagged = Graph.build([(0, 1)], y=[["a"], ["b", "c"]], kind="tags")
    with pytest.raises(InputError, match="a label of the graph is a tags of a node, one of the fitted graph a class"):
        Majority().fit(PATH).predict(tagged)
    with pytest.raises(InputError, match="MLP predicts the class of a node, not the tags"):
        MLP().fit(tagged)
    with pytest.raises(InputError, match="LabelPropagation predicts the class or the tags of a node, not the value"):
        LabelPropagation().fit(Graph.build([(0, 1)], y=[1.0, 2.0], kind="value"))


def test_the_truth_must_be_about_the_same_nodes():
    model = Majority().fit(PATH)
    with pytest.raises(InputError, match="other nodes"):
        model.score(Graph.build([(0, 1)], y=["red", "blue"]))
    with pytest.raises(InputError, match="no node 'z'"):
        model.score({"z": "red"})


def test_settings_within_settings():
    model = Majority(inner=LabelPropagation())
    assert model.get_params()["training__steps"] == 1000
    assert model.get_params()["sampling__guidance__strength"] == 1.0 and model.get_params()["inner__alpha"] == 0.5
    assert "training__steps" not in model.get_params(deep=False)
    default = model.training
    model.set_params(training__steps=10, sampling__guidance__strength=2.0, inner__alpha=0.1, threads=2)
    assert (model.training.steps, model.sampling.guidance.strength, model.inner.alpha, model.threads) == (10, 2, 0.1, 2)
    assert default.steps == 1000  # a group of settings is replaced, not changed
    assert model.set_params(training=Training(steps=7), training__patience=3).training == Training(steps=7, patience=3)
    for wrong, words in [
        ({"training__epochs": 3}, "training has no setting 'epochs'; it has steps"),
        ({"sampling__guidance__size": 3}, "guidance has no setting 'size'"),
        ({"threads__count": 3}, "threads is 2, which has no settings of its own"),
        ({"training__steps": 0}, "steps must be at least 1"),
    ]:
        with pytest.raises(InputError, match=words):
            model.set_params(**wrong)


def test_a_repr_shows_what_differs_from_the_defaults():
    assert repr(Majority()) == "Majority()"
    model = Majority(
        Training(steps=10), Sampling(guidance=Guidance(norm="square")), LabelPropagation(clamp=True), seed=4
    )
    words = "Majority(training=Training(steps=10), sampling=Sampling(guidance=Guidance(norm='square')), "
    assert repr(model) == words + "inner=LabelPropagation(clamp=True), seed=4)"


def test_a_configuration_is_json_without_what_only_says_where_it_runs():
    found = Majority(Training(clip=float("inf")), inner=LabelPropagation()).configuration()
    assert found["training"]["clip"] == "inf" and found["sampling"]["guidance"]["norm"] == "root"
    assert found.keys() == {"training", "sampling", "inner"}


def test_scikit_learn_takes_it_for_a_classifier():
    model = Majority(Training(steps=3), inner=LabelPropagation(alpha=0.2))
    assert is_classifier(model)
    copied = clone(model)
    assert copied.training == model.training and copied.inner is not model.inner and copied.inner.alpha == 0.2


def test_the_registry_finds_a_method_or_lists_all(monkeypatch):
    monkeypatch.setitem(METHODS, "majority", Method(lambda seed, **settings: Majority(seed=seed, **settings)))
    assert METHODS.find("majority").build(3, threads=2).get_params(deep=False)["seed"] == 3
    assert isinstance(METHODS, Registry)
    with pytest.raises(InputError, match=r"unknown method 'gnc'; there are .*gcn"):
        METHODS.find("gnc")


def test_importing_the_base_imports_nothing_slow():
    slow = {"torch", "scipy", "sklearn", "pandas"}
    code = f"import sys, dpmsnc.errors, dpmsnc.estimators.base; print([m for m in sys.modules if m in {slow}])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_features_of_edges_that_nothing_reads_are_warned_of():
    graph = Graph.build([(0, 1), (1, 2)], y=["a", None, "b"], edge_attr=np.ones((2, 1), np.float32))
    with pytest.warns(FitWarning, match="LabelPropagation does not read features of edges") as told:
        LabelPropagation().fit(graph)
    assert told[0].filename == __file__
