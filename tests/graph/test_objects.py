import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import RealValue, Tags


def test_networkx_nodes_without_the_label_are_unknown():
    source = nx.Graph([("b", "007"), ("007", "a")])
    source.nodes["a"]["label"] = "x"
    for k, node in enumerate(source.nodes):
        source.nodes[node].update(size=k, place=[k, 2 * k])
    graph = Graph.from_networkx(source, features=["size", "place"])
    assert graph.ids.tolist() == ["b", "007", "a"] and graph.y.tolist() == [-1, -1, 0]
    assert graph.x.tolist() == [[0, 0, 0], [1, 1, 2], [2, 2, 4]]
    assert {tuple(sorted(graph.ids[list(e)])) for e in graph.edge_index.T} == {tuple(sorted(e)) for e in source.edges}


def test_networkx_without_named_features_has_none():
    assert Graph.from_networkx(nx.path_graph(3), label=None, features=[]).x is None
    ages = nx.path_graph(3)
    nx.set_node_attributes(ages, 30, "age")
    assert Graph.from_networkx(ages, label=None, features=(name for name in ["age"])).x.tolist() == [[30]] * 3


def test_networkx_kinds_of_graph_become_simple_with_notes():
    directed = nx.DiGraph([(0, 1), (1, 0), (1, 2), (2, 2)])
    graph = Graph.from_networkx(directed, label=None)
    assert graph.num_edges == 2
    assert "1 self-loop removed" in graph.notes
    assert "directions ignored: 4 directed edges read as undirected" in graph.notes
    assert "1 duplicate edge removed" in Graph.from_networkx(nx.MultiGraph([(0, 1), (0, 1)]), label=None).notes
    assert Graph.from_networkx(nx.grid_2d_graph(2, 3), label=None).index([(1, 2)]).tolist() == [5]
    with pytest.raises(InputError, match="node 0 has no attribute 'size'"):
        Graph.from_networkx(directed, label=None, features="size")


def test_pyg_data_comes_over_with_unknown_labels():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = Data(x=torch.eye(4), edge_index=edges, y=torch.tensor([[2.0], [float("nan")], [0.0], [2.0]]))
    graph = Graph.from_pyg(data)
    assert graph.num_nodes == 4 and graph.num_edges == 2
    assert graph.classes == (0, 2) and graph.y.tolist() == [1, -1, 0, 1]
    assert not any("direction" in note for note in graph.notes)
    data.y = torch.tensor([2, -1, 0, 2])
    assert Graph.from_pyg(data).y.tolist() == graph.y.tolist()


def test_pyg_directed_edges_and_sparse_features():
    x = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    data = Data(x=x.to_sparse_csr(), edge_index=torch.tensor([[1], [0]]), num_nodes=2)
    graph = Graph.from_pyg(data)
    assert sp.issparse(graph.x) and graph.x.toarray().tolist() == x.tolist()
    assert graph.notes == ("directions ignored: 1 edge listed in one direction",)
    with pytest.raises(InputError, match="edge_index"):
        Graph.from_pyg(Data(x=x))


def test_scipy_non_zero_entries_are_edges():
    matrix = sp.coo_array(([1.0, 2.0, 0.0, 3.0], ([0, 1, 0, 2], [1, 0, 2, 2])), shape=(3, 3))
    graph = Graph.from_scipy(matrix, y=["a", "b", None], ids=[2, 0, 1])
    assert graph.ids.tolist() == [2, 0, 1] and graph.edge_index.T.tolist() == [[0, 1]]
    assert any(note.startswith("edge weights ignored") for note in graph.notes)
    again = Graph.from_scipy(graph.adjacency, y=["a", "b", None], ids=graph.ids)
    assert again.edge_index.tolist() == graph.edge_index.tolist() and again.ids.tolist() == graph.ids.tolist()
    with pytest.raises(InputError, match="square"):
        Graph.from_scipy(sp.coo_array((2, 3)))
    with pytest.raises(InputError, match="one id per row"):
        Graph.from_scipy(matrix, ids=["a"])


def test_networkx_keeps_edge_features_and_directions():
    source = nx.DiGraph([("a", "b", {"w": 1, "v": [2, 3]}), ("b", "a", {"w": 4, "v": [5, 6]})])
    graph = Graph.from_networkx(source, label=None, edge_features=["w", "v"], directed=True)
    assert graph.directed and graph.edge_index.T.tolist() == [[0, 1], [1, 0]]
    assert graph.edge_attr.tolist() == [[1, 2, 3], [4, 5, 6]] and not any("direction" in note for note in graph.notes)
    assert Graph.from_networkx(source, label=None, edge_features="w").edge_attr.tolist() == [[1]]
    both = Graph.from_networkx(nx.path_graph(3), label=None, directed=True)
    assert both.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    parallel = nx.MultiGraph([(0, 1, {"w": 1}), (0, 1, {"w": 2})])
    assert Graph.from_networkx(parallel, label=None, edge_features="w").edge_attr.tolist() == [[1]]
    with pytest.raises(InputError, match=r"edge \(0, 1\) has no attribute 'w'"):
        Graph.from_networkx(nx.path_graph(2), label=None, edge_features="w")


