"""Edges through cleaning: their features and their directions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25)


@given(pairs, st.booleans())
def test_every_edge_keeps_the_features_of_the_row_that_listed_it_first(edges, directed):
    attributes = np.arange(2 * len(edges), dtype=float).reshape(len(edges), 2)
    graph = Graph.build(edges, num_nodes=7, edge_attr=attributes, directed=directed)
    first = {}
    for edge, row in zip(edges, attributes.tolist()):
        if edge[0] != edge[1]:
            first.setdefault(edge if directed else (min(edge), max(edge)), row)
    found = (
        {} if graph.edge_attr is None else dict(zip(map(tuple, graph.edge_index.T.tolist()), graph.edge_attr.tolist()))
    )
    assert found == first and list(found) == sorted(found)
    plain = Graph.build(edges, num_nodes=7, directed=directed)
    assert (plain.edge_index == graph.edge_index).all()


def test_features_that_differ_between_rows_of_one_edge_are_noted():
    edges = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (0, 2)]
    alike = Graph.build(edges, edge_attr=[1, 1, 2, 2, 3, 3])
    assert alike.edge_attr.tolist() == [[1], [3], [2]] and not any("different" in note for note in alike.notes)
    graph = Graph.build(edges, edge_attr=[1, 9, 2, 2, 3, 9])
    assert graph.edge_attr.tolist() == [[1], [3], [2]]
    note = "2 edges listed more than once with different features: those of the first row are kept"
    assert note in graph.notes
    there_and_back = Graph.build(edges[:4], edge_attr=[1, 9, 2, 3], directed=True)
    assert there_and_back.edge_attr.ravel().tolist() == [1, 9, 2, 3] and there_and_back.notes == ()


@pytest.mark.parametrize(
    ("edge_attr", "message"),
    [
        ([1.0], "pass one row for each of the 2 edges"),
        (np.ones((2, 2, 2)), "pass one row for each"),
        ([1.0, np.nan], "column 0 of edge 1 is NaN"),
        ([["a"], ["b"]], "edge features must be an array of numbers"),
    ],
)
def test_edge_features_that_do_not_fit_are_refused(edge_attr, message):
    with pytest.raises(InputError, match=message):
        Graph.build([(0, 1), (1, 2)], edge_attr=edge_attr)


@given(pairs)
def test_a_directed_edge_goes_one_way(edges):
    graph = Graph.build(edges, num_nodes=7, directed=True)
    listed = sorted({edge for edge in edges if edge[0] != edge[1]})
    assert graph.directed and list(map(tuple, graph.edge_index.T.tolist())) == listed
    received = np.zeros((7, 7))
    for i, j in listed:
        received[j, i] = 1
    np.testing.assert_array_equal(graph.directed_adjacency.toarray(), received)
    np.testing.assert_array_equal(graph.adjacency.toarray(), np.maximum(received, received.T))
    undirected = graph.undirected()
    expected = Graph.build(edges, num_nodes=7)
    assert not undirected.directed and (undirected.edge_index == expected.edge_index).all()
    assert (undirected.adjacency != graph.adjacency).nnz == 0 and graph.connectivity == expected.connectivity
    assert expected.undirected() is expected


def test_the_undirected_version_keeps_labels_and_the_features_of_the_first_direction():
    graph = Graph.build([(1, 0), (0, 1), (2, 1)], y=["a", None, "b"], edge_attr=[1, 2, 3], directed=True)
    assert graph.edge_attr.ravel().tolist() == [2, 1, 3] and "directed" in str(graph.summary())
    undirected = graph.undirected()
    assert undirected.edge_attr.ravel().tolist() == [2, 3] and undirected.y.tolist() == graph.y.tolist()
    assert any("different features" in note for note in undirected.notes)
