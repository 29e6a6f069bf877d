from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GATConv as PyGGAT
from torch_geometric.nn import GCNConv as PyGGCN

from dpmsnc.baselines import METHODS, CorrectAndSmooth, LabelPropagation, NeighbourhoodFeatures
from dpmsnc.data.ego import ego_graphs
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.nn.backbones.gat import GATConv
from dpmsnc.nn.backbones.gcn import GCNConv
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.pairwise.edges import Edges
from dpmsnc.training.checkpoint import fingerprint

ROWS = pd.DataFrame({"a": list("xyzx"), "b": list("yzxy"), "w": [1.0, 2.0, 4.0, 1.0]})
NODES = pd.DataFrame({"id": list("xyz")})


def random_graph(seed=0, n=12, weighted=True, scale=1.0):
    rng = np.random.default_rng(seed)
    edges = np.array(nx.gnp_random_graph(n, 0.4, seed=seed).edges)
    weight = scale * rng.gamma(2.0, size=len(edges)) if weighted else None
    y = [("u", "v")[k % 2] if k % 3 else None for k in range(n)]
    return Graph.build(edges.tolist(), num_nodes=n, x=rng.normal(size=(n, 3)), y=y, edge_weight=weight)


def test_weights_of_rows_between_two_nodes_add_up():
    graph = Graph.from_tables(ROWS, NODES, edge_weight="w")
    assert graph.edge_index.T.tolist() == [[0, 1], [0, 2], [1, 2]] and graph.edge_weight.tolist() == [2, 4, 2]
    assert graph.weight_unit == pytest.approx(8 / 3) and "1 duplicate edge added up" in graph.notes
    assert graph.adjacency.toarray()[0] == pytest.approx([0, 0.75, 1.5])
    assert "weights 2 to 4 (mean 2.66667)" in str(graph.summary())
    directed = Graph.from_tables(ROWS, NODES, edge_weight="w", directed=True)
    assert directed.edge_weight.tolist() == [2, 2, 4] and directed.undirected().edge_weight.tolist() == [2, 4, 2]
    assert directed.directed_adjacency[0, 2] == pytest.approx(1.5) and directed.directed_adjacency[2, 0] == 0
    opposite = Graph.from_tables(ROWS.assign(a=list("xyzy"), b=list("yzxx")), NODES, edge_weight="w")
    assert opposite.edge_weight.tolist() == [2, 4, 2]


@pytest.mark.parametrize("weight", [0, -1, None, np.inf, "much"])
def test_weights_that_are_none_are_refused_by_line(tmp_path, weight):
    rows = ROWS.astype({"w": object})
    rows.loc[2, "w"] = weight
    rows.to_csv(tmp_path / "edges.csv", index=False)
    with pytest.raises(InputError, match=r"line 4 of edges\.csv"):
        Graph.from_tables(tmp_path / "edges.csv", NODES, edge_weight="w")
    with pytest.raises(InputError, match=r"weight of edge 1 is|edge weights must"):
        Graph.build([(0, 1), (1, 2)], edge_weight=[1, weight])


def test_other_mistakes_about_weights_are_named():
    with pytest.raises(InputError, match="the edge table has no column 'v'; its columns are 'a', 'b', 'w'"):
        Graph.from_tables(ROWS, NODES, edge_weight="v")
    with pytest.raises(InputError, match=r"shape \(1,\); pass one number for each of the 2 edges"):
        Graph.build([(0, 1), (1, 2)], edge_weight=[1])
    graph = random_graph()
    clf = NeighbourhoodFeatures().fit(graph)
    with pytest.raises(InputError, match="the graph has no edge weights and the fitted one has some"):
        clf.predict(random_graph(weighted=False))
    with pytest.raises(InputError, match="edge weights"):
        GraphBatch.of([graph, random_graph(weighted=False)])
    with pytest.raises(InputError, match="pass edge_weight"):
        graph.grown(["new"], [(0, "new")], x=[[0, 0, 0]])


