import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc.config import Guidance, Sampling
from dpmsnc.diffusion.guidance import Guided
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.diffusion.sampler import Ancestral, Noise
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.nn.backbones.gat import Edges
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import ReceptiveField
from random_graphs import random_graph

CLASSES = 3


def labelled(graph, nodes, batch=1):
    mask = torch.zeros(graph.num_nodes, batch, dtype=torch.bool)
    mask[nodes] = True
    y = torch.nn.functional.one_hot(torch.arange(graph.num_nodes) % CLASSES, CLASSES).double().unsqueeze(1)
    return Known(mask, y * mask.unsqueeze(-1))


def test_a_receptive_field_holds_the_nodes_within_so_many_hops():
    graph = random_graph()
    tensors = GraphTensors.of(graph)
    receptive_field = ReceptiveField(tensors, torch.arange(graph.num_nodes) == 3, num_layers=3)
    away = nx.single_source_shortest_path_length(nx.from_scipy_sparse_array(graph.adjacency), 3)
    for hops in range(4):
        expected = {node for node, distance in away.items() if distance <= hops}
        assert set(receptive_field.index[: receptive_field.counts[hops]].tolist()) == expected
        assert set(receptive_field.nodes(2 - hops).tolist()) == expected
    A = tensors.operator("gcn").matrix.to_dense()
    part = receptive_field.operator("gcn", layer=1)
    np.testing.assert_array_equal(part.matrix.to_dense(), A[receptive_field.nodes(1)][:, receptive_field.nodes(0)])


@pytest.mark.parametrize("parameterisation", ["epsilon", "label"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("chunk", [2**20, 8])
def test_the_short_way_back_is_the_gradient(parameterisation, num_layers, chunk, monkeypatch):
    monkeypatch.setattr("dpmsnc.nn.denoiser.CHUNK", chunk)
    torch.manual_seed(0)
    graph = random_graph()
    objective = Objective(Schedule(10), parameterisation)
    improved = ("gcn", {"improved": True})
    denoiser = Denoiser(improved, graph.num_features, CLASSES, 8, num_layers).double().requires_grad_(False)
    tensors = GraphTensors.of(graph, dtype=torch.float64)
    known = labelled(graph, [0, 5])
    posterior = Posterior(denoiser, objective, tensors, known, Sampling())
    y_t = torch.randn(graph.num_nodes, 4, CLASSES, dtype=torch.float64)
    label_gradient = posterior.label_gradient(known)
    estimate = posterior.estimate(y_t, 4, None, label_gradient.recorder())
    r2, gradient = label_gradient(estimate, 4)
    leaf = y_t.clone().requires_grad_()
    expected_r2 = ((known.y - posterior.estimate(leaf, 4, None).y0) * known.mask.unsqueeze(-1)).square().sum(dim=(0, 2))
    (expected,) = torch.autograd.grad(expected_r2.sum(), leaf)
    torch.testing.assert_close(r2, expected_r2.detach())
    found = torch.zeros_like(expected).index_copy_(0, label_gradient.receptive_field.index, gradient)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat", "gcn(input_layer=True, norm='batch', residual=True)"])
def test_guided_steps_agree_whichever_way_the_gradient_comes(backbone):
    torch.manual_seed(0)
    graph = random_graph()
    denoiser = Denoiser(backbone, graph.num_features, CLASSES, 8).double().requires_grad_(False)
    tensors = GraphTensors.of(graph, dtype=torch.float64)
    known = labelled(graph, [1, 2])
    posterior = Posterior(denoiser, Objective(Schedule(10)), tensors, known, Sampling(method="ancestral"))
    y_t = torch.randn(graph.num_nodes, 2, CLASSES, dtype=torch.float64)
    label_gradient = posterior.label_gradient(known)
    assert (label_gradient is not None) == (backbone == "gcn")

    def denoise(y, t):
        return posterior.estimate(y, t, None, None if label_gradient is None else label_gradient.recorder())

    steps = [Guided(Ancestral(Schedule(10)), known, Guidance(), way) for way in (label_gradient, None)]
    first, second = (step(denoise, y_t, 5, 4, Noise(1.0, torch.Generator().manual_seed(0)))[0] for step in steps)
    torch.testing.assert_close(first, second)


def test_samples_known_on_different_nodes_are_each_pulled_by_their_own():
    """After a progressive round every sample has its own known nodes."""
    torch.manual_seed(0)
    graph = random_graph()
    denoiser = Denoiser("gcn", graph.num_features, CLASSES, 8).double().requires_grad_(False)
    tensors = GraphTensors.of(graph, dtype=torch.float64)
    both = labelled(graph, [1, 2], batch=2)
    both.mask[2, 0] = False
    both = Known(both.mask, both.y * both.mask.unsqueeze(-1))
    y_t = torch.randn(graph.num_nodes, 2, CLASSES, dtype=torch.float64)
    found = []
    for known, part in ((both, y_t), (labelled(graph, [1]), y_t[:, :1]), (labelled(graph, [1, 2]), y_t[:, 1:])):
        posterior = Posterior(denoiser, Objective(Schedule(10)), tensors, known, Sampling())
        label_gradient = posterior.label_gradient(known)
        step = posterior.step(known, label_gradient)

        def denoise(y, t, posterior=posterior, label_gradient=label_gradient):
            return posterior.estimate(y, t, None, label_gradient.recorder())

        y_s, _ = step(denoise, part, 5, 4, Noise(0.0, None))
        found.append(y_s)
    torch.testing.assert_close(found[0], torch.cat(found[1:], dim=1))


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_with_no_label_known_guided_samples_are_plain_samples(backbone):
    torch.manual_seed(0)
    graph = random_graph()
    denoiser = Denoiser(backbone, graph.num_features, CLASSES, 8).double().requires_grad_(False)
    tensors = GraphTensors.of(graph, dtype=torch.float64)
    posterior = Posterior(denoiser, Objective(Schedule(10)), tensors, labelled(graph, []), Sampling(steps=5))
    assert posterior.sample(2, 1.0, torch.Generator().manual_seed(0)).shape == (graph.num_nodes, 2)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_what_sampling_caches_can_be_trained_with(backbone):
    torch.manual_seed(0)
    graph = random_graph()
    tensors = GraphTensors.of(graph)
    denoiser = Denoiser(backbone, graph.num_features, CLASSES, 8)
    with torch.inference_mode():
        denoiser(torch.zeros(graph.num_nodes, 1, CLASSES), 3, denoiser.encode(tensors))
    if backbone == "gcn":
        assert not tensors.operator("gcn").matrix.is_inference()
    else:
        edges = Edges.of(tensors)
        assert not any(part.is_inference() for part in (edges.column, edges.row_start, edges.reverse))
