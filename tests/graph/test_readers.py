import gzip
import os
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dpmsnc.cli.answer_tables import in_graph, read_labels
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import OneClass, Tags


@pytest.fixture
def tables():
    nodes = pd.DataFrame(
        {
            "paper": ["010", "007", "7", "NA"],
            "year": [2001, 2002, 2003, 2004],
            "topic": ["AI", "", "NA", "AI"],
            "title": ["w", "x", "y", "z"],
            "cites": [0.5, 1.5, 2.5, 3.5],
        }
    )
    edges = pd.DataFrame({"from": ["007", "7", "NA"], "to": ["7", "010", "7"]})
    return edges, nodes


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def same(a: Graph, b: Graph) -> bool:
    dense = [None if g.x is None else g.x.toarray() if sp.issparse(g.x) else g.x for g in (a, b)]
    return (
        a.ids.tolist() == b.ids.tolist()
        and a.classes == b.classes
        and a.y.tolist() == b.y.tolist()
        and a.edge_index.tolist() == b.edge_index.tolist()
        and type(a.x) is type(b.x)
        and (dense[0] is None or (dense[0] == dense[1]).all())
        and (a.feature_names, a.directed, a.target) == (b.feature_names, b.directed, b.target)
        and a.edge_feature_names == b.edge_feature_names
        and np.array_equal(a.edge_attr, b.edge_attr)
    )


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "frame"])
def test_tables_keep_ids_and_class_names_and_read_blank_labels_as_unknown(tables, tmp_path, kind):
    edges, nodes = tables
    if kind != "frame":
        edges, nodes = write(edges, tmp_path / f"edges.{kind}"), write(nodes, tmp_path / f"nodes.{kind}")
    graph = Graph.from_tables(edges, nodes, id="paper", label="topic")
    assert graph.ids.tolist() == ["010", "007", "7", "NA"]
    assert graph.classes == ("AI", "NA") and graph.decode(graph.y).tolist() == ["AI", None, "NA", "AI"]
    assert graph.edge_index.T.tolist() == [[0, 2], [1, 2], [2, 3]]
    assert graph.x.tolist() == [[2001, 0.5], [2002, 1.5], [2003, 2.5], [2004, 3.5]]
    assert graph.feature_names == ("year", "cites")
    assert graph.notes == ("ignored node columns: 'title'",)


def test_a_null_label_in_parquet_is_unknown_and_numbers_stay_numbers(tmp_path):
    nodes = pd.DataFrame({"id": [5, 3, 9], "label": pd.array([2, None, 10], dtype="Int64")})
    edges = write(pd.DataFrame({"a": [9, 5], "b": [3, 9]}), tmp_path / "edges.parquet")
    graph = Graph.from_tables(edges, write(nodes, tmp_path / "nodes.parquet"), label="label")
    assert graph.ids.tolist() == [5, 3, 9] and graph.edge_index.T.tolist() == [[0, 2], [1, 2]]
    assert graph.classes == (2, 10) and graph.y.tolist() == [0, -1, 1]