def test_operators_are_those_of_pyg():
    graph = random_graph()
    tensors = GraphTensors.of(graph, "raw")
    both = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
    weight = torch.from_numpy(np.tile(graph.relative_weight, 2))
    x = torch.from_numpy(graph.x).unsqueeze(1)
    ours, theirs = GCNConv(3, 0, 4), PyGGCN(3, 4, bias=False)
    theirs.lin.weight.data = ours.weight.data.T
    torch.testing.assert_close(ours.lift(x, ours.weight, tensors)[:, 0], theirs(x[:, 0], both, weight))
    mean = sp.csr_array(graph.adjacency).toarray()
    mean /= mean.sum(axis=1, keepdims=True)
    torch.testing.assert_close(tensors.operator("mean")(x)[:, 0], torch.from_numpy(mean @ graph.x))
    torch.testing.assert_close(tensors.operator("sum")(x)[:, 0], torch.from_numpy(graph.adjacency @ graph.x))


def test_attention_is_multiplied_by_weights():
    graph = random_graph()
    conv = GATConv(3, 0, 4, heads=1)
    theirs = PyGGAT(3, 4, heads=1)
    theirs.lin.weight.data, theirs.bias.data = conv.weight.data.T, conv.bias.data
    theirs.att_src.data, theirs.att_dst.data = conv.source.data[None], conv.target.data[None]
    both = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
    x = torch.from_numpy(graph.x)
    _, (pairs, attention) = theirs(x, both, return_attention_weights=True)  # with loops
    A = np.zeros((graph.num_nodes, graph.num_nodes))
    A[pairs[1], pairs[0]] = attention[:, 0].detach()
    A *= graph.adjacency.toarray() + np.eye(graph.num_nodes)
    expected = torch.from_numpy(A / A.sum(axis=1, keepdims=True)).float() @ (x @ conv.weight) + conv.bias
    tensors = GraphTensors.of(graph, "raw")
    z = conv.lift(x.unsqueeze(1), conv.weight, tensors)
    torch.testing.assert_close(conv.finish(z, tensors)[:, 0], expected)


def test_the_coupling_of_an_edge_grows_with_its_weight():
    graph = random_graph(n=6)
    edges = Edges(graph)
    strength, w = graph.adjacency.sum(axis=1), graph.adjacency.toarray()[edges.start, edges.end]
    exact = np.log(strength[edges.start] * strength[edges.end] / w**2)
    found = edges.levels[edges.level]
    assert np.corrcoef(exact, found)[0, 1] > 0.9 and edges.mean_log == pytest.approx(exact.mean(), abs=1e-5)


@pytest.mark.parametrize("method", ["lp", "neighbourhood", "sage", "gcn", "gin", "gat", "pta", "correct-and-smooth"])
def test_the_unit_of_weights_does_not_matter_and_weights_do(method):
    settings = {} if method in ("lp", "neighbourhood") else {"max_epochs": 5} if method == "pta" else {"epochs": 5}
    answers = [
        METHODS.find(method).build(0, **settings).fit(graph).predict_proba(clamp_known=False)
        for graph in (random_graph(), random_graph(scale=64.0), random_graph(weighted=False))
    ]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)
    assert abs(answers[0] - answers[2]).max() > 1e-3


def test_label_propagation_follows_the_heavier_edge():
    star = {"ids": list("abc"), "y": ["red", None, "blue"]}
    for weights, winner in (([5, 1], "red"), ([1, 5], "blue")):
        graph = Graph.build([("a", "b"), ("b", "c")], edge_weight=weights, **star)
        assert LabelPropagation().fit(graph).predict()[1] == winner
        assert CorrectAndSmooth(epochs=1).fit(graph).predict()[1] in ("red", "blue")


def test_weights_survive_files_models_parts_and_unions(tmp_path):
    graph = random_graph()
    graph.to_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert np.array_equal(again.edge_weight, graph.edge_weight) and again.weight_unit == graph.weight_unit
    clf = NeighbourhoodFeatures().fit(graph)
    clf.save(tmp_path / "model")
    assert np.array_equal(Estimator.load(tmp_path / "model").predict_proba(), clf.predict_proba())
    part = graph.subgraph(np.arange(12) < 6)
    assert np.array_equal(part.adjacency.toarray(), graph.adjacency.toarray()[:6, :6])
    ego = ego_graphs(graph, [0])[0]
    inside = graph.index(ego.ids.tolist())
    assert np.array_equal(ego.adjacency.toarray(), graph.adjacency.toarray()[np.ix_(inside, inside)])
    union = GraphBatch.of([graph, random_graph(1, scale=100)]).graph
    np.testing.assert_allclose(union.adjacency.toarray()[:12, :12], graph.adjacency.toarray(), rtol=1e-6)
    larger = graph.grown(["new"], [(0, "new"), (1, 0)], x=[[0, 0, 0]], edge_weight=[3.0, 1.0])
    assert larger.weight_unit == graph.weight_unit
    assert larger.adjacency[0, 12] == pytest.approx(3 / graph.weight_unit)
    old, new = graph.adjacency.toarray(), larger.adjacency.toarray()[:12, :12]
    assert new[0, 1] == pytest.approx(old[0, 1] + 1 / graph.weight_unit) and np.array_equal(new[2:], old[2:])


