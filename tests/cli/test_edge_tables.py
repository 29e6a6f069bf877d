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


@pytest.fixture
def scored(folder, tmp_path):
    """Answers, and an edge table that has the true numbers, with the ends of edges in the other order."""
    assert run("predict", folder / "model", "--out", tmp_path / "answer.csv") == 0
    truth = pd.read_csv(folder / "roads.csv")
    truth["weight"] = (3 * truth["length"]).round(3)
    truth[["to", "from", "length", "weight"]].to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path


def printed(text):
    return {line[:26].strip(): float(line[26:]) for line in text.splitlines()}


def test_numbers_on_edges_are_scored_where_they_were_not_known(scored, folder, capsys):
    words = ("evaluate", scored / "answer.csv", "--truth", scored / "truth.csv", "--target-column", "weight")
    assert run(*words) == 0
    found = printed(capsys.readouterr().out)
    answer, truth = pd.read_csv(scored / "answer.csv"), pd.read_csv(scored / "truth.csv")
    both = answer.merge(truth, left_on=["source", "target"], right_on=["from", "to"])[~answer["known"]]
    error = both["value"] - both["weight"]
    assert found["edges"] == len(both) == 5
    assert found["mse"] == pytest.approx((error**2).mean(), rel=1e-4)
    assert found["mae"] == pytest.approx(error.abs().mean(), rel=1e-4)
    assert found["mse of the mean"] == pytest.approx(both["weight"].var(ddof=0), rel=1e-4)
    assert found["r2"] == pytest.approx(1 - found["mse"] / found["mse of the mean"], abs=1e-4)
    model = EdgeRegressor.load(folder / "model")
    report = model.evaluate({(a, b): w for a, b, w in zip(truth["from"], truth["to"], truth["weight"])})
    assert report.mse == pytest.approx(found["mse"], rel=1e-4) and report.on == "edge"
    assert run(*words[:4], "--label", "weight", "--source", "from", "--target", "to") == 0
    assert printed(capsys.readouterr().out) == found


def test_edges_in_both_directions_are_not_the_same(tmp_path, capsys):
    answer = pd.DataFrame(
        {"graph": ["g"] * 3, "source": ["a", "b", "c"], "target": ["b", "a", "a"], "value": [1, 5, 9]}
    )
    truth = pd.DataFrame({"graph": ["g"] * 3, "s": ["a", "b", "a"], "t": ["b", "a", "c"], "w": [1, 6, 7]})
    answer.to_csv(tmp_path / "answer.csv", index=False)
    truth.to_csv(tmp_path / "truth.csv", index=False)
    assert run("evaluate", tmp_path / "answer.csv", "--truth", tmp_path / "truth.csv") == 0
    found = printed(capsys.readouterr().out)
    assert (found["edges"], found["mse"]) == (2, 0.5)


def test_numbers_on_nodes_are_scored(tmp_path, capsys):
    pd.DataFrame({"id": [1, 2, 3], "value": [1.0, 2.0, 4.0], "known": [1, 0, 0]}).to_csv(
        tmp_path / "p.csv", index=False
    )
    pd.DataFrame({"name": [3, 2, 1], "age": [3, None, 9]}).to_csv(tmp_path / "t.csv", index=False)
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv") == 0
    found = printed(capsys.readouterr().out)
    assert (found["nodes"], found["mse"], found["mae of the mean"]) == (1, 1, 0) and np.isnan(found["r2"])


def test_what_cannot_be_scored_on_edges_says_why(scored, capsys):
    truth = pd.read_csv(scored / "truth.csv")
    files = {
        "elsewhere": truth.assign(to=truth["to"] + "!"),
        "twice": pd.concat([truth, truth]),
        "words": truth.assign(weight="long"),
        "given": truth.assign(weight=truth["weight"].where(pd.read_csv(scored / "answer.csv")["known"])),
    }
    for name, table in files.items():
        table.to_csv(scored / f"{name}.csv", index=False)
    column, picture = ("--target-column", "weight"), ("--picture", scored / "p.svg")
    for name, words, message in (
        ("truth", (), "name the one with the numbers (--target-column)"),
        ("truth", ("--target-column", "width"), "no column 'width'"),
        ("truth", (*column, *picture), "numbers on edges, of which --picture says nothing; leave it out"),
        ("truth", (*column, "--label", "length"), "name it once"),
        ("elsewhere", (*column, "--source", "from"), "no edge of the truth table is among the predictions"),
        ("twice", column, "more than once"),
        ("words", column, "long"),
        ("given", column, "every edge with a true number was known"),
    ):
        assert run("evaluate", scored / "answer.csv", "--truth", scored / f"{name}.csv", *words) == 2, name
        assert message in capsys.readouterr().err, name


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