def test_whole_number_labels_of_a_csv_sort_as_numbers_and_minus_one_is_unknown(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,label\na,10\nb,2\nc,-1\nd,\n")
    (tmp_path / "edges.csv").write_text("s,t\na,b\nb,c\nc,d\n")
    graph = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label")
    assert graph.classes == (2, 10) and graph.y.tolist() == [1, 0, -1, -1]
    (tmp_path / "nodes.csv").write_text("id,label\na,10.0\nb,2.0\nc,-1.0\nd,\n")  # by pandas, for the gap
    same = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label")
    assert same.classes == (2, 10) and same.y.tolist() == [1, 0, -1, -1]
    labels = read_labels(tmp_path / "nodes.csv", "known")
    assert in_graph(labels, same) == {"a": 10, "b": 2}
    for classes in ((-1, 2, 10), ("-1.0", "2.0", "10.0"), (-1.0, 2.0, 10.0)):  # however the classes came to be
        graph = Graph.build(same.edge_index, ids=list("abcd"), y=[None] * 4, classes=classes)
        assert in_graph(labels, graph) == dict(zip("abc", (classes[2], classes[1], classes[0])))
    (tmp_path / "nodes.csv").write_text("id,label\na,10\nb,2\nc,nan\nd,NA\n")
    graph = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label")
    assert graph.classes == (2, 10) and graph.y.tolist() == [1, 0, -1, -1]
    assert read_labels(tmp_path / "nodes.csv", "known") == {"a": "10", "b": "2"}
    (tmp_path / "nodes.csv").write_text("id,label\na,NA\nb,x\nc,\nd,\n")  # among words, a word
    assert Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label").classes == ("NA", "x")
    (tmp_path / "nodes.csv").write_text("id,label\na,10.5\nb,2.0\nc,\nd,\n")
    assert Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label").classes == ("10.5", "2.0")
    (tmp_path / "nodes.csv").write_text("id,label\na,010\nb,2\nc,\nd,\n")
    assert Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label").classes == ("010", "2")


def test_columns_without_a_name_are_the_first_that_nobody_named(tmp_path):
    (tmp_path / "edges.csv").write_text("citing,cited,year\n007,b,1\nb,c,2\n")
    (tmp_path / "nodes.csv").write_text("label,id\nx,007\ny,b\n,c\n")
    for ends in ({}, {"source": "cited"}, {"target": "citing"}, {"source": "citing"}):
        graph = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", label="label", **ends)
        assert graph.ids.tolist() == ["007", "b", "c"] and graph.edge_index.T.tolist() == [[0, 1], [1, 2]]
        assert graph.classes == ("x", "y")
    assert read_labels(tmp_path / "nodes.csv", "known", label="label") == {"007": "x", "b": "y"}
    with pytest.raises(InputError, match="both the column 'cited'"):
        Graph.from_tables(tmp_path / "edges.csv", source="cited", target="cited")


@pytest.mark.parametrize("text", [True, False])
def test_columns_that_are_named_as_something_else_are_no_ends_of_edges(tmp_path, text):
    table = pd.DataFrame({"hours": [2, 1], "from": ["01", "2"], "cost": [5, 6], "to": ["2", "3"], "price": [0.5, None]})
    table.to_csv(tmp_path / "edges.csv", index=False)
    edges = tmp_path / "edges.csv" if text else table
    graph = Graph.from_tables(edges, edge_weight="hours", edge_features="cost", edge_label="price")
    assert graph.ids.tolist() == ["01", "2", "3"] and graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weight.tolist() == [2, 1] and graph.edge_attr.ravel().tolist() == [5, 6]
    assert graph.edge_feature_names == ("cost",)
    named = Graph.from_tables(edges, source="to", edge_weight="hours", edge_features=["cost"])
    assert named.ids.tolist() == ["2", "01", "3"]
    with pytest.raises(InputError, match="too few"):
        Graph.from_tables(table[["hours", "from"]], edge_weight="hours")


def test_ids_match_across_a_text_file_and_a_typed_file(tmp_path):
    (tmp_path / "edges.csv").write_text("s,t\n30,10\n")
    nodes = write(pd.DataFrame({"id": [10, 20, 30]}), tmp_path / "nodes.parquet")
    graph = Graph.from_tables(tmp_path / "edges.csv", nodes)
    assert graph.ids.tolist() == [10, 20, 30] and graph.edge_index.T.tolist() == [[0, 2]]
    (tmp_path / "nodes.csv").write_text("id\n10\n20\n30\n")
    edges = write(pd.DataFrame({"s": [30], "t": [10]}), tmp_path / "edges.parquet")
    graph = Graph.from_tables(edges, tmp_path / "nodes.csv")
    assert graph.ids.tolist() == ["10", "20", "30"] and graph.edge_index.T.tolist() == [[0, 2]]


def test_without_a_node_table_the_nodes_are_those_of_the_edges(tmp_path):
    (tmp_path / "edges.csv").write_text("weight,u,v\n0.5,b,007\n0.7,007,a\n")
    graph = Graph.from_tables(tmp_path / "edges.csv", source="u", target="v")
    assert graph.ids.tolist() == ["b", "007", "a"] and graph.edge_index.T.tolist() == [[0, 1], [1, 2]]
    assert "ignored edge columns: 'weight'" in graph.notes


def test_spreadsheet_and_pandas_leftovers_are_no_features(tmp_path):
    (tmp_path / "nodes.csv").write_bytes(b"\xef\xbb\xbfage,,id\n30,0,a\n40,1,b\n")
    (tmp_path / "edges.csv").write_text("s,t\na,b\n")
    graph = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", id="id")
    assert graph.x.tolist() == [[30], [40]]


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "message"),
    [
        ("s,t\na,zz\n", "id\na\nb\n", {}, "names node 'zz'"),
        ("s,t\na,b\n", "id\na\nb\na\n", {}, "'a' occurs more than once"),
        ("s,t\na,\n", "id\na\n", {}, "line 2 of edges.csv has no 't'; fill"),
        (
            "s,t\na,b\n",
            "id,age\na,1\nb,inf\n",
            {},
            "'age' holds inf in line 3 of nodes.csv .node 'b'., .* infinite",
        ),
        ("s,t\na,b\n", "id,age\na,1\nb,2\n", {"label": "topic"}, "no column 'topic'; its columns are 'id', 'age'"),
        ("s\na\n", "id\na\n", {}, "too few"),
        ("a,b\nb,c\n", "id\na\nb\nc\n", {}, "lack a header"),
        ("s,t\n", "id\n", {}, "empty"),
    ],
)
def test_tables_that_cannot_be_read_say_why(tmp_path, edges, nodes, options, message):
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "nodes.csv").write_text(nodes)
    with pytest.raises(InputError, match=message):
        Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", **options)


