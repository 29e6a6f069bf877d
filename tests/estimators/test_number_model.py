"""The Gaussian model under a diffusion model of numbers, on nodes and on edges: a linear part and a field."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dpmsnc import EdgeRegressor, Graph, NodeClassifier, Training
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.edge_regressor import TRAINING, DirectEdgeRegressor
from dpmsnc.estimators.field_part import FieldPart, parts, solve
from dpmsnc.estimators.linear_part import LinearPart, num_columns, table
from dpmsnc.estimators.number_model import NumberModel
from dpmsnc.estimators.value_report import ValueReport
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.graph.features import Features
from dpmsnc.reasoning.irem import IREM
from dpmsnc.reasoning.iterative import IterativeRegressor
from dpmsnc.reasoning.ponder import PonderRegressor

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
    Z, y = table(graph, features, np.arange(30)), graph.y
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


def test_noise_has_the_mean_and_no_field():
    for seed in range(5):
        graph, features = flights(seed)[0], Features.fit(flights(seed)[0], "unit")
        noise = np.random.default_rng(seed).normal(size=graph.num_edges)
        model = NumberModel.of(graph.with_labels(noise, graph.target), features, noise)
        assert model.field is None and not model.linear.weight.any()
        np.testing.assert_allclose(model.linear.at(graph, features, False), noise.mean())


def test_few_numbers_or_equal_ones_have_their_mean():
    graph, y = flights()
    few = np.where(np.arange(len(y)) < 5, y, np.nan)
    part, features = fitted_part(graph.with_labels(few, graph.target))
    np.testing.assert_allclose(part.at(graph, features, False), y[:5].mean())
    equal = NumberModel.of(graph, features, np.full(len(y), 3.0))
    assert equal.field is None and equal.spread > 0
    np.testing.assert_allclose(equal.at(graph, features, np.full(len(y), 3.0), True), 3.0)


@pytest.mark.parametrize("make", [flights, houses])
def test_the_number_of_columns_is_known_without_the_table(make):
    graph, _ = make()
    features = Features.fit(graph, "unit")
    rows = np.arange(5)
    assert table(graph, features, rows).shape == (5, num_columns(graph, features))
    bare = Graph.build(graph.edge_index.T, num_nodes=graph.num_nodes, directed=graph.directed)
    bare = bare.with_labels(graph.y, graph.target)
    structure = Features.fit(bare, "unit", structure=True)
    for some in (structure, Features.fit(bare, "unit")):
        assert table(bare, some, rows).shape == (5, num_columns(bare, some))


def places(seed=0, n=300):
    """Nodes whose numbers change slowly over a plane in which near ones are neighbours; features tell nothing."""
    drawn = nx.random_geometric_graph(n, 0.12, seed=seed)
    x, y = np.array([drawn.nodes[k]["pos"] for k in range(n)]).T
    rng = np.random.default_rng(seed)
    truth = 3 * np.sin(5 * x) + 2 * y + 0.1 * rng.normal(size=n)
    given = [float(value) if rng.random() < 0.5 else None for value in truth]
    return Graph.build(list(drawn.edges), num_nodes=n, y=given, kind="value"), truth


def ratings(seed=0, people=40, count=600, directed=False):
    """Edges whose numbers are sums of what is particular to their ends."""
    graph, _ = flights(seed, people, count, directed)
    rng = np.random.default_rng(seed + 100)
    first, second = rng.normal(size=(2, people))
    first = first if directed else second
    truth = first[graph.edge_index[0]] + second[graph.edge_index[1]] + 0.1 * rng.normal(size=count)
    given = np.where(rng.random(count) < 0.3, np.nan, truth)
    bare = Graph.build(graph.edge_index.T, num_nodes=people, directed=directed)
    return bare.with_labels(given, graph.target), truth


def test_numbers_that_neighbours_share_are_found_without_features():
    graph, y = places()
    model = NodeClassifier(training=Training(steps=4, evaluate_every=2), hidden_channels=8).fit(graph)
    assert r2(model.predict(), y, ~graph.known) > 0.9


@pytest.mark.parametrize("directed", [True, False])
def test_what_is_particular_to_the_ends_of_edges_is_found(directed):
    graph, y = ratings(directed=directed)
    model = EdgeRegressor(**SMALL).fit(graph)
    assert r2(model.predict(), y, ~graph.known) > 0.9


def test_a_number_learned_later_changes_those_nearby():
    graph, _ = places()
    features = Features.fit(graph, "unit")
    model = NumberModel.of(graph, features, graph.y)
    node = int(np.flatnonzero(~graph.known)[0])
    later = graph.y.copy()
    later[node] = 40.0
    change = np.abs(model.at(graph, features, later, True) - model.at(graph, features, graph.y, True))
    near = np.asarray(graph.adjacency[[node]].todense()).ravel() > 0
    assert change[near].mean() > 5 * change[~near].mean()


@pytest.mark.parametrize("make", [places, ratings])
def test_the_field_is_that_of_the_closed_form(make):
    """A known row is answered as if its fold were not known."""
    graph, _ = make()
    left, field = graph.y - np.nanmean(graph.y), FieldPart(0.3, 0.1)
    answer = field.at(graph, left)
    B, K = (part.toarray() for part in parts(graph, 0.1))
    known = np.flatnonzero(graph.known)

    def closed_form(rows):
        return B @ np.linalg.solve(B[rows].T @ B[rows] + 0.3 * K, B[rows].T @ left[rows])

    unknown = ~graph.known
    np.testing.assert_allclose(answer[unknown], closed_form(known)[unknown], atol=1e-3)
    fold = np.random.default_rng(0).permutation(len(left)) % 10
    for k in (0, 7):
        hidden = known[fold[known] == k]
        np.testing.assert_allclose(answer[hidden], closed_form(np.setdiff1d(known, hidden))[hidden], atol=1e-3)


def test_a_number_learned_later_is_in_no_fold_of_others():
    """Rows far away, in another component, keep the answers that they had."""
    graph = GraphBatch.of([places()[0], places(1)[0]]).graph
    node = int(np.flatnonzero(~graph.known)[-1])
    later = graph.y.copy()
    later[node] = 40.0
    field, first = FieldPart(0.3, 0.1), graph.member == 0
    answers = [field.at(graph, y - np.nanmean(graph.y)) for y in (graph.y, later)]
    np.testing.assert_allclose(answers[0][first], answers[1][first], atol=1e-3)


def test_columns_that_are_solved_together_are_those_solved_alone():
    graph, _ = places()
    B, K = parts(graph, 0.1)
    rng = np.random.default_rng(0)
    told, right = (rng.random((300, 3)) < 0.4).astype(float), rng.normal(size=(300, 3))
    alone = [solve(B, K, told[:, [k]], right[:, [k]]) for k in range(3)]
    np.testing.assert_allclose(solve(B, K, told, right), np.concatenate(alone, axis=1), atol=1e-4)


def test_a_graph_without_known_numbers_or_edges_has_no_field():
    graph, _ = places()
    assert not FieldPart(1.0, 1.0).at(graph, np.full(300, np.nan)).any()
    alone = Graph.build([], num_nodes=20, y=np.arange(20.0).tolist(), kind="value")
    assert FieldPart.of(alone, alone.y - 9.5) is None


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


def test_a_model_of_another_graph_is_refused():
    graph, _ = flights()
    features = Features.fit(graph, "unit")
    model = NumberModel.of(graph, features, graph.y)
    arrays, values = model.state()
    assert NumberModel.from_state(arrays, values, graph, features).spread == model.spread
    for name in ("weight", "unseen", "low", "bias"):
        with pytest.raises(ValueError, match="another graph"):
            NumberModel.from_state(arrays | {name: arrays[name][1:]}, values, graph, features)
    for broken in ({"spread": 0.0}, {"field": {"strength": -1.0, "shrinkage": 1.0}}):
        with pytest.raises(ValueError, match=r"no deviation|is none"):
            NumberModel.from_state(arrays, values | broken, graph, features)


def test_the_fit_says_how_good_it_is(tmp_path):
    graph, _ = flights()
    model = EdgeRegressor(**SMALL).fit(graph)
    assert model.report_.r2 > 0.97 and model.report_.gaussian == pytest.approx(model.report_.r2, abs=0.02)
    numbers, fitted, gaussian = str(model.report_).splitlines()
    assert numbers.endswith(f"{model.train_.sum()} for training, {model.validation_.sum()} for validation")
    assert fitted.startswith("validation R^2 ") and gaussian.startswith("its Gaussian model ")
    model.save(tmp_path / "model")
    assert Estimator.load(tmp_path / "model").report_ == model.report_


def test_numbers_that_nothing_tells_are_warned_of():
    graph, y = flights()
    noise = graph.with_labels(np.random.default_rng(1).normal(size=len(y)), graph.target)
    with pytest.warns(FitWarning, match="no better than the mean"):
        EdgeRegressor(**SMALL | {"training": replace(QUICK, learning_rate=0.5)}).fit(noise)


def test_a_network_that_spoils_a_good_gaussian_model_is_blamed_for_it():
    report = ValueReport(100, 50, r2=-3.0, gaussian=0.9)
    assert len(report.warnings) == 1 and "Train for more steps" in report.warnings[0]


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_numbers_whose_squares_are_out_of_range_are_refused(scale):
    graph, y = flights()
    with pytest.raises(InputError, match="out of range"):
        EdgeRegressor(**SMALL).fit(graph.with_labels(y * scale, graph.target))


def test_a_large_offset_leaves_numbers_as_they_are():
    graph, _ = flights()
    spreads = [
        NumberModel.of(moved, Features.fit(moved, "unit"), moved.y).spread
        for moved in (graph, graph.with_labels(graph.y + 1e9, graph.target))
    ]
    assert spreads[1] == pytest.approx(spreads[0], rel=0.01)


def test_a_field_says_nothing_of_complete_graphs_as_an_array():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(~np.eye(14, dtype=bool))
    effects = rng.normal(size=(2, 14))
    y = effects[0, pairs[:, 0]] + effects[1, pairs[:, 1]]
    model = EdgeRegressor(**SMALL, seed=0).fit(Graph.build(pairs, num_nodes=14, edge_y=y, directed=True))
    assert model.numbers_.field is not None
    with pytest.raises(InputError, match="pass Graphs"):
        model.predict(np.zeros((2, 4, 4)))


def test_complete_graphs_whose_edges_have_no_features_are_answered():
    pairs = np.argwhere(~np.eye(8, dtype=bool))
    y = np.random.default_rng(0).normal(size=len(pairs))
    model = EdgeRegressor(**SMALL, seed=0).fit(Graph.build(pairs, num_nodes=8, edge_y=y, directed=True))
    assert model.numbers_.field is None and model.predict(np.zeros((2, 4, 4))).shape == (2, 4, 4)


def test_numbers_of_complete_graphs_may_be_asked_as_an_array():
    """A user's complete graph as an array of attributes, as a model of a stream is asked."""
    rng = np.random.default_rng(0)
    pairs = np.argwhere(~np.eye(12, dtype=bool))
    attr = rng.normal(size=(len(pairs), 1))
    graph = Graph.build(pairs, num_nodes=12, edge_attr=attr, edge_y=3 * attr[:, 0] + 1, directed=True)
    model = EdgeRegressor(**SMALL, seed=0).fit(graph)
    attributes = rng.normal(size=(2, 5, 5))
    assert np.abs(model.predict(attributes) - (3 * attributes + 1).clip(*model.range_)).mean() < 0.3


