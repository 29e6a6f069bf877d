"""The linear model under a diffusion model of numbers, on nodes and on edges."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dpmsnc import EdgeRegressor, Graph, NodeClassifier, Training
from dpmsnc.errors import FitWarning
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.edge_regressor import TRAINING
from dpmsnc.estimators.linear_part import LinearPart, num_columns, table
from dpmsnc.graph.features import Features

QUICK = replace(TRAINING, steps=4, evaluate_every=2)
SMALL = {"hidden_channels": 8, "num_layers": 2, "num_averaged": 2, "training": QUICK}


def flights(seed=0, n=40, count=300, directed=True, noise=0.1, unknown=0.3):
    """Edges whose numbers are linear in their own features and those of their ends, and all of the numbers."""
    rng = np.random.default_rng(seed)
    every = np.argwhere(~np.tri(n, dtype=bool))
    pairs = every[np.sort(rng.permutation(len(every))[:count])]
    x, attr = rng.normal(size=(n, 3)), rng.normal(size=(count, 2))
    first, second = x[pairs.T]
    ends = first @ [1, -2, 0] + second @ [0, 1, 3] if directed else (first + second) @ [1, -2, 0]
    y = 50 + ends + attr @ [3, 0] + noise * rng.normal(size=count)
    given = np.where(rng.random(count) < unknown, np.nan, y)
    return Graph.build(pairs, num_nodes=n, x=x, edge_attr=attr, edge_y=given, directed=directed), y


def houses(seed=0, n=200, noise=0.1):
    """Nodes whose numbers are linear in their features and the mean of their neighbours'."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    bare = Graph.build([(i, (i + k) % n) for i in range(n) for k in (1, 2)], num_nodes=n, x=x)
    around = np.asarray(bare.adjacency @ x) / 4
    y = 7 + x @ [1, 0, -1] + 2 * around[:, 0] + noise * rng.normal(size=n)
    given = [None if rng.random() < 0.4 else float(value) for value in y]
    return Graph.build(bare.edge_index.T, num_nodes=n, x=x, y=given, kind="value"), y


def r2(predicted, y, asked):
    return 1 - np.square(predicted - y)[asked].mean() / y[asked].var()


def fitted_part(graph):
    features = Features.fit(graph, "unit")
    return LinearPart.of(graph, features, graph.y), features


@pytest.mark.parametrize("directed", [True, False])
def test_what_is_linear_in_features_of_edges_and_their_ends_is_found(directed):
    graph, y = flights(directed=directed)
    model = EdgeRegressor(**SMALL).fit(graph)
    assert r2(model.predict(), y, ~graph.known) > 0.97


def test_what_is_linear_in_features_of_nodes_and_neighbours_is_found():
    graph, y = houses()
    model = NodeClassifier(training=Training(steps=4, evaluate_every=2), hidden_channels=8).fit(graph)
    assert r2(model.predict(), y, ~graph.known) > 0.97


def test_another_graph_is_answered_by_the_same_linear_model():
    model = EdgeRegressor(**SMALL).fit(flights()[0])
    graph, y = flights(seed=3, unknown=1.0)
    assert r2(model.predict(graph), y, ~graph.known) > 0.97


def test_answers_without_a_number_are_those_of_a_ridge_that_did_not_see_it():
    graph, _ = flights(count=30, noise=1.0, unknown=0.0)
    part, features = fitted_part(graph)
    Z, y = table(graph, features), graph.y
    mean, std = Z.mean(axis=0), Z.std(axis=0)
    # the penalty that was chosen is the one whose weights these are
    fits = [Ridge(alpha * len(y)).fit((Z - mean) / std, y) for alpha in np.logspace(-4, 1, 11)]
    chosen = int(np.argmin([np.abs(fit.coef_ / std - part.weight).max() for fit in fits]))
    np.testing.assert_allclose(fits[chosen].coef_ / std, part.weight, rtol=1e-6, atol=1e-9)
    for row in (0, 7, 29):
        rest = np.arange(len(y)) != row
        Zc = (Z - mean) / std
        without = Ridge(fits[chosen].alpha).fit(Zc[rest], y[rest])
        assert part.unseen[row] == pytest.approx(without.predict(Zc[[row]])[0], rel=1e-6)


