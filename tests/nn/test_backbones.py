from functools import partial

import numpy as np
import pytest
import torch
import torch_geometric.nn as pyg
from safetensors.torch import load_file, save_file
from torch import nn

from dpmsnc.baselines import GNN
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.nn.backbones import BACKBONES, make_backbone
from dpmsnc.nn.backbones.gat import GATConv
from dpmsnc.nn.backbones.gcn import GCNConv
from dpmsnc.nn.backbones.gcnii import GCN2Conv
from dpmsnc.nn.backbones.gin import GINConv
from dpmsnc.nn.backbones.sage import SAGEConv
from dpmsnc.nn.operator import GraphTensors, Operator
from random_graphs import both_directions, random_graph

IN, LABELS, OUT = 6, 3, 16
READING = [name for name, kind in BACKBONES.items() if kind.reads_labels]
VARIANTS = [
    "gcn(improved=True)",
    "gat(attention_dropout=True, heads=2)",
    "gat(activation='relu')",
    "gcnii(time=False)",
    "sage(normalize=True)",
]


class WeightedGCNConv(pyg.GCNConv):
    # PyG 2.8.1 silently ignores `improved` on an edge list without weights: its self-loops then have weight 1
    def forward(self, x, edge_index):
        return super().forward(x, edge_index, torch.ones(edge_index.shape[1]))


