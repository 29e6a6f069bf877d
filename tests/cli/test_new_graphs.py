"""Several graphs and new ones through the command line, on tiny tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpmsnc import Graph, NodeClassifier
from dpmsnc.baselines.initialiser import INITIALISERS
from dpmsnc.cli.main import main
from dpmsnc.estimators.base import Estimator
from tiny_tables import fast, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
QUICK = [*fast(10), "--initialiser", "gcn"]


@pytest.fixture(scope="module", autouse=True)
def brief_gcn():
    """A GCN that is trained for a moment; no flag says so of an initialiser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INITIALISERS, "gcn", partial(INITIALISERS["gcn"], epochs=50))
        yield


def run(*words) -> int:
    return main([str(word) for word in words])


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype={"id": str, "graph": str})


def table(length: int, seed: int) -> pd.DataFrame:
    """The nodes of a path whose sides alternate, with a feature that says a little and one that says nothing."""
    rng = np.random.default_rng(seed)
    side = np.where((np.arange(length) + seed) % 2, "odd", "even")
    heat, noise = (side == "odd") + rng.normal(size=length), rng.normal(size=length)
    names = [f"n{k}" for k in range(length)]
    return pd.DataFrame({"name": names, "side": side, "heat": heat, "noise": noise}).round(3)


def edges(length: int, first: int = 0) -> pd.DataFrame:
    names = [f"n{k}" for k in range(first, first + length)]
    return pd.DataFrame({"a": names[:-1], "b": names[1:]})


