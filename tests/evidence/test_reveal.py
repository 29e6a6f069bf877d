"""Labels revealed after the fit: who is scored, what a model is given, and what the table makes of it."""

import json
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dpmsnc.baselines import METHODS, LabelPropagation
from dpmsnc.baselines.base import Baseline, one_hot
from dpmsnc.cli.main import main
from dpmsnc.data import Task, benchmarks, grid_scattered
from dpmsnc.errors import FitWarning
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.experiments.ablations import reveal
from dpmsnc.evidence.run.experiment import Row
from dpmsnc.evidence.run.store import Store
from dpmsnc.graph import Graph
from tiny_experiments import SHORT, small

pytestmark = pytest.mark.usefixtures("brief_couplings")
TASK = grid_scattered(columns=20)
NODES = np.arange(40)


@dataclass(eq=False, repr=False)
class Oracle(Baseline):
    """Knows the truth of `TASK`, and notes what it is given. It is right on even nodes; given more labels than it was
    trained on, also on every fourth node; trained on more labels than there are training nodes, everywhere."""

    strength: float = 1.0
    seed: int = 0

    fits: ClassVar[list] = []
    asked: ClassVar[list] = []

    def fit(self, graph, validation=None, progress=None):
        warnings.warn("of little use", FitWarning, stacklevel=2)
        return super().fit(graph, validation)

    def _fit(self, graph, y_train, y_validation):
        self.trained_on_ = int((y_train >= 0).sum())
        self.fits.append((self, y_train, y_validation))

    def _marginals(self, graph, y):
        self.asked.append(y)
        right = NODES % 2 == 0
        if (y >= 0).sum() > self.trained_on_:
            right |= NODES % 4 == 1
        if self.trained_on_ > TASK.train.sum():
            right[:] = True
        return one_hot(np.where(right, TASK.truth, 1 - TASK.truth), 2)


@pytest.fixture
def model(monkeypatch):
    """Fitted to the task, with nothing noted yet."""
    monkeypatch.setattr(reveal, "NUM_REVEALED", 4)
    with pytest.warns(FitWarning):
        model = Oracle(strength=2.0, seed=7).fit(TASK.graph, TASK.validation)
    monkeypatch.setattr(Oracle, "fits", [])
    monkeypatch.setattr(Oracle, "asked", [])
    return model


def draws_of(model, seed=0, task=TASK):
    return reveal.measure(model, task, seed)["reveal"]


def revealed_in(seed=0):
    return [set(np.flatnonzero(reveal.drawn_nodes(TASK, seed, draw)).tolist()) for draw in range(reveal.DRAWS)]


def share(nodes, right):
    return round(sum(map(right, nodes)) / len(nodes), 6)


def test_gains_are_of_the_right_nodes(model):
    test = set(np.flatnonzero(TASK.test).tolist())
    edges = {frozenset(edge) for edge in TASK.graph.edge_index.T.tolist()}
    found = draws_of(model)
    assert len(found) == 5 and json.loads(json.dumps(found)) == found
    for draw, revealed in zip(found, revealed_in()):
        assert draw["revealed"] == len(revealed) == 4 and revealed < test
        near = {i for i in test - revealed if any(frozenset((i, j)) in edges for j in revealed)}
        for name, nodes in (("neighbours", near), ("others", test - revealed - near)):
            assert draw[name] == {
                "count": len(nodes),
                "before": share(nodes, lambda i: i % 2 == 0),
                "after": share(nodes, lambda i: i % 4 != 3),
                "refit": 1.0,
            }
    assert {draw["neighbours"]["after"] - draw["neighbours"]["before"] for draw in found} != {0.0}


def test_no_model_is_given_a_validation_label_or_another_test_label(model):
    draws_of(model)
    before, *answers = Oracle.asked
    assert np.array_equal(before, np.where(TASK.train, TASK.truth, -1)) and len(answers) == 10
    assert len(Oracle.fits) == 5
    for draw, (_, y_train, y_validation) in enumerate(Oracle.fits):
        given = np.where(TASK.train | reveal.drawn_nodes(TASK, 0, draw), TASK.truth, -1)
        after, refit = answers[2 * draw : 2 * draw + 2]
        assert all(np.array_equal(y, given) for y in (after, refit, y_train))
        assert np.array_equal(y_validation, np.where(TASK.validation, TASK.truth, -1))


