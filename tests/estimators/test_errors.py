"""Bad input: exit code 2, one line that names the problem, no traceback, nothing half-written."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpmsnc.cli.main import main
from tiny_tables import fast, run_to_end, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
NODES = "id,label,f\na,x,1\nb,y,2\nc,,3\n"
EDGES = "s,t\na,b\nb,c\n"


def refused(words, capsys) -> str:
    """The message with which the command line refuses, after a check that it is nothing but a message."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and "Traceback" not in captured.err
    return captured.err


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ("id,label,f\na,,1\nb,,2\nc,,3\n", EDGES, "no node has a known label"),
        ("id,label,f\na,x,1\nb,x,2\nc,,3\n", EDGES, "every known label is 'x'"),
        ("id,label,f\na,x,1\nb,y,inf\nc,,3\n", EDGES, "'f' holds inf in line 3 of nodes.csv (node 'b')"),
        ("id,label,f\na,x,1\nb,y,2\n", EDGES, "names node 'c'"),
        ("id,label,f\na,x,1\na,y,2\n", EDGES, "'a' occurs more than once"),
        ("id,label,f\na,x,1\n,y,2\n", EDGES, "line 3 of nodes.csv has no 'id'"),
        ("id,label,f\n", "s,t\n", "the graph is empty"),
        ("", EDGES, "cannot read the node table"),
        (NODES, "s\na\n", "an edge needs a source and a target"),
        (NODES, "a,b\nb,c\n", "seems to lack a header"),
        ("id,topic\na,x\nb,y\nc,\n", EDGES, "no column 'label'; its columns are 'id', 'topic'"),
    ],
)
def test_bad_tables(tmp_path, capsys, nodes, edges, message):
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text(edges)
    before = files(tmp_path)
    tables = ["--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv", "--label", "label"]
    assert message in refused(["fit", *tables, *fast(), "--out", tmp_path / "new" / "model"], capsys)
    assert files(tmp_path) == before


def bad_npz(path: Path, **parts: np.ndarray) -> Path:
    edge_index = np.array([[0, 1], [1, 2]])
    np.savez(path, **({"edge_index": edge_index, "y": np.array([0, 1, -1])} | parts))
    return path


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"x": np.ones((2, 4)), "ids": np.array(["a", "b", "c"])}, "features have 2 rows for 3 nodes"),
        ({"y": np.array([0, 7, -1]), "classes": np.array(["a", "b"])}, "does not hold a graph"),
        ({"y": np.array([0, 1])}, "2 nodes"),
        ({"edge_index": np.empty((2, 0), int), "y": np.empty(0, int)}, "the graph is empty"),
        ({"x": np.full((3, 1), np.nan)}, "NaN or infinite"),
        ({"y": np.array([0, 2, -1]), "classes": np.array(["a", "b"])}, "label 2 of node 1 is not one of 2 classes"),
        (
            {
                **{"x_indptr": np.arange(4), "x_indices": np.full(3, 10**8)},  # nobody's memory
                **{"x_data": np.ones(3), "x_shape": np.array([3, 2])},
            },
            "features must be a sound sparse matrix",
        ),
    ],
)
def test_bad_npz(tmp_path, capsys, parts, message):
    path = bad_npz(tmp_path / "graph.npz", **parts)
    words = ["fit", "--graph", path, *fast(), "--out", tmp_path / "model"]
    assert message in refused(words, capsys)
    assert files(tmp_path) == {"graph.npz"}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    assert main(["fit", *write_tables(folder), *fast(5), "--out", str(folder / "model")]) == 0
    assert main(["predict", str(folder / "model"), "--out", str(folder / "p.csv")]) == 0
    return folder