def test_networkx_features_keep_their_names():
    source = nx.path_graph(2)
    nx.set_node_attributes(source, {0: {"age": 1, "place": [2, 3]}, 1: {"age": 4, "place": [5, 6]}})
    assert Graph.from_networkx(source, None, ["age", "place"]).feature_names == ("age", "place[0]", "place[1]")
    nx.set_edge_attributes(source, {(0, 1): {"km": 3.0, "lanes": 2}})
    assert Graph.from_networkx(source, None, edge_features=["lanes", "km"]).edge_feature_names == ("lanes", "km")


def test_a_misspelt_networkx_label_is_refused():
    source = nx.karate_club_graph()
    with pytest.raises(InputError, match=r"no node has the attribute 'label' \(there are: 'club'\).*label=None"):
        Graph.from_networkx(source)
    assert Graph.from_networkx(source, "club").num_classes == 2
    nx.set_node_attributes(source, None, "later")
    assert not Graph.from_networkx(source, "later").known.any()


@pytest.mark.parametrize("wrong", [[(0, 1)], Data(edge_index=torch.zeros(2, 1)), "graph.gml", None])
def test_what_is_no_networkx_graph_is_refused(wrong):
    with pytest.raises(InputError, match="expected a networkx graph, not"):
        Graph.from_networkx(wrong)


def hetero():
    data = HeteroData()
    data["paper"].x = torch.eye(2)
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    return data


@pytest.mark.parametrize("wrong", [hetero(), nx.path_graph(2), [Data()], torch.zeros(2, 3), None, "data.pt"])
def test_what_is_no_pyg_data_is_refused(wrong):
    with pytest.raises(InputError, match=r"expected a torch_geometric Data with edge_index, not .*dataset\[0\]"):
        Graph.from_pyg(wrong)


def test_pyg_edge_features_follow_their_edges():
    edges = torch.tensor([[2, 0, 1, 1], [1, 1, 0, 2]])
    data = Data(edge_index=edges, edge_attr=torch.tensor([[5.0], [6.0], [6.0], [5.0]]), num_nodes=3)
    graph = Graph.from_pyg(data)
    assert graph.edge_index.T.tolist() == [[0, 1], [1, 2]] and graph.edge_attr.tolist() == [[6], [5]]
    data.edge_attr = torch.tensor([1, 2, 3, 4])
    directed = Graph.from_pyg(data, directed=True)
    assert directed.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert directed.edge_attr.ravel().tolist() == [2, 3, 4, 1] and directed.notes == ()


def test_other_targets_come_from_every_library():
    edges, tags = torch.tensor([[0, 1], [1, 0]]), torch.tensor([[1, 0, 1], [0, 0, 0]])
    graph = Graph.from_pyg(Data(edge_index=edges, y=tags, num_nodes=2), kind="tags")
    assert graph.target == Tags((0, 1, 2)) and graph.y.tolist() == tags.tolist()
    with pytest.raises(InputError, match="kind='tags' for several"):
        Graph.from_pyg(Data(edge_index=edges, y=tags, num_nodes=2))
    graph = Graph.from_pyg(Data(edge_index=edges, y=torch.tensor([[1.5], [2.5]]), num_nodes=2), kind="value")
    assert isinstance(graph.target, RealValue) and graph.y.tolist() == [1.5, 2.5]
    source = nx.path_graph(2)
    nx.set_node_attributes(source, {0: {"u", "v"}, 1: None}, "label")
    assert Graph.from_networkx(source, kind="tags").y.tolist() == [[1, 1], [-1, -1]]
    assert Graph.from_scipy(np.ones((2, 2)), y=[0.5, 1.5], kind="value").y.tolist() == [0.5, 1.5]


def test_scipy_entries_lead_from_row_to_column():
    graph = Graph.from_scipy(sp.coo_array(([1.0], ([2], [0])), shape=(3, 3)), directed=True)
    assert graph.edge_index.T.tolist() == [[2, 0]] and graph.directed_adjacency[0, 2] == 1


@pytest.mark.parametrize("wrong", ["adjacency.npz", None, object(), [[0, "a"], ["b", 0]], np.ones(3)])
def test_what_is_no_matrix_is_refused(wrong):
    with pytest.raises(InputError, match="matrix"):
        Graph.from_scipy(wrong)
