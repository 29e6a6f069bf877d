from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch, disjoint_union
from dpmsnc.targets import OneClass, RealValue, Tags

PATH = Graph.build([(0, 1), (1, 2)], x=np.eye(3), y=[0, 1, 0], classes=[0, 1])
CYCLE = Graph.build([(0, 1), (1, 2), (2, 3), (3, 0)], x=np.ones((4, 3)), y=[0, 1, 0, 1], classes=[0, 1])


def small(y, **options):
    return Graph.build([(0, 1)], num_nodes=len(y), y=y, **options)


def test_the_union_keeps_edges_features_and_labels_of_each_graph():
    union = disjoint_union([PATH, CYCLE])
    adjacency = union.adjacency.toarray()
    assert (adjacency[:3, :3] == PATH.adjacency.toarray()).all() and (adjacency[3:, 3:] == CYCLE.adjacency).all()
    assert not adjacency[:3, 3:].any()
    assert (union.x == np.concatenate([PATH.x, CYCLE.x])).all() and union.y.tolist() == [0, 1, 0, 0, 1, 0, 1]
    assert union.target == PATH.target and union.ids.tolist() == list(range(7))


def test_rows_are_told_apart_and_put_together_again():
    lonely = Graph.build([], num_nodes=2, x=np.ones((2, 3)), classes=[0, 1])
    graphs = [PATH, lonely, CYCLE]
    batch = GraphBatch.of(graphs)
    assert batch.num_graphs == 3 and batch.sizes.tolist() == [3, 2, 4]
    assert batch.member.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2] and batch.member.dtype == np.int64
    assert batch.edge_member.tolist() == [0, 0, 2, 2, 2, 2]
    assert (batch.member[batch.graph.edge_index] == batch.edge_member).all()
    for graph, x, y in zip(graphs, batch.split(batch.graph.x), batch.split(batch.graph.y)):
        assert (x == graph.x).all() and (y == graph.y).all()
    assert [len(rows) for rows in batch.split(np.arange(6), on="edge")] == [2, 0, 4]
    with pytest.raises(InputError, match="6 rows for 9 nodes"):
        batch.split(np.arange(6))


def test_one_graph_is_a_batch_of_one_and_stays_itself():
    for batch in (GraphBatch.of([PATH]), GraphBatch.of(PATH)):
        assert batch.graph is PATH and batch.num_graphs == 1 and batch.member.tolist() == [0, 0, 0]
        assert batch.split(PATH.y)[0].tolist() == PATH.y.tolist()


def test_sparse_and_dense_features_join():
    sparse = Graph.build([(0, 1)], num_nodes=3, x=sp.csr_array(np.diag([1.0, 0, 2])), classes=[0, 1])
    union = GraphBatch.of([CYCLE, sparse, PATH]).graph
    assert isinstance(union.x, sp.csr_array)
    np.testing.assert_array_equal(union.x.toarray(), np.concatenate([CYCLE.x, np.diag([1, 0, 2]), PATH.x]))


def test_classes_of_all_graphs_are_joined_in_sorted_order():
    graphs = [small(["b", None]), small(["c", "a"]), small([None, None]), small(["b", "b"])]
    union = GraphBatch.of(graphs).graph
    assert union.classes == ("a", "b", "c") and union.y.tolist() == [1, -1, 2, 0, -1, -1, 1, 1]
    target = OneClass(("c", "b", "a", "z"))
    given = GraphBatch.of(graphs, target).graph
    assert given.target == target and given.y.tolist() == [1, -1, 0, 2, -1, -1, 1, 1]
    alone = GraphBatch.of([graphs[1]], target).graph
    assert alone.y.tolist() == [0, 2] and graphs[1].y.tolist() == [1, 0]
    with pytest.raises(InputError, match="outside the classes: 'c'"):
        GraphBatch.of(graphs, OneClass(("a", "b")))


def test_minus_one_stays_a_class_where_it_was_one():
    graphs = [small([-1, 1], classes=[-1, 1]), small([2, -1])]
    union = GraphBatch.of(graphs).graph
    assert union.classes == (-1, 1, 2) and union.decode(union.y).tolist() == [-1, 1, 2, None]


