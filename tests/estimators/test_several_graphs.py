"""Several graphs: what is learned from, what is answered, and in which form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from coupled_trees import exact, partly_known_trees, trees
from dpmsnc import NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines import METHODS
from dpmsnc.errors import InputError
from dpmsnc.estimators.several import divided
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.batch import GraphBatch
from pairwise_models import marginals_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning"),
    pytest.mark.usefixtures("brief_couplings"),
]
FEW = Training(steps=6, evaluate_every=3)
SMALL: dict[str, Any] = {"hidden_channels": 8, "schedule": Schedule(10), "sampling": Sampling(steps=4), "training": FEW}


def path(length: int, seed: int, first: int = 0) -> Graph:
    """A path whose labels alternate, with features that say a little."""
    y = (np.arange(length) + first) % 2
    x = np.eye(2)[y] + np.random.default_rng(seed).normal(size=(length, 2))
    edges = [(f"n{i}", f"n{i + 1}") for i in range(length - 1)]
    names = ["even" if label == 0 else "odd" for label in y]
    return Graph.build(edges, x=x, y=names, ids=[f"n{i}" for i in range(length)], classes=["even", "odd"])


def hidden(graph: Graph) -> Graph:
    return graph.with_labels(np.full(graph.num_nodes, UNKNOWN))


TRAIN = [path(4 + k % 4, k, k % 2) for k in range(10)]
VALIDATION = [path(5, 100 + k, k % 2) for k in range(4)]
TEST = [path(6, 200, 0), path(3, 201, 1), path(1, 202, 1)]


def classifier(**settings: Any) -> NodeClassifier:
    return NodeClassifier(**({"initialiser": ("gcn", {"epochs": 5})} | SMALL | settings))


@pytest.fixture(scope="module")
def fitted() -> NodeClassifier:
    return classifier().fit(TRAIN, validation=VALIDATION)


def test_a_list_is_answered_by_a_list_and_a_graph_by_an_array(fitted):
    answers = fitted.predict([hidden(g) for g in TEST])
    assert [len(a) for a in answers] == [6, 3, 1]
    assert [p.shape for p in fitted.predict_proba([hidden(g) for g in TEST])] == [(6, 2), (3, 2), (1, 2)]
    assert [s.shape for s in fitted.sample(5, [hidden(g) for g in TEST])] == [(5, 6), (5, 3), (5, 1)]
    alone = fitted.predict_proba(hidden(TEST[0]))
    assert alone.shape == (6, 2)
    np.testing.assert_allclose(alone, fitted.predict_proba([hidden(g) for g in TEST])[0], atol=1e-5)
    assert [len(a) for a in fitted.predict([hidden(TEST[0])])] == [6]
    assert len(fitted.predict()) == len(TRAIN) + len(VALIDATION)


def test_known_labels_of_each_graph_condition_it_and_come_back(fitted):
    graphs = [hidden(g) for g in TEST]
    answers = fitted.predict(graphs, known=[{"n2": "odd"}, None, {"n0": "even"}])
    assert answers[0][2] == "odd" and answers[2][0] == "even"
    np.testing.assert_array_equal(answers[1], fitted.predict(graphs)[1])
    np.testing.assert_array_equal(answers[0], fitted.predict(graphs[0], known={"n2": "odd"}))


@pytest.mark.parametrize("known", [{"n2": "odd"}, [None], "odd"])
def test_known_labels_that_name_no_graph_are_refused(fitted, known):
    with pytest.raises(InputError, match="a mapping, or None, for each"):
        fitted.predict([hidden(g) for g in TEST], known=known)


def test_known_labels_of_the_fitted_graphs_must_say_which(fitted):
    with pytest.raises(InputError, match="one of several graphs; say which"):
        fitted.predict(known={"n0": "odd"})


def test_the_score_of_several_graphs_is_that_of_all_their_nodes(fitted):
    graphs = [hidden(g) for g in TEST]
    right = np.concatenate([a == g.decode(g.y) for a, g in zip(fitted.predict(graphs), TEST)])
    assert fitted.score(TEST, graphs) == pytest.approx(right.mean())
    with pytest.raises(InputError, match="one entry for each"):
        fitted.score(TEST[:1], graphs)


def test_labels_of_validation_graphs_change_no_weight():
    """With a single evaluation there is nothing to choose, so what they say must not matter at all."""
    training = Training(steps=4, evaluate_every=4, select_by="graph_accuracy")
    flipped = [g.with_labels(1 - g.y) for g in VALIDATION]
    settings: dict[str, Any] = {"training": training, "start": "random", "initialiser": "uniform"}
    models = [classifier(**settings).fit(TRAIN, validation=graphs) for graphs in (VALIDATION, flipped)]
    for one, other in zip(models[0].denoiser_.parameters(), models[1].denoiser_.parameters()):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_labels_of_whole_graphs_are_hidden_and_validation_graphs_are_not_learned_from():
    model = classifier()
    seen = []
    model.fit(TRAIN, validation=VALIDATION, progress=lambda trainer: seen.append(trainer.source))
    source = seen[-1]
    draw = source.draw()
    member = model.graph_.member
    of_validation = member >= len(TRAIN)
    assert (draw.weights[of_validation] == 0).all() and draw.weights.sum().item() == pytest.approx(1)
    nothing_shown = [k for k in range(draw.shown.mask.shape[1]) if not draw.shown.mask[:, k].any()]
    for k in nothing_shown:
        assert (draw.weights[~of_validation, k] > 0).all()
    for _ in range(20):
        source.refresh(0)
        assert not source.chains.shown[-1].any()
    source.refresh(10)
    shown = source.chains.shown[-1].numpy()
    shares = [shown[member == k].mean() for k in range(len(TRAIN))]
    assert 0 < shown.mean() < 1 and len(set(shares)) > 2


def test_graphs_nearly_all_of_whose_labels_are_known_need_no_e_step():
    graphs = [*TRAIN, TRAIN[0].with_labels(np.array([UNKNOWN, *TRAIN[0].y[1:]]))]
    seen = []
    training = Training(steps=4, evaluate_every=2, batch_size=4, select_by="graph_accuracy")
    model = classifier(start="random", initialiser="uniform", training=training)
    model.fit(graphs, validation=VALIDATION, progress=lambda trainer: seen.append(trainer.source))
    source = seen[-1]
    assert type(source).__name__ == "FullyLabelled" and len(source.batches) == 3
    batch = source.batches[-1]
    assert int((~batch.known).sum()) == 1
    source.batches, source.order = [batch], []
    draw = source.draw()
    assert (draw.weights[~batch.known] == 0).all() and not draw.shown.mask[~batch.known].any()
    truth = np.concatenate([g.y for g in VALIDATION])
    answers = model.predict([hidden(g) for g in VALIDATION])
    right = [bool((a == g.decode(g.y)).all()) for a, g in zip(answers, VALIDATION)]
    assert model.best_score_ == pytest.approx(np.mean(right)) and len(truth) == 20


@pytest.mark.parametrize("name", ["gcn", "lp", "pta", "neighbourhood", "crf", "spn", "masked-labels"])
def test_methods_answer_for_graphs_that_they_have_not_seen(name):
    few: dict[str, Any] = {
        "masked-labels": SMALL | {"initialiser": ("gcn", {"epochs": 5})},
        "gcn": {"epochs": 5},
        "spn": {"epochs": 5, "refinement_epochs": 2},
    }
    options = few.get(name, {}) | ({"base": "uniform"} if name == "crf" else {})
    model = METHODS.find(name).build(0, **options).fit(TRAIN, validation=VALIDATION)
    assert [p.shape for p in model.predict_proba([hidden(g) for g in TEST])] == [(6, 2), (3, 2), (1, 2)]


def test_a_saved_model_of_several_graphs_answers_as_before(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    graphs = [hidden(g) for g in TEST]
    for one, other in zip(fitted.sample(3, graphs), loaded.sample(3, graphs)):
        np.testing.assert_array_equal(one, other)
    assert len(loaded.predict()) == len(TRAIN) + len(VALIDATION)


def test_ten_thousand_graphs_at_once(fitted):
    graphs = [hidden(TEST[k % 3]) for k in range(10_000)]
    answers = fitted.predict_proba(graphs)
    assert len(answers) == 10_000
    np.testing.assert_allclose(answers[9_000], answers[0], atol=1e-5)


def test_what_does_not_fit_is_named(fitted):
    with pytest.raises(InputError, match="3 features a node, the fitted one 2"):
        fitted.predict([TEST[0], Graph.build([(0, 1)], x=np.ones((2, 3)))])
    other = Graph.build([(0, 1)], x=np.ones((2, 2)), y=["even", "blue"])
    with pytest.raises(InputError, match="blue"):
        fitted.predict([TEST[0], other])
    with pytest.raises(InputError, match="blue"):
        classifier().fit(TRAIN, validation=[other])
    with pytest.raises(InputError, match="no label to compare with"):
        classifier().fit(TRAIN, validation=[hidden(TEST[0])])
    with pytest.raises(InputError, match="empty list"):
        fitted.predict([])
    with pytest.raises(InputError, match="build one with"):
        fitted.predict([TEST[0], "graph.npz"])


def test_validation_labels_of_several_graphs_are_named_graph_by_graph():
    graphs = [path(3, 0), path(4, 1), path(2, 2)]
    mask = [False, False, True, False]
    _, train, held_back = divided(graphs, [["n1"], np.array(mask), None], 0, "fit")
    assert np.flatnonzero(held_back).tolist() == [1, 5] and (train == ~held_back).all()
    _, _, again = divided(graphs, held_back, 0, "fit")
    assert (again == held_back).all()
    assert divided(graphs, torch.tensor(0.3), 0, "fit")[2].sum() == 3
    _, _, of_one = divided(graphs[:1], [["n1"]], 0, "fit")
    assert np.flatnonzero(of_one).tolist() == [1]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (["n1"], "names rows of 2 graphs.*a list of 2 with ids, a mask or None for each graph, or graphs of their own"),
        ([["n1"], ["n1", "n2"], ["n2"]], "names rows of 2 graphs"),
        (["n1", ["n1"]], "names rows of 2 graphs"),
        (["n1", "n2"], "names rows of 2 graphs"),
        ("n1", "names rows of 2 graphs"),
        ([0, 1], "names rows of 2 graphs"),
        (np.array([True, False]), "names rows of 2 graphs"),
        ([["n1"], ["n9"]], "validation of graph 1 of 2: .*'n9'"),
        ([[], ["n1"]], "validation of graph 1 of 2: validation node n1 has no known label"),
        (np.array([False, True, False, False, True]), "validation of graph 1 of 2: validation node n1 has no known"),
        ([[True], None], "validation of graph 0 of 2: a validation mask has one entry per node, 3"),
        ([None, None], "names no node"),
    ],
)
def test_wrong_validation_labels_of_several_graphs_are_named_as_their_owner_knows_them(validation, message):
    first, second = path(3, 0), path(2, 1)
    graphs = [first, second.with_labels(np.array([second.y[0], UNKNOWN]))]
    with pytest.raises(InputError, match=message):
        divided(graphs, validation, 0, "fit")


def test_validation_labels_of_edges_are_named_by_a_mask():
    graph = Graph.build([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")], edge_y=[1.0, 2.0, 3.0, None])
    missing = int(np.flatnonzero(~graph.known)[0])
    ends = ", ".join(str(graph.ids[k]) for k in graph.edge_index[:, missing])
    for validation, message in (
        (["a"], "a mask with a boolean for each edge"),
        (~graph.known, f"validation edge {ends} has no known label"),
        ([True], "one entry per edge, 4"),
    ):
        with pytest.raises(InputError, match=message):
            divided(graph, validation, 0, "fit")


def test_a_union_knows_its_graphs_and_keeps_that_in_a_file(tmp_path):
    union = GraphBatch.of(TEST).graph
    assert union.member.tolist() == [0] * 6 + [1] * 3 + [2]
    union.to_npz(tmp_path / "union.npz")
    assert Graph.from_npz(tmp_path / "union.npz").member.tolist() == union.member.tolist()
    part = union.subgraph(union.member != 1)
    assert part.member.tolist() == [0] * 6 + [1] and part.num_edges == 5


def test_a_list_of_one_union_is_answered_by_a_list_of_one(fitted):
    union = GraphBatch.of([hidden(g) for g in TEST]).graph
    (answer,) = fitted.predict([union])
    assert len(answer) == union.num_nodes


def test_labels_held_back_within_graphs_are_not_trained_on():
    seen = []
    model = classifier(start="random", initialiser="uniform", training=Training(steps=2, evaluate_every=2))
    model.fit([path(30, k) for k in range(4)], validation=0.04, progress=lambda trainer: seen.append(trainer.source))
    source = seen[-1]
    assert type(source).__name__ == "FullyLabelled"
    assert sum(int(batch.known.sum()) for batch in source.batches) == model.train_.sum() == 115
    assert int(source.validation.known.sum()) == model.validation_.sum() == 5


@pytest.mark.usefixtures("full_couplings")
@pytest.mark.parametrize("name", ["lp", "crf"])
def test_an_answer_does_not_depend_on_what_else_is_asked(name):
    model = METHODS.find(name).build(0, **({"base": "lp"} if name == "crf" else {})).fit(TRAIN, validation=VALIDATION)
    alone, labelled = hidden(TEST[0]), TEST[1]
    together = model.predict_proba([alone, *[labelled] * 200])[0]
    np.testing.assert_allclose(together, model.predict_proba(alone), atol=1e-5)


@pytest.mark.usefixtures("full_couplings")
def test_a_label_travels_as_far_in_a_list_as_alone():
    long = Graph.build([(i, i + 1) for i in range(59)], y=[k % 2 for k in range(60)])
    model = METHODS.find("crf").build(0, base="uniform").fit([long, long], validation=None)
    asked = long.with_labels(np.where(np.arange(60) == 0, 0, UNKNOWN))
    np.testing.assert_allclose(model.predict_proba([asked] * 2000)[7], model.predict_proba(asked), atol=1e-4)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_model_of_fully_labelled_graphs_is_saved_and_reports(batch_size, tmp_path):
    training = Training(steps=4, evaluate_every=2, batch_size=batch_size)
    model = classifier(start="random", initialiser="uniform", training=training).fit(TRAIN, validation=VALIDATION)
    model.save(tmp_path / "model")
    graphs = [hidden(g) for g in TEST]
    for one, other in zip(model.predict(graphs), NodeClassifier.load(tmp_path / "model").predict(graphs)):
        np.testing.assert_array_equal(one, other)
    asked = model._asked(None, None, "train")
    right = (model._answer(asked, clamp_known=False) == model.graph_.y)[model.validation_]
    assert model.report_.fitted.count == right.sum() and model.report_.initialiser is None


def test_one_graph_with_validation_graphs_learns_from_the_one():
    seen = []
    classifier().fit([path(12, 0)], validation=VALIDATION, progress=lambda trainer: seen.append(trainer.source))
    draw = seen[-1].draw()
    assert (draw.weights[12:] == 0).all() and draw.weights[:12].sum().item() == pytest.approx(1)


def test_partly_labelled_graphs_are_fitted_from_random_weights():
    graphs = [g.with_labels(np.where(np.arange(g.num_nodes) % 2 == 0, g.y, UNKNOWN)) for g in TRAIN]
    model = classifier(start="random", initialiser=("gcn", {"epochs": 5})).fit(graphs, validation=0.2)
    assert len(model.predict()) == len(graphs)


def test_more_that_does_not_fit_is_named(fitted):
    empty = TEST[0].subgraph(np.zeros(6, dtype=bool))
    with pytest.raises(InputError, match="graph 1 has no nodes"):
        fitted.predict([TEST[0], empty])
    with pytest.raises(InputError, match=r"pass list\(...\)"):
        fitted.predict(g for g in TEST)
    with pytest.raises(InputError, match="batch_size is for"):
        classifier(training=Training(batch_size=2)).fit(TRAIN, validation=VALIDATION)
    with pytest.raises(InputError, match=r"score\(truths, graphs\)"):
        fitted.score(TRAIN)
    with pytest.raises(InputError, match="leave condition_on out"):
        fitted.predict([TEST[0]], known=[{"n0": "odd"}], condition_on="train")
    with pytest.raises(InputError, match="needs several graphs"):
        classifier(training=Training(select_by="graph_accuracy")).fit(path(20, 1))
    with pytest.raises(InputError, match="mask of 6 booleans"):
        TEST[0].subgraph(np.arange(3))


@pytest.mark.slow
def test_marginals_of_fresh_trees_are_near_the_exact_ones():
    """Labels are strongly coupled: what nodes say by themselves is far from the posterior given some of the labels."""
    model = NodeClassifier(scaling="raw").fit(trees(200, 0), validation=trees(60, 1000))
    errors, blind = [], []
    for tree, asked, shown, expected in partly_known_trees():
        samples = tree.encode(model.sample(2000, asked).ravel()).reshape(2000, -1)
        frequency = np.stack([(samples == c).mean(axis=0) for c in range(3)], axis=1)
        errors.append(np.abs(frequency - expected)[~shown])
        blind.append(np.abs(marginals_of(*exact(tree, {}), 3) - expected)[~shown])
    assert np.concatenate(blind).mean() >= 0.15
    assert np.concatenate(errors).mean() <= 0.05