def test_files_that_are_not_tables_say_why(tmp_path):
    with pytest.raises(InputError, match="there is no edge table"):
        Graph.from_tables(tmp_path / "absent.csv")
    (tmp_path / "edges.xlsx").write_text("")
    with pytest.raises(InputError, match=r"use .csv, .tsv or .parquet"):
        Graph.from_tables(tmp_path / "edges.xlsx")
    (tmp_path / "broken.parquet").write_text("not parquet")
    with pytest.raises(InputError, match="cannot read"):
        Graph.from_tables(tmp_path / "broken.parquet")
    with pytest.raises(InputError, match="node table; pass it"):
        Graph.from_tables(pd.DataFrame({"s": ["a"], "t": ["b"]}), label="topic")


@pytest.mark.parametrize("ids", [["007", "7", "é"], [2, 0, 1]])
@pytest.mark.parametrize("x", [None, np.eye(3), sp.eye_array(3)], ids=["none", "dense", "sparse"])
@pytest.mark.parametrize("y", [["b", None, "a"], [5, None, 3], None], ids=["text", "numbers", "unlabelled"])
def test_npz_gives_back_what_was_written(tmp_path, ids, x, y):
    graph = Graph.build([(ids[0], ids[1]), (ids[2], ids[1])], ids=ids, x=x, y=y)
    graph.to_npz(tmp_path / "graph.npz")
    assert same(Graph.from_npz(tmp_path / "graph.npz"), graph)