def test_tags_and_numbers_are_joined_too():
    tags = GraphBatch.of([small([{"b"}, None], kind="tags"), small([{"a", "b"}, ()], kind="tags")]).graph
    assert tags.target == Tags(("a", "b")) and tags.y.tolist() == [[0, 1], [-1, -1], [1, 1], [0, 0]]
    numbers = GraphBatch.of([small([1.0, None], kind="value"), small([2.0, 3.0], kind="value")]).graph
    assert isinstance(numbers.target, RealValue) and numbers.target.shift == 2.0
    np.testing.assert_array_equal(numbers.y, [1, np.nan, 2, 3])


def test_edge_features_directions_and_names_come_along():
    def graph(edges, attributes):
        names = {"feature_names": ["age", "size"], "edge_feature_names": ["km"]}
        return Graph.build(edges, x=np.eye(2), edge_attr=attributes, directed=True, **names)

    union = GraphBatch.of([graph([(1, 0)], [5.0]), graph([(0, 1), (1, 0)], [6.0, 7.0])]).graph
    assert union.directed and union.feature_names == ("age", "size") and union.edge_feature_names == ("km",)
    assert union.edge_index.T.tolist() == [[1, 0], [2, 3], [3, 2]] and union.edge_attr.ravel().tolist() == [5, 6, 7]
    unnamed = Graph.build([(0, 1)], x=np.eye(2), edge_attr=[1.0], directed=True, feature_names=["age", "size"])
    for graphs in ([unnamed, graph([(1, 0)], [5.0])], [graph([(1, 0)], [5.0]), unnamed]):
        assert GraphBatch.of(graphs).graph.edge_feature_names == ("km",)
    other = replace(unnamed, edge_feature_names=("miles",))
    with pytest.raises(InputError, match=r"graph 1 has edge_feature_names \('miles',\), graph 0 has \('km',\)"):
        GraphBatch.of([graph([(1, 0)], [5.0]), other])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": np.ones((2, 3))}, "graph 1 has num_features 3, graph 0 has 2"),
        ({"feature_names": ["b", "a"]}, "graph 1 has feature_names"),
        ({"edge_attr": [[1.0, 2.0]]}, "graph 1 has number of edge features 2, graph 0 has None"),
        ({"directed": True}, "graph 1 has directed True, graph 0 has False"),
        ({"kind": "tags", "y": [{"a"}, None]}, "graph 1 has kind of target 'tags', graph 0 has 'class'"),
    ],
)
def test_the_graph_that_differs_is_named(other, message):
    usual = {"x": np.eye(2), "y": ["a", "b"]}
    with pytest.raises(InputError, match=message):
        GraphBatch.of([Graph.build([(0, 1)], **usual), Graph.build([(0, 1)], **(usual | other))])


@pytest.mark.parametrize(
    ("graphs", "message"),
    [([], "no graph in the batch"), ([PATH, "x"], "graph 1 is of type str"), (3, "expected graphs, not int")],
)
def test_what_is_no_list_of_graphs_is_refused(graphs, message):
    with pytest.raises(InputError, match=message):
        GraphBatch.of(graphs)


def test_many_small_graphs_with_classes_of_their_own_are_joined_alike():
    rng = np.random.default_rng(0)
    targets = [OneClass(tuple(range(k, k + 3))) for k in range(4)]
    edges = np.array([[0, 1], [1, 2]])
    graphs = [Graph(3, edges, None, rng.integers(-1, 3, 3), targets[k % 4], np.arange(3)) for k in range(2000)]
    batch = GraphBatch.of(graphs)
    assert batch.graph.classes == tuple(range(6))
    values = np.concatenate([graph.decode(graph.y) for graph in graphs])
    assert batch.graph.decode(batch.graph.y).tolist() == values.tolist()
    assert (batch.graph.edge_index[:, -2:] == edges + 3 * 1999).all()