def put(folder: Path, name: str, nodes: pd.DataFrame) -> None:
    folder.mkdir(exist_ok=True)
    nodes.to_csv(folder / f"{name}.nodes.csv", index=False)
    edges(len(nodes)).to_csv(folder / f"{name}.edges.csv", index=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folders of graphs, and a model that was fitted on them."""
    folder = tmp_path_factory.mktemp("graphs")
    for k in range(6):
        put(folder / "train", f"g{k}", table(5 + k % 3, k))
    for k in range(2):
        put(folder / "validation", f"v{k}", table(6, 50 + k))
    put(folder / "new", "b", table(4, 91))
    put(folder / "new", "a", table(6, 90))
    put(folder / "new", "one", table(1, 92))
    assert run(*fit_words(folder), "--out", folder / "model") == 0
    return folder


def fit_words(folder: Path, name: str = "train") -> list[str]:
    graphs = ["--graphs", folder / name, "--validation-graphs", folder / "validation"]
    return ["fit", *map(str, graphs), "--id", "name", "--label", "side", *QUICK]


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A ring and the model that was fitted on it."""
    folder = tmp_path_factory.mktemp("ring")
    assert run("fit", *write_tables(folder), *QUICK, "--out", folder / "model") == 0
    return folder


def predicted(folder: Path, *words) -> pd.DataFrame:
    assert run("predict", folder / "model", *words, "--out", folder / "out.csv") == 0
    return read(folder / "out.csv")


def new_tables(folder: Path, nodes: pd.DataFrame) -> list[str]:
    put(folder / "asked", "x", nodes)
    return ["--edges", str(folder / "asked" / "x.edges.csv"), "--nodes", str(folder / "asked" / "x.nodes.csv")]


def test_a_folder_is_learned_from_in_the_order_of_names(folder, capsys):
    clf = NodeClassifier.load(folder / "model")
    sizes = [5 + k % 3 for k in range(6)]
    assert np.bincount(clf.graph_.member).tolist() == [*sizes, 6, 6]
    assert clf.train_.sum() == sum(sizes) and clf.validation_.sum() == 12
    np.testing.assert_allclose(clf.graph_.x[:5], table(5, 0)[["heat", "noise"]], rtol=1e-6)
    assert run(*fit_words(folder), "--out", folder / "model", "--resume") == 0
    assert "nothing to resume" in capsys.readouterr().out
    words = [*fit_words(folder)[:3], *fit_words(folder)[5:]]
    assert run(*words, "--out", folder / "model", "--resume") == 2
    assert "other data" in capsys.readouterr().err


def test_the_summary_counts_the_graphs(folder, tmp_path, capsys):
    assert run(*fit_words(folder), "--method", "lp", "--out", tmp_path / "m") == 2  # the flags are those of dpm-snc
    words = [word for word in fit_words(folder) if word not in QUICK]
    assert run(*words, "--method", "lp", "--out", tmp_path / "m") == 0
    out = capsys.readouterr().out
    assert "graphs      6" in out and "nodes       36" in out


def test_npz_files_make_a_folder_too_and_columns_are_put_in_order(folder, tmp_path):
    for path in (folder / "train").glob("*.nodes.csv"):
        name = path.name.removesuffix(".nodes.csv")
        nodes = pd.read_csv(path)
        nodes = nodes[["noise", "name", "side", "heat"]] if name in ("g3", "g4") else nodes
        graph = Graph.from_tables(edges(len(nodes)), nodes, id="name", label="side")
        (tmp_path / "mixed").mkdir(exist_ok=True)
        if name in ("g1", "g3"):
            graph.to_npz(tmp_path / "mixed" / f"{name}.npz")
        else:
            put(tmp_path / "mixed", name, nodes)
    (tmp_path / "mixed" / "README.txt").write_text("no graph")
    words = fit_words(folder)
    words[2] = str(tmp_path / "mixed")
    assert run(*words, "--out", tmp_path / "model") == 0
    one, other = (Estimator.load(path / "model") for path in (folder, tmp_path))
    np.testing.assert_array_equal(one.graph_.x, other.graph_.x)
    np.testing.assert_array_equal(one.graph_.edge_index, other.graph_.edge_index)


def test_new_tables_are_answered_by_their_ids_as_in_python(folder, capsys):
    nodes = table(6, 90)
    out = predicted(folder, *new_tables(folder, nodes), "--id", "name")
    assert list(out.columns) == ["id", "label", "probability", "entropy", "known"]
    assert out.id.tolist() == nodes.name.tolist() and not out.known.any()
    assert "ignored node columns: 'side'" in capsys.readouterr().err
    graph = Graph.from_tables(edges(6), nodes.drop(columns="side"))
    proba = NodeClassifier.load(folder / "model").predict_proba(graph)
    np.testing.assert_allclose(out.probability, proba.max(axis=1), atol=1e-5)


def test_columns_may_stand_in_any_order_and_others_are_left_out(folder, capsys):
    nodes = table(6, 90)
    expected = predicted(folder, *new_tables(folder, nodes))
    mixed = nodes[["name", "noise", "side", "heat"]].assign(extra=1.5)
    capsys.readouterr()
    pd.testing.assert_frame_equal(predicted(folder, *new_tables(folder, mixed)), expected)
    assert "'extra'" in capsys.readouterr().err


def test_a_column_that_is_missing_is_named(folder, capsys):
    asked = new_tables(folder, table(6, 90).drop(columns="heat"))
    assert run("predict", folder / "model", *asked, "--out", folder / "never.csv") == 2
    assert "no column 'heat'" in capsys.readouterr().err and not (folder / "never.csv").exists()
    graph = Graph.from_tables(edges(4), table(4, 1)[["name", "heat"]])
    graph.to_npz(folder / "short.npz")
    assert run("predict", folder / "model", "--graph", folder / "short.npz") == 2
    assert "lacks 'noise'" in capsys.readouterr().err


def test_labels_of_new_tables_condition_and_a_new_class_is_refused(folder, capsys):
    nodes = table(6, 90)
    nodes["side"] = ["odd", None, None, None, "even", None]
    out = predicted(folder, *new_tables(folder, nodes), "--label", "side")
    assert out.known.tolist() == [True, False, False, False, True, False]
    assert out.label[[0, 4]].tolist() == ["odd", "even"] and (out.probability[[0, 4]] == 1).all()
    assert (out.probability[[1, 2, 3, 5]] < 1).all()
    nodes.loc[1, "side"] = "purple"
    asked = new_tables(folder, nodes)
    assert run("predict", folder / "model", *asked, "--label", "side") == 2
    assert "not fitted with 'purple', only with 'even', 'odd'; fit again" in capsys.readouterr().err


def test_a_folder_of_new_graphs_is_one_table(folder):
    out = predicted(folder, "--graphs", folder / "new", "--id", "name")
    assert out.graph.tolist() == ["a"] * 6 + ["b"] * 4 + ["one"]
    alone = predicted(folder, *new_tables(folder, table(4, 91)))
    part = out[out.graph == "b"].reset_index(drop=True)
    assert part.id.tolist() == alone.id.tolist() and part.label.tolist() == alone.label.tolist()
    np.testing.assert_allclose(part.probability, alone.probability, atol=1e-4)
    known = predicted(folder, "--graphs", folder / "new", "--label", "side")
    assert known.known.all()
    words = ["--graphs", folder / "new", "--num-samples", 3, "--out", folder / "s.csv"]
    assert run("sample", folder / "model", *words) == 0
    samples = read(folder / "s.csv")
    assert list(samples.columns) == ["graph", "id", "sample_0", "sample_1", "sample_2"] and len(samples) == 11
    assert samples.id.tolist() == out.id.tolist()


def test_answers_for_a_folder_are_evaluated_graph_by_graph(folder, tmp_path, capsys):
    (tmp_path / "p.csv").write_text("graph,id,label\n01,n0,odd\n01,n1,even\n2,n0,even\n")
    (tmp_path / "t.csv").write_text("graph,id,label\n2,n0,odd\n01,n0,odd\n01,n1,even\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv") == 0
    assert capsys.readouterr().out.split()[:4] == ["nodes", "3", "accuracy", "0.6667"]
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv", "--model", folder / "model") == 2
    assert "leave --model and --edges out" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("id,label\nn0,odd\n")
    assert run("evaluate", tmp_path / "p.csv", "--truth", tmp_path / "t.csv") == 2
    assert "no column 'graph'" in capsys.readouterr().err


def test_a_graph_of_one_node_and_one_without_nodes(folder, tmp_path, capsys):
    out = predicted(folder, *new_tables(folder, table(1, 92)))
    assert out.id.tolist() == ["n0"] and 0 < out.probability[0] < 1
    asked = new_tables(folder, table(0, 0))
    assert run("predict", folder / "model", *asked) == 2
    assert "the graph is empty" in capsys.readouterr().err


def test_an_npz_file_is_answered_with_labels_of_its_own_or_a_table(folder, tmp_path):
    nodes = table(5, 3)
    nodes.loc[1:, "side"] = None
    Graph.from_tables(edges(5), nodes[["name", "noise", "side", "heat"]], label="side").to_npz(tmp_path / "g.npz")
    out = predicted(folder, "--graph", tmp_path / "g.npz")
    assert out.known.tolist() == [True, False, False, False, False]
    (tmp_path / "known.csv").write_text("id,label\nn3,even\n")
    out = predicted(folder, "--graph", tmp_path / "g.npz", "--known", tmp_path / "known.csv")
    assert out.known.tolist() == [True, False, False, True, False] and out.label[3] == "even"


def grow_words(folder: Path, nodes: str, edges: str) -> list[str]:
    (folder / "new_nodes.csv").write_text(nodes)
    (folder / "new_edges.csv").write_text(edges)
    return ["--grow", "--edges", str(folder / "new_edges.csv"), "--nodes", str(folder / "new_nodes.csv")]


def test_the_fitted_graph_grows(ring, capsys):
    before = predicted(ring)
    words = grow_words(ring, "rank,name,heat\n1,m0,1\n2,m1,2\n", "a,b\nm0,n07\nm1,m0\n")
    out = predicted(ring, *words, "--id", "name")
    assert out.id.tolist() == [*before.id, "m0", "m1"]
    given = before[before.known]
    assert out.known.tolist() == [*before.known, False, False]
    assert out.label[given.index].tolist() == given.label.tolist()
    grown = NodeClassifier.load(ring / "model").graph_.grown(["m0", "m1"], [("m0", "n07"), ("m1", "m0")], x=[[1], [2]])
    model = NodeClassifier.load(ring / "model")
    labels, proba = model.predict(grown), model.predict_proba(grown)
    assert out.label.tolist() == labels.tolist()
    np.testing.assert_allclose(out.probability, proba[labels[:, None] == model.classes_], atol=1e-6)
    labelled = grow_words(ring, "name,side,heat\nm0,right,1\nm1,,2\n", "a,b\nm0,n07\nm1,m0\n")
    out = predicted(ring, *labelled, "--label", "side")
    assert out.label[40] == "right" and out.known[40] and not out.known[41]
    assert run("sample", ring / "model", *words, "--id", "name", "--out", ring / "s.csv") == 0
    assert len(read(ring / "s.csv")) == 42


@pytest.mark.parametrize(
    "nodes, edges, message",
    [
        ("name,heat\nn01,1\n", "a,b\nn01,n02\n", "has a node 'n01' already"),
        ("name,heat\nm0,1\nm0,2\n", "a,b\nm0,n02\n", "'m0' occurs more than once"),
        ("name,heat\nm0,1\n", "a,b\nm0,zz\n", "names node 'zz'"),
        ("name,rank\nm0,1\n", "a,b\nm0,n02\n", "no column 'heat'"),
        ("name,side,heat\nm0,up,1\n", "a,b\nm0,n02\n", "not fitted with 'up'"),
    ],
)
def test_what_does_not_grow_is_named(ring, capsys, nodes, edges, message):
    label = ["--label", "side"] if "side" in nodes else []
    assert run("predict", ring / "model", *grow_words(ring, nodes, edges), *label) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_ids_that_are_numbers_grow_by_numbers(tmp_path):
    graph = Graph.build([(k, (k + 1) % 12) for k in range(12)], y=[k // 6 if k % 3 else None for k in range(12)])
    graph.to_npz(tmp_path / "graph.npz")
    assert run("fit", "--graph", tmp_path / "graph.npz", *fast(5), "--out", tmp_path / "model") == 0
    out = predicted(tmp_path, *grow_words(tmp_path, "id,label\n12,1\n13,\n", "a,b\n12,3\n13,12\n"), "--label", "label")
    assert out.id.tolist() == [str(k) for k in range(14)] and out.label[12] == 1 and out.known[12]


def test_new_edges_may_begin_with_their_weight(tmp_path):
    graph = Graph.build([("a", "b"), ("b", "c")], ids=["a", "b", "c"], y=["u", None, "v"], edge_weight=[2.0, 1.0])
    graph.to_npz(tmp_path / "graph.npz")
    words = ["--method", "lp", "--validation", "None", "--out", tmp_path / "model"]
    assert run("fit", "--graph", tmp_path / "graph.npz", *words) == 0
    words = grow_words(tmp_path, "id,label\nd,u\ne,\n", "hours,from,to\n3,d,e\n1,e,c\n")
    out = predicted(tmp_path, *words, "--label", "label", "--weight", "hours")
    assert out.id.tolist() == ["a", "b", "c", "d", "e"] and out.label.tolist() == ["u", "u", "v", "u", "u"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--graphs", "{new}", "--edges", "x.csv"], "two ways to give a new graph"),
        (["--nodes", "x.csv"], "--nodes goes with --edges"),
        (["--grow", "--edges", "x.csv"], "--grow needs the new nodes"),
        (["--edges", "x.csv", "--nodes", "x.csv", "--known", "k.csv"], "leave --known out"),
        (["--graphs", "{empty}"], "holds no graph"),
        (["--graphs", "{new}/none"], "there is no folder"),
        (["--label", "side"], "a column of --nodes or of --known"),
        ([], "fitted on several graphs and does not keep their names"),
    ],
)
def test_flags_that_contradict_each_other(folder, capsys, words, message):
    (folder / "empty").mkdir(exist_ok=True)
    words = [word.format(new=folder / "new", empty=folder / "empty") for word in words]
    assert run("predict", folder / "model", *words) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_folders_that_cannot_be_learned_from(folder, tmp_path, capsys):
    def complaint(name: str, *more: str) -> str:
        words = fit_words(folder)
        words[2] = str(tmp_path / name)
        assert run(*words, *more, "--out", tmp_path / "model") == 2
        assert not (tmp_path / "model").exists()
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    (tmp_path / "empty").mkdir()
    assert "holds no graph" in complaint("empty")
    assert "either as --edges" in complaint("empty", "--edges", "x.csv")
    assert "give it or --validation-graphs" in complaint("empty", "--validation", "0.5")
    put(tmp_path / "fewer", "a", table(5, 0))
    put(tmp_path / "fewer", "b", table(5, 1).drop(columns="noise"))
    assert "b: the node table lacks the column 'noise' of a" in complaint("fewer")
    put(tmp_path / "unlabelled", "a", table(5, 0))
    put(tmp_path / "unlabelled", "c", table(5, 1).drop(columns="side"))
    assert "c: the node table has no column 'side'" in complaint("unlabelled")
    put(tmp_path / "half", "a", table(5, 0))
    (tmp_path / "half" / "a.edges.csv").unlink()
    assert "no edge table a.edges.csv" in complaint("half")
    put(tmp_path / "twice", "a", table(5, 0))
    Graph.build([(0, 1)]).to_npz(tmp_path / "twice" / "a.npz")
    assert "holds the graph a twice" in complaint("twice")
    put(tmp_path / "other", "a", table(5, 0).rename(columns={"heat": "cold"}))
    assert "v0: the node table has no column 'cold', which the fitted one has" in complaint("other")


def test_a_graph_without_a_node_table_has_neither_labels_nor_features(tmp_path, capsys):
    for k in range(4):
        put(tmp_path / "train", f"g{k}", table(5, k)[["name", "side"]])
    (tmp_path / "train" / "g1.nodes.csv").unlink()
    words = ["--graphs", tmp_path / "train", "--label", "side", *fast(5), "--out", tmp_path / "model"]
    assert run("fit", *words) == 0
    clf = NodeClassifier.load(tmp_path / "model")
    assert clf.graph_.known[clf.graph_.member == 1].sum() == 0 and clf.graph_.known.sum() == 15
    out = predicted(tmp_path, "--edges", tmp_path / "train" / "g1.edges.csv")
    assert out.id.tolist() == [f"n{k}" for k in range(5)]


def test_a_method_of_the_fitted_graph_alone_says_so(tmp_path, capsys):
    tables = write_tables(tmp_path)
    assert run("fit", *tables, "--method", "spectral", "--out", tmp_path / "model") == 0
    put(tmp_path / "asked", "x", pd.DataFrame({"name": ["p", "q"], "heat": [0.5, 1.0]}))
    asked = tmp_path / "asked"
    pd.DataFrame({"a": ["p"], "b": ["q"]}).to_csv(asked / "x.edges.csv", index=False)
    assert run("predict", tmp_path / "model", "--graphs", asked) == 2
    assert "which answers for any graph" in capsys.readouterr().err


def test_tags_of_new_tables_condition(tmp_path):
    def nodes(length: int) -> pd.DataFrame:
        tags = ["red;blue" if k % 4 == 0 else "red" if k % 2 else ";" for k in range(length)]
        return pd.DataFrame({"id": [f"n{k}" for k in range(length)], "tags": tags, "f": np.arange(length) % 4})

    known = nodes(24)
    known.loc[::5, "tags"] = None
    known.to_csv(tmp_path / "nodes.csv", index=False)
    edges(24).to_csv(tmp_path / "edges.csv", index=False)
    tables = ["--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv", "--label", "tags"]
    assert run("fit", *tables, "--kind", "tags", *QUICK, "--out", tmp_path / "model") == 0
    new = nodes(6)
    new.loc[3:, "tags"] = None
    out = predicted(tmp_path, *new_tables(tmp_path, new), "--label", "tags")
    assert out.known.tolist() == [True] * 3 + [False] * 3 and out.label[0] in ("blue;red", "red;blue")
    grown = predicted(tmp_path, *grow_words(tmp_path, "id,tags,f\nm,red,1\n", "a,b\nm,n0\n"), "--label", "tags")
    assert grown.label[24] == "red" and grown.known[24]


def test_numbers_of_new_tables_condition(tmp_path, capsys):
    sizes = [f"n{k},{k / 10 if k % 4 else ''},{k}" for k in range(24)]
    (tmp_path / "nodes.csv").write_text("id,size,f\n" + "\n".join(sizes) + "\n")
    edges(24).to_csv(tmp_path / "edges.csv", index=False)
    tables = ["--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv", "--label", "size"]
    words = ["fit", *tables, "--kind", "value", *QUICK, "--out", tmp_path / "model"]
    assert run(*words) == 0
    assert run(*words, "--resume") == 0 and "nothing to resume" in capsys.readouterr().out
    new = pd.DataFrame({"id": ["a", "b"], "size": [-1.0, None], "f": [3, 4]})
    put(tmp_path / "asked", "x", new)
    (tmp_path / "asked" / "x.edges.csv").write_text("from,to\n")
    out = predicted(tmp_path, "--graphs", tmp_path / "asked", "--label", "size")
    assert out.known.tolist() == [True, False] and out.value[0] == -1
