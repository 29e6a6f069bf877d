"""All methods on splits of the known labels: what they see, what is asked, what it costs, and what is recommended."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpmsnc import Graph, NodeClassifier, Sampling, Schedule, Training, compare
from dpmsnc.baselines import CRF, METHODS
from dpmsnc.comparison import compare as module
from dpmsnc.comparison.budget import Budget
from dpmsnc.comparison.contestants import CONTESTANTS, chosen, unsuited
from dpmsnc.comparison.leaderboard import Comparison, Estimate, Row, Run
from dpmsnc.comparison.splits import draw_splits
from dpmsnc.deadline import OutOfTime, check_time, until
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN

SMALL: dict[str, Any] = {
    "hidden_channels": 8,
    "schedule": Schedule(10),
    "sampling": Sampling(steps=3, progressive=0.0),
    "training": Training(steps=8, evaluate_every=4),
    "device": "cpu",
}


def two_groups(size: int = 40, seed: int = 0) -> Graph:
    """Two groups of linked nodes, all but every fourth label known."""
    rng = np.random.default_rng(seed)
    y = np.arange(size) % 2
    i, j = np.triu_indices(size, 1)
    edges = rng.random(len(i)) < np.where(y[i] == y[j], 0.3, 0.03)
    labels = ["ab"[k] if node % 4 else None for node, k in enumerate(y)]
    return Graph.build(np.stack([i[edges], j[edges]], axis=1), num_nodes=size, x=np.eye(2)[y], y=labels)


GRAPH = two_groups()


def test_every_label_is_asked_for_once_and_hidden_then():
    splits = draw_splits(GRAPH, 4, seed=0)
    np.testing.assert_array_equal(sum(split.asked.astype(int) for split in splits), GRAPH.known.astype(int))
    for split in splits:
        assert (split.graph.y[split.asked] == UNKNOWN).all()
        np.testing.assert_array_equal(split.graph.known, GRAPH.known & ~split.asked)
        assert not (split.validation & ~split.graph.known).any() and split.validation.any()
    counts = np.array([np.bincount(GRAPH.y[split.asked], minlength=2) for split in splits])
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert (draw_splits(GRAPH, 4, seed=1)[0].asked != splits[0].asked).any()


def test_the_only_label_of_a_class_is_always_seen():
    graph = Graph.build([(0, 1)], num_nodes=9, y=list("aaaabbbbc"))
    assert not any(split.asked[8] for split in draw_splits(graph, 2, seed=0))
    with pytest.raises(InputError, match="two labels of two classes"):
        draw_splits(Graph.build([(0, 1)], y=["a", "b"]), 2, seed=0)
    with pytest.raises(InputError, match=r"splits=9 must be .* at most 4"):
        draw_splits(graph, 9, seed=0)


def test_a_classifier_takes_an_initialiser_that_was_fitted_to_the_same_labels(monkeypatch):
    validation = draw_splits(GRAPH, 4, seed=0)[0].asked
    fitted = CRF("lp", "none", seed=0).fit(GRAPH, validation=validation)
    expected = NodeClassifier(initialiser=CRF("lp", "none", seed=0), **SMALL).fit(GRAPH, validation).predict_proba()
    calls = []
    learn = CRF._learn
    monkeypatch.setattr(CRF, "_learn", lambda self, *a, **k: (calls.append(self), learn(self, *a, **k))[1])
    model = NodeClassifier(initialiser=fitted, **SMALL).fit(GRAPH, validation)
    assert not calls and model.initialiser_ is not fitted
    np.testing.assert_array_equal(model.predict_proba(), expected)
    NodeClassifier(initialiser=fitted, **SMALL).fit(GRAPH, draw_splits(GRAPH, 4, seed=1)[0].asked)
    assert len(calls) == 1  # other labels are another fit


@pytest.mark.filterwarnings("error")
def test_methods_see_nothing_of_what_they_are_asked(monkeypatch):
    """A method that knows a label by heart is right on none that is hidden."""
    seen: list[np.ndarray] = []
    build = METHODS["lp"].build

    def spy(seed: int, **settings: Any) -> Any:
        model = build(seed, **settings)
        fit = type(model).fit
        model.fit = lambda graph, validation=None: (seen.append(graph.known), fit(model, graph, validation))[1]
        return model

    monkeypatch.setitem(METHODS, "lp", SimpleNamespace(build=spy))
    found = compare(GRAPH, methods=["lp", "majority"], splits=3)
    lp = next(row for row in found.rows if row.name == "lp")
    for known, run in zip(seen, lp.runs, strict=True):
        assert not known[run.nodes].any() and known.sum() + len(run.nodes) == GRAPH.known.sum()
    assert found.recommended == "lp" and [row.name for row in found.rows] == ["majority", "lp"]
    assert found.report().truth.size == GRAPH.known.sum()
    assert found.estimator().fit(GRAPH).predict().shape == (40,)


def test_the_work_of_choosing_is_shared(monkeypatch):
    monkeypatch.setattr("dpmsnc.comparison.splits.CRF", lambda seed: CRF("lp", "none", seed=seed))
    for name in ("masked-labels", "dpm-snc"):
        method = METHODS[name]
        monkeypatch.setitem(
            METHODS, name, SimpleNamespace(build=lambda seed, m=method, **s: m.build(seed, **SMALL, **s))
        )
    calls = []
    learn = CRF._learn
    monkeypatch.setattr(CRF, "_learn", lambda self, *a, **k: (calls.append(self), learn(self, *a, **k))[1])
    found = compare(GRAPH, methods=["crf", "masked-labels", "dpm-snc"], splits=2)
    assert len(calls) == 2
    crf, masked, diffusion = found.rows
    for own, other in zip(crf.runs, (*masked.runs, *diffusion.runs)):
        assert other.cpu_s > 0.5 * own.cpu_s
    assert found.on_diffusion is not None and "dpm-snc" in found.on_diffusion


def row(name: str, values: list[float], cpu_s: float = 1.0) -> Row:
    contestant = next(c for c in CONTESTANTS if c.name == name)
    nodes, y = np.arange(2), np.zeros(2, dtype=np.int64)
    scores = [dict.fromkeys(("accuracy", "macro_f1", "log_loss", "calibration_error"), v) for v in values]
    return Row(contestant, tuple(Run(s, cpu_s, nodes, 8, y, np.full((2, 2), 0.5)) for s in scores))


def comparison(*rows: Row, by: str = "accuracy") -> Comparison:
    return Comparison(GRAPH, rows, {}, by)


def test_intervals_count_the_overlap_of_splits():
    found = Estimate.of(np.array([0.7, 0.8, 0.9]), ratio=0.25)
    assert found.mean == pytest.approx(0.8) and found.error == pytest.approx(0.1 * (1 / 3 + 0.25) ** 0.5)
    assert found.reach == pytest.approx(4.302653 * found.error)


def test_the_simplest_method_within_a_standard_error_is_enough():
    lp, gcn, best = (
        row("lp", [0.5, 0.6, 0.5]),
        row("gcn", [0.8, 0.7, 0.9], 2.0),
        row("dpm-snc", [0.82, 0.78, 0.83], 99.0),
    )
    found = comparison(lp, gcn, best)
    assert found.best is best and found.recommended == "gcn" and found.ranked == [best, gcn, lp]
    assert found.recommendation.startswith("The simpler gcn is enough: its accuracy of 80.0 is within")
    assert "2 s of CPU time instead of 99 s" in found.recommendation and "joint samples" in str(found.on_diffusion)


def test_a_method_that_is_ahead_split_by_split_is_recommended():
    found = comparison(row("lp", [0.5, 0.7, 0.9]), row("dpm-snc", [0.6, 0.8, 1.0]))
    assert found.recommended == "dpm-snc" and "ahead of the best simpler method, lp, by +10.0" in found.recommendation
    assert "diffusion pays here" in str(found.on_diffusion)


def test_less_is_better_for_errors():
    found = comparison(row("lp", [0.5, 0.7, 0.9]), row("gcn", [0.4, 0.6, 0.8]), by="log_loss")
    assert found.best.name == "gcn" == found.recommended and "+0.100" in found.recommendation


def test_where_nothing_helps_it_says_so():
    found = comparison(row("majority", [0.5, 0.5]), row("gcn", [0.6, 0.4]))
    assert found.recommended == "majority" and "No method is better" in found.recommendation


def test_a_budget_leaves_out_what_no_longer_fits(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("dpmsnc.comparison.budget.time.monotonic", lambda: clock.now)
    length = {"majority": 1.0, "lp": 2.0, "gcn": 30.0, "sage": 1.0}

    def one(contestant: Any, split: Any, truth: Any) -> Run:
        clock.now += length[contestant.name]
        return row("lp", [0.5]).runs[0]

    monkeypatch.setattr(module, "run", one)
    found = compare(GRAPH, methods=["majority", "lp", "gcn", "sage"], splits=3, budget="50s")
    assert [row.name for row in found.rows] == ["majority", "lp"]
    assert list(found.left_out) == ["gcn", "sage"] and "at 30 s or more each" in found.left_out["gcn"]
    assert "Left out: gcn" in str(found)
    with pytest.raises(InputError, match="no method could be fitted: majority: its splits would not"):
        compare(GRAPH, methods=["majority"], splits=3, budget=0.5)


def test_a_first_split_longer_than_its_share_of_the_budget_is_stopped(monkeypatch):
    """The clock goes on by 1 s in every step, and a step of training is all that a method does."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("dpmsnc.comparison.budget.time.monotonic", lambda: clock.now)
    steps = {"majority": [1, 1, 1], "gcn": [1, 1, 1000], "sage": [1000], "crf": [1]}

    def one(contestant: Any, split: Any, truth: Any) -> Run:
        for _ in range(steps[contestant.name].pop(0)):
            check_time()
            clock.now += 1
        return row("lp", [0.5]).runs[0]

    monkeypatch.setattr(module, "run", one)
    found = compare(GRAPH, methods=["majority", "sage", "crf"], splits=3, budget=63)
    assert found.left_out["sage"] == "stopped by the budget in split 1 of 3, after 20 s" and clock.now == 23
    assert "20 s or more each" in found.left_out["crf"]
    assert "Left out: sage (stopped by the budget in split 1 of 3, after 20 s)." in str(found)
    clock.now, steps["majority"] = 0.0, [1, 1, 1]
    found = compare(GRAPH, methods=["majority", "gcn"], splits=3, budget=30)
    assert found.left_out["gcn"] == "stopped by the budget in split 3 of 3, after 25 s" and clock.now == 30


