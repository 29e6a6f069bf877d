"""Graphs that have grown, features in another order, and labels that are hidden."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.graph.derived import with_feature_order


def path(x=None, **more) -> Graph:
    edges, ids = [("a", "b"), ("b", "c")], ["a", "b", "c"]
    return Graph.build(edges, ids=ids, x=x, y=["red", None, "blue"], **more)


X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_ids_and_labels_are_kept_and_new_ones_stand_behind():
    graph = path(X, feature_names=["p", "q"])
    larger = graph.grown(["d", "e"], [("c", "d"), ("e", "a")], x=[[7, 8], [9, 10]], y=[None, "red"])
    assert larger.ids.tolist() == ["a", "b", "c", "d", "e"]
    assert larger.decode(larger.y).tolist() == ["red", None, "blue", None, "red"]
    assert {tuple(larger.ids[pair]) for pair in larger.edge_index.T} == {("a", "b"), ("b", "c"), ("c", "d"), ("a", "e")}
    np.testing.assert_array_equal(larger.x, [*X.tolist(), [7, 8], [9, 10]])
    assert larger.feature_names == ("p", "q") and larger.classes == graph.classes
    assert (graph.num_nodes, graph.num_edges, larger.adjacency.shape) == (3, 2, (5, 5))


def test_labels_of_new_nodes_are_unknown_unless_given():
    assert path().grown(["d"], [("d", "a")]).y.tolist() == [1, -1, 0, -1]
    with pytest.raises(InputError, match="1 labels for 2 new nodes"):
        path().grown(["d", "e"], [], y=["red"])
    with pytest.raises(InputError, match="purple"):
        path().grown(["d"], [], y=["purple"])


@pytest.mark.parametrize(
    "nodes, message",
    [
        (["d", "b"], "has a node 'b' already"),
        (["d", "d"], "'d' occurs more than once"),
        (["d", None], "id 1 is missing"),
        ("de", "pass a sequence"),
    ],
)
def test_ids_that_are_there_twice_or_missing_are_refused(nodes, message):
    with pytest.raises(InputError, match=message):
        path().grown(nodes, [("a", "d")])


def test_edges_that_name_unknown_nodes_are_refused():
    with pytest.raises(InputError, match=r"edge 1 \(d, zz\) names node 'zz'"):
        path().grown(["d"], [("a", "d"), ("d", "zz")])


def test_edges_that_are_there_already_count_once():
    larger = path().grown(["d"], [("b", "a"), ("d", "c"), ("c", "d"), ("d", "d")])
    assert larger.num_edges == 3 and "1 self-loop removed" in larger.notes


def test_new_nodes_without_edges_and_new_edges_without_nodes():
    assert path(X).grown(["d"], [], x=[[0, 0]]).connectivity == (2, 1)
    closed = path(X).grown([], [("c", "a")])
    assert closed.num_edges == 3 and closed.ids.tolist() == ["a", "b", "c"] and closed.x.shape == (3, 2)


@pytest.mark.parametrize("old", [X, sp.csr_array(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("new", [np.array([[7.0, 0.0]]), sp.csr_array([[7.0, 0.0]])], ids=["dense", "sparse"])
def test_features_may_be_sparse_or_dense(old, new):
    larger = path(old).grown(["d"], [("d", "a")], x=new)
    assert sp.issparse(larger.x) == (sp.issparse(old) or sp.issparse(new))
    dense = larger.x.toarray() if sp.issparse(larger.x) else larger.x
    np.testing.assert_array_equal(dense, [*X.tolist(), [7, 0]])
    assert dense.dtype == np.float32


def test_columns_that_are_not_those_of_the_graph_are_refused():
    graph = path(X, feature_names=["p", "q"])
    frame = pd.DataFrame({"p": [7.0], "q": [8.0]})
    assert graph.grown(["d"], [("d", "a")], x=frame).x[3].tolist() == [7, 8]
    for wrong in (frame[["q", "p"]], frame[["p"]], frame.assign(r=1.0)):
        with pytest.raises(InputError, match="must be 'p', 'q', in this order"):
            graph.grown(["d"], [("d", "a")], x=wrong)
    for x, message in [
        ([[1.0]], "2 features each"),
        (None, "pass those of the new nodes as x"),
        ([[1.0, np.nan]], "NaN"),
        ([[1.0, 2.0], [3.0, 4.0]], "2 rows for 1 nodes"),
    ]:
        with pytest.raises(InputError, match=message):
            graph.grown(["d"], [("d", "a")], x=x)


def test_a_graph_without_features_grows_without_them():
    assert path().grown(["d"], [("d", "a")]).x is None
    with pytest.raises(InputError, match="no features"):
        path().grown(["d"], [("d", "a")], x=[[1.0]])


def test_tags_and_numbers_grow():
    tags = Graph.build([(0, 1)], y=[["a"], ["a", "b"]], kind="tags").grown([2, 3], [(1, 2)], y=[["b"], None])
    assert tags.y.tolist() == [[1, 0], [1, 1], [0, 1], [-1, -1]]
    values = Graph.build([(0, 1)], y=[0.5, 1.5], kind="value")
    assert values.grown([2, 3], [(1, 2)], y=[-1, None]).y.tolist()[:3] == [0.5, 1.5, -1.0]
    assert values.grown([2], [(1, 2)]).target == values.target


def test_a_directed_graph_grows_in_its_directions():
    larger = Graph.build([("a", "b")], ids=["a", "b"], directed=True).grown(["c"], [("c", "a"), ("b", "a")])
    pairs = {tuple(larger.ids[pair]) for pair in larger.edge_index.T}
    assert larger.directed and pairs == {("a", "b"), ("c", "a"), ("b", "a")}


def test_what_cannot_grow_says_so():
    union = GraphBatch.of([path(), path()]).graph
    with pytest.raises(InputError, match="grow one of them"):
        union.grown([9], [(0, 9)])
    with pytest.raises(InputError, match="on its edges does not grow"):
        Graph.build([(0, 1)], edge_attr=[1.0]).grown([2], [(0, 2)])


def test_features_in_the_order_of_names_and_left_alone_where_there_are_others():
    graph = path(sp.csr_array(X), feature_names=["p", "q"])
    turned = with_feature_order(graph, ["q", "p"])
    assert turned.feature_names == ("q", "p")
    np.testing.assert_array_equal(turned.x.toarray(), X[:, ::-1])
    for names in (None, ["p"], ["p", "r"], ["p", "q"]):
        assert with_feature_order(graph, names) is graph
    assert with_feature_order(path(), ["q", "p"]).x is None


def test_copies_of_several_graphs_know_which_is_which():
    """Every copy that has other nodes must renumber `member`, or every use of it would be of another shape."""
    union = GraphBatch.of([path(X), path(X), path(X)]).graph
    assert "graphs      3" in str(union.summary()) and union.summary().num_nodes == 9
    assert "graphs" not in str(path().summary()).split()
    for copied in (union.hide(union.known), union.undirected(), union.with_labels(union.y), union.reveal({0: "blue"})):
        np.testing.assert_array_equal(copied.member, union.member)
    mask = np.ones(9, dtype=bool)
    mask[3:6] = mask[8] = False
    part = union.subgraph(mask)
    assert part.member.tolist() == [0, 0, 0, 1, 1] and part.summary().num_graphs == 2


def test_labels_are_hidden_by_a_mask():
    graph, roads = path(), Graph.build([(0, 1), (1, 2)], edge_y=[1.0, 2.0])
    assert graph.hide([False, False, True]).y.tolist() == graph.hide(np.array([0, 0, 1]) > 0).y.tolist() == [1, -1, -1]
    assert roads.hide([True, False]).known.tolist() == [False, True]
    for wrong in ([0, 1, 0], np.array([1]), np.array([True, False]), "abc", 1, None, [[True, False, True]]):
        with pytest.raises(InputError, match="what is hidden is a mask of 3 booleans, one for every node"):
            graph.hide(wrong)
        with pytest.raises(InputError, match="a part of the graph is a mask of 3 booleans"):
            graph.subgraph(wrong)
    with pytest.raises(InputError, match="2 booleans, one for every edge"):
        roads.hide([True, False, False])