@pytest.mark.parametrize(
    ("kind", "network"),
    [(DirectEdgeRegressor, "gine"), (PonderRegressor, "ponder"), (IterativeRegressor, "gine"), (IREM, "energy")],
)
def test_every_regressor_learns_what_the_gaussian_model_leaves(kind, network):
    graph, y = flights()
    model = kind(network=network, training=QUICK).fit(graph)
    assert r2(model.predict(), y, ~graph.known) > 0.95
    assert r2(model.sample(1)[0], y, ~graph.known) > 0.9


def test_rows_are_answered_alike_in_parts(monkeypatch):
    from dpmsnc.estimators import linear_part

    graph, _ = flights()
    part, features = fitted_part(graph)
    whole = part.at(graph, features, False)
    monkeypatch.setattr(linear_part, "ROWS_AT_A_TIME", 7)
    np.testing.assert_allclose(part.at(graph, features, False), whole)


def test_an_initialiser_of_numbers_is_given_and_gives_numbers():
    graph, y = houses()

    class Lookup:
        def fit(self, given, validation=None):
            assert np.nanmean(given.y) == pytest.approx(np.nanmean(graph.y), abs=0.3)
            return self

        def predict_proba(self):
            return y[:, None]

    brief = {"training": Training(steps=2, evaluate_every=1), "hidden_channels": 8}
    model = NodeClassifier(initialiser=Lookup(), start="random", **brief).fit(graph)
    assert np.abs(model.initialiser_proba_).mean() < 3  # in deviations of what the Gaussian model leaves


def test_equal_validation_numbers_have_no_r2():
    assert ValueReport(20, 10).warnings == []
    below = ValueReport(20, 10, 0.5, 0.9)
    assert "below that of the Gaussian model" in below.warnings[0]
    assert ValueReport(20, 10, 0.89, 0.9).warnings == []
