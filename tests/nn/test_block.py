"""Options of all backbones against dense formulas written out by hand."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from dpmsnc.nn.backbones import make_backbone
from dpmsnc.nn.backbones.base import Conv
from dpmsnc.nn.backbones.block import Block, NodeNorm, Norm
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from random_graphs import random_graph

NODES, IN, LABELS, HIDDEN, BATCH = 9, 4, 3, 6, 2
OPTIONS = [
    {"residual": True},
    {"norm": "layer"},
    {"norm": "batch"},
    {"norm": "nodes"},
    {"input_layer": True},
    {"residual": True, "norm": "batch", "input_layer": True},
]
GRAPH = random_graph(NODES, IN, sparse=False)
A = torch.from_numpy(GRAPH.adjacency.toarray()).double()
EYE = torch.eye(NODES, dtype=torch.float64)


def tensors():
    return GraphTensors.of(GRAPH, "raw", dtype=torch.float64)


def made(name, options, num_layers=2, dropout=0.0):
    """A backbone in double precision whose parameters, and recorded statistics, are all random."""
    torch.manual_seed(1)
    backbone = make_backbone((name, options), IN, HIDDEN, num_layers, LABELS, dropout).double()
    for parameter in backbone.parameters():
        nn.init.normal_(parameter, std=0.5)
    for key, buffer in backbone.named_buffers():
        if key.endswith(("mean", "var")):
            nn.init.uniform_(buffer, 0.5, 1.5)
    return backbone


def fields():
    generator = torch.Generator().manual_seed(2)
    y, time = (torch.randn(*shape, generator=generator).double() for shape in ((NODES, BATCH, LABELS), (BATCH, HIDDEN)))
    return y, time


def symmetric(A):
    degree = A.sum(dim=1)
    return A / (degree[:, None] * degree).sqrt()


def gcn(conv, h):
    return torch.einsum("ij,jbc->ibc", symmetric(A + EYE), h) @ conv.weight + conv.bias


def sage(conv, h):
    mean = torch.einsum("ij,jbc->ibc", A / A.sum(dim=1, keepdim=True).clamp_min(1), h)
    return mean @ conv.weight[:, :HIDDEN] + h @ conv.weight[:, HIDDEN:] + conv.bias


def gin(conv, h):
    z = torch.einsum("ij,jbc->ibc", A + EYE, h) @ conv.weight + conv.bias
    return conv.second(torch.relu(z))


def gat(conv, h):
    z = (h @ conv.weight).unflatten(-1, (conv.heads, -1))
    source, target = ((z * vector).sum(dim=-1) for vector in (conv.source, conv.target))
    scores = nn.functional.leaky_relu(target[:, None] + source[None, :], 0.2)
    attention = scores.masked_fill((A + EYE == 0)[:, :, None, None], -torch.inf).softmax(dim=1)
    return torch.einsum("ijbk,jbkc->ibkc", attention, z).flatten(-2) + conv.bias


DENSE = {"gcn": gcn, "sage": sage, "gin": gin, "gat": gat}
WITH_OPTIONS = [*DENSE, "gcnii"]


def normalised(norm, z, training):
    if isinstance(norm.norm, nn.LayerNorm):
        mean, variance = z.mean(dim=-1, keepdim=True), z.var(dim=-1, keepdim=True, unbiased=False)
    elif isinstance(norm.norm, NodeNorm):
        mean, variance = z.mean(dim=0), z.var(dim=0, unbiased=False)
    elif training:
        mean, variance = z.mean(dim=(0, 1)), z.var(dim=(0, 1), unbiased=False)
    else:
        mean, variance = norm.norm.running_mean, norm.norm.running_var
    return (z - mean) / (variance + 1e-5).sqrt() * norm.norm.weight + norm.norm.bias


def around(block, z, h, training):
    """What a block makes of the output z of its convolution, whose input was h."""
    if block.residual is not None:
        z = z + h @ block.residual.weight + block.residual.bias
    return z if block.norm is None else normalised(block.norm, z, training)


def dense(name, backbone, y, time, training=False):
    """The whole backbone: [h || y] formed, all products dense."""
    act = nn.functional.elu if name == "gat" else torch.relu
    h = torch.from_numpy(GRAPH.x).double().unsqueeze(1).expand(-1, BATCH, -1)
    if backbone.input is not None:
        h = act(torch.cat([h, y], dim=-1) @ backbone.input.weight + backbone.input.bias)
    if name == "gcnii":
        return dense_gcnii(backbone, h, y, time, training)
    for layer in backbone.convs:
        h = torch.cat([h, y], dim=-1)
        if isinstance(layer, Block):
            z = around(layer, DENSE[name](layer.conv, h), h, training)
        else:
            z = DENSE[name](layer, h)
        h = act(z + time)
    return h


def dense_gcnii(backbone, h, y, time, training):
    first, *rest = backbone.convs
    h = h_0 = torch.relu(torch.cat([h, y], dim=-1) @ first.weight + first.bias + time)
    for layer in rest:
        z = 0.9 * torch.einsum("ij,jbc->ibc", symmetric(A + EYE), h) + 0.1 * h_0
        h = torch.relu(around(layer, (1 - layer.beta) * z + layer.beta * z @ layer.weight, h, training))
    return h


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("name", WITH_OPTIONS)
@pytest.mark.parametrize("training", [False, True])
def test_options_are_what_the_formula_says(name, options, training):
    backbone, graph, (y, time) = made(name, options), tensors(), fields()
    expected = dense(name, backbone, y, time, training)
    generator = torch.Generator() if training else None
    torch.testing.assert_close(backbone(backbone.encode(graph), graph, y, time, generator), expected)
    if not training:
        with torch.no_grad():  # where memory is written over
            torch.testing.assert_close(backbone(backbone.encode(graph), graph, y, time), expected.detach())


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_all_parameters_of_options_get_a_gradient_with_dropout_too(name, options):
    backbone, graph, (y, time) = made(name, options, dropout=0.2), tensors(), fields()
    h = backbone(backbone.encode(graph), graph, y, time, torch.Generator().manual_seed(0))
    (h * torch.randn_like(h)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in backbone.parameters())


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_gradients_are_those_of_finite_differences(norm):
    backbone = made("gat", {"residual": True, "norm": norm, "input_layer": True})
    graph, (y, time) = tensors(), fields()
    for field in (y, time):
        field.requires_grad_()

    def run(y, time, *_):
        return backbone(backbone.encode(graph), graph, y, time)

    assert torch.autograd.gradcheck(run, (y, time, *backbone.parameters()))


def test_batch_statistics_are_recorded_in_training_alone_and_saved(tmp_path):
    backbone, graph, (y, time) = made("gcn", {"norm": "batch"}), tensors(), fields()
    norm = backbone.convs[0].norm.norm
    before = norm.running_mean.clone(), norm.running_var.clone()
    backbone.train()  # says nothing here: there is no generator
    backbone(backbone.encode(graph), graph, y, time)
    assert torch.equal(norm.running_mean, before[0]) and torch.equal(norm.running_var, before[1])

    backbone.eval()
    backbone(backbone.encode(graph), graph, y, time, torch.Generator())
    z = gcn(
        backbone.convs[0].conv, torch.cat([torch.from_numpy(GRAPH.x).double()[:, None].expand(-1, BATCH, -1), y], -1)
    )
    torch.testing.assert_close(norm.running_mean, 0.9 * before[0] + 0.1 * z.mean(dim=(0, 1)))
    torch.testing.assert_close(norm.running_var, 0.9 * before[1] + 0.1 * z.var(dim=(0, 1)))

    save_file(backbone.state_dict(), tmp_path / "weights.safetensors")
    other = made("gcn", {"norm": "batch"})
    other.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    encoded = backbone.encode(graph)
    assert torch.equal(other(encoded, graph, y, time), backbone(encoded, graph, y, time))


def test_layer_norm_is_the_same_in_training_and_evaluation():
    norm, z = Norm("layer", HIDDEN), torch.randn(NODES, BATCH, HIDDEN)
    assert torch.equal(norm(z, None), norm(z, torch.Generator()))


def test_without_options_convolutions_are_bare_and_the_written_backward_is_used():
    plain = Denoiser("gcn", IN, LABELS)
    assert plain.has_backward and plain.backbone.input is None
    assert all(isinstance(conv, Conv) for conv in plain.backbone.convs)
    assert not any(Denoiser(("gcn", options), IN, LABELS).has_backward for options in OPTIONS)


def test_features_are_encoded_once_for_all_labels():
    for options in OPTIONS:
        backbone = made("sage", options)
        width = HIDDEN * (2 if options == {"residual": True} else 1)
        assert backbone.encode(tensors()).shape == (NODES, 1, width)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(map(str, options.values())))
def test_a_plain_classifier_may_have_options_and_end_in_a_convolution(options):
    network = MeanField(("gat", options), IN, 2, HIDDEN, head="convolution")
    graph = GraphTensors.of(GRAPH)
    assert isinstance(network.head, Conv) and network(graph, torch.Generator()).shape == (NODES, 2)