def test_npz_keeps_classes_no_node_has(tmp_path):
    Graph.build([(0, 1)], y=[None, "b"], classes=["c", "b"]).to_npz(tmp_path / "graph.npz")
    graph = Graph.from_npz(tmp_path / "graph.npz")
    assert graph.classes == ("c", "b") and graph.y.tolist() == [-1, 1]


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path, monkeypatch):
    path = tmp_path / "graph.npz"
    graph = Graph.build([("a", "b")])
    graph.to_npz(path)
    before = path.read_bytes()

    def fail(file, **parts):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        graph.to_npz(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["graph.npz"]


def test_ids_that_are_neither_text_nor_numbers_are_not_saved(tmp_path):
    with pytest.raises(InputError, match="node ids must be all text or all numbers"):
        Graph.build([((0, 0), (0, 1))]).to_npz(tmp_path / "graph.npz")


def test_npz_files_that_are_no_graphs_say_why(tmp_path):
    np.savez(tmp_path / "pickled.npz", edge_index=np.array([[0], [None]], dtype=object))
    np.savez(tmp_path / "other.npz", z=np.zeros(2))
    np.save(tmp_path / "array.npy", np.zeros(2))
    np.savez(tmp_path / "label.npz", edge_index=[[0], [1]], y=[0, 5], classes=["a"])
    np.savez(tmp_path / "negative.npz", edge_index=[[0], [-1]], ids=["a", "b"])
    np.savez(tmp_path / "edge.npz", edge_index=[[0], [9]], ids=["a", "b"])
    (tmp_path / "text.npz").write_text("hello")
    for name in (
        "pickled.npz",
        "negative.npz",
        "other.npz",
        "array.npy",
        "text.npz",
        "absent.npz",
        "label.npz",
        "edge.npz",
    ):
        with pytest.raises(InputError, match=name):
            Graph.from_npz(tmp_path / name)


SPARSE = {"x_indptr": [0, 1, 1], "x_indices": [0], "x_data": [1.0], "x_shape": [2, 2]}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"edge_index": [[0], [10**12]]}, "nodes, but only 2 entries"),
        (SPARSE | {"x_shape": [2, 10**12]}, "feature columns, but only 1 entries"),
        (SPARSE | {"x_shape": [10**12, 2]}, "does not hold a graph"),
        (SPARSE | {"x_shape": [10**30, 2]}, "crafted.npz"),
        (SPARSE | {"x_shape": 2}, "does not hold a graph"),
        (SPARSE | {"x_indptr": [0, 10**12, 1]}, "features (are|must be)"),
        (SPARSE | {"x_indptr": [0, -5, 1]}, "features (are|must be)"),
        (SPARSE | {"x_indices": [10**9]}, "features (are|must be)"),
        (SPARSE | {"x_indices": [-1]}, "features (are|must be)"),
        ({"x_indptr": [0, 1, 1]}, "does not hold a graph"),
    ],
)
def test_numbers_in_an_npz_file_that_nothing_stands_behind_are_refused(tmp_path, parts, message):
    np.savez(tmp_path / "crafted.npz", **({"edge_index": [[0], [1]]} | parts))
    tracemalloc.start()
    with pytest.raises(InputError, match=message):
        Graph.from_npz(tmp_path / "crafted.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20


def test_nodes_in_an_npz_file_may_be_named_by_its_edges_alone(tmp_path):
    np.savez(tmp_path / "named.npz", edge_index=np.array([["a", "b"], ["b", "c"]]).T)
    assert Graph.from_npz(tmp_path / "named.npz").ids.tolist() == ["a", "b", "c"]
    np.savez(tmp_path / "far.npz", edge_index=[[0], [900_000]])
    assert Graph.from_npz(tmp_path / "far.npz").num_nodes == 900_001


def test_a_matrix_of_several_labels_per_node_is_read_as_tags(tmp_path):
    np.savez(tmp_path / "multi.npz", edge_index=[[0], [1]], y_multi=np.array([[1, 1], [0, 1]], dtype=np.uint8))
    graph = Graph.from_npz(tmp_path / "multi.npz")
    assert graph.target == Tags((0, 1)) and graph.y.tolist() == [[1, 1], [0, 1]]


@pytest.mark.skipif("DPMSNC_DATA" not in os.environ, reason="set DPMSNC_DATA to a folder with cora.npz")
def test_cora_has_its_published_size(tmp_path):
    graph = Graph.from_npz(Path(os.environ["DPMSNC_DATA"]) / "cora.npz", all_labels=True)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (2708, 5278, 1433, 7)
    assert graph.summary().homophily == pytest.approx(0.81, abs=0.005)
    assert not any("removed" in note or "direction" in note for note in graph.notes)
    graph.to_npz(tmp_path / "again.npz")
    assert same(Graph.from_npz(tmp_path / "again.npz"), graph)


@pytest.mark.parametrize("ids", [[2**70, 1], ["a\0", "b"], [("a",), ("b",)]], ids=["too large", "zero", "pairs"])
def test_names_that_numpy_would_pickle_or_change_are_not_saved(tmp_path, ids):
    with pytest.raises(InputError, match="node ids must be"):
        Graph.build([(ids[0], ids[1])], ids=ids).to_npz(tmp_path / "graph.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_table_cut_short_in_its_compressed_form_is_named(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + os.urandom(3000).hex().encode() + b",x\n")[:-100])
    with pytest.raises(InputError, match=r"edges\.csv\.gz"):
        Graph.from_tables(path)


def test_edge_columns_become_edge_features_and_directions_are_kept(tmp_path):
    (tmp_path / "edges.csv").write_text("from,to,weight,kind,age\nb,a,0.5,x,1\na,b,2,y,3\nb,c,4,z,5\n")
    (tmp_path / "nodes.csv").write_text("id\na\nb\nc\n")
    tables = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    graph = Graph.from_tables(*tables, edge_features=["age", "weight"], directed=True)
    assert graph.directed and graph.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2]]
    assert graph.edge_attr.tolist() == [[3, 2], [1, 0.5], [5, 4]]
    assert "ignored edge columns: 'kind'" in graph.notes
    undirected = Graph.from_tables(*tables, edge_features=["weight"])
    assert undirected.edge_attr.tolist() == [[0.5], [4]]
    with pytest.raises(InputError, match="'kind' is not numeric"):
        Graph.from_tables(*tables, edge_features=["kind"])
    with pytest.raises(InputError, match="the edge table has no column 'wait'"):
        Graph.from_tables(*tables, edge_features=["wait"])
    (tmp_path / "edges.csv").write_text("from,to,weight\na,b,\n")
    with pytest.raises(InputError, match="feature 'weight' of edge 0 is missing"):
        Graph.from_tables(*tables, edge_features=["weight"])


