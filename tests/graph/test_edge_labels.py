"""Graphs whose edges carry labels: how they are built, cut, joined and revealed."""

import numpy as np
import pytest

from dpmsnc.errors import InputError
from dpmsnc.estimators.several import by_graph, divided
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import disjoint_union


def roads(directed=False):
    edges = [("b", "a"), ("b", "b"), ("c", "b"), ("b", "a"), ("d", "c")]
    return Graph.build(edges, edge_y=[1.0, 9.0, None, 5.0, 3.0], directed=directed)


def test_values_follow_their_edges():
    graph = roads()
    named = {tuple(graph.ids[ends]): value for ends, value in zip(graph.edge_index.T, graph.y)}
    assert graph.labels_on == "edge" and graph.target.on == "edge" and graph.known.sum() == 2
    assert named == pytest.approx({("b", "a"): 1.0, ("b", "c"): np.nan, ("c", "d"): 3.0}, nan_ok=True)
    assert (graph.target.shift, graph.target.scale) == (2.0, 1.0)


@pytest.mark.parametrize("directed", [False, True])
def test_the_first_known_value_of_an_edge_counts(directed):
    edges = [(2, 1), (1, 0), (2, 1), (0, 1), (2, 1), (1, 0)]
    graph = Graph.build(edges, edge_y=[None, 4.0, 2.0, 7.0, 2.0, None], directed=directed)
    named = dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.y.tolist()))
    note = "1 edge listed more than once with different numbers: the first of each is kept"
    if directed:
        assert named == {(0, 1): 7.0, (1, 0): 4.0, (2, 1): 2.0} and note not in graph.notes
    else:
        assert named == {(0, 1): 4.0, (1, 2): 2.0} and note in graph.notes


def test_values_are_of_nodes_or_of_edges():
    with pytest.raises(InputError, match="one of the two"):
        Graph.build([(0, 1)], y=[1, 2], edge_y=[3.0])
    with pytest.raises(InputError, match="2 values for 1"):
        Graph.build([(0, 1)], edge_y=[3.0, 4.0])


def test_values_are_revealed_by_pairs_of_nodes():
    graph = roads().reveal({("c", "b"): 7.0})
    assert sorted(graph.y) == [1.0, 3.0, 7.0]
    directed = roads(directed=True)
    with pytest.raises(InputError, match="no edge"):
        directed.reveal({("a", "b"): 7.0})
    with pytest.raises(InputError, match="pair of node ids"):
        graph.reveal({"a": 7.0})
    with pytest.raises(InputError, match="one label per edge, 3 in all"):
        graph.reveal([1.0])


def test_a_part_keeps_the_values_of_its_edges():
    graph = roads()
    part = graph.subgraph(np.isin(graph.ids, ["b", "c", "d"]))
    np.testing.assert_array_equal(np.sort(part.y), [3.0, np.nan])


def test_rows_of_several_graphs_are_their_edges():
    empty = Graph.build([], num_nodes=2, edge_y=[])
    union = disjoint_union([roads(), empty, roads()])
    assert union.row_member.tolist() == [0] * 3 + [2] * 3
    assert [len(rows) for rows in by_graph(np.arange(6), union)] == [3, 0, 3]
    whole, train, held_back = divided([roads(), roads()], roads(), 0, "test")
    assert train.tolist() == whole.known.tolist()[:6] + [False] * 3 and held_back.sum() == 2