def test_answers_for_directed_edges_say_so(folder, tmp_path, capsys):
    words = ("--edges", folder / "roads.csv", "--target-column", "weight", "--edge-features", "length", "--directed")
    assert run("fit", *words, "--out", tmp_path / "model", *QUICK) == 0
    assert run("predict", tmp_path / "model", "--out", tmp_path / "answer.csv") == 0
    answer = pd.read_csv(tmp_path / "answer.csv")
    assert list(answer.columns) == ["source", "target", "value", "known", "directed"] and answer["directed"].all()
    asked = answer[~answer["known"]]
    pd.DataFrame({"s": asked["target"], "t": asked["source"], "w": 1.0})[1:].to_csv(tmp_path / "t.csv", index=False)
    score = ("evaluate", tmp_path / "answer.csv", "--truth", tmp_path / "t.csv")
    assert run(*score) == 2 and "no edge of the truth table is among the predictions" in capsys.readouterr().err
    answer.assign(directed=["no"] * len(answer)).to_csv(tmp_path / "answer.csv", index=False)
    assert run(*score) == 0
    shown = capsys.readouterr()
    assert printed(shown.out)["edges"] == len(asked) - 1
    assert shown.err == "note: not scored for lack of a true number: 1 edge\n"
    answer.assign(directed=answer["known"]).to_csv(tmp_path / "answer.csv", index=False)
    assert run(*score) == 2 and "true of some edges and false of others" in capsys.readouterr().err
    answer.assign(directed="maybe").to_csv(tmp_path / "answer.csv", index=False)
    assert run(*score) == 2 and "column directed says 'maybe' of edge n0, n1" in capsys.readouterr().err


def test_a_truth_with_a_pair_in_both_orders_gives_edges_no_direction(tmp_path, capsys):
    answer = pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "value": [1, 5]})
    answer.to_csv(tmp_path / "answer.csv", index=False)
    truth = pd.DataFrame({"s": ["b", "a", "c"], "t": ["a", "b", "b"], "w": [2.0, 2.0, 5.0]})
    score = ("evaluate", tmp_path / "answer.csv", "--truth", tmp_path / "truth.csv")
    for w in ([2.0, 2.0, 5.0], [None, 2.0, 5.0], [2.0, None, 5.0]):
        truth.assign(w=w).to_csv(tmp_path / "truth.csv", index=False)
        assert run(*score) == 0
        shown = capsys.readouterr()
        assert (printed(shown.out)["edges"], printed(shown.out)["mse"], shown.err) == (2, 0.5, "")
    truth.assign(w=[2, 3, 5]).to_csv(tmp_path / "truth.csv", index=False)
    assert run(*score) == 2
    assert "says 2.0 of the edge b, a and 3.0 of a, b, which are one edge" in capsys.readouterr().err


def test_the_number_may_stand_before_the_ends_of_an_edge(folder, tmp_path, capsys):
    table = pd.read_csv(folder / "roads.csv")
    table[["weight", "from", "length", "to"]].to_csv(tmp_path / "roads.csv", index=False)
    words = ("--edges", tmp_path / "roads.csv", "--target-column", "weight", "--edge-features", "length")
    assert run("predict", folder / "model", *words, "--out", tmp_path / "answer.csv") == 0
    answer = pd.read_csv(tmp_path / "answer.csv")
    assert answer[["source", "target"]].to_numpy().tolist() == table[["from", "to"]].to_numpy().tolist()
    pd.DataFrame({"w": [2.0, 4.0], "s": ["01", "2"], "t": ["02", "3"]}).to_csv(tmp_path / "truth.csv", index=False)
    (tmp_path / "p.csv").write_text("source,target,value\n01,02,1\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "truth.csv", "--target-column", "w") == 0
    assert printed(capsys.readouterr().out)["mse"] == 1


@pytest.mark.parametrize("metric, sign", [("mse", -1), ("mae", -1), ("r2", 1)])
def test_errors_on_validation_labels_are_printed_as_they_are(folder, tmp_path, capsys, metric, sign):
    words = ("--edges", folder / "roads.csv", "--target-column", "weight", "--edge-features", "length", *QUICK)
    assert run("fit", *words, "--set", f"training.select_by={metric}", "--out", tmp_path / "model") == 0
    best = EdgeRegressor.load(tmp_path / "model").best_score_
    assert f"validation {metric} {sign * best:.4f} at step" in capsys.readouterr().out
    assert sign * best > 0 or metric == "r2"
