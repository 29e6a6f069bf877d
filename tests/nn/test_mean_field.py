import pytest
import torch
import torch_geometric.nn as pyg

from clusters import OWN
from dpmsnc.baselines import CLGNN, G3NN, GCNLPA, GMNN, GNN, EntropySharpening
from dpmsnc.data.grids import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Conv
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from random_graphs import both_directions, random_graph

WIDTH, CLASSES = 16, 3


def gcn_names(conv):
    return {"lin.weight": conv.weight.T, "bias": conv.bias}


def gat_names(conv):
    return {"lin.weight": conv.weight.T, "att_src": conv.source[None], "att_dst": conv.target[None], "bias": conv.bias}


def reference(name, in_channels):
    """PyG's network that ends in a convolution, its activation, and our parameters under its names."""
    if name == "gcn":
        return pyg.GCNConv(in_channels, WIDTH), pyg.GCNConv(WIDTH, CLASSES), torch.relu, gcn_names
    last = pyg.GATConv(WIDTH, CLASSES, heads=1)
    return pyg.GATConv(in_channels, WIDTH // 8, heads=8), last, torch.nn.functional.elu, gat_names


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_a_head_that_is_a_convolution_makes_the_usual_network_of_two_layers(name):
    graph = random_graph(sparse=False)
    tensors = GraphTensors.of(graph, "raw")
    torch.manual_seed(0)
    network = MeanField(name, tensors.num_features, CLASSES, WIDTH, num_layers=2, head="convolution")
    first, last, activation, names = reference(name, tensors.num_features)
    (hidden,) = network.backbone.convs
    for conv, theirs in ((hidden, first), (network.head, last)):
        torch.nn.init.normal_(conv.bias)
        theirs.load_state_dict({key: value.detach() for key, value in names(conv).items()})
    edges = both_directions(graph)
    expected = last(activation(first(torch.from_numpy(graph.x).float(), edges)), edges)
    torch.testing.assert_close(network(tensors), expected, atol=1e-5, rtol=1e-5)


def test_a_convolution_at_the_end_needs_another_before_it_and_some_backbones_have_none():
    with pytest.raises(InputError, match="num_layers=2"):
        MeanField("gcn", 4, CLASSES, num_layers=1, head="convolution")
    for name in ("gcnii", "gcnii(time=False)", "gin"):
        with pytest.raises(InputError, match="linear"):
            MeanField(name, 4, CLASSES, num_layers=2, head="convolution")


def test_logits_of_a_normalised_sage_are_not_normalised():
    graph = random_graph()
    network = MeanField(("sage", {"normalize": True}), graph.x.shape[1], CLASSES, WIDTH, head="convolution")
    network.head.weight.data *= 10
    assert network(GraphTensors.of(graph)).norm(dim=1).max() > 2


def test_labels_are_read_by_the_backbone_and_not_by_the_head():
    graph = random_graph(sparse=False)
    tensors = GraphTensors.of(graph, "raw")
    network = MeanField("gcn", tensors.num_features, CLASSES, WIDTH, head="convolution", label_channels=CLASSES)
    x, y = torch.from_numpy(graph.x).float(), torch.rand(graph.num_nodes, 2, CLASSES)
    S = tensors.operator("gcn")(torch.eye(graph.num_nodes))
    (hidden,) = network.backbone.convs
    expected = [
        S @ torch.relu(S @ torch.cat([x, y[:, entry]], dim=1) @ hidden.weight + hidden.bias) @ network.head.weight
        for entry in range(2)
    ]
    found = network.decode(network.encode(tensors), tensors, y)
    torch.testing.assert_close(found, torch.stack(expected, dim=1) + network.head.bias, atol=1e-5, rtol=1e-5)


def test_both_networks_of_gmnn_end_alike_where_p_has_two_layers():
    for sees, alike in (("neighbourhood", True), ("neighbours", False)):
        networks = GMNN(head="convolution", sees=sees)._build(6, CLASSES)
        assert isinstance(networks["q"].head, Conv) and isinstance(networks["p"].head, Conv) == alike


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (GNN, {"epochs": 2}),
        (EntropySharpening, {"epochs": 2}),
        (G3NN, {"epochs": 2}),
        (GCNLPA, {"epochs": 2}),
        (GMNN, {"pretraining": 2, "epochs": 2}),
        (CLGNN, {"rounds": 1, "first_steps": 2}),
    ],
)
@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_every_baseline_with_a_network_may_end_in_a_convolution(kind, options, backbone):
    task = grid_scattered(columns=20)
    found = {
        head: kind(backbone=backbone, head=head, **options).fit(task.graph, task.validation).predict_proba(**OWN)
        for head in ("linear", "convolution")
    }
    assert abs(found["linear"] - found["convolution"]).max() > 1e-6
    with pytest.raises(InputError, match="head"):
        kind(head="mean", **options).fit(task.graph, task.validation)


@pytest.mark.parametrize("backbone", ["gat", "gat(attention_dropout=True)"])
def test_the_head_drops_attention_in_training_where_the_backbone_does(backbone):
    tensors, generator = GraphTensors.of(random_graph()), torch.Generator().manual_seed(0)
    network = MeanField(backbone, tensors.num_features, CLASSES, WIDTH, head="convolution")
    network.backbone.dropout = network.backbone.convs[0].dropout = 0.0
    assert torch.equal(network(tensors, generator), network(tensors, generator)) == (backbone == "gat")
