"""Graphs in which 1-WL cannot tell who is on a triangle."""

import networkx as nx
import numpy as np

from dpmsnc.data.triangles import triangles


def test_labels_say_who_is_on_a_triangle_and_classes_are_balanced():
    task = triangles(1)
    for graph, y in [*((g, g.y) for g in task.train), *zip(task.test, task.truth)]:
        counts = nx.triangles(nx.Graph(graph.edge_index.T.tolist()))
        assert [int(counts[node] > 0) for node in range(graph.num_nodes)] == y.tolist()
        assert y.mean() == 0.5


def test_all_nodes_of_a_graph_look_alike_to_1_wl_and_have_one_feature():
    for graph in triangles(2).test:
        degrees = np.bincount(graph.edge_index.ravel())
        assert len(set(degrees.tolist())) == 1 and (graph.x == 1).all()


def test_test_graphs_are_larger_and_the_seed_draws_them():
    task, same, other = triangles(3), triangles(3), triangles(4)
    assert [g.num_nodes for g in task.test] == [g.num_nodes for g in same.test]
    assert [g.num_nodes for g in task.test] != [g.num_nodes for g in other.test]
    sizes = {g.num_nodes for g in task.train}
    assert not sizes & {g.num_nodes for g in task.test}
