import json

import pytest

from dpmsnc.cli.main import main
from dpmsnc.estimators import base as methods
from dpmsnc.estimators.base import Method
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.evidence.run.fix import with_fixed
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.search.config_files import Config
from dpmsnc.evidence.show import tried as view
from dpmsnc.evidence.show.stored_runs import StoredRuns
from made_documents import document, run


@pytest.mark.parametrize(
    "row, accuracy, subgraph, listed",
    [
        ("gcn", 0.814, 0.0, False),  # as in the paper: a baseline is not held to the other metric
        ("gcn", 0.804, 0.0, False),  # by a point
        ("gcn", 0.803, 0.9, True),
        ("sage", 0.1, 0.1, False),  # not in the paper
        ("dpm-snc (gcn)", 0.832, 0.631, False),
        ("dpm-snc (gcn)", 0.83151, 0.9, False),  # what the paper prints is rounded
        ("dpm-snc (gcn)", 0.831, 0.9, True),
        ("dpm-snc (gcn)", 0.9, 0.630, True),
    ],
)
def test_rows_below_the_paper_are_listed_and_the_table_says_how_many(tmp_path, row, accuracy, subgraph, listed):
    made = document(run(row, 0), accuracy)
    made["metrics"]["selected"]["subgraph_accuracy"] = subgraph
    Store(tmp_path).put(made)
    stored = StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), tmp_path)
    assert [shown[:2] for shown in view.table(stored).rows] == ([["cora", f"{row}‡"]] if listed else [])
    assert ("no row with stored runs is below" in str(view.table(stored))) != listed
    assert (f"  dpmsnc table homophilic --results {tmp_path} --tried" in str(stored.table()).splitlines()) == listed


def test_the_paper_s_settings_are_held_to_the_paper_s_figures(tmp_path):
    for row in ("gcn", "dpm-snc-paper"):  # the paper has 50.1 and 98.5
        Store(tmp_path).put(document(run(row, 0, "grid_scattered", "synthetic"), 0.50 if row == "gcn" else 0.984))
    table = view.table(StoredRuns.of(registry.EXPERIMENTS.find("synthetic"), tmp_path))
    assert [shown[:2] for shown in table.rows] == [["grid_scattered", "dpm-snc-paper‡"]]
    metrics = ["validation", "row's", "accuracy", "row's", "paper", "sub-acc", "row's"]
    assert list(table.header)[3:] == [*metrics, "initialiser", "CPU s", "seeds"]


def cells(settings, numbers):
    return [settings, *numbers.split()]


@pytest.fixture
def tried(tmp_path):
    """A GCN with three seeds, and another rate tried with two of them and one more."""
    for seed, accuracy in enumerate([0.7, 0.8, 0.6]):
        Store(tmp_path).put(document(run("gcn", seed), accuracy))
    fixed = with_fixed(registry.EXPERIMENTS.find("homophilic"), {"lr": 0.5}, ["gcn"])
    for seed in (0, 2, 7):
        Store(tmp_path).put(document(Run(fixed, "cora", "gcn", seed), 0.9 if seed == 7 else 0.75))
    return tmp_path


def test_what_was_tried_stands_below_a_row_beside_its_figures_on_the_same_seeds(tried, capsys):
    rows = view.table(StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), tried)).rows
    first = "60.0±10.0 - 70.0±10.0 - 81.4 35.0±5.0 - 59.3 - 3 0-2"
    assert rows[0][2:] == cells("as in the table (no search)", first)
    assert rows[1][2:] == cells("lr=0.5", "65.0±0.0 55.0 75.0±0.0 65.0 81.4 37.5±0.0 32.5 59.3 - 3 0,2")
    assert rows[2][2:] == cells("lr=0.5", "80.0 - 90.0 - 81.4 45.0 - 59.3 - 3 7")  # the row has no such seed
    assert main(["table", "homophilic", "--tried", "--results", str(tried), "--format", "json"]) == 0
    first, second, third = json.loads(capsys.readouterr().out)
    assert first["below"] and (third["seeds"], third["row_accuracy"]) == (1, None)
    assert (first["differs_in"], first["seeds"], first["row_accuracy"]) == ([], 3, None)
    assert (second["differs_in"], second["accuracy"], second["row_accuracy"]) == (["lr=0.5"], 75.0, 65.0)
    assert second["paper_subgraph_accuracy"] == 59.3


@pytest.mark.parametrize(
    "row, file, words",
    [("gcn", ("gcn", "gcn"), "(search of 5 trials on 1 seed, the best on 2 more, by accuracy) "),
     ("gmnn (gat)", ("gmnn", "gcn"), "(search of 5 trials on gcn on 1 seed, the best on 2 more, by accuracy) ")],
)  # fmt: skip
def test_a_row_says_how_it_was_searched_for(tmp_path, capsys, row, file, words):
    Store(tmp_path).put(document(run(row, 0), 0.5))
    config = Config(*file, "cora", {}, 0.8, 0.7, trials=5, seeds=[100], final_seeds=[101, 102])
    config.write(tmp_path / "configs")
    flags = ["--results", str(tmp_path), "--configs", str(tmp_path / "configs")]
    assert main(["table", "homophilic", "--tried", "--format", "markdown", *flags]) == 0
    assert words in capsys.readouterr().out


def test_older_runs_are_marked(tried, monkeypatch):
    monkeypatch.setitem(methods.METHODS, "gcn", Method(methods.METHODS["gcn"].build, version=2))
    table = view.table(StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), tried))
    assert [row[1:3] for row in table.rows] == [
        ["gcn†‡", "as in the table (no search)"],
        *[["gcn†‡", "lr=0.5, older"]] * 2,
    ]
    assert "gcn on cora (3)" in str(table)


def test_a_try_without_a_common_seed_stands_alone(tmp_path):
    Store(tmp_path).put(document(run("gcn", 0), 0.7))
    fixed = with_fixed(registry.EXPERIMENTS.find("homophilic"), {"lr": 0.5}, ["gcn"])
    Store(tmp_path).put(document(Run(fixed, "cora", "gcn", 1), 0.75))
    rows = view.table(StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), tmp_path)).rows
    assert rows[1][2:] == cells("lr=0.5", "65.0 - 75.0 - 81.4 37.5 - 59.3 - 3 1")


def test_rows_that_reach_the_paper_s_are_listed_with_what_else_was_tried(tmp_path):
    Store(tmp_path).put(document(run("gcn", 0), 0.9))
    fixed = with_fixed(registry.EXPERIMENTS.find("homophilic"), {"lr": 0.5}, ["gcn"])
    Store(tmp_path).put(document(Run(fixed, "cora", "gcn", 0), 0.75))
    rows = view.table(StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), tmp_path)).rows
    assert [row[1:3] for row in rows] == [["gcn", "as in the table (no search)"], ["gcn", "lr=0.5"]]


def test_data_sets_have_nothing_that_was_tried(capsys):
    assert main(["table", "datasets", "--tried"]) == 2
    assert "goes with an experiment" in capsys.readouterr().err
