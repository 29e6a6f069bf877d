import pytest
import torch
from torch_geometric.nn import BatchNorm, GATConv, GCNConv

from dpmsnc.baselines import METHODS
from dpmsnc.baselines.tuned import RESIDUAL_BACKBONES, TUNED_BACKBONES
from dpmsnc.data.grids import grid_scattered
from dpmsnc.nn.backbones import make_backbone
from dpmsnc.nn.operator import GraphTensors
from random_graphs import both_directions, random_graph

IN, OUT = 6, 8
LAYERS = {
    "tuned-gcn": (lambda: GCNConv(IN, OUT), lambda c: {"lin.weight": c.weight.T, "bias": c.bias}),
    "tuned-gat": (
        lambda: GATConv(IN, OUT, heads=1),
        lambda c: {"lin.weight": c.weight.T, "att_src": c.source[None], "att_dst": c.target[None], "bias": c.bias},
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_tuned_layer_is_relu_of_the_norm_of_convolution_and_linear_map(name):
    graph = random_graph()
    tensors, x = GraphTensors.of(graph, "raw"), torch.from_numpy(graph.x.toarray())
    backbone = make_backbone(TUNED_BACKBONES[name], IN, OUT, 1, dropout=0.0)
    (block,) = backbone.convs
    make, renamed = LAYERS[name]
    conv, norm = make(), BatchNorm(OUT)
    conv.load_state_dict({key: value.detach() for key, value in renamed(block.conv).items()})
    z = conv(x, both_directions(graph)) + x @ block.residual.weight + block.residual.bias
    found = backbone(backbone.encode(tensors), tensors, generator=torch.Generator())[:, 0]
    torch.testing.assert_close(found, torch.relu(norm(z)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [*TUNED_BACKBONES, *RESIDUAL_BACKBONES])
def test_methods_are_plain_networks_with_settings_of_their_own(name):
    task = grid_scattered(columns=20)
    model = METHODS[name].build(3, epochs=2, hidden_channels=8, num_layers=2)
    assert model.seed == 3 and model.weight_decay == 0 and model.dropout == 0.2
    assert model.fit(task.graph, task.validation).predict_proba().shape == (40, 2)
    assert METHODS[name].build(0).num_layers == (12 if name in TUNED_BACKBONES else 5)
