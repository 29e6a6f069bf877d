"""Weights chosen by ROC-AUC, where two classes are unbalanced."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dpmsnc.baselines import GNN, EntropySharpening
from dpmsnc.baselines.descent import Selection
from dpmsnc.config import Training
from dpmsnc.data import Task
from dpmsnc.errors import InputError
from dpmsnc.estimators.edge_regressor import TRAINING, EdgeRegressor
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.graph import Graph
from dpmsnc.metrics import METRICS, roc_auc, selecting

pytestmark = pytest.mark.usefixtures("brief_couplings")
OWN = {"condition_on": "train", "clamp_known": False}


def unbalanced():
    """A ring of 120 nodes, a fifth of them of the second class, with features that tell a little."""
    rng = np.random.default_rng(0)
    y = (rng.random(120) < 0.2).astype(int)
    x = rng.normal(size=(120, 3)) + 0.7 * y[:, None]
    graph = Graph.build([(i, (i + 1) % 120) for i in range(120)], x=x, y=y)
    part = rng.permutation(120) % 3
    return Task.hiding("ring", graph, part == 0, part == 1, part == 2)


def validation_auc(model, task):
    return roc_auc(model.predict_proba(**OWN), task.truth, task.validation)


def test_a_plain_network_keeps_the_epoch_with_the_best_auc():
    task, quick = unbalanced(), {"hidden_channels": 8, "lr": 0.1}

    def after(epochs, **options):
        return GNN(epochs=epochs, **quick, **options).fit(task.graph, task.validation)

    every = [validation_auc(after(k, evaluate_every=k), task) for k in range(1, 13)]
    chosen = validation_auc(after(12, evaluate_every=1, select_by="roc_auc"), task)
    assert chosen == max(every) > every[-1]
    assert validation_auc(after(12, evaluate_every=1), task) < chosen


@pytest.mark.parametrize("start", ["initialiser", "random"])
def test_the_score_of_a_diffusion_model_is_the_auc_of_its_marginals(start):
    task = unbalanced()
    training = Training(steps=20, evaluate_every=5, select_by="roc_auc")
    clf = NodeClassifier(hidden_channels=8, initialiser="uniform", start=start, training=training)
    clf.fit(task.graph, validation=task.validation)
    assert clf.best_score_ == max(clf.history_.validation_score)
    posterior = clf._posterior(clf._asked(None, None, "train"))
    marginals = posterior.marginals(1, 0.0, clf._generator(0)).numpy()
    if start == "initialiser":  # asked where there is no noise
        assert clf.best_score_ == pytest.approx(roc_auc(marginals, task.truth, task.validation), abs=1e-9)
        assert validation_auc(clf, task) == pytest.approx(clf.best_score_, abs=1e-9)
    assert 0.5 < clf.best_score_ <= 1


def test_fully_labelled_graphs_are_scored_by_auc_too():
    graphs = [unbalanced().graph.with_labels(unbalanced().truth) for _ in range(2)]
    training = Training(steps=4, evaluate_every=2, select_by="roc_auc")
    clf = NodeClassifier(hidden_channels=8, start="random", training=training)
    clf.fit(graphs[:1], validation=graphs[1:])
    assert 0 <= clf.best_score_ <= 1


def test_entropy_sharpening_descends_to_the_best_auc():
    task = unbalanced()
    settings = {"hidden_channels": 8, "lr": 0.1, "epochs": 12, "evaluate_every": 1}
    found = {
        name: validation_auc(EntropySharpening(select_by=name, **settings).fit(task.graph, task.validation), task)
        for name in (None, "roc_auc")
    }
    assert found["roc_auc"] > found[None]


def test_a_selection_by_labels_and_one_by_probabilities_may_differ():
    y = np.array([0, 0, 0, 1])
    ranked = torch.tensor(
        [[0.9, 0.1], [0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]
    )  # always the first class, in the right order
    by_f1, by_auc = (Selection(y, 10, name) for name in ("macro_f1", "roc_auc"))
    assert by_auc.score(ranked) == 1 and by_f1.score(ranked) < 0.5


def test_metrics_that_cannot_choose_are_refused():
    task = unbalanced()
    with pytest.raises(InputError, match="mse"):
        GNN(select_by="mse", epochs=1).fit(task.graph, task.validation)
    with pytest.raises(InputError, match="subgraph"):
        selecting("subgraph_accuracy", "class", "labels", "probabilities")
    noise = NodeClassifier(
        parameterisation="epsilon", start="random", initialiser="uniform", training=Training(select_by="roc_auc")
    )
    with pytest.raises(InputError, match="noise"):
        noise.fit(task.graph, validation=task.validation)
    assert selecting("roc_auc", "class", "probabilities") is METRICS["roc_auc"]


@pytest.mark.parametrize("start", ["initialiser", "random"])
@pytest.mark.parametrize(
    "metric, y, kind",
    [
        ("roc_auc", [0, 1, 0, 1, 0, 0], "class"),
        ("roc_auc", [0, 1, 2, 1, 0, 1], "class"),
        ("roc_auc", [{"a"}, {"b"}, {"a"}, {"b"}, {"a", "b"}, {"b"}], "tags"),
    ],
)
def test_validation_labels_that_cannot_tell_are_refused(start, metric, y, kind):
    graph = Graph.build([(i, i + 1) for i in range(5)], y=y, kind=kind)
    model = NodeClassifier(initialiser="uniform", start=start, training=Training(select_by=metric))
    with pytest.raises(
        InputError, match=r"select_by='roc_auc' says nothing on the 2 validation labels.*hold back others"
    ):
        model.fit(graph, validation=np.arange(6) > 3)


@pytest.mark.parametrize("held_back", [1, 2])
def test_numbers_that_do_not_vary_choose_nothing_by_r2(held_back):
    graph = Graph.build([(i, i + 1) for i in range(5)], edge_y=[1.0, 2.0, 3.0, 4.0, 4.0])
    training = replace(TRAINING, steps=2, evaluate_every=1, select_by="r2")
    with pytest.raises(InputError, match="select_by='r2' says nothing"):
        EdgeRegressor(training=training).fit(graph, validation=np.arange(5) >= 5 - held_back)
    model = EdgeRegressor(training=training, hidden_channels=8).fit(graph, validation=np.arange(5) >= 3 - held_back)
    assert np.isfinite(model.best_score_)


def test_runs_stored_before_there_was_a_choice_are_found_again():
    assert "select_by" not in GNN().configuration() and "select_by" not in EntropySharpening().configuration()
    assert GNN(select_by="roc_auc").configuration()["select_by"] == "roc_auc"
