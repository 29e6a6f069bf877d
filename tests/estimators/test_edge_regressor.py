"""Numbers on edges: the verbs on streams, complete graphs and the user's own graphs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor

from dpmsnc.config import Sampling, Training
from dpmsnc.errors import InputError, NotFittedError
from dpmsnc.estimators import edge_regressor
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.edge_regressor import TRAINING, DirectEdgeRegressor, EdgeRegressor
from dpmsnc.graph import Graph
from dpmsnc.nn.edges import EDGE_DENOISERS
from dpmsnc.reasoning.tasks import TASKS, TaskStream, generator

QUICK = replace(TRAINING, steps=6, evaluate_every=3)
SMALL = {"hidden_channels": 8, "num_layers": 2, "num_averaged": 2, "training": QUICK}
STREAM = TaskStream("shortest_path", num_validation=2)


def roads(seed=0, n=8, directed=False, unknown=0.3):
    """A graph with edge features whose values are twice the first feature, some of them unknown."""
    rng = np.random.default_rng(seed)
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.6, 1))
    attr = rng.normal(size=(len(edges), 2)).astype(np.float32)
    value = np.where(rng.random(len(edges)) < unknown, np.nan, 2 * attr[:, 0] + 5)
    return Graph.build(edges, num_nodes=n, edge_attr=attr, edge_y=value, directed=directed)


@pytest.fixture(scope="module")
def streamed():
    return EdgeRegressor(**SMALL).fit(STREAM)


@pytest.fixture(scope="module")
def fitted():
    return EdgeRegressor(**SMALL).fit(roads())


def test_complete_graphs_are_answered_in_their_shape(streamed):
    attributes, truth = TASKS["shortest_path"].draw(3, 5, generator(0, "test"))
    answer = streamed.predict(attributes)
    assert answer.shape == (3, 5, 5) and np.isfinite(answer).all()
    assert streamed.sample(2, attributes.numpy()).shape == (2, 3, 5, 5)
    assert streamed.score(truth, attributes) == pytest.approx(-np.square(answer - truth.numpy()).mean())
    low, high = streamed.range_
    assert low == 0 and 1 < high < 2 and low <= answer.min() and answer.max() <= high


def test_known_edges_come_back_unchanged(streamed):
    attributes, truth = TASKS["shortest_path"].draw(2, 4, generator(0, "test"))
    known = np.where(np.random.default_rng(0).random(truth.shape) < 0.5, truth.numpy() + 7, np.nan)
    given = ~np.isnan(known)
    answer, samples = streamed.predict(attributes, known), streamed.sample(2, attributes, known)
    np.testing.assert_array_equal(answer[given], known[given])
    np.testing.assert_array_equal(samples[:, given], np.stack([known[given]] * 2))
    assert (answer[~given] != streamed.predict(attributes)[~given]).any()
    expected = -np.square(answer - truth.numpy())[~given].mean()
    assert streamed.score(truth, attributes, known) == pytest.approx(expected)


def test_the_same_seed_gives_the_same_model_and_samples(streamed):
    again = EdgeRegressor(**SMALL).fit(STREAM)
    other = EdgeRegressor(**SMALL).fit(replace(STREAM, seed=1))
    attributes, _ = TASKS["shortest_path"].draw(2, 4, generator(0, "test"))
    np.testing.assert_array_equal(again.sample(2, attributes, seed=3), streamed.sample(2, attributes, seed=3))
    assert not np.array_equal(other.predict(attributes), streamed.predict(attributes))


@pytest.mark.parametrize("kind", [EdgeRegressor, DirectEdgeRegressor])
def test_a_saved_model_answers_the_same(kind, tmp_path):
    attributes, _ = TASKS["shortest_path"].draw(2, 4, generator(0, "test"))
    for data, question in ((STREAM, attributes), (roads(), roads(1))):
        model = kind(**SMALL).fit(data)
        model.save(tmp_path / "model")
        loaded = Estimator.load(tmp_path / "model")
        assert type(loaded) is kind and loaded.range_ == model.range_
        np.testing.assert_array_equal(loaded.predict(question), model.predict(question))


def test_training_that_was_stopped_goes_on_as_if_it_had_not(streamed, tmp_path):
    class Stop(Exception):
        pass

    def stop(trainer):
        if trainer.step == 4:
            raise Stop

    path = tmp_path / "checkpoint"
    with pytest.raises(Stop):
        EdgeRegressor(**SMALL).fit(STREAM, checkpoint=path, progress=stop)
    resumed = EdgeRegressor(**SMALL).fit(STREAM, checkpoint=path, resume=True)
    for name, weight in streamed.denoiser_.state_dict().items():
        assert torch.equal(weight, resumed.denoiser_.state_dict()[name])
    with pytest.raises(InputError, match="other data or settings"):
        EdgeRegressor(**SMALL).fit(replace(STREAM, seed=1), checkpoint=path, resume=True)


def test_a_graph_of_the_user_keeps_its_known_values(fitted):
    graph = roads()
    answer = fitted.predict()
    np.testing.assert_array_equal(answer[graph.known], graph.y[graph.known])
    assert np.isfinite(answer).all() and answer.shape == (graph.num_edges,)
    own = fitted.predict(clamp_known=False)
    assert not np.array_equal(own[graph.known], graph.y[graph.known])


def test_values_learned_since_condition_the_answer(fitted):
    graph = roads()
    row = int(np.flatnonzero(~graph.known)[0])
    pair = tuple(graph.ids[graph.edge_index[:, row]].tolist())
    assert fitted.predict(known={pair: 42.0})[row] == 42.0
    assert fitted.sample(2, known={pair: 42.0})[:, row].tolist() == [42.0, 42.0]


def test_other_graphs_are_answered_one_or_several(fitted):
    bare = [replace_values(roads(seed)) for seed in (1, 2)]
    answers = fitted.predict(bare)
    assert [len(answer) for answer in answers] == [graph.num_edges for graph in bare]
    truth = {tuple(bare[0].ids[ends].tolist()): 1.0 for ends in bare[0].edge_index.T}
    expected = -np.square(fitted.predict(bare[0]) - 1).mean()
    assert fitted.score(truth, bare[0]) == pytest.approx(expected)


def replace_values(graph):
    """The same graph, which says nothing of values."""
    return Graph.build(graph.edge_index.T, num_nodes=graph.num_nodes, edge_attr=graph.edge_attr)


def test_several_graphs_are_learned_from():
    graphs = [roads(seed, unknown=0.0) for seed in range(4)]
    training = replace(QUICK, batch_size=2)
    model = EdgeRegressor(**SMALL | {"training": training}).fit(graphs[:3], validation=graphs[3])
    assert model.validation_.sum() == graphs[3].num_edges and len(model.predict(graphs)) == 4


def test_directed_graphs_are_learned_from():
    model = EdgeRegressor(network="gine", **SMALL).fit(roads(directed=True), validation=None)
    assert model.predict().shape == (roads().num_edges,)
    with pytest.raises(InputError, match="directed"):
        model.predict(roads())


def test_settings_are_those_of_the_constructor():
    model = EdgeRegressor(network="gine", training=QUICK)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(training__steps=3).training.steps == 3
    assert repr(EdgeRegressor(clip=False)) == "EdgeRegressor(clip=False)"
    for kind in (EdgeRegressor, DirectEdgeRegressor):
        assert is_regressor(kind()) and not is_classifier(kind())


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"network": "transformer"}, "triples"),
        ({"num_averaged": 0}, "num_averaged"),
        ({"hidden_channels": 0}, "hidden_channels"),
        ({"training": Training()}, "hide_features=0"),
        ({"sampling": Sampling(method="ddim", steps=500)}, "steps"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        EdgeRegressor(**settings).fit(STREAM)


def test_what_cannot_be_asked_is_refused(streamed, fitted):
    with pytest.raises(InputError, match="stream"):
        streamed.predict()
    with pytest.raises(InputError, match=r"\(graphs, n, n\)"):
        streamed.predict(np.zeros((3, 4, 5)))
    with pytest.raises(InputError, match="NaN"):
        streamed.predict(np.zeros((3, 4, 4)), np.zeros((3, 4)))
    with pytest.raises(InputError, match="edge features"):
        fitted.predict(Graph.build([(0, 1)]))
    with pytest.raises(NotFittedError):
        EdgeRegressor().predict(np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match="labels of edges, and these are of nodes"):
        EdgeRegressor(training=QUICK).fit(Graph.build([(0, 1)], y=[1.0, 2.0], kind="value"))


def test_edge_features_must_be_those_of_the_fit_by_name(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"s": range(8), "t": range(1, 9), "km": rng.random(8), "lanes": rng.random(8), "w": range(8)})

    def graph(*features, **columns):
        return Graph.from_tables(table.rename(columns=columns), edge_features=features, edge_label="w")

    EdgeRegressor(**SMALL).fit(graph("km", "lanes")).save(tmp_path / "model")
    model = EdgeRegressor.load(tmp_path / "model")
    assert model.graph_.edge_feature_names == ("km", "lanes")
    np.testing.assert_array_equal(
        model.predict(graph("km", "lanes"), clamp_known=False), model.predict(clamp_known=False)
    )
    bare = replace(graph("lanes", "km"), edge_feature_names=None)  # of which nobody knows
    assert model.predict(bare).shape == (8,)
    with pytest.raises(InputError, match="has them in another order: its edge features must be those of the fit, 'km'"):
        model.predict(graph("lanes", "km"))
    with pytest.raises(InputError, match="lacks 'km' and adds 'miles': its edge features"):
        model.predict([graph("miles", "lanes", km="miles")] * 2)


@pytest.mark.slow
def test_copying_is_learned_from_a_stream():
    training = replace(TRAINING, steps=300, batch_size=32, evaluate_every=300, averaging=0.98, learning_rate=0.01)
    model = EdgeRegressor(hidden_channels=8, num_layers=1, training=training).fit(TaskStream("edge_copy"))
    attributes, truth = TASKS["edge_copy"].draw(20, 10, generator(0, "test", 10))
    assert model.score(truth, attributes) > -0.005  # the variance is 1/3


def test_complete_graphs_must_be_like_those_of_the_fit(streamed):
    model = streamed
    for wrong in (np.zeros((2, 3, 3, 2)), np.full((1, 3, 3), np.nan), np.zeros((0, 3, 3)), np.zeros((2, 0, 0))):
        with pytest.raises(InputError):
            model.predict(wrong)
    with pytest.raises(InputError, match="mean squared error"):
        model.score(np.zeros((1, 3, 3)), np.zeros((1, 3, 3)), metric="mae")


def test_parts_of_many_graphs_have_noise_of_their_own(streamed, monkeypatch):
    monkeypatch.setattr(edge_regressor, "ROWS_AT_A_TIME", 9)
    drawn = streamed.sample(1, np.zeros((3, 3, 3)))[0]
    assert not np.allclose(drawn[0], drawn[1]) and not np.allclose(drawn[1], drawn[2])


def test_constant_edge_features_are_left_alone():
    network = EDGE_DENOISERS["triples"](0, 1, 1)
    network.standardise(torch.full((28, 1), 0.1))
    assert network.scale.item() == 1.0
