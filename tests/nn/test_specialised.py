"""The networks for heterophilic graphs: each against its formula on a small graph, with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch_geometric.nn as pyg
from scipy.special import eval_jacobi
from torch import nn

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.nn import two_hop
from dpmsnc.nn.backbones import make_backbone
from dpmsnc.nn.backbones.cpgnn import compatibility
from dpmsnc.nn.backbones.fagcn import FAConv
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.stages import parameter_groups, penalties, start_from, warming_up
from random_graphs import both_directions, graph_of, random_graph

NODES, IN, LABELS, WIDTH, CLASSES = 14, 6, 2, 8, 3
NETWORKS = {
    "h2gcn": ("h2gcn", 2),
    "h2gcn, shared": ("h2gcn(shared=2)", 1),
    "gpr-gnn": ("gpr-gnn(alpha=0.2)", 4),
    "fsgnn": ("fsgnn", 3),
    "fsgnn, raw": ("fsgnn(normalisation='none')", 2),
    "glognn": (f"glognn(num_nodes={NODES}, alpha=0.7, beta=1.3, gamma=0.3, delta=0.4, orders=2)", 2),
    "fagcn": ("fagcn(eps=0.2)", 2),
    "jacobiconv": ("jacobiconv(a=0.5, b=0.25, scale=2)", 5),
    "cpgnn": ("cpgnn(normalisation='symmetric', prior_weight=1)", 2),
    "cpgnn, raw": ("cpgnn", 1),
    "gbk-gnn": ("gbk-gnn", 2),
    "polynormer": ("polynormer(heads=2, global_layers=2)", 2),
}
"""Backbone and number of layers."""
READING = [name for name in NETWORKS if name.split(",")[0] not in ("glognn", "cpgnn")]


def network_of(name):
    torch.manual_seed(1)
    spec, layers = NETWORKS[name]
    network = MeanField(spec, IN, CLASSES, WIDTH, layers)
    for parameter in network.parameters():  # where some begin at zero, a wrong one would not show
        nn.init.normal_(parameter, std=0.4)
    return network


def dense(graph):
    """A, x and the parameters of a network by name, in double precision."""
    x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    return torch.from_numpy(graph.adjacency.toarray()).double(), torch.from_numpy(x).double()


def symmetric(M):
    d = M.sum(dim=1)
    scale = torch.where(d > 0, d, torch.ones(()).double()).rsqrt()
    return scale[:, None] * M * scale


def h2gcn(p, A, x, shared=1, rounds=2):
    paths, eye = A @ A, torch.eye(NODES)
    ring = ((paths >= shared) & (A == 0) & (eye == 0)).double()
    assert ring.sum() > 0
    r = [torch.relu(x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"])]
    for _ in range(rounds):
        r.append(torch.cat([symmetric(A) @ r[-1], symmetric(ring) @ r[-1]], dim=1))
    return torch.cat(r, dim=1) @ p["head.weight"].T + p["head.bias"]


def gpr_gnn(p, A, x):
    S = symmetric(A + torch.eye(NODES))
    h = torch.relu(x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"])
    z, gamma = h @ p["head.weight"] + p["head.bias"], p["head.spreading.gamma"]
    return sum(g * torch.linalg.matrix_power(S, k) @ z for k, g in enumerate(gamma))


def fsgnn(p, A, x, hops=3, norm=symmetric):
    M, L = norm(A), norm(A + torch.eye(NODES))
    powers = [x, *(torch.linalg.matrix_power(K, k) @ x for K in (M, L) for k in range(1, hops + 1))]
    weights, biases = (p[f"backbone.convs.0.{n}"].chunk(len(powers), dim=-1) for n in ("weight", "bias"))
    share = p["backbone.convs.0.attention"].softmax(0)
    branches = [X @ W + b for X, W, b in zip(powers, weights, biases)]
    h = torch.cat([a * z / z.norm(dim=1, keepdim=True) for a, z in zip(share, branches)], dim=1)
    return torch.relu(h) @ p["head.weight"].T + p["head.bias"]


def glognn(p, A, x, alpha=0.7, beta=1.3, gamma=0.3, delta=0.4):
    eye = torch.eye(NODES).double()
    P = (A + eye) / (A + eye).sum(dim=1, keepdim=True)
    z = delta * x @ p["backbone.convs.0.weight"] + (1 - delta) * P @ p["backbone.of_nodes"]
    H = H_0 = torch.relu(z + p["backbone.convs.0.bias"]) @ p["head.weight"] + p["head.bias"]
    local = sum(weight * torch.linalg.matrix_power(P, k) for k, weight in enumerate(p["head.orders"], start=1))
    for _ in range(2):
        # the minimiser over Z: its gradient is zero
        right = (1 - gamma) * (H - gamma * H_0) @ H.T + beta * local
        Z = right @ torch.linalg.inv((1 - gamma) ** 2 * H @ H.T + (alpha + beta) * eye)
        H = (1 - gamma) * Z @ H + gamma * H_0
    return H


def fagcn(p, A, x, eps=0.2):
    N = symmetric(A)
    h = h_0 = torch.relu(x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"])
    for layer in (1, 2):
        score = h @ p[f"backbone.convs.{layer}.gate.weight"].T + p[f"backbone.convs.{layer}.gate.bias"]
        h = eps * h_0 + (N * torch.tanh(score[:, :1] + score[:, 1])) @ h
    return h @ p["head.weight"].T + p["head.bias"]


def jacobiconv(p, A, x, a=0.5, b=0.25, scale=2):
    values, vectors = np.linalg.eigh(symmetric(A).numpy())
    z = x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"]
    s = scale * torch.tanh(p["backbone.convs.0.t"])
    total = torch.zeros_like(z)
    for k, coefficients in enumerate(p["backbone.convs.0.coefficients"]):
        polynomial = torch.from_numpy(vectors * eval_jacobi(k, a, b, values) @ vectors.T)
        total += coefficients * s[:k].prod() * (polynomial @ z)
    return total


def cpgnn(p, A, x, rounds=2, norm=symmetric):
    h = torch.relu(x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"])
    E = (h @ p["head.weight"] + p["head.bias"]).softmax(dim=1) - 1 / CLASSES
    B = E
    for _ in range(rounds):
        B = E + norm(A) @ B @ p["head.compatibility"]
    return B + 1 / CLASSES


def gates(weight, h):
    score = h @ weight[:, -2:]
    return torch.sigmoid(nn.functional.leaky_relu(score[:, :1] + score[:, 1], 0.2))


def gbk_gnn(p, A, x):
    h, mean = x, A / A.sum(dim=1, keepdim=True).clamp_min(1)
    for layer in (0, 1):
        weight = p[f"backbone.convs.{layer}.weight"]
        own, same, other = (h @ weight[:, k * WIDTH : (k + 1) * WIDTH] for k in range(3))
        g = gates(weight, h)
        h = torch.relu(own + (mean * g) @ same + (mean * (1 - g)) @ other + p[f"backbone.convs.{layer}.bias"])
    return h @ p["head.weight"].T + p["head.bias"]


def norm(p, layer, z):
    z = (z - z.mean(dim=1, keepdim=True)) / (z.var(dim=1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    return z * p[f"{layer}.weight"] + p[f"{layer}.bias"]


def linear(p, layer, z):
    return z @ p[f"{layer}.weight"].T + p[f"{layer}.bias"]


def local_attention(p, layer, A, x, heads=2):
    z, mixed = x @ p[f"{layer}.weight"], []
    for head, part in enumerate(z.chunk(heads, dim=1)):
        score = (part @ p[f"{layer}.target"][head])[:, None] + part @ p[f"{layer}.source"][head]
        score = nn.functional.leaky_relu(score, 0.2).masked_fill(A + torch.eye(NODES) == 0, -torch.inf)
        mixed.append(score.softmax(dim=1) @ part)
    return torch.cat(mixed, dim=1) + p[f"{layer}.bias"]


def global_attention(p, layer, s, heads=2):
    mixed, values = [], linear(p, f"{layer}.value", s).chunk(heads, dim=1)
    for k, v in zip(linear(p, f"{layer}.key", s).sigmoid().chunk(heads, dim=1), values):
        weights = k @ k.T
        mixed.append(weights / weights.sum(dim=1, keepdim=True) @ v)
    return norm(p, f"{layer}.norm", torch.cat(mixed, dim=1))


def polynormer(p, A, x):
    x, s = x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"], 0.0
    for layer in ("backbone.convs.1", "backbone.convs.2"):
        u = torch.relu(local_attention(p, f"{layer}.attention", A, x) + linear(p, f"{layer}.skip", x))
        beta = p[f"{layer}.beta"].sigmoid()
        x = (1 - beta) * norm(p, f"{layer}.norm", torch.relu(linear(p, f"{layer}.gate", x)) * u) + beta * u
        s = s + x
    s = norm(p, "backbone.whole.norm", s)
    for layer in ("backbone.whole.layers.0", "backbone.whole.layers.1"):
        gate = linear(p, f"{layer}.gate", s) + p[f"{layer}.beta"].sigmoid()
        s = torch.relu(global_attention(p, layer, s) * gate)
    return linear(p, "head.of_both", s)


FORMULAS = {
    "h2gcn": h2gcn,
    "h2gcn, shared": lambda p, A, x: h2gcn(p, A, x, shared=2, rounds=1),
    "gpr-gnn": gpr_gnn,
    "fsgnn": fsgnn,
    "fsgnn, raw": lambda p, A, x: fsgnn(p, A, x, hops=2, norm=lambda M: M),
    "glognn": glognn,
    "fagcn": fagcn,
    "jacobiconv": jacobiconv,
    "cpgnn": cpgnn,
    "cpgnn, raw": lambda p, A, x: cpgnn(p, A, x, rounds=1, norm=lambda M: M),
    "gbk-gnn": gbk_gnn,
    "polynormer": polynormer,
}


def doubles(network):
    return {name: parameter.detach().double() for name, parameter in network.named_parameters()}


@pytest.mark.parametrize("features", [IN, 2 * WIDTH], ids=["narrow", "wide"])  # some propagate the narrower side
@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
@pytest.mark.parametrize("name", NETWORKS)
def test_logits_are_those_of_the_formula(name, sparse, features, monkeypatch):
    monkeypatch.setattr(f"{__name__}.IN", features)
    graph, network = random_graph(NODES, features, sparse), network_of(name)
    expected = FORMULAS[name](doubles(network), *dense(graph))
    assert torch.isfinite(expected).all() and expected.std() > 1e-3
    found = network(GraphTensors.of(graph, "raw"))
    torch.testing.assert_close(found.double(), expected, atol=1e-4 * max(1, float(expected.abs().max())), rtol=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_permuted_nodes_have_permuted_logits(name):
    graph, network = random_graph(NODES, IN), network_of(name)
    order = np.random.default_rng(3).permutation(NODES)
    edges = np.sort(np.argsort(order)[graph.edge_index], axis=0)
    moved = graph_of(edges, sp.csr_array(graph.x[order]))
    before = network(GraphTensors.of(graph))
    if name == "glognn":  # its weights of nodes move with them
        network.backbone.of_nodes.data = network.backbone.of_nodes.data[order]
    torch.testing.assert_close(network(GraphTensors.of(moved)), before[order], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_dropout_follows_the_generator_and_gradients_reach_every_parameter(name):
    network, tensors = network_of(name), GraphTensors.of(random_graph(NODES, IN))
    first, again, other = (network(tensors, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    first.square().sum().backward()
    silent = {key for key, p in network.named_parameters() if p.grad is None or p.grad.abs().sum() == 0}
    waiting = {"head.of_local.weight", "head.of_local.bias"}  # for a warm-up
    assert silent == (waiting if name == "polynormer" else set())


@pytest.mark.parametrize("name", READING)
def test_labels_are_read_as_more_features(name):
    spec, layers = NETWORKS[name]
    layers = 1 if name == "gbk-gnn" else layers  # its further layers read them again
    graph, y = random_graph(NODES, IN, sparse=False), torch.randn(NODES, 1, LABELS)
    torch.manual_seed(0)
    reading = make_backbone(spec, IN, WIDTH, layers, LABELS)
    wider = make_backbone(spec, IN + LABELS, WIDTH, layers, 1)
    state = reading.state_dict()
    state["convs.0.weight"] = nn.functional.pad(state["convs.0.weight"], (0, 0, 0, 1))  # of a label that is 0
    wider.load_state_dict(state)
    tensors = GraphTensors.of(graph, "raw")
    expected = wider(
        wider.encode(tensors, torch.cat([tensors.x, y[:, 0]], dim=1)), tensors, y[..., :1] * 0, torch.ones(1, WIDTH)
    )
    found = reading(reading.encode(tensors), tensors, y, torch.ones(1, WIDTH))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert found.shape[-1] == reading.out_channels


@pytest.mark.parametrize("name", ["glognn(num_nodes=14)", "cpgnn"])
def test_networks_that_read_no_labels_are_no_denoisers(name):
    with pytest.raises(InputError, match=r"reads no labels.*plain classifier.*h2gcn"):
        Denoiser(name, IN, CLASSES)


def test_fagcn_layer_is_that_of_pyg_without_self_loops():
    graph = random_graph(NODES, IN)
    conv, reference = FAConv(WIDTH, 0.3, 0.5), pyg.FAConv(WIDTH, eps=0.3, add_self_loops=False)
    nn.init.zeros_(conv.gate.bias)  # PyG has none
    reference.att_r.weight.data, reference.att_l.weight.data = conv.gate.weight.data.chunk(2)
    h, h_0 = torch.randn(NODES, 2, WIDTH), torch.randn(NODES, 2, WIDTH)
    expected = torch.stack([reference(h[:, b], h_0[:, b], both_directions(graph)) for b in range(2)], dim=1)
    torch.testing.assert_close(conv(h, h_0, GraphTensors.of(graph)), expected, atol=1e-5, rtol=1e-5)


def test_rings_are_made_in_parts_and_too_large_ones_are_refused(monkeypatch):
    A = random_graph(NODES, IN).adjacency
    whole = two_hop.ring(A).toarray()
    monkeypatch.setattr(two_hop, "WALKS_AT_A_TIME", 7)
    np.testing.assert_array_equal(two_hop.ring(A).toarray(), whole)
    monkeypatch.setattr(two_hop, "MOST_PAIRS", int(whole.sum()) - 1)
    with pytest.raises(InputError, match=r"two steps apart.*h2gcn\(shared=4\)"):
        two_hop.ring(A)
    assert two_hop.ring(sp.csr_array((3, 3))).nnz == 0


def test_weights_of_filters_do_not_decay():
    for name, free in (("gpr-gnn", {"gamma"}), ("jacobiconv", {"t", "coefficients"}), ("gbk-gnn", set())):
        network = network_of(name)
        decaying, *others = parameter_groups(network)
        names = {id(p): key.rpartition(".")[2] for key, p in network.named_parameters()}
        assert {names[id(p)] for group in others for p in group["params"]} == free
        assert len(decaying["params"]) + sum(len(g["params"]) for g in others) == len(names)
        assert all(group["weight_decay"] == 0 for group in others)


def test_gates_learn_whether_both_ends_of_an_edge_have_one_class():
    graph, network = random_graph(NODES, IN), network_of("gbk-gnn")
    network.backbone.dropout = 0.0
    tensors, (A, x) = GraphTensors.of(graph, "raw"), dense(graph)
    y = torch.tensor([0, 1, 2, 0, 1, -1, 0, 1, -1, 2, 0, 1, 2, 0])
    assert penalties(network, tensors, y) == 0
    network(tensors, torch.Generator())
    found, p, h, expected = penalties(network, tensors, y), doubles(network), x, 0.0
    both = (A > 0) & (y != -1)[:, None] & (y != -1)
    for layer in (0, 1):
        g = gates(p[f"backbone.convs.{layer}.weight"], h)[both]
        expected += nn.functional.binary_cross_entropy(g, (y[:, None] == y)[both].double())
        h = torch.relu(network.backbone.convs[0](network.backbone.encode(tensors), None, tensors))[:, 0].double()
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)
    assert penalties(network, tensors, y) == 0  # each pass counts once
    network(tensors, torch.Generator())
    assert penalties(network, tensors, torch.full((NODES,), -1)) == 0


def test_compatibilities_begin_with_the_labels_of_neighbours():
    # a path a-b-a-b-?-b: neighbours of known nodes are of the other class, but for what the network says of one
    graph = graph_of(np.array([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]), np.eye(6, dtype=np.float32))
    y, P = torch.tensor([0, 1, 0, 1, -1, 1]), torch.full((6, 2), 0.5)
    P[4] = torch.tensor([0.8, 0.2])
    H = compatibility(P, GraphTensors.of(graph).operator("mean"), y)
    # of class a every neighbour is b; of b: node 1 sees a, a; node 3 sees a and .8/.2; node 5 sees .8/.2
    raw = np.array([[1e-6, 1], [(1 + 0.9 + 0.8) / 3, (0.1 + 0.2) / 3]])
    for _ in range(3000):
        raw = raw / raw.sum(axis=0)
        raw = raw / raw.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(H, (raw + raw.T) / 2 - 0.5, atol=1e-5)
    missing = compatibility(torch.full((6, 3), 1 / 3), GraphTensors.of(graph).operator("mean"), y)
    assert torch.isfinite(missing).all() and missing.sum(dim=1).abs().max() < 1e-4


def test_cpgnn_is_warmed_up_without_the_graph_then_starts_and_adds_its_terms():
    graph, network = random_graph(NODES, IN), network_of("cpgnn")
    tensors, y = GraphTensors.of(graph, "raw"), torch.arange(NODES) % 3
    drawn = network.head.compatibility.detach().clone()
    with warming_up(network) as epochs:
        assert epochs == 200
        alone = network(tensors)
        start_from(network, tensors, y)
    p, (A, x) = doubles(network), dense(graph)
    h = torch.relu(x @ p["backbone.convs.0.weight"] + p["backbone.convs.0.bias"])
    R = h @ p["head.weight"] + p["head.bias"]
    torch.testing.assert_close(alone.double(), R, atol=1e-5, rtol=1e-5)
    assert not torch.equal(network.head.compatibility, drawn)
    torch.testing.assert_close(network(tensors).double(), cpgnn(p, A, x), atol=1e-5, rtol=1e-5)
    nn.init.normal_(network.head.compatibility)
    network.backbone.dropout = 0.0
    network(tensors, torch.Generator())
    expected = nn.functional.cross_entropy(R, y) + network.head.compatibility.sum(dim=1).abs().sum()
    torch.testing.assert_close(penalties(network, tensors, y).double(), expected.double(), atol=1e-5, rtol=1e-5)


def test_rings_do_not_mind_weights():
    graph = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)], edge_weight=[0.1, 2, 3, 0.2, 0.3])
    plain = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
    np.testing.assert_array_equal(two_hop.ring(graph.adjacency).toarray(), two_hop.ring(plain.adjacency).toarray())
