"""Residual networks against dense formulas written out by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu, leaky_relu

from dpmsnc.config import Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.nn.backbones import make_backbone
from dpmsnc.nn.backbones.gat import Edges, inner_products
from dpmsnc.nn.backbones.residual import FeedForward
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from random_graphs import random_graph

NODES, IN, LABELS, HIDDEN, BATCH, HEADS = 9, 4, 3, 6, 2, 2
GRAPH = random_graph(NODES, IN, sparse=False)  # its last three nodes are isolated
A = torch.from_numpy(GRAPH.adjacency.toarray()).double()
LOOPED = A + torch.eye(NODES, dtype=torch.float64)
NAMES = ["resnet", "residual-gcn", "residual-sage", "residual-gat", "gat-sep", "gt", "gt-sep"]


def tensors():
    return GraphTensors.of(GRAPH, "raw", dtype=torch.float64)


def made(name, label_channels=LABELS, num_layers=2):
    """A backbone in double precision whose parameters are all random."""
    torch.manual_seed(1)
    spec = (name, {"heads": HEADS}) if "ga" in name or "gt" in name else name
    backbone = make_backbone(spec, IN, HIDDEN, num_layers, label_channels, 0.0).double()
    for parameter in backbone.parameters():
        nn.init.normal_(parameter, std=0.5)
    return backbone


def spread(matrix, z):
    return torch.einsum("ij,jbc->ibc", matrix, z)


def softmax_over(matrix, scores):
    """Of scores (target, source, batch, heads) over the sources of each target; zero where a target has none."""
    weights = scores.exp() * (matrix != 0)[:, :, None, None]
    return weights / weights.sum(dim=1, keepdim=True).clamp_min(1e-300)


def mixed(attention, z):
    return torch.einsum("ijbk,jbkc->ibkc", attention, z.unflatten(-1, (HEADS, -1))).flatten(-2)


def gat(module, u, matrix):
    source, target = module.source(u), u @ module.target.weight.T
    return mixed(softmax_over(matrix, leaky_relu(source[None, :] + target[:, None], 0.2)), u)


def gt(module, z, matrix):
    query, key, value = (z @ W.T + b for W, b in zip(module.lift.weight.chunk(3), module.lift.bias.chunk(3)))
    query, key = (part.unflatten(-1, (HEADS, -1)) for part in (query, key))
    scores = torch.einsum("jbkc,ibkc->ijbk", query, key) / math.sqrt(HIDDEN / HEADS)
    return mixed(softmax_over(matrix, scores), value)


def linear(layer, *parts):
    return torch.cat(parts, dim=-1) @ layer.weight.T + layer.bias


def feed(module, *parts):
    return linear(module.second, gelu(linear(module.first, *parts)))


MODULES = {
    "resnet": lambda m, z: feed(m, z),
    "residual-gcn": lambda m, z: feed(m, spread(LOOPED / (LOOPED.sum(0)[:, None] * LOOPED.sum(0)).sqrt(), z)),
    "residual-sage": lambda m, z: feed(m, z, spread(A / A.sum(dim=1, keepdim=True).clamp_min(1), z)),
    "residual-gat": lambda m, z: feed(m, gat(m, linear(m.lift, z), LOOPED)),
    "gat-sep": lambda m, z: feed(m, linear(m.lift, z), gat(m, linear(m.lift, z), A)),
    "gt": lambda m, z: feed(m, z) if isinstance(m, FeedForward) else linear(m.out, gt(m, z, LOOPED)),
    "gt-sep": lambda m, z: feed(m, z) if isinstance(m, FeedForward) else linear(m.out, z, gt(m, z, A)),
}


def layer_norm(norm, h):
    mean, variance = h.mean(dim=-1, keepdim=True), h.var(dim=-1, keepdim=True, unbiased=False)
    return (h - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias


def dense(name, backbone, y, time):
    first, *blocks = backbone.convs
    x = torch.from_numpy(GRAPH.x).double().unsqueeze(1).expand(-1, y.shape[1], -1)
    h = gelu(torch.cat([x, y], dim=-1) @ first.weight + first.bias)
    for block in blocks:
        z = layer_norm(block.norm, h) + (y @ block.label_weight if y.shape[-1] else 0)
        h = h + MODULES[name](block.module, z) + time
    return layer_norm(backbone.norm, h)


@pytest.mark.parametrize("name", NAMES)
def test_networks_are_what_the_formula_says(name):
    backbone, graph = made(name), tensors()
    y, time = torch.randn(NODES, BATCH, LABELS).double(), torch.randn(BATCH, HIDDEN).double()
    expected = dense(name, backbone, y, time)
    torch.testing.assert_close(backbone(backbone.encode(graph), graph, y, time), expected)
    with torch.no_grad():
        torch.testing.assert_close(backbone(backbone.encode(graph), graph, y, time), expected.detach())


@pytest.mark.parametrize("name", NAMES)
def test_without_labels_and_time_it_is_the_original(name):
    backbone, graph = made(name, label_channels=0), tensors()
    nothing = torch.zeros(NODES, 1, 0, dtype=torch.float64)
    found = backbone(backbone.encode(graph), graph)
    torch.testing.assert_close(found, dense(name, backbone, nothing, 0.0))


@pytest.mark.parametrize(("name", "blocks"), [("resnet", 3), ("gat-sep", 3), ("gt", 6), ("gt-sep", 6)])
def test_a_graph_transformer_has_two_residual_blocks_a_layer(name, blocks):
    assert len(made(name, num_layers=3).convs) == 1 + blocks


@pytest.mark.parametrize("name", ["gat-sep", "gt-sep"])
def test_gradients_are_those_of_finite_differences_also_at_isolated_nodes(name):
    backbone, graph = made(name, num_layers=1), tensors()
    y = torch.randn(NODES, 1, LABELS, dtype=torch.float64, requires_grad=True)

    def run(y, *_):
        return backbone(backbone.encode(graph), graph, y)

    assert torch.autograd.gradcheck(run, (y, *backbone.parameters()))


def test_inner_products_at_the_edges_and_their_gradients():
    graph = tensors()
    edges, (source, target) = Edges.of(graph, loops=False), graph.directed_edges(loops=False)
    a, b = (torch.randn(NODES, 3, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(inner_products(edges, a, b), (a[source] * b[target]).sum(dim=-1))
    assert torch.autograd.gradcheck(lambda a, b: inner_products(edges, a, b), (a, b))


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_classifier_ends_in_a_linear_map(name):
    graph = GraphTensors.of(random_graph())
    assert MeanField(name, graph.num_features, 2, 16)(graph).shape == (20, 2)
    with pytest.raises(InputError, match="linear"):
        MeanField(name, graph.num_features, 2, 16, head="convolution")


def test_heads_are_an_option_of_networks_with_attention_alone():
    with pytest.raises(InputError, match="heads"):
        make_backbone("gat-sep(heads=0)", IN)
    with pytest.raises(InputError, match="no option"):
        make_backbone("resnet(heads=2)", IN)


def test_gat_sep_is_fitted_saved_and_loaded_as_a_denoiser(tmp_path):
    task = grid_scattered(columns=20)
    settings = {"hidden_channels": 8, "initialiser": "uniform", "training": Training(steps=3)}
    clf = NodeClassifier("gat-sep(heads=2)", **settings).fit(task.graph, validation=task.validation)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert (loaded.predict_proba() == clf.predict_proba()).all()