def test_a_refit_is_the_same_method_and_leaves_the_model_alone(model):
    state = dict(vars(model))
    draws_of(model)
    assert vars(model) == state
    for again, *_ in Oracle.fits:
        assert again is not model and again.get_params() == model.get_params() == {"strength": 2.0, "seed": 7}


def test_refits_are_bounded_and_the_ratio_is_that_of_draws_with_one(model, monkeypatch):
    monkeypatch.setattr(reveal, "REFITS", 2)
    found = draws_of(model)
    assert len(Oracle.fits) == 2 and ["refit" in draw["others"] for draw in found] == [True] * 2 + [False] * 3
    cell = reveal.Cell("cora", "lp", [made(0.01, 0.04), made(0.03, 0.06), made(0.5)])
    assert cell.ratio == pytest.approx(2 / 5) and cell.gains["neighbours"].mean == pytest.approx(18)


def test_refits_warn_and_report_nothing(model, monkeypatch, recwarn):
    monkeypatch.setattr(Oracle, "verbose", True, raising=False)
    draws_of(model)
    assert not recwarn.list and len(Oracle.fits) == 5
    assert model.verbose and not any(again.verbose for again, *_ in Oracle.fits)


def test_a_seed_gives_its_draws_to_every_method(model):
    assert revealed_in(seed=3) == revealed_in(seed=3) and draws_of(model, 3) == draws_of(model, 3)
    all_draws = {frozenset(nodes) for seed in (3, 4) for nodes in revealed_in(seed)}
    assert len(all_draws) == 2 * reveal.DRAWS
    other = draws_of(LabelPropagation().fit(TASK.graph, TASK.validation), 3)
    assert [draw["others"]["count"] for draw in other] == [draw["others"]["count"] for draw in draws_of(model, 3)]


def test_at_most_half_of_the_test_nodes_are_revealed_and_none_of_them_is_scored():
    for draw in range(20):
        revealed = reveal.drawn_nodes(TASK, 0, draw)
        parts = reveal.groups(TASK, revealed)
        assert revealed.sum() == TASK.test.sum() // 2 and not (revealed & ~TASK.test).any()
        assert np.array_equal(parts["neighbours"].astype(int) + parts["others"], (TASK.test & ~revealed).astype(int))


def test_a_group_without_nodes_has_no_accuracy(model):
    nodes = np.arange(12)
    complete = Graph.build(np.stack(np.triu_indices(12, 1)), y=nodes % 2)
    task = Task.hiding("complete", complete, nodes < 4, (nodes >= 4) & (nodes < 6), nodes >= 6)
    found = draws_of(LabelPropagation().fit(task.graph, task.validation), task=task)
    assert all(draw["others"] == {"count": 0, "before": None, "after": None, "refit": None} for draw in found)
    cell = reveal.Cell("cora", "lp", found)
    assert cell.gains["others"] is None and cell.line()[5] == "-" and cell.gains["neighbours"] is not None


def test_label_propagation_gains_by_a_refit_what_it_gains_without():
    model = LabelPropagation(clamp=True, num_layers=50).fit(TASK.graph, TASK.validation)
    found = draws_of(model)
    assert all(draw[part]["after"] == draw[part]["refit"] for draw in found for part in ("neighbours", "others"))


def made(after, refit=None, others=0.0):
    """A draw with these gains over an accuracy of 0.5."""
    near = {"count": 10, "before": 0.5, "after": 0.5 + after} | ({} if refit is None else {"refit": 0.5 + refit})
    return {"revealed": 4, "neighbours": near, "others": {"count": 10, "before": 0.5, "after": 0.5 + others}}


def document(row, seed, *draws, dataset="cora"):
    return {"dataset": dataset, "row": row, "seed": seed, "metrics": {"reveal": list(draws)}}


