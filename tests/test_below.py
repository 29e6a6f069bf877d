import json

import pytest

from dpmsnc.cli import main
from dpmsnc.experiments import below, methods, registry
from dpmsnc.experiments.configs import Config, with_fixed
from dpmsnc.experiments.methods import Method
from dpmsnc.experiments.run import Run
from dpmsnc.experiments.store import Store
from dpmsnc.experiments.stored import Stored
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
def test_rows_below_the_paper_are_listed(tmp_path, row, accuracy, subgraph, listed):
    made = document(run(row, 0), accuracy)
    made["metrics"]["selected"]["subgraph_accuracy"] = subgraph
    Store(tmp_path).put(made)
    rows = below.table(Stored.of(registry.find("homophilic"), tmp_path)).rows
    assert [shown[:2] for shown in rows] == ([["cora", row]] if listed else [])


def test_what_was_tried_stands_below_a_row_beside_its_figures_on_the_same_seeds(tmp_path, monkeypatch, capsys):
    for seed, accuracy in enumerate([0.7, 0.8, 0.6]):
        Store(tmp_path).put(document(run("gcn", seed), accuracy))
    fixed = with_fixed(registry.find("homophilic"), {"lr": 0.5}, ["gcn"])
    for seed in (0, 2):
        Store(tmp_path).put(document(Run(fixed, "cora", "gcn", seed), 0.75))
    argv = ["table", "homophilic", "--below", "--results", str(tmp_path)]
    assert main([*argv, "--format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    found = [(r["settings"], r["seeds"], r["accuracy"], r["row_accuracy"]) for r in records]
    assert found == [("as in the table (defaults)", [0, 1, 2], 70.0, 70.0), ("lr=0.5", [0, 2], 75.0, 65.0)]
    config = Config("gcn", "gcn", "cora", {}, 0.8, 0.7, trials=5, seeds=[100], final_seeds=[101, 102])
    config.write(tmp_path / "configs")
    assert main([*argv, "--configs", str(tmp_path / "configs")]) == 0
    assert "as in the table (5 trials, 3 seeds) " in capsys.readouterr().out
    monkeypatch.setitem(methods.METHODS, "gcn", Method(methods.METHODS["gcn"].build, version=2))
    assert "lr=0.5" not in str(
        below.table(Stored.of(registry.find("homophilic"), tmp_path))
    )  # it says nothing any more


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["datasets", "--further"], "go with an experiment"),
        (["datasets", "--below"], "go with an experiment"),
        (["homophilic", "--below", "--further"], "ask for one of them"),
        (["steps", "--below"], "the paper has no table like steps"),
    ],
)
def test_tables_that_there_are_not_are_refused(capsys, words, complaint):
    assert main(["table", *words]) == 2
    assert complaint in capsys.readouterr().err
