"""Numbers on edges through the command line: edge tables in, edge tables out."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dpmsnc.cli.main import main
from dpmsnc.estimators.edge_regressor import EdgeRegressor

QUICK = [
    *("--set", "training.steps=4", "--set", "training.evaluate_every=2", "--set", "hidden_channels=8"),
    *("--set", "num_layers=1", "--set", "num_averaged=2"),
]


def run(*words):
    return main([str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An edge table with a blank weight in every third row, and a model of it."""
    folder = tmp_path_factory.mktemp("edges")
    rng = np.random.default_rng(0)
    pairs = [(f"n{i}", f"n{j}") for i in range(6) for j in range(i + 1, 6)]
    table = pd.DataFrame(pairs, columns=["from", "to"])
    table["length"] = rng.random(len(table)).round(3)
    table["weight"] = (3 * table["length"]).round(3).where(np.arange(len(table)) % 3 > 0)
    table.to_csv(folder / "roads.csv", index=False)
    words = ("--edges", folder / "roads.csv", "--target-column", "weight", "--edge-features", "length")
    assert run("fit", *words, "--out", folder / "model", *QUICK) == 0
    return folder


def test_blank_numbers_are_filled_in_and_others_stay(folder):
    assert run("predict", folder / "model", "--out", folder / "answer.csv") == 0
    given, answer = pd.read_csv(folder / "roads.csv"), pd.read_csv(folder / "answer.csv")
    assert list(answer.columns) == ["source", "target", "value", "known"]
    both = given.merge(answer, left_on=["from", "to"], right_on=["source", "target"])
    assert len(both) == len(given) and (both["known"] == both["weight"].notna()).all()
    np.testing.assert_array_equal(both["value"][both["known"]], both["weight"][both["known"]])
    assert both["value"].notna().all()


def test_samples_have_a_row_for_every_edge(folder):
    assert run("sample", folder / "model", "--num-samples", 3, "--out", folder / "samples.csv") == 0
    samples = pd.read_csv(folder / "samples.csv")
    assert list(samples.columns) == ["source", "target", "sample_0", "sample_1", "sample_2"] and len(samples) == 15


def test_other_edge_tables_are_answered(folder):
    table = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "length": [0.1, 0.9], "weight": [None, 7.5]})
    table.to_csv(folder / "new.csv", index=False)
    words = ("--edges", folder / "new.csv", "--edge-features", "length", "--target-column", "weight")
    assert run("predict", folder / "model", *words, "--out", folder / "new_answer.csv") == 0
    answer = pd.read_csv(folder / "new_answer.csv")
    assert answer["source"].tolist() == ["x", "y"] and answer["known"].tolist() == [False, True]
    assert answer["value"][1] == 7.5
    assert isinstance(EdgeRegressor.load(folder / "model"), EdgeRegressor)


def test_what_is_for_edges_is_said_so(folder, capsys):
    words = ("--edges", folder / "roads.csv", "--out", folder / "other")
    assert run("fit", *words, "--edge-features", "length") != 0
    assert "--target-column" in capsys.readouterr().err
    assert run("fit", *words, "--target-column", "weight", "--method", "gcn") != 0
    assert "labels of nodes" in capsys.readouterr().err
    assert run("fit", *words, "--target-column", "weight", "--hidden-channels", "8") != 0
    assert "--set" in capsys.readouterr().err
    assert run("predict", folder / "model", "--known", folder / "roads.csv") != 0
    assert "--target-column" in capsys.readouterr().err


def test_another_process_loads_what_was_fitted_here(folder):
    words = [sys.executable, "-c", "import sys; from dpmsnc.cli.main import main; sys.exit(main())"]
    done = subprocess.run([*words, "predict", str(folder / "model")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("source,target,value"), done.stderr


def test_a_node_table_beside_numbers_on_edges_needs_no_label(folder):
    people = pd.DataFrame({"id": [f"n{i}" for i in range(6)], "age": [1, None, 3, 4, 5, 6]})
    people.to_csv(folder / "people.csv", index=False)
    words = ("--edges", folder / "roads.csv", "--nodes", folder / "people.csv", "--target-column", "weight")
    assert run("fit", *words, "--edge-features", "length", *QUICK, "--out", folder / "both") == 0
    assert run("predict", folder / "both", *words, "--edge-features", "length", "--out", folder / "both.csv") == 0


def test_weights_are_no_features_of_edges(folder, capsys):
    words = ("--edges", folder / "roads.csv", "--target-column", "weight", "--weight", "length")
    assert run("fit", *words, *QUICK, "--out", folder / "weighted") != 0
    assert "edge features" in capsys.readouterr().err


def test_other_edge_features_are_no_reason_to_go_on(folder, capsys):
    table = pd.read_csv(folder / "roads.csv")
    table["length"] += 1
    table.to_csv(folder / "longer.csv", index=False)
    words = ("--target-column", "weight", "--edge-features", "length", "--out", folder / "model", *QUICK, "--resume")
    assert run("fit", "--edges", folder / "longer.csv", *words) != 0
