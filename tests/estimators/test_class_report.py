"""Scores by name, and what a classifier is right about class by class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import classification_report, f1_score

from dpmsnc import Graph, NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines import LabelPropagation
from dpmsnc.errors import InputError
from dpmsnc.estimators.class_report import ClassReport

pytestmark = pytest.mark.usefixtures("brief_couplings")
TRUE = np.array([0, 0, 0, 0, 1, 1, 2, -1, 0])
ANSWER = np.array([0, 0, 0, 1, 1, 0, 1, 2, -1])
ASKED = np.array([True] * 8 + [True])


def report() -> ClassReport:
    return ClassReport.of(ANSWER, TRUE, ASKED, ["red", "green", "blue"], {"accuracy": 0.5})


def partly_known() -> tuple[Graph, list[str]]:
    """A path of two halves, whose ends are known."""
    truth = ["a"] * 6 + ["b"] * 3
    edges = [(i, i + 1) for i in range(8)]
    return Graph.build(edges, y=["a", *[None] * 7, "b"]), truth


def test_counts_by_hand():
    found = report()
    np.testing.assert_array_equal(found.confusion, [[3, 1, 0], [1, 1, 0], [0, 1, 0]])
    assert found.by_class["red"] == {"precision": 0.75, "recall": 0.6, "f1": pytest.approx(2 / 3), "nodes": 5}
    assert found.by_class["blue"] == {"precision": 0, "recall": 0, "f1": 0, "nodes": 1}
    assert (found.majority.count, found.majority.of) == (5, 8)


def test_nodes_are_counted_in_whole_numbers_where_no_answer_is_right():
    found = ClassReport.of(np.array([1, -1, -1]), np.array([0, 0, 1]), np.ones(3, bool), ["red", "green", "blue"], {})
    lines = [line.split() for line in str(found).splitlines()]
    assert [row["nodes"] for row in found.by_class.values()] == [2, 1, 0]
    assert ["red", "0.0000", "0.0000", "0.0000", "2"] in lines and ["blue", "0.0000", "0.0000", "0.0000", "0"] in lines
    assert str(found).endswith("\n2 nodes without an answer count as wrong.")


def test_it_is_scikit_learns_report():
    rng = np.random.default_rng(0)
    truth, answer = rng.integers(0, 4, (2, 200))
    found = ClassReport.of(answer, truth, np.ones(200, bool), list("abcd"), {})
    expected = classification_report(truth, answer, target_names=list("abcd"), output_dict=True)
    for name, row in found.by_class.items():
        assert row["precision"] == expected[name]["precision"] and row["nodes"] == expected[name]["support"]


def test_it_reads_as_text_and_in_a_notebook():
    text = str(report())
    assert "green" in text and "0.6250" in text and "\n1 node without an answer counts as wrong." in text
    named = ClassReport.of(ANSWER, TRUE, ASKED, ["<b>", "green", "blue"], {})
    assert "&lt;b&gt;" in named._repr_html_() and "<b>" not in named._repr_html_()


def test_score_takes_any_metric_that_fits():
    graph, truth = partly_known()
    model = LabelPropagation().fit(graph)
    hidden = ~graph.known
    expected = f1_score(np.array(truth)[hidden], model.predict()[hidden], average="macro")
    assert model.score(truth, metric="macro_f1") == pytest.approx(expected)
    assert model.score(truth, metric="subgraph_accuracy") <= model.score(truth, metric="accuracy") == model.score(truth)
    assert model.score(truth, metric="calibration_error") <= 0
    with pytest.raises(InputError, match=r"metric='mse'.*take one of accuracy"):
        model.score(truth, metric="mse")
    with pytest.raises(InputError, match="several graphs"):
        model.score(truth, metric="graph_accuracy")
    with pytest.raises(InputError, match="luck"):
        model.score(truth, metric="luck")


def test_evaluate_asks_for_what_was_not_given():
    graph, truth = partly_known()
    found = LabelPropagation().fit(graph).evaluate(truth)
    assert len(found.truth) == 7 and found.classes == ("a", "b") and found.confusion.sum() == 7
    assert found.scores["accuracy"] == LabelPropagation().fit(graph).score(truth)
    assert found.majority.count == 5
    values = Graph.build([(0, 1)], y=[1.0, None], kind="value")
    short = Training(steps=2, evaluate_every=2)
    model = NodeClassifier(training=short, hidden_channels=4, start="random").fit(values, None)
    errors = model.evaluate([1.0, 2.0])
    assert (errors.num_rows, errors.on) == (1, "node")
    assert errors.mse == pytest.approx(-model.score([1.0, 2.0]))
    assert model.score([1.0, 2.0], metric="mae") == pytest.approx(-errors.mae)
    tags = Graph.build([(0, 1)], y=[{"a"}, None], kind="tags")
    with pytest.raises(InputError, match="a label here is a tags"):
        LabelPropagation().fit(tags).evaluate([{"a"}, {"a"}])


@pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
@pytest.mark.parametrize("start", ["initialiser", "random"])
def test_weights_can_be_chosen_by_macro_f1(start):
    rng = np.random.default_rng(0)
    y = (np.arange(60) % 5 == 0).astype(int)
    x = np.eye(2)[y] + rng.normal(0, 1.2, (60, 2))
    graph = Graph.build([(i, i + 5) for i in range(55)], x=x, y=[None if i % 3 == 2 else int(y[i]) for i in range(60)])
    training = Training(steps=40, evaluate_every=10, select_by="macro_f1", refresh_every=10)
    settings: dict = {"hidden_channels": 8, "schedule": Schedule(10), "sampling": Sampling(steps=3, progressive=0.0)}
    model = NodeClassifier(start=start, initialiser="lp", training=training, **settings).fit(graph, 0.4)
    vars(model).pop("decision_weights_", None)  # scored is the joint labelling, which class weights come after
    own = model.predict(condition_on="train", clamp_known=False)[model.validation_].astype(int)
    assert model.best_score_ == pytest.approx(f1_score(y[model.validation_], own, average="macro"))
    assert model.best_score_ == max(model.history_.validation_score)
