import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import GMNN
from dpmsnc.baselines.gmnn import Learner, draw_labels
from dpmsnc.data import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy
from dpmsnc.nn.operator import GraphTensors
from random_graphs import random_graph

QUICK = {"pretraining": 40, "epochs": 30, "hidden_channels": 16}


def learners(model, graph):
    """q and p as training begins with them."""
    tensors = GraphTensors.of(graph)
    return model._learners(model._build(tensors.num_features, 3), tensors)


def fitted(task, **options):
    return GMNN(**{**QUICK, **options}).fit(task.graph, task.validation)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
@pytest.mark.parametrize("sees", ["neighbourhood", "neighbours"])
@pytest.mark.parametrize("prediction", ["q", "p"])
def test_clusters_are_told_apart(backbone, sees, prediction):
    task = clusters()
    proba = fitted(task, backbone=backbone, sees=sees, prediction=prediction).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


@pytest.mark.parametrize("sees", ["neighbourhood", "neighbours"])
def test_whose_labels_p_sees(sees):
    graph = random_graph()
    _, p = learners(GMNN(sees=sees, hidden_channels=16), graph)
    A = graph.adjacency.toarray() > 0
    walks = (A + np.eye(20)) @ (A + np.eye(20)) > 0 if sees == "neighbourhood" else A
    Y = torch.nn.functional.one_hot(torch.arange(20) % 3, 3).float()
    p.look_at(Y)
    before, seen = p.predict(), np.zeros((20, 20), dtype=bool)
    for j in range(20):
        other = Y.clone()
        other[j] = Y[j].roll(1)
        p.look_at(other)
        seen[:, j] = (p.predict() - before).abs().amax(dim=1).numpy() > 1e-7
    np.testing.assert_array_equal(seen, walks)


def test_p_never_sees_features_and_q_never_labels():
    graph = random_graph()
    q, p = learners(GMNN(hidden_channels=16), graph)
    assert q.network.backbone.convs[0].in_channels == 6 and p.network.backbone.convs[0].in_channels == 3


def test_draws_follow_the_sharpened_distribution():
    q = torch.tensor([[0.5, 0.3, 0.2]]).repeat(20000, 1)
    sharp = q[0] ** 2 / (q[0] ** 2).sum()
    generator = torch.Generator().manual_seed(0)
    drawn = draw_labels(q, 0.5, "sample", generator)
    assert set(drawn.unique().tolist()) == {0.0, 1.0} and (drawn.sum(dim=1) == 1).all()
    torch.testing.assert_close(drawn.mean(dim=0), sharp, atol=0.015, rtol=0)
    torch.testing.assert_close(draw_labels(q, 0.5, "expected", generator)[0], sharp)
    assert draw_labels(q, 0.5, "max", generator)[0].tolist() == [1, 0, 0]


@pytest.fixture
def lessons(monkeypatch):
    """What each network was taught: the learner, what it looked at, the target, and on which nodes."""
    noted, learn = [], Learner.learn

    def noting(self, target, epochs, evaluate_every, only=None):
        noted.append((self, self.thin.x, target.clone(), only))
        return learn(self, target, epochs, evaluate_every, only)

    monkeypatch.setattr(Learner, "learn", noting)
    return noted


def test_each_step_teaches_what_it_should(lessons):
    task = clusters()
    fitted(task, rounds=2)
    (q, _, Y0, labelled), *rounds = lessons
    known = np.eye(3)[task.truth[task.train]]
    np.testing.assert_array_equal(labelled, task.train)
    np.testing.assert_array_equal(Y0[task.train], known)
    assert [learner is q for learner, *_ in rounds] == [False, True, False, True]
    for (_, shown, Y, everywhere), (_, x, T, all_nodes) in [rounds[:2], rounds[2:]]:
        assert everywhere is None and all_nodes is None and shown is not x
        # p gives back what it is shown: one label per node, known ones as they are; validation labels are not known
        np.testing.assert_array_equal(shown, Y)
        np.testing.assert_array_equal(Y[task.train], known)
        assert (Y.sum(dim=1) == 1).all() and set(Y.unique().tolist()) == {0.0, 1.0}
        np.testing.assert_array_equal(T[task.train], known)
        assert (T[~task.train] > 0).all() and (T[~task.train] < 1).any()
    assert (rounds[0][2] != rounds[2][2]).any()


def test_pre_training_ends_with_the_weights_that_are_best_on_validation(monkeypatch):
    task, restored = clusters(), []
    restore = Learner.restore

    def noting(self, state):
        restore(self, state)
        restored.append(self.predict())

    monkeypatch.setattr(Learner, "restore", noting)
    reached = []
    for pretraining in (1, 5, 20, 60):
        GMNN(pretraining=pretraining, epochs=1, evaluate_every=1).fit(task.graph, task.validation)
        reached.append(accuracy(restored[-1].argmax(dim=1).numpy(), task.truth, task.validation))
    assert reached == sorted(reached) and reached[0] < reached[-1]


def test_on_a_grid_without_features_p_answers_exactly_where_a_neighbour_is_known():
    task = grid_scattered(columns=100)
    known = np.zeros(200)
    known[task.train] = 1
    decided = (task.graph.adjacency @ known > 0) & task.test
    options = {"num_layers": 1, "sees": "neighbours", "prediction": "p", "draw": "expected", "epochs": 100}
    assert 10 < decided.sum() < task.test.sum()
    for seed in range(3):
        own = fitted(task, hidden_channels=64, **options, seed=seed).predict_proba(**OWN).argmax(axis=1)
        assert (own == task.truth)[decided].all()
    # all nodes are alike to q
    q = fitted(task, num_layers=1).predict_proba(**OWN)
    np.testing.assert_allclose(q, np.tile(q[0], (200, 1)), atol=1e-5)


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_only_select():
    task = clusters()
    swapped = task.graph.with_labels(np.where(task.validation, (task.graph.y + 1) % 3, task.graph.y))
    once = [
        GMNN(pretraining=1, epochs=1).fit(graph, task.validation).predict_proba(**OWN)
        for graph in (task.graph, swapped)
    ]
    np.testing.assert_array_equal(*once)


def test_the_optimiser_is_the_one_asked_for():
    task = clusters()
    kinds = []
    for name in ("adam", "rmsprop"):
        model = GMNN(**QUICK, optimiser=name)
        kinds.append([type(learner.optimiser) for learner in learners(model, task.graph)])
        proba = model.fit(task.graph, task.validation).predict_proba(**OWN)
        assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8
    assert kinds == [[torch.optim.Adam] * 2, [torch.optim.RMSprop] * 2]


def test_without_validation_the_last_prediction_is_kept():
    task = clusters()
    graph = task.graph.with_labels(np.where(task.train, task.graph.y, -1))
    proba = GMNN(**QUICK).fit(graph).predict_proba(**OWN)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


@pytest.mark.parametrize(
    "settings", [{"draw": "exp"}, {"temperature": 0.0}, {"sees": "all"}, {"rounds": 0}, {"optimiser": "sgd"}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        fitted(clusters(), **settings)