@pytest.mark.parametrize(
    "name",
    ["pta", "gcn", "neighbourhood-linear", "neighbourhood-trees", "crf", "masked-labels", "dpm-snc", "grand", "gmnn"],
)
def test_methods_that_train_stop_at_a_deadline(name):
    (contestant,) = chosen([name])
    split = draw_splits(GRAPH, 2, seed=0)[0]
    with pytest.raises(OutOfTime), until(time.monotonic()):
        module.run(contestant, split, GRAPH)


def test_training_and_sampling_stop_at_a_deadline():
    model = NodeClassifier(initialiser=CRF("lp", "none"), **SMALL)

    def now(trainer: Any) -> None:
        if trainer.step == 3:
            raise OutOfTime

    with pytest.raises(OutOfTime):
        model.fit(GRAPH, progress=now)
    assert not hasattr(model, "graph_")
    model.fit(GRAPH)
    with pytest.raises(OutOfTime), until(time.monotonic()):
        model.sample(2)
    with until(time.monotonic() + 60):
        assert model.sample(2).shape == (2, 40)
    check_time()


def test_a_deadline_around_a_comparison_is_not_taken_for_its_budget():
    with pytest.raises(OutOfTime), until(time.monotonic()):
        compare(GRAPH, methods=("majority", "gcn"), splits=2)