def test_parts_of_a_graph_have_the_weights_of_their_edges():
    pytest.importorskip("pymetis")
    from dpmsnc.training.partitions import Parts

    graph = random_graph(n=30)
    parts = Parts(GraphTensors.of(graph, "raw"), 2)
    nodes, part = parts.join(parts.draw(torch.Generator().manual_seed(0))[0])
    expected = graph.adjacency.toarray()[np.ix_(nodes.numpy(), nodes.numpy())]
    assert np.array_equal(part.graph.adjacency.toarray(), expected) and part.graph.num_edges > 0


def test_a_checkpoint_belongs_to_its_weights():
    graph, nothing = random_graph(), np.zeros(12, dtype=bool)
    marks = {
        fingerprint({}, g, graph.known, nothing) for g in (graph, replace(graph, edge_weight=graph.edge_weight * 2))
    }
    assert len(marks) == 2
    assert not NeighbourhoodFeatures().fit(graph)._is_fitted_graph(replace(graph, edge_weight=None))


def test_networkx_weights_are_read_and_other_attributes_named():
    source = nx.MultiGraph([(0, 1, {"weight": 1.0, "since": 1}), (0, 1, {"weight": 2.0}), (1, 2, {"weight": 4.0})])
    nx.set_node_attributes(source, {0: "u"}, "label")
    nx.set_node_attributes(source, 3, "size")
    graph = Graph.from_networkx(source)
    assert graph.edge_weight.tolist() == [3, 4]
    assert {"ignored node attributes: 'size'", "ignored edge attributes: 'since'"} <= set(graph.notes)
    without = Graph.from_networkx(source, edge_weight=None)
    assert without.edge_weight is None and "ignored edge attributes: 'weight', 'since'" in without.notes
    with pytest.raises(InputError, match=r"no edge has the attribute 'wight' \(there are: 'since', 'weight'\)"):
        Graph.from_networkx(source, edge_weight="wight")
    source.add_edge(0, 2)
    with pytest.raises(InputError, match=r"weight of edge \(0, 2\) .* is missing.*edge_weight=None"):
        Graph.from_networkx(source)
    assert Graph.from_networkx(nx.path_graph(3), label=None).edge_weight is None


def test_pyg_and_scipy_weights_are_read_once():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = Data(edge_index=edges, edge_weight=torch.tensor([2.0, 2.0, 3.0, 3.0]), num_nodes=3, pos=torch.zeros(3, 2))
    graph = Graph.from_pyg(data)
    assert graph.edge_weight.tolist() == [2, 3] and "ignored attributes: 'pos'" in graph.notes
    one_way = Data(edge_index=edges[:, ::2], edge_weight=torch.tensor([2.0, 3.0]), num_nodes=3)
    assert Graph.from_pyg(one_way).edge_weight.tolist() == [2, 3]
    matrix = sp.csr_array(np.array([[0, 2, 0], [2, 0, 3], [0, 3, 0]]))
    assert Graph.from_scipy(matrix, weighted=True).edge_weight.tolist() == [2, 3]
    assert Graph.from_scipy(matrix).edge_weight is None
    table = Graph.from_tables(matrix, pd.DataFrame({"id": list("abc"), "age": [1, 2, 3]}))
    assert (
        table.edge_weight.tolist() == [2, 3]
        and table.ids.tolist() == list("abc")
        and table.x.tolist() == [[1], [2], [3]]
    )
    with pytest.raises(InputError, match="pass a node table"):
        Graph.from_tables(matrix)
    with pytest.raises(InputError, match="the weight of edge 0 is -2"):
        Graph.from_scipy(-matrix, weighted=True)
