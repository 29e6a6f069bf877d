import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpmsnc
from dpmsnc import Graph, NodeClassifier
from dpmsnc.cli.fit import fit_defaults
from dpmsnc.cli.main import COMMANDS, main, parse
from dpmsnc.cli.reproduce import parse_seeds
from dpmsnc.errors import InputError
from tiny_tables import NUM_NODES, fast, run_to_end, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
HEAVY = {"torch", "pandas", "networkx", "sklearn", "scipy", "matplotlib", "pyarrow", "torch_geometric"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model fitted on them by the command line."""
    folder = tmp_path_factory.mktemp("tables")
    assert main(["fit", *write_tables(folder), *fast(100), "--out", str(folder / "model")]) == 0
    return folder


def run(*words) -> int:
    return main([str(word) for word in words])


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"id": str}).set_index("id")


HELP = """
import contextlib, io, sys
from dpmsnc.cli.main import COMMANDS, main
for words in (["--help"], *([name, "--help"] for name in COMMANDS)):
    shown, code = io.StringIO(), 0
    with contextlib.redirect_stdout(shown):
        try:
            main(words)
        except SystemExit as stop:
            code = stop.code
    loaded = set(sys.argv[1:]) & set(sys.modules)
    assert not code and "usage: dpmsnc" in shown.getvalue() and not loaded, (words, code, loaded)
    print(words[0])
"""


def test_help_imports_nothing_heavy():
    """One process for all commands, as nothing is unloaded between them."""
    done = subprocess.run([sys.executable, "-c", HELP, *HEAVY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["--help", *COMMANDS]


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dpmsnc {dpmsnc.__version__}\n"


def test_public_names_can_be_listed_and_imported():
    assert len(dpmsnc.__all__) <= 15
    assert all(getattr(dpmsnc, name) is not None for name in dpmsnc.__all__)
    assert set(dpmsnc.__all__) <= set(dir(dpmsnc))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = dpmsnc.no_such_name


def test_fit_prints_the_graph_and_where_the_model_is(tmp_path, capsys):
    assert main(["fit", *write_tables(tmp_path), *fast(), "--out", str(tmp_path / "model")]) == 0
    out = capsys.readouterr().out
    assert "20 known, 20 unknown" in out
    assert "ignored node columns: 'rank'" in out
    assert "validation likelihood" in out and str(tmp_path / "model") in out


def test_fit_says_what_of_the_graph_the_method_does_not_read(tmp_path, capsys):
    graph = Graph.build([(i, i + 1) for i in range(9)], y=["a", "b"] * 5, edge_attr=np.ones((9, 1)))
    graph.to_npz(tmp_path / "g.npz")
    assert run("fit", "--graph", tmp_path / "g.npz", *fast(), "--out", tmp_path / "model") == 0
    assert "warning: NodeClassifier does not read features of edges" in capsys.readouterr().err


def test_fit_writes_a_model_and_the_document_of_its_run(folder):
    names = {p.name.partition("-")[0] for p in (folder / "model").iterdir()}
    assert names == {"model.json", "weights", "graph", "run.json"}
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []
    document = json.loads((folder / "model" / "run.json").read_text())
    assert document["config"]["hidden_channels"] == 16
    assert document["metrics"]["last"]["step"] == 100
    assert document["validation_curve"]["steps"] == list(range(0, 101, 5))  # that of the initialiser comes first
    assert len(document["validation_curve"]["accuracy"]) == 21


def test_model_flags_reach_the_classifier(folder):
    clf = NodeClassifier.load(folder / "model")
    assert (clf.hidden_channels, clf.initialiser, clf.training.steps, clf.schedule.num_steps) == (16, "lp", 100, 8)
    assert clf.graph_.num_features == 1
    assert clf.dropout == 0 and clf.head_layers == NodeClassifier().head_layers


def test_predictions_are_keyed_by_ids_and_keep_known_labels(folder, capsys):
    assert run("predict", folder / "model", "--out", folder / "p.csv") == 0
    table = read(folder / "p.csv")
    assert list(table.columns) == ["label", "probability", "entropy", "known"]
    nodes = pd.read_csv(folder / "nodes.csv", index_col="name")
    assert list(table.index) == list(nodes.index)
    given = nodes.side.dropna()
    assert (table.label[given.index] == given).all()
    assert list(table.index[table.known]) == list(given.index)
    assert (table.probability[table.known] == 1).all() and (table.entropy[table.known] == 0).all()
    unknown = table[~table.known]
    assert ((unknown.probability > 0) & (unknown.probability < 1)).all()
    assert ((unknown.entropy > 0) & (unknown.entropy <= np.log(2) + 1e-6)).all()


def test_predictions_go_to_standard_output_and_to_parquet(folder, capsys):
    assert run("predict", folder / "model") == 0
    text = capsys.readouterr().out
    assert text.startswith("id,label,probability,entropy,known\nn00,")
    assert run("predict", folder / "model", "--out", folder / "new" / "p.parquet") == 0
    frame = pd.read_parquet(folder / "new" / "p.parquet")
    assert frame.to_csv(index=False) == text
    assert [p.name for p in (folder / "new").iterdir()] == ["p.parquet"]


def test_revealed_labels_condition_at_once(folder):
    flipped = pd.read_csv(folder / "nodes.csv").dropna().set_index("name").side.map({"left": "right", "right": "left"})
    flipped["n00"] = "right"
    flipped.rename_axis("node").to_csv(folder / "known.csv")
    assert run("predict", folder / "model", "--out", folder / "before.csv") == 0
    assert run("predict", folder / "model", "--known", folder / "known.csv", "--out", folder / "after.csv") == 0
    before, after = read(folder / "before.csv"), read(folder / "after.csv")
    assert (after.label[flipped.index] == flipped).all()
    assert after.known.sum() == before.known.sum() + 1
    others = ~before.known & ~after.known
    assert (before.label != after.label)[others].mean() > 0.5


def test_only_training_labels_condition_on_request(folder):
    assert run("predict", folder / "model", "--condition-on", "train", "--out", folder / "t.csv") == 0
    assert read(folder / "t.csv").known.sum() == NodeClassifier.load(folder / "model").train_.sum() == 16


def test_a_new_process_gives_the_same_predictions(folder):
    assert run("predict", folder / "model", "--out", folder / "here.csv") == 0
    done = run_to_end("predict", folder / "model")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (folder / "here.csv").read_text()


def test_samples_are_a_table_and_follow_the_seed(folder):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        out = folder / f"sample_{name}.csv"
        assert run("sample", folder / "model", "--num-samples", 3, "--seed", seed, "--out", out) == 0
    a, b, c = (read(folder / f"sample_{name}.csv") for name in "abc")
    assert list(a.columns) == ["sample_0", "sample_1", "sample_2"] and len(a) == NUM_NODES
    assert a.equals(b) and not a.equals(c)
    given = pd.read_csv(folder / "nodes.csv", index_col="name").side.dropna()
    assert (a.loc[given.index].to_numpy() == given.to_numpy()[:, None]).all()


def scores(text: str) -> dict[str, float]:
    """The first lines that `evaluate` prints; classes one by one follow after a blank line."""
    return {name: float(value) for name, value in (line.split() for line in text.partition("\n\n")[0].splitlines())}


def test_evaluate_scores_unknown_nodes_only(folder, capsys):
    run("predict", folder / "model", "--out", folder / "p.csv")
    truth, predicted = pd.read_csv(folder / "truth.csv", index_col="name").side, read(folder / "p.csv")
    capsys.readouterr()
    assert run("evaluate", folder / "p.csv", "--truth", folder / "truth.csv", "--model", folder / "model") == 0
    result = scores(capsys.readouterr().out)
    assert result["nodes"] == 20
    unknown = ~predicted.known
    assert result["accuracy"] == pytest.approx((predicted.label == truth)[unknown].mean(), abs=1e-4)
    assert {"macro_f1", "calibration_error", "subgraph_accuracy", "subgraph_accuracy_known"} <= set(result)
    assert result["subgraph_accuracy"] <= result["subgraph_accuracy_known"] <= result["accuracy"]


@pytest.mark.parametrize(
    "predicted, truth, nodes, accuracy",
    [(["1.0", "1.5", "1.0"], ["1", "", "1.0"], 2, 1.0), (["0", "1", "1"], ["0.0", "1.0", "0.0"], 3, 2 / 3),
     (["1", "0", "1"], ["1", "-1", "0"], 2, 0.5), (["-1", "1", "-1"], ["-1", "-1.0", "1"], 3, 1 / 3)],
)  # fmt: skip
def test_whole_numbers_are_the_same_label_however_they_are_written(tmp_path, capsys, predicted, truth, nodes, accuracy):
    for name, labels in (("p", predicted), ("t", truth)):
        rows = "".join(f"{k},{label}\n" for k, label in enumerate(labels))
        (tmp_path / f"{name}.csv").write_text("id,label\n" + rows)
        table = pd.DataFrame({"id": range(3), "label": [float(label or "nan") for label in labels]})
        table.to_parquet(tmp_path / f"{name}.parquet")
    for kinds in itertools.product(("csv", "parquet"), repeat=2):
        p, t = (tmp_path / f"{name}.{kind}" for name, kind in zip("pt", kinds))
        assert run("evaluate", p, "--truth", t) == 0
        result = scores(capsys.readouterr().out)
        assert result["nodes"] == nodes and result["accuracy"] == pytest.approx(accuracy, abs=1e-4)


def test_evaluate_by_hand(tmp_path, capsys):
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n2,3\n3,4\n")
    (tmp_path / "p.csv").write_text(
        "id,label,probability,known\n1,x,.9,False\n2,x,.6,False\n3,y,1,True\n4,y,.7,False\n"
    )
    (tmp_path / "truth.csv").write_text("topic,node\nx,1\ny,2\ny,4\n")
    truth = ["--truth", tmp_path / "truth.csv", "--id", "node"]
    assert run("evaluate", tmp_path / "p.csv", *truth, "--edges", tmp_path / "edges.csv") == 0
    result = scores(capsys.readouterr().out)
    assert result["nodes"] == 3
    assert result["accuracy"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["macro_f1"] == pytest.approx(2 / 3, abs=1e-4)
    assert result["calibration_error"] == pytest.approx((0.1 + 0.6 + 0.3) / 3, abs=1e-4)
    assert result["subgraph_accuracy_known"] == pytest.approx(1 / 3, abs=1e-4)


def test_evaluate_by_class_in_any_spelling_of_known(tmp_path, capsys):
    spelled = ["True", "yes", "1", "T", "", "no", "0", "FALSE", "n"]
    rows = "".join(f"{k},{'xy'[k % 2]},{known}\n" for k, known in enumerate(spelled))
    (tmp_path / "p.csv").write_text("id,label,known\n" + rows)
    (tmp_path / "t.csv").write_text("id,label\n" + "".join(f"{k},x\n" for k in range(9)))
    picture = tmp_path / "confusion.svg"
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv", "--picture", picture) == 0
    text = capsys.readouterr().out
    assert scores(text)["nodes"] == 5 and scores(text)["accuracy"] == 0.6
    lines = [line.split() for line in text.splitlines()]
    assert ["x", "1.0000", "0.6000", "0.7500", "5"] in lines and ["x", "3", "2"] in lines
    assert "accuracy of 1.0000" in text and b"<svg" in picture.read_bytes()
    (tmp_path / "p.csv").write_text("id,label,known\n1,x,maybe\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv") == 2
    assert "'maybe' of node 1" in capsys.readouterr().err
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv", "--picture", tmp_path / "c.doc") == 2


@pytest.mark.parametrize(
    "columns, words, message",
    [
        ("id,label", ["--target-column", "label"], "are classes, of which --target-column says nothing"),
        ("id,label", ["--tag-separator", "|"], "are classes, of which --tag-separator says nothing"),
        ("id,label", ["--source", "a"], "--source and --target are columns of --edges"),
        ("id,label", ["--edges", "e.csv", "--model", "m"], "--model has the edges of its graph"),
        ("id,label,probability of x", ["--model", "m", "--edges", "e.csv"], "are tags, of which --model, --edges say"),
        ("id,label,probability of x", ["--picture", "c.svg"], "are tags, of which --picture says nothing"),
        ("id,label,probability of x", ["--target", "b"], "are tags, of which --target says nothing"),
        ("id,value", ["--target-column", "label"], "are numbers on nodes, of which --target-column says nothing"),
        ("id,value", ["--source", "a", "--edges", "e.csv"], "of which --edges, --source say nothing"),
        ("source,target,value", ["--id", "id"], "are numbers on edges, of which --id says nothing"),
        ("source,target,value", ["--model", "m"], "are numbers on edges, of which --model says nothing"),
        ("source,target,value", ["--tag-separator", "|"], "of which --tag-separator says nothing; leave it out"),
    ],
)
def test_flags_that_say_nothing_of_the_predictions_are_refused(tmp_path, capsys, columns, words, message):
    (tmp_path / "p.csv").write_text(f"{columns}\n" + ",".join("1" for _ in columns.split(",")) + "\n")
    (tmp_path / "t.csv").write_text("id,label\n1,1\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv", *words) == 2
    assert message in capsys.readouterr().err


def test_a_blank_prediction_is_wrong_and_no_class_of_its_own(tmp_path, capsys):
    (tmp_path / "p.csv").write_text("id,label\n1,x\n2,\n3,y\n4,y\n")
    (tmp_path / "t.csv").write_text("id,label\n1,x\n2,x\n3,y\n4,y\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv") == 0
    found = scores(capsys.readouterr().out)
    assert found["accuracy"] == 0.75 and found["macro_f1"] == pytest.approx((2 / 3 + 1) / 2, abs=1e-4)


def test_whole_numbers_are_ids_and_classes_too(tmp_path, capsys):
    edges = [(k, (k + 1) % 12) for k in range(12)]
    graph = Graph.build(edges, y=[k // 6 if k % 3 else None for k in range(12)])
    graph.to_npz(tmp_path / "graph.npz")
    (tmp_path / "known.csv").write_text("id,label\n0,1\n")
    (tmp_path / "truth.csv").write_text("id,label\n" + "".join(f"{k},{k // 6}\n" for k in range(12)))
    assert run("fit", "--graph", tmp_path / "graph.npz", *fast(5), "--out", tmp_path / "model") == 0
    known = ["--known", tmp_path / "known.csv"]
    assert run("predict", tmp_path / "model", *known, "--out", tmp_path / "p.csv") == 0
    assert read(tmp_path / "p.csv").label["0"] == 1
    capsys.readouterr()
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "truth.csv", "--model", tmp_path / "model") == 0
    assert scores(capsys.readouterr().out)["nodes"] == 3


def test_a_preset_changes_defaults_and_flags_override_it():
    fit = fit_defaults(["fit", "--preset", "paper", "--setting=synthetic"])
    assert vars(fit.model) == NodeClassifier.from_preset("paper", "synthetic").__dict__
    words = ["fit", "--out", "x", "--preset", "paper", "--setting", "synthetic", "--training.steps", "7"]
    command = parse(words)
    assert command.model.training.steps == 7
    assert command.model.training.refresh_every == 30 and command.model.hidden_channels == 16
    with pytest.raises(SystemExit) as stop:
        parse([*words, "--preset", "nobody"])
    assert stop.value.code == 2


def test_validation_none_trains_on_every_label(tmp_path, capsys):
    words = [*write_tables(tmp_path), *fast(5), "--validation", "None", "--out", str(tmp_path / "model")]
    assert main(["fit", *words]) == 0
    assert "no validation" in capsys.readouterr().out
    assert NodeClassifier.load(tmp_path / "model").train_.sum() == 20
    for name in ("run.json", "model.json"):
        json.loads((tmp_path / "model" / name).read_text(), parse_constant=pytest.fail)
    assert main(["fit", *words, "--resume"]) == 0
    assert "nothing to resume" in capsys.readouterr().out


def test_seeds():
    assert parse_seeds("0-2,7") == [0, 1, 2, 7]
    for text in ("a-b", "3-1", "1-2-3", "-1", ""):
        with pytest.raises(InputError, match="0-4"):
            parse_seeds(text)


def test_reproduce_and_demo_pass_their_flags_on(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr("dpmsnc.evidence.run.runner.reproduce", lambda *a, **k: calls.append((a, k)))
    monkeypatch.setattr("dpmsnc.cli.demo.run", lambda *a, **k: calls.append((a, k)))
    flags = ("--seeds", "0-1", "--methods", "gcn", "--results", tmp_path, "--force", "--fast")
    assert run("reproduce", "synthetic", *flags) == 0
    assert run("demo", "--out", tmp_path, "--columns", 30, "--seed", 3) == 0
    expected = {"seeds": [0, 1], "results": tmp_path, "force": True, "methods": ["gcn"], "fast": True}
    assert calls == [(("synthetic",), expected), ((tmp_path,), {"columns": 30, "seed": 3})]


def test_tags_numbers_and_other_methods_from_tables(tmp_path, capsys):
    rows = [f"n{k},{k % 2},{k % 3 // 2},{k / 10},{k}" if k % 5 else f"n{k},,,,{k}" for k in range(30)]
    (tmp_path / "nodes.csv").write_text("id,red,blue,size,f\n" + "\n".join(rows) + "\n")
    (tmp_path / "edges.csv").write_text("a,b\n" + "\n".join(f"n{k},n{(k + 1) % 30}" for k in range(30)) + "\n")
    data = [
        "--edges",
        str(tmp_path / "edges.csv"),
        "--nodes",
        str(tmp_path / "nodes.csv"),
        "--id",
        "id",
        "--features",
        "f",
    ]
    quick = ["--training.steps", "10", "--training.evaluate-every", "5", "--hidden-channels", "8"]

    def table(*words):
        model = str(tmp_path / "model")
        assert main(["fit", "--out", model, "--overwrite", *data, *words]) == 0
        assert main(["predict", model, "--out", str(tmp_path / "out.csv"), "--num-samples", "4"]) == 0
        return pd.read_csv(tmp_path / "out.csv").set_index("id")

    tags = table("--kind", "tags", "--label", "red", "blue", "--initialiser", "lp", *quick)
    assert tags.loc["n1", ["red", "blue"]].tolist() == [1, 0] and set(tags["red"]) <= {0, 1}
    numbers = table("--kind", "value", "--label", "size", *quick)
    assert numbers.loc["n7", "value"] == 0.7 and numbers.loc["n7", "mean of samples"] == pytest.approx(0.7)
    short = ["--set", "training.steps=5", "--set", "initialiser=lp"]
    classes = table("--label", "red", "--method", "masked-labels", *short)
    assert classes.loc["n1", "label"] == 1
    capsys.readouterr()
    for words, message in [
        (["--method", "gcn", "--label", "red", "--hidden-channels", "8"], "--hidden_channels is a flag of dpm-snc"),
        (["--label", "red", "blue"], "--label names 2 columns"),
        (["--label", "red", "--set", "epochs=3"], "--set is for other methods"),
    ]:
        assert main(["fit", "--out", str(tmp_path / "other"), *data, *words]) == 2
        assert message in capsys.readouterr().err


def test_help_of_fit_shows_everyday_flags_first_and_groups_the_others(capsys):
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    text = capsys.readouterr().out
    titles = [f"{name} options" for name in ("graph", "model", "schedule", "sampling", "sampling.guidance", "training")]
    flags = ["--edges", "--seed", "--schedule.num-steps", "--sampling.method", "--sampling.guidance.norm"]
    first = [" --out ", *(word for pair in zip(titles, [f" {flag} " for flag in flags]) for word in pair), titles[-1]]
    places = [text.index(word) for word in first]
    assert places == sorted(places) and text.index(" --seed ") < text.index(" --backbone ")