def test_tables_of_tags_and_of_numbers(tmp_path):
    edges = write(pd.DataFrame({"s": ["a", "b"], "t": ["b", "c"]}), tmp_path / "edges.csv")
    (tmp_path / "nodes.csv").write_text("id,red,age,blue\na,1,30,0\nb,,40,\nc,0,50,0\n")
    graph = Graph.from_tables(edges, tmp_path / "nodes.csv", label=["blue", "red"], kind="tags")
    assert graph.target == Tags(("blue", "red")) and graph.y.tolist() == [[0, 1], [-1, -1], [0, 0]]
    assert graph.feature_names == ("age",)
    (tmp_path / "nodes.csv").write_text("id,score\na,1.5\nb,\nc,NA\n")
    graph = Graph.from_tables(edges, tmp_path / "nodes.csv", label="score", kind="value")
    np.testing.assert_array_equal(graph.y, [1.5, np.nan, np.nan])
    lists = pd.DataFrame({"id": ["a", "b", "c"], "colours": [["red"], None, ["red", "blue"]]})
    for nodes in (lists, write(lists, tmp_path / "nodes.parquet")):
        graph = Graph.from_tables(edges, nodes, label="colours", kind="tags")
        assert graph.decode(graph.y).tolist() == [("red",), None, ("blue", "red")]
    with pytest.raises(InputError, match="pass kind='tags', or one column"):
        Graph.from_tables(edges, lists, label=["id", "colours"])
    with pytest.raises(InputError, match="a column of a tag holds 0 and 1"):
        Graph.from_tables(edges, lists, label=["colours"], kind="tags")
    with pytest.raises(InputError, match="unknown kind of target 'number'"):
        Graph.from_tables(edges, kind="number")