def test_folders_that_cannot_be_written(fitted, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ["fit", *write_tables(fitted), *fast(5)]
    assert "cannot write" in refused([*words, "--out", tmp_path / "file" / "model"], capsys)
    assert "is not a folder" in refused([*words, "--out", tmp_path / "file"], capsys)
    assert "cannot write" in refused(["predict", fitted / "model", "--out", tmp_path / "file" / "p.csv"], capsys)
    assert "cannot write" in refused(["sample", fitted / "model", "--out", tmp_path / "file" / "p.csv"], capsys)
    assert files(tmp_path) == {"file"}


def test_bad_known_tables(fitted, tmp_path, capsys):
    known = tmp_path / "known.csv"
    words = ["predict", fitted / "model", "--known", known]
    assert "no known table" in refused(words, capsys)
    for text, message in [
        ("id,label\nnobody,left\n", "no node 'nobody'"),
        ("id,label\nn00,up\n", "labels outside the classes: 'up'; the classes are 'left', 'right'"),
        ("id,label\nn00,left\nn00,right\n", "'n00' occurs more than once"),
        ("id,a,b\nn00,left,x\n", "--label"),
        ("id\nn00\n", "--label"),
    ]:
        known.write_text(text)
        assert message in refused(words, capsys)


def test_bad_evaluations(fitted, tmp_path, capsys):
    truth = tmp_path / "truth.csv"
    words = ["evaluate", fitted / "p.csv", "--truth", truth]
    assert "no truth table" in refused(words, capsys)
    truth.write_text("id,label\nnobody,left\n")
    assert "no node of the truth table" in refused(words, capsys)
    truth.write_text("id,label\nn01,left\n")
    assert "was known to the model" in refused(words, capsys)
    truth.write_text("id,label\nn00,left\n")
    assert "no column 'topic'" in refused([*words, "--label", "topic"], capsys)
    assert "no prediction table" in refused(["evaluate", tmp_path / "none.csv", "--truth", truth], capsys)
    pd.DataFrame({"id": ["n00"], "label": ["left"]}).to_csv(tmp_path / "few.csv", index=False)
    pd.DataFrame({"id": ["n00"], "label": ["left"], "probability": ["high"]}).to_csv(
        tmp_path / "words.csv", index=False
    )
    assert "column probability" in refused(["evaluate", tmp_path / "words.csv", "--truth", truth], capsys)
    few = ["evaluate", tmp_path / "few.csv", "--truth", truth, "--model", fitted / "model"]
    assert "nodes without a prediction: 'n01'" in refused(few, capsys)


def test_bad_flags(fitted, tmp_path, capsys):
    words = ["fit", *write_tables(fitted), *fast(5), "--out", tmp_path / "model"]
    assert "between 0 and 1" in refused([*words, "--validation", "2"], capsys)
    assert "device" in refused([*words, "--device", "abacus"], capsys)
    assert "steps" in refused([*words, "--sampling.steps", "9"], capsys)
    assert "--hidden-channels must be at least 1" in refused([*words, "--hidden-channels", "0"], capsys)
    assert "dropout" in refused([*words, "--dropout", "1.5"], capsys)
    assert "seed" in refused([*words, "--seed", "-1"], capsys)
    assert "either as --edges" in refused(["fit", "--out", tmp_path / "model"], capsys)
    assert "at least 1" in refused(["predict", fitted / "model", "--num-samples", "0"], capsys)
    assert ".parquet" in refused(["predict", fitted / "model", "--out", tmp_path / "p.xls"], capsys)
    assert "no-such-table" in refused(["reproduce", "no-such-table"], capsys)
    assert "0-4" in refused(["reproduce", "synthetic", "--seeds", "x"], capsys)
    assert "seed" in refused(["demo", "--seed", "-1", "--out", tmp_path / "demo"], capsys)
    assert "columns" in refused(["demo", "--columns", "7", "--out", tmp_path / "demo"], capsys)
    assert "temperature" in refused(["sample", fitted / "model", "--temperature", "-1"], capsys)
    assert files(tmp_path) == set()


@pytest.mark.parametrize("flag", ["--schedule.num-steps=1", "--training.steps=0", "--training.time-draws=0"])
def test_impossible_settings_are_refused_by_the_parser(tmp_path, capsys, flag):
    with pytest.raises(SystemExit) as stop:
        main(["fit", "--edges", "e.csv", "--out", str(tmp_path / "model"), flag])
    assert stop.value.code == 2
    assert "at least" in capsys.readouterr().err
    assert files(tmp_path) == set()


def test_a_process_ends_with_the_code_and_without_a_traceback(tmp_path):
    done = run_to_end("predict", tmp_path / "nothing")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ") and len(done.stderr.splitlines()) == 1
