import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from torch import nn

from dpmsnc.diffusion.known import Known
from dpmsnc.nn.backbones import BACKBONES
from dpmsnc.nn.denoiser import Denoiser, sinusoid
from dpmsnc.nn.operator import GraphTensors
from random_graphs import both_directions, graph_of, random_graph

NODES, IN, CLASSES, HIDDEN = 20, 6, 3, 16
READING = [name for name, kind in BACKBONES.items() if kind.reads_labels]
OPTIONS = [
    "gcnii(time=False)",
    "gcnii(input_layer=True, norm='batch', residual=True)",
    "gat(norm='layer', residual=True)",
    "gcn(norm='batch')",
    "gcn(norm='nodes', residual=True)",
    "gin(input_layer=True)",
    "sage(input_layer=True, norm='layer', normalize=True, residual=True)",
]


def make(backbone="gcn", **options):
    torch.manual_seed(1)
    return Denoiser(backbone, IN, CLASSES, HIDDEN, **options)


def noisy_labels(batch):
    return torch.randn(NODES, batch, CLASSES, generator=torch.Generator().manual_seed(2))


def known_labels():
    mask = torch.zeros(NODES, 1, dtype=torch.bool)
    mask[::3] = True
    y = nn.functional.one_hot(torch.arange(NODES) % CLASSES, CLASSES).float().unsqueeze(1)
    return Known(mask, y)


def plain_gcn_denoiser(denoiser, x, y_t, t, edge_index):
    """Appendix C.1 layer by layer on one label field, with PyG's layers on concatenated inputs."""
    frequency = 10000 ** (-torch.arange(64) / 63)
    embedding = denoiser.time(torch.cat([torch.sin(4 * t * frequency), torch.cos(4 * t * frequency)]))
    h = torch.cat([x, y_t], dim=1)
    for conv in denoiser.backbone.convs:
        layer = pyg.GCNConv(h.shape[1], HIDDEN)
        layer.load_state_dict({"lin.weight": conv.weight.T, "bias": conv.bias})
        h = torch.cat([torch.relu(layer(h, edge_index) + embedding), y_t], dim=1)
    for i, linear in enumerate(denoiser.head):
        h = linear(nn.functional.elu(h) if i else h)
    return h


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("head_layers", [1, 2])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@torch.no_grad()
def test_equals_a_plain_implementation(num_layers, head_layers, sparse):
    graph = random_graph(NODES, IN, sparse)
    denoiser = make(num_layers=num_layers, head_layers=head_layers)
    for parameter in denoiser.backbone.parameters():
        nn.init.normal_(parameter, std=0.3)
    y_t, t = noisy_labels(3), torch.tensor([1, 40, 80])
    out = denoiser(y_t, t, denoiser.encode(GraphTensors.of(graph, "raw")))
    x = torch.from_numpy(graph.x.toarray() if sparse else graph.x)
    expected = [plain_gcn_denoiser(denoiser, x, y_t[:, b], t[b], both_directions(graph)) for b in range(3)]
    torch.testing.assert_close(out, torch.stack(expected, dim=1), atol=1e-5, rtol=1e-5)