def test_the_table_has_means_and_standard_errors_over_draws_and_seeds():
    ours = [
        document("dpm-snc", 0, made(0.01, 0.04, 0.0), made(0.03, 0.06, 0.02)),
        document("dpm-snc", 1, made(0.02, 0.05)),
    ]
    bare = document("lp", 0, made(0.02), dataset="cora-nofeat")
    shown = reveal.table([bare, *ours])
    # differences 1, 3, 2 and 4, 6, 5 have a standard deviation of 1, and 0, 2, 0 one of 2 / sqrt(3)
    assert list(shown.rows) == [
        ["cora", "dpm-snc", "+2.00±0.58", "+5.00±0.58", "0.40", "+0.67±0.67", "3"],
        ["cora-nofeat", "lp", "+2.00", "-", "-", "+0.00", "1"],
    ]
    assert shown.records[0]["ratio"] == pytest.approx(0.4) and shown.records[0]["draws"] == 3
    assert shown.records[1]["neighbours_error"] is None and shown.records[1]["refit"] is None
    notes = " ".join(shown.notes)
    assert all(f"Column {name} has " in notes for name in shown.header[2:]) and "Draws of one seed share a fit" in notes
    assert all(note.endswith(".") for note in shown.notes) and not reveal.table([]).rows


@pytest.mark.parametrize(
    "refits, ratio",
    [
        ((0.04, 0.06), "0.20"),  # 5±1 points
        ((0.0149, 0.0449), "-"),  # 2.99±1.5
        ((0.0151, 0.0451), "0.33"),  # 3.01±1.5
        ((-0.04, -0.06), "-"),
        ((0.0, 0.0), "-"),
        ((0.05,), "-"),
    ],
)
def test_a_ratio_is_shown_where_a_refit_gains_for_certain(refits, ratio):
    (line,) = reveal.table([document("crf", 0, *(made(0.01, refit) for refit in refits))]).rows
    assert line[4] == ratio


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder in which Cora is a ring of 30 nodes with features."""
    nodes = np.arange(30)
    graph = Graph.build(np.stack([nodes, (nodes + 1) % 30]), x=np.eye(30)[:, :5], y=nodes // 10)
    masks = {name: nodes[None] % 3 == k for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    content = benchmarks.npz_parts(graph) | masks
    benchmarks.write_whole(tmp_path / "cora.npz", benchmarks.pack_arrays(content))
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))


def test_a_data_set_without_features_has_the_same_split(data):
    assert reveal.REVEAL.datasets == ("cora", "citeseer", "amazon_photo", "cora-nofeat")
    whole, bare = reveal.load("cora"), reveal.load("cora-nofeat")
    assert whole.graph.num_features == 5 and bare.graph.x is None and bare.name == "cora-nofeat"
    for part in ("train", "validation", "test", "truth"):
        assert np.array_equal(getattr(whole, part), getattr(bare, part))
    assert not bare.graph.known[bare.test].any() and np.flatnonzero(whole.test)[:3].tolist() == [2, 5, 8]


def test_every_row_is_at_its_defaults_but_for_label_propagation():
    assert list(reveal.ROWS) == ["dpm-snc", "crf", "masked-labels", "lp"]
    for name, row in reveal.ROWS.items():
        settings = {"clamp": True, "num_layers": 50} if name == "lp" else {}
        assert row.build().configuration() == METHODS.find(name).build(0, **settings).configuration()


def small_grid(dataset, seed):
    return small("grid_scattered", seed)


def test_it_runs_from_data_to_table(tmp_path, monkeypatch, capsys):
    rows = {"dpm-snc": Row("dpm-snc", SHORT), "lp": reveal.ROWS["lp"]}
    short = replace(reveal.REVEAL, rows=rows, load=small_grid)
    monkeypatch.setitem(registry.EXPERIMENTS, "reveal", short)
    monkeypatch.setattr(reveal, "DRAWS", 2)
    names = ["cora", "cora-nofeat"]
    argv = ["--results", str(tmp_path)]
    assert main(["reproduce", "reveal", *argv, "--seeds", "0-1", "--datasets", *names]) == 0
    first = capsys.readouterr().out
    stored = Store(tmp_path).all("reveal")
    assert len(stored) == 8 and {d["dataset"] for d in stored} == set(names)
    assert all(len(d["metrics"]["reveal"]) == 2 for d in stored)
    assert first.count("validation accuracy") == 4  # of four fits of dpm-snc, and of none of its refits
    assert main(["table", "reveal", *argv]) == 0
    second = capsys.readouterr().out
    for text in (first, second):
        assert "Labels revealed after the fit" in text
        assert sum(line.startswith(tuple(names)) and line.endswith(" 4") for line in text.splitlines()) == 4
    assert main(["table", "reveal", *argv, "--format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [(r["dataset"], r["method"]) for r in records] == [(name, row) for name in names for row in rows]
    assert all(r["draws"] == 4 and r["refit"] == r["neighbours"] for r in records if r["method"] == "lp")