def test_noise_has_no_linear_model():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = flights(seed)[0]
        assert fitted_part(graph.with_labels(rng.normal(size=graph.num_edges), graph.target))[0] is None


def test_few_numbers_or_equal_ones_have_no_linear_model():
    graph, y = flights()
    few = np.where(np.arange(len(y)) < 5, y, np.nan)
    assert fitted_part(graph.with_labels(few, graph.target))[0] is None
    assert fitted_part(graph.with_labels(np.full(len(y), 3.0), graph.target))[0] is None


@pytest.mark.parametrize("make", [flights, houses])
def test_the_number_of_columns_is_known_without_the_table(make):
    graph, _ = make()
    features = Features.fit(graph, "unit")
    assert table(graph, features).shape[1] == num_columns(graph, features)
    bare = Graph.build(graph.edge_index.T, num_nodes=graph.num_nodes, directed=graph.directed)
    bare = bare.with_labels(graph.y, graph.target)
    structure = Features.fit(bare, "unit", structure=True)
    for some in (structure, Features.fit(bare, "unit")):
        assert table(bare, some).shape[1] == num_columns(bare, some)


def test_units_do_not_matter():
    graph, _ = flights()
    model = EdgeRegressor(**SMALL).fit(graph)
    scaled = EdgeRegressor(**SMALL).fit(graph.with_labels(1000 * graph.y - 7, graph.target))
    np.testing.assert_allclose(scaled.predict(), 1000 * model.predict() - 7, rtol=1e-3)


def test_known_numbers_come_back_unchanged_and_change_others():
    graph, y = flights(unknown=0.6)
    model = EdgeRegressor(**SMALL).fit(graph)
    np.testing.assert_array_equal(model.predict()[graph.known], graph.y[graph.known])
    np.testing.assert_array_equal(model.sample(2)[:, graph.known], np.stack([graph.y[graph.known]] * 2))
    more = np.where(np.arange(len(y)) % 2, y + 30, np.nan)
    asked = ~graph.known & np.isnan(more)
    assert (model.predict(known=more)[asked] != model.predict()[asked]).mean() > 0.9


@pytest.mark.parametrize("make", [flights, houses])
def test_a_saved_model_answers_the_same(make, tmp_path):
    graph, _ = make()
    brief = {"training": Training(steps=4, evaluate_every=2), "hidden_channels": 8}
    model = (EdgeRegressor(**SMALL) if make is flights else NodeClassifier(**brief)).fit(graph)
    model.save(tmp_path / "model")
    loaded = Estimator.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    other, _ = make(seed=4)
    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))


def test_a_linear_model_of_another_graph_is_refused():
    graph, _ = flights()
    part, features = fitted_part(graph)
    arrays, numbers = part.state()
    assert LinearPart.from_state(arrays, numbers, graph, features).r2 == part.r2
    for broken in ({"weight": part.weight[1:]}, {"unseen": part.unseen[1:]}):
        with pytest.raises(ValueError, match="another graph"):
            LinearPart.from_state(arrays | broken, numbers, graph, features)
    with pytest.raises(ValueError, match="another graph"):
        LinearPart.from_state(arrays, numbers | {"spread": 0.0}, graph, features)


def test_the_fit_says_how_good_it_is(tmp_path):
    graph, _ = flights()
    model = EdgeRegressor(**SMALL).fit(graph)
    assert model.report_.r2 > 0.97 and model.report_.linear == pytest.approx(model.report_.r2, abs=0.02)
    numbers, fitted, linear = str(model.report_).splitlines()
    assert numbers.endswith(f"{model.train_.sum()} for training, {model.validation_.sum()} for validation")
    assert fitted.startswith("validation R^2 ") and linear.startswith("its linear part ")
    model.save(tmp_path / "model")
    assert Estimator.load(tmp_path / "model").report_ == model.report_


def test_numbers_that_nothing_tells_are_warned_of():
    graph, y = flights()
    noise = graph.with_labels(np.random.default_rng(1).normal(size=len(y)), graph.target)
    with pytest.warns(FitWarning, match="no better than the mean"):
        EdgeRegressor(**SMALL | {"training": replace(QUICK, learning_rate=0.5)}).fit(noise)