def test_gradients_equal_those_of_the_plain_implementation():
    graph, denoiser = random_graph(NODES, IN), make()
    tensors, t, grad = GraphTensors.of(graph, "raw"), torch.tensor([7]), torch.randn(NODES, CLASSES)
    ours, plain = noisy_labels(1).requires_grad_(), noisy_labels(1).requires_grad_()
    denoiser(ours, t, denoiser.encode(tensors))[:, 0].backward(grad)
    denoiser_grads = [p.grad for p in denoiser.head.parameters()]
    denoiser.zero_grad()
    x = torch.from_numpy(graph.x.toarray())
    plain_gcn_denoiser(denoiser, x, plain[:, 0], t[0], both_directions(graph)).backward(grad)
    torch.testing.assert_close(ours.grad, plain.grad, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(denoiser_grads, [p.grad for p in denoiser.head.parameters()], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backbone", [*READING, *OPTIONS])
@torch.no_grad()
def test_a_batch_equals_single_passes(backbone):
    denoiser = make(backbone)
    context = denoiser.encode(GraphTensors.of(random_graph(NODES, IN)))
    y_t, t = noisy_labels(3), torch.tensor([1, 40, 80])
    single = [denoiser(y_t[:, b : b + 1], t[b : b + 1], context) for b in range(3)]
    torch.testing.assert_close(denoiser(y_t, t, context), torch.cat(single, dim=1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backbone", [*READING, *OPTIONS])
@torch.no_grad()
def test_permuting_the_nodes_permutes_the_output(backbone):
    graph, denoiser = random_graph(NODES, IN), make(backbone)
    order = np.random.default_rng(3).permutation(NODES)  # new node i is old node order[i]
    place = np.argsort(order)
    permuted = graph_of(np.sort(place[graph.edge_index], axis=0), sp.csr_array(graph.x[order]))
    y_t, t = noisy_labels(2), torch.tensor([5, 60])
    out = denoiser(y_t, t, denoiser.encode(GraphTensors.of(graph)))
    moved = denoiser(y_t[order], t, denoiser.encode(GraphTensors.of(permuted)))
    torch.testing.assert_close(moved, out[order], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backbone", [*READING, *OPTIONS])
def test_one_encoding_serves_all_labels_and_times(backbone):
    denoiser = make(backbone)
    tensors = GraphTensors.of(random_graph(NODES, IN))
    context = denoiser.encode(tensors)
    before = context.encoded.clone()
    denoiser(noisy_labels(3), torch.tensor([1, 40, 80]), context, generator=torch.Generator().manual_seed(0))
    assert torch.equal(context.encoded, before)
    assert torch.equal(denoiser.encode(tensors).encoded, before)


@pytest.mark.parametrize("backbone", [*READING, *OPTIONS])
@torch.no_grad()
def test_known_nodes_hide_their_noisy_label(backbone):
    denoiser, known = make(backbone, shows_known=True), known_labels()
    context, t = denoiser.encode(GraphTensors.of(random_graph(NODES, IN))), torch.tensor([5, 60])
    y_t = noisy_labels(2)
    other = torch.where(known.mask.unsqueeze(-1), y_t + 10, y_t)
    out = denoiser(y_t, t, context, known)
    assert torch.equal(denoiser(other, t, context, known), out)
    assert not torch.equal(denoiser(y_t, t, context, Known(known.mask, known.y.roll(1, dims=-1))), out)


@torch.no_grad()
def test_nothing_known_equals_an_empty_mask():
    denoiser, known = make(shows_known=True), known_labels()
    context, t, y_t = denoiser.encode(GraphTensors.of(random_graph(NODES, IN))), torch.tensor([5, 60]), noisy_labels(2)
    empty = Known(torch.zeros_like(known.mask), known.y)
    assert torch.equal(denoiser(y_t, t, context), denoiser(y_t, t, context, empty))


@torch.no_grad()
def test_each_batch_entry_may_know_different_labels():
    denoiser, known = make(shows_known=True), known_labels()
    context, t, y_t = denoiser.encode(GraphTensors.of(random_graph(NODES, IN))), torch.tensor([5, 60]), noisy_labels(2)
    mixed = Known(torch.cat([known.mask, torch.zeros_like(known.mask)], dim=1), known.y.expand(-1, 2, -1))
    out = denoiser(y_t, t, context, mixed)
    torch.testing.assert_close(out[:, :1], denoiser(y_t[:, :1], t[:1], context, known))
    torch.testing.assert_close(out[:, 1:], denoiser(y_t[:, 1:], t[1:], context))


@pytest.mark.parametrize("backbone", [*READING, *OPTIONS])
def test_dropout_follows_the_generator_and_gradient_reaches_every_parameter(backbone):
    denoiser = make(backbone, head_layers=2, shows_known=True)
    tensors, y_t, t = GraphTensors.of(random_graph(NODES, IN)), noisy_labels(2), torch.tensor([5, 60])

    def run(seed):
        return denoiser(y_t, t, denoiser.encode(tensors), known_labels(), torch.Generator().manual_seed(seed))

    assert torch.equal(run(0), run(0)) and not torch.equal(run(0), run(1))
    run(0).square().sum().backward()
    silent = {name for name, p in denoiser.named_parameters() if p.grad is None or p.grad.abs().sum() == 0}
    timeless = {name for name, _ in denoiser.named_parameters() if name.startswith("time.")}
    assert silent == (timeless if backbone == "gcnii(time=False)" else set())


def test_sinusoid_scales_time_by_four():
    embedding = sinusoid(torch.tensor([3]))
    assert embedding.shape == (1, 128)
    assert embedding[0, 0] == pytest.approx(np.sin(12), abs=1e-6)
    assert embedding[0, 127] == pytest.approx(np.cos(12 / 10000), abs=1e-6)
