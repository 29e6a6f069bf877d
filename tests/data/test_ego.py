import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from dpmsnc.data import benchmarks, ego, ego_graphs, load
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import RealValue


def random_graph(seed, sparse=False, directed=False):
    """A graph with hubs and isolated nodes, whose features and edge features say who they belong to."""
    rng = np.random.default_rng(seed)
    edges = np.minimum(rng.integers(0, 40, (2, 90)), rng.integers(0, 60, (2, 90)))
    x = np.arange(40 * 2, dtype=np.float32).reshape(40, 2)
    y = rng.integers(-1, 3, 40)
    names = [f"n{k}" for k in rng.permutation(40)]
    return Graph.build(
        [(names[i], names[j]) for i, j in edges.T],
        ids=names,
        x=sp.csr_array(x) if sparse else x,
        y=y,
        edge_attr=edges[0] * 100 + edges[1],
        directed=directed,
    )


def named_edges(graph):
    """Every edge by the names of its ends, with its features."""
    return [(graph.ids[i], graph.ids[j], *row) for (i, j), row in zip(graph.edge_index.T, graph.edge_attr)]


@pytest.mark.parametrize("sparse, directed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("at_once", [1, 50, 10**6])
def test_ego_graphs_are_the_subgraphs_that_neighbourhoods_induce(sparse, directed, at_once, monkeypatch):
    monkeypatch.setattr(ego, "AT_ONCE", at_once)
    graph = random_graph(at_once % 7, sparse, directed)
    dense = graph.x.toarray() if sparse else graph.x
    network = nx.Graph(graph.edge_index.T.tolist())
    network.add_nodes_from(range(40))
    wanted = [7, 3, 39, 7, *range(20)]
    for centre, found in zip(wanted, ego_graphs(graph, graph.ids[wanted]), strict=True):
        inside = sorted(nx.ego_graph(network, centre).nodes)
        assert found.ids.tolist() == graph.ids[inside].tolist() and found.num_nodes == len(inside)
        assert ((found.x.toarray() if sparse else found.x) == dense[inside]).all()
        assert (found.y == graph.y[inside]).all() and found.target == graph.target
        kept = [edge for edge in named_edges(graph) if {edge[0], edge[1]} <= set(found.ids)]
        assert named_edges(found) == kept and found.directed == directed
        assert directed or (found.edge_index[0] < found.edge_index[1]).all()


def test_labels_of_edges_go_with_their_edges():
    graph = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
    graph = graph.with_labels(np.array([1.0, 2.0, 3.0, np.nan, 5.0]), RealValue(on="edge"))
    middle, end = ego_graphs(graph, [2, 4])
    # edges are listed as (0, 1), (0, 2), (1, 2), (2, 3), (3, 4)
    np.testing.assert_array_equal(middle.y, [1.0, 2.0, 3.0, np.nan])
    assert middle.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert end.y.tolist() == [5.0] and end.edge_index.T.tolist() == [[0, 1]]


def test_nodes_are_ids_or_a_mask():
    graph = Graph.build([(5, 0), (0, 1)], ids=[5, 0, 1])
    by_mask = ego_graphs(graph, np.array([True, False, True]))
    assert [g.ids.tolist() for g in by_mask] == [[5, 0], [0, 1]]
    assert [g.ids.tolist() for g in ego_graphs(graph, [True, False, True])] == [[5, 0], [0, 1]]
    assert [g.ids.tolist() for g in ego_graphs(graph, [1, 5])] == [[0, 1], [5, 0]]
    assert ego_graphs(graph, []) == [] and ego_graphs(graph, np.zeros(3, dtype=bool)) == []
    with pytest.raises(InputError, match="a mask of 2 for 3 nodes"):
        ego_graphs(graph, np.array([True, False]))
    with pytest.raises(InputError, match="no node 7"):
        ego_graphs(graph, [7])
    with pytest.raises(InputError, match="pass a sequence"):
        ego_graphs(graph, 5)


@pytest.mark.skipif(not benchmarks.data_folder().joinpath("pubmed.npz").is_file(), reason="no data sets: DPMSNC_DATA")
@pytest.mark.parametrize(
    "name, graphs, nodes, edges, label_less",
    [
        ("cora_ego", (140, 500, 1000), (5.557, 4.896, 4.712), (7.036, 5.768, 5.306), (0, 0, 0)),
        ("citeseer_ego", (120, 500, 1000), (4.033, 3.776, 3.790), (4.300, 3.954, 3.841), (1, 0, 6)),
        ("pubmed_ego", (60, 500, 1000), (5.950, 5.406, 5.627), (6.650, 5.840, 6.729), (0, 0, 0)),
    ],
)
def test_the_citation_sets_have_the_published_averages(name, graphs, nodes, edges, label_less):
    task = load(name)
    parts = task.train, task.validation, task.test
    assert tuple(map(len, parts)) == graphs
    assert [np.mean([g.num_nodes for g in part]) for part in parts] == pytest.approx(nodes, abs=6e-4)
    assert [np.mean([g.num_edges for g in part]) for part in parts] == pytest.approx(edges, abs=6e-4)
    labels = [g.y for g in task.train], [g.y for g in task.validation], task.truth
    assert tuple(sum((y == -1).sum() == 1 for y in part) for part in labels) == label_less
    assert sum((y == -1).sum() for part in labels for y in part) == sum(label_less)
    assert all((g.y == -1).all() for g in task.test)
    # the order is that of the split, and a test graph has the labels of the citation graph
    whole = load(name.removesuffix("_ego"))
    centres = whole.graph.ids[whole.test]
    assert all(centre in g.ids for centre, g in zip(centres, task.test))
    assert all((whole.truth[g.ids] == truth).all() for g, truth in zip(task.test, task.truth))