def test_two_columns_of_one_name_are_refused():
    edges, columns = pd.DataFrame({"s": ["a"], "t": ["b"]}), ["id", "age", "age"]
    with pytest.raises(InputError, match="the node table has more than one column called 'age'"):
        Graph.from_tables(edges, pd.DataFrame([["a", 1, 2], ["b", 3, 4]], columns=columns))


@pytest.mark.parametrize("wrong", [Graph.build([(0, 1)]), [("a", "b")], np.zeros((2, 2)), None, {"s": ["a"]}])
def test_what_is_no_table_is_refused(wrong):
    with pytest.raises(InputError, match=r"the edge table is of type .*pass the path of a file or a DataFrame"):
        Graph.from_tables(wrong)
    with pytest.raises(InputError, match="the node table is of type"):
        Graph.from_tables(pd.DataFrame({"s": ["a"], "t": ["b"]}), 5 if wrong is None else wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"y": [{"u", "v"}, None, ()], "kind": "tags"},
        {"y": [1.5, None, 2.5], "kind": "value"},
        {"y": ["u", None, "v"], "edge_attr": [[1.0, 2.0], [3.0, 4.0]], "edge_feature_names": ["km", "größe"]},
        {"directed": True, "edge_attr": [1.0, 2.0]},
        {"x": np.eye(3), "feature_names": ["year", "größe", "7"]},
    ],
    ids=["tags", "values", "edge features", "directed", "names"],
)
def test_npz_keeps_targets_edge_features_directions_and_names(tmp_path, options):
    graph = Graph.build([("c", "a"), ("b", "c")], ids=["b", "a", "c"], **options)
    graph.to_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    np.testing.assert_array_equal(again.y, graph.y)
    plain = np.zeros(3, dtype=np.int64)
    assert again.y.dtype == graph.y.dtype
    assert same(*(replace(g, y=plain) for g in (again, graph)))
    assert ("target" in np.load(tmp_path / "graph.npz")) == ("kind" in options)


def test_npz_keeps_labels_on_edges(tmp_path):
    graph = Graph.build([(0, 1), (1, 2)])
    graph = replace(graph, target=OneClass(("a", "b"), on="edge"), y=np.array([1, -1]))
    graph.to_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert again.target == graph.target and again.y.tolist() == [1, -1]


@pytest.mark.parametrize(
    "change",
    [
        {"target": np.array("not JSON")},
        {"target": np.array("[1]")},
        {"target": np.array('{"kind": "colour"}')},
        {"target": np.array('{"kind": "tags", "colour": 1}')},
        {"target": np.array('{"kind": "tags", "tags": ["u"]}')},
        {"y": np.zeros((2, 2))},
        {"edge_attr": np.zeros((5, 1))},
        {"x": np.eye(3), "feature_names": np.array(["a"])},
    ],
)
def test_npz_whose_parts_do_not_fit_together_is_refused(tmp_path, change):
    path = tmp_path / "graph.npz"
    Graph.build([(0, 1), (1, 2)], y=[{"u", "v"}, None, ()], kind="tags").to_npz(path)
    parts = dict(np.load(path)) | change
    np.savez(path, **parts)
    with pytest.raises(InputError, match=r"graph\.npz"):
        Graph.from_npz(path)


def test_without_pyarrow_it_says_what_to_install(tmp_path, monkeypatch):
    def missing(*arguments, **options):
        raise ImportError("no engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "edges.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r'pip install "dpmsnc\[parquet\]"'):
        Graph.from_tables(tmp_path / "edges.parquet")