def test_a_method_that_cannot_be_fitted_is_named(monkeypatch):
    def refuse(seed: int) -> Any:
        raise InputError("not on such a graph")

    monkeypatch.setitem(METHODS, "gcn", SimpleNamespace(build=refuse))
    found = compare(GRAPH, methods=["lp", "gcn"], splits=2)
    assert [row.name for row in found.rows] == ["lp"] and found.left_out == {"gcn": "not on such a graph"}


def test_methods_are_asked_for_by_name():
    assert [c.name for c in chosen(["gcn", "lp", "grand"])] == ["lp", "gcn", "grand"]
    assert [c.name for c in chosen(None)] == [c.name for c in CONTESTANTS]
    wide = Graph.build([(0, 1)], x=np.ones((2, 100)), y=["a", "b"])
    trees = next(c for c in CONTESTANTS if c.name == "neighbourhood-trees")
    assert "300 columns" in str(unsuited(trees, wide)) and unsuited(trees, GRAPH) is None
    assert trees.flags == "--method neighbourhood --set model=trees"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"methods": ["luck"]}, "luck"),
        ({"methods": "lp"}, "pass a list"),
        ({"splits": 1}, "splits must be at least 2"),
        ({"by": "luck"}, "by='luck' is not one of accuracy"),
        ({"budget": "soon"}, "budget='soon' is no length of time"),
        ({"budget": 0}, "no length of time"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_fitted(settings, message):
    with pytest.raises(InputError, match=message):
        compare(GRAPH, **settings)


def test_only_one_graph_of_classes_is_compared_on():
    with pytest.raises(InputError, match="one graph"):
        compare([GRAPH, GRAPH])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a label here is a value"):
        compare(Graph.build([(0, 1)], y=[0.5, None], kind="value"))


def test_the_page_stands_alone_and_says_the_same(tmp_path):
    found = compare(GRAPH, methods=["majority", "lp"], splits=2)
    found.write_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert found.recommendation.replace("'", "&#x27;") in text and "<script" not in text and "http" not in text
    assert text.count("<figure>") == 3 and 'id="section-1"' in text and "--method lp" in text
    assert found.recommendation in str(found) and "<table>" in found._repr_html_()
    frame = found.to_frame()
    assert frame.loc["lp", "accuracy"] == pytest.approx(found.best.estimate("accuracy").mean)


def test_progress_is_logged_and_printed_where_asked_for(capsys, caplog):
    compare(GRAPH, methods=["majority"], splits=2)
    assert capsys.readouterr().err == ""
    compare(GRAPH, methods=["majority"], splits=2, verbose=True)
    assert "majority" in capsys.readouterr().err
    with caplog.at_level(logging.INFO, logger="dpmsnc"):
        compare(GRAPH, methods=["majority"], splits=2)
    assert [record.name for record in caplog.records] == ["dpmsnc.comparison.compare"] * 2


def test_the_same_seed_gives_the_same_figures():
    first, second = (compare(GRAPH, methods=["pta", "neighbourhood-linear"], splits=2, seed=3) for _ in range(2))
    for one, other in zip(first.rows, second.rows):
        np.testing.assert_array_equal(one.values("log_loss"), other.values("log_loss"))


def test_budgets_are_read():
    assert Budget("1h").allows(3590) and not Budget("1m").allows(61)