# Our layer; PyG's layer on so many input channels; our parameters under PyG's names
PAIRS = {
    "gcn": (GCNConv, lambda i: pyg.GCNConv(i, OUT), lambda c: {"lin.weight": c.weight.T, "bias": c.bias}),
    "gcn-improved": (
        partial(GCNConv, improved=True),
        lambda i: WeightedGCNConv(i, OUT, improved=True),
        lambda c: {"lin.weight": c.weight.T, "bias": c.bias},
    ),
    "gat": (
        GATConv,
        lambda i: pyg.GATConv(i, OUT // 8, heads=8),
        lambda c: {"lin.weight": c.weight.T, "att_src": c.source[None], "att_dst": c.target[None], "bias": c.bias},
    ),
    "sage": (
        SAGEConv,
        lambda i: pyg.SAGEConv(i, OUT),
        lambda c: {"lin_l.weight": c.weight[:, :OUT].T, "lin_r.weight": c.weight[:, OUT:].T, "lin_l.bias": c.bias},
    ),
    "sage-normalized": (
        partial(SAGEConv, normalize=True),
        lambda i: pyg.SAGEConv(i, OUT, normalize=True),
        lambda c: {"lin_l.weight": c.weight[:, :OUT].T, "lin_r.weight": c.weight[:, OUT:].T, "lin_l.bias": c.bias},
    ),
    "gin": (
        GINConv,
        lambda i: pyg.GINConv(nn.Sequential(nn.Linear(i, OUT), nn.ReLU(), nn.Linear(OUT, OUT))),
        lambda c: {
            "nn.0.weight": c.weight.T,
            "nn.0.bias": c.bias,
            "nn.2.weight": c.second.weight,
            "nn.2.bias": c.second.bias,
        },
    ),
}


def paired(name, in_channels=IN, label_channels=LABELS):
    """Our layer with random parameters, PyG's with the same, and the function that names our parameters PyG's way."""
    torch.manual_seed(1)
    conv_class, make_reference, renamed = PAIRS[name]
    conv, reference = conv_class(in_channels, label_channels, OUT), make_reference(in_channels + label_channels)
    for parameter in conv.parameters():  # biases start at zero, where a wrong one would not show
        nn.init.normal_(parameter, std=0.3)
    reference.load_state_dict({k: v.detach() for k, v in renamed(conv).items()}, strict=False)
    assert set(renamed(conv)) == {k for k, _ in reference.named_parameters()}
    return conv, reference, renamed


def assert_same(ours, expected, name="output"):
    """Equal to 1e-5 of the largest entry: single entries of a gradient are small differences of large sums."""
    scale = max(1.0, expected.abs().max().item())
    torch.testing.assert_close(ours, expected, atol=1e-5 * scale, rtol=0, msg=lambda message: f"{name}: {message}")


def assert_same_gradients(conv, reference, renamed):
    ours = renamed(_Gradients(conv))
    for name, parameter in reference.named_parameters():
        assert_same(ours[name], parameter.grad, name)


class _Gradients:
    """A layer's gradients under the names of its parameters."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        found = getattr(self.module, name)
        return _Gradients(found) if isinstance(found, nn.Module) else found.grad


@pytest.mark.parametrize("width", [IN, 2 * OUT], ids=["narrow", "wide"])  # layers propagate whichever side is narrower
@pytest.mark.parametrize("name", PAIRS)
def test_layer_equals_pyg_on_the_concatenation(name, width):
    graph, batch = random_graph(), 4
    conv, reference, renamed = paired(name, in_channels=width)
    h, y, grad = (torch.randn(graph.num_nodes, batch, channels) for channels in (width, LABELS, OUT))
    h.requires_grad_(), y.requires_grad_()
    h_, y_ = (field.detach().clone().requires_grad_() for field in (h, y))

    tensors = GraphTensors.of(graph, "raw")
    out = conv(conv.encode(h, tensors), conv.spread(y, tensors), tensors)
    edge_index = both_directions(graph)
    expected = torch.stack([reference(torch.cat([h_[:, b], y_[:, b]], 1), edge_index) for b in range(batch)], dim=1)
    assert_same(out, expected)

    out.backward(grad), expected.backward(grad)
    assert_same(h.grad, h_.grad)
    assert_same(y.grad, y_.grad)
    assert_same_gradients(conv, reference, renamed)


@pytest.mark.parametrize("num_features", [IN, 2 * OUT])
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("name", PAIRS)
def test_first_layer_equals_pyg_on_the_features(name, sparse, num_features):
    graph = random_graph(num_features=num_features, sparse=sparse)
    conv, reference, renamed = paired(name, in_channels=num_features)
    y, grad = torch.randn(graph.num_nodes, 2, LABELS), torch.randn(graph.num_nodes, 2, OUT)

    tensors = GraphTensors.of(graph, "raw")
    assert isinstance(tensors.x, Operator) == sparse
    out = conv(conv.encode(tensors.x, tensors).unsqueeze(1), conv.spread(y, tensors), tensors)
    x = torch.from_numpy(graph.x.toarray() if sparse else graph.x)
    edge_index = both_directions(graph)
    expected = torch.stack([reference(torch.cat([x, y[:, b]], 1), edge_index) for b in range(2)], dim=1)
    assert_same(out, expected)

    out.backward(grad), expected.backward(grad)
    assert_same_gradients(conv, reference, renamed)


@pytest.mark.parametrize("layer", [1, 2, 15])
def test_gcnii_layer_equals_pyg(layer):
    graph, batch = random_graph(), 4
    torch.manual_seed(1)
    conv, reference = GCN2Conv(OUT, layer), pyg.GCN2Conv(OUT, alpha=0.1, theta=0.5, layer=layer, shared_weights=True)
    reference.weight1.data.copy_(conv.weight)
    h, h_0, grad = (torch.randn(graph.num_nodes, batch, OUT) for _ in range(3))
    ours, theirs = ([h.clone().requires_grad_(), h_0.clone().requires_grad_()] for _ in range(2))
    out, edge_index = conv(*ours, GraphTensors.of(graph)), both_directions(graph)
    expected = torch.stack([reference(theirs[0][:, b], theirs[1][:, b], edge_index) for b in range(batch)], dim=1)
    assert_same(out, expected)

    out.backward(grad), expected.backward(grad)
    for a, b in zip([*ours, conv.weight], [*theirs, reference.weight1], strict=True):
        assert_same(a.grad, b.grad)


@pytest.mark.parametrize("label_channels", [0, LABELS])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("name", [*READING, *VARIANTS])
def test_every_backbone(name, num_layers, label_channels, tmp_path):
    if name.startswith("gcnii") and num_layers == 1:
        with pytest.raises(InputError, match="at least 2"):
            make_backbone(name, IN, OUT, num_layers)
        return
    tensors = GraphTensors.of(random_graph())
    torch.manual_seed(1)
    backbone = make_backbone(name, IN, OUT, num_layers, label_channels)
    labels, times = (torch.randn(20, 2, LABELS), torch.randn(2, OUT)) if label_channels else (None, None)

    def run(net, seed=None):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        return net(net.encode(tensors), tensors, labels, times, generator)

    out = run(backbone)
    assert out.shape == (20, 2 if label_channels else 1, backbone.out_channels)
    assert torch.equal(run(backbone), out)
    assert torch.equal(run(backbone, seed=3), run(backbone, seed=3))
    assert not torch.equal(run(backbone, seed=3), run(backbone, seed=4))

    out.square().sum().backward()
    for key, parameter in backbone.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key

    save_file(backbone.state_dict(), tmp_path / "weights.safetensors")
    other = make_backbone(name, IN, OUT, num_layers, label_channels)
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(run(other), out)


@pytest.mark.parametrize("name", [*READING, *VARIANTS])
def test_time_reaches_every_backbone_but_the_timeless(name):
    tensors = GraphTensors.of(random_graph())
    backbone = make_backbone(name, IN, OUT, 2, LABELS)
    encoded, y = backbone.encode(tensors), torch.randn(20, 1, LABELS)
    early, late = (backbone(encoded, tensors, y, torch.full((1, OUT), value)) for value in (0.5, 1.0))
    assert torch.equal(early, late) == (name == "gcnii(time=False)")


def test_time_enters_gcnii_once_however_deep_it_is():
    tensors, time = GraphTensors.of(random_graph()), torch.randn(1, OUT)
    backbone = make_backbone("gcnii", IN, OUT, 8, LABELS)
    encoded, y = backbone.encode(tensors), torch.randn(20, 1, LABELS)
    torch.testing.assert_close(backbone(encoded, tensors, y, time), backbone(encoded + time, tensors, y))


@pytest.mark.parametrize(("channels", "heads"), [(64, 8), (12, 6), (7, 7), (11, 1), (4, 4)])
def test_gat_takes_as_many_heads_as_divide_the_channels(channels, heads):
    assert GATConv(IN, LABELS, channels).heads == heads


def test_gat_gradients_are_those_of_finite_differences():
    graph = random_graph(num_nodes=8)
    tensors = GraphTensors.of(graph, "raw", dtype=torch.float64)
    torch.manual_seed(1)
    conv = GATConv(3, 0, 4).double()
    h = torch.randn(8, 2, 3, dtype=torch.float64, requires_grad=True)

    def layer(h, *_):
        return conv(conv.encode(h, tensors), None, tensors)

    assert torch.autograd.gradcheck(layer, (h, *conv.parameters()))


def test_gat_attention_survives_scores_that_would_overflow():
    graph = random_graph()
    conv, reference, _ = paired("gat")
    tensors, edge_index = GraphTensors.of(graph), both_directions(graph)
    h = 1000 * torch.randn(20, 1, IN + LABELS)
    out = conv(conv.lift(h, conv.weight, tensors), None, tensors)
    torch.testing.assert_close(out[:, 0], reference(h[:, 0], edge_index), atol=1e-2, rtol=1e-4)


def test_dropped_attention_is_the_attention_on_average_and_whole_when_predicting():
    tensors, z = GraphTensors.of(random_graph()), torch.randn(20, 1, OUT)
    conv = GATConv(IN, 0, OUT)
    whole = conv.finish(z, tensors)
    conv.dropout = 0.5
    assert torch.equal(conv.finish(z, tensors), whole)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([conv.finish(z, tensors, generator) for _ in range(4000)])
    assert not torch.equal(drawn[0], whole)
    error = drawn.std(dim=0) / 4000**0.5
    assert ((drawn.mean(dim=0) - whole).abs() < 5 * error + 1e-6).all()


def test_attention_is_dropped_in_every_layer_at_the_rate_that_is_asked_for():
    for name, rate in (("gat", 0.0), ("gat(attention_dropout=True)", 0.3), ("gat(attention_dropout=0.1)", 0.1)):
        backbone = make_backbone(name, IN, OUT, 3, LABELS, dropout=0.3)
        assert [conv.dropout for conv in (*backbone.convs, backbone.last(OUT, 2))] == [rate] * 4


def test_sage_tells_arriving_edges_from_leaving_ones():
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 0), (1, 2), (3, 2), (4, 1), (4, 3)]
    weight = rng.gamma(2.0, size=len(edges))
    graph = Graph.build(edges, num_nodes=6, x=rng.normal(size=(6, 3)), directed=True, edge_weight=weight)
    tensors, conv = GraphTensors.of(graph, "raw"), SAGEConv(3, 2, 4, directions=True)
    A = np.zeros((6, 6))
    A[tuple(zip(*edges))] = weight
    means = [M / np.maximum(M.sum(axis=1, keepdims=True), 1e-12) for M in (A.T, A)]
    h, y = rng.normal(size=(6, 1, 3)), rng.normal(size=(6, 1, 2))
    both = np.concatenate([h, y], axis=2)[:, 0]
    W_in, W_out, W_own = conv.weight.detach().double().numpy().reshape(5, 3, 4).transpose(1, 0, 2)
    expected = means[0] @ both @ W_in + means[1] @ both @ W_out + both @ W_own
    h, y = torch.from_numpy(h).float(), torch.from_numpy(y).float()
    found = conv(conv.encode(h, tensors), conv.spread(y, tensors), tensors)
    np.testing.assert_allclose(found.detach().numpy()[:, 0], expected, atol=1e-5)
    with pytest.raises(InputError, match="read it with directed=True"):
        conv.spread(y, GraphTensors.of(graph.undirected(), "raw"))


def test_a_label_that_follows_from_directions_is_learned():
    rng = np.random.default_rng(0)
    pairs = rng.permutation(200).reshape(2, 100)  # edges lead from one class to the other
    y = np.where(np.isin(np.arange(200), pairs[0]), "sends", "receives")
    graph = Graph.build(pairs, num_nodes=200, x=np.ones((200, 1)), y=y, directed=True)
    asked = graph.hide(np.arange(200) >= 40)
    settings = {"epochs": 30, "num_layers": 1, "scaling": "raw"}
    assert GNN(backbone="sage(directions=True)", **settings).fit(asked).score(graph) == 1
    assert GNN(backbone="sage", **settings).fit(asked).score(graph) < 0.7
