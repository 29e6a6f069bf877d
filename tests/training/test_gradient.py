import pytest
import torch

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.gradient import Draw, accumulate
from random_graphs import random_graph

CLASSES, DRAWS = 3, 6


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gcnii", "sage(normalize=True)", "gin"])
@pytest.mark.parametrize("times", ["draws", "nodes"])
@pytest.mark.parametrize("size", [2, 1.6, 0.5])
def test_the_gradient_does_not_depend_on_how_draws_are_parted(backbone, times, size, monkeypatch):
    torch.manual_seed(0)
    graph = random_graph()
    tensors = GraphTensors.of(graph, dtype=torch.float64)
    denoiser = Denoiser(backbone, graph.num_features, CLASSES, 8, shows_known=True).double()
    objective = Objective(Schedule(10), "label")
    shape = (graph.num_nodes, DRAWS)
    y_0 = torch.rand(*shape, CLASSES, dtype=torch.float64).softmax(dim=-1)
    eps, weights = torch.randn_like(y_0), torch.rand(shape, dtype=torch.float64)
    t = torch.randint(1, 11, (DRAWS,) if times == "draws" else shape)
    shown = Known(torch.rand(shape) < 0.3, y_0)
    keep = (torch.rand(*shape, 1) < 0.8).double()

    def gradient(chunk):
        monkeypatch.setattr("dpmsnc.nn.denoiser.CHUNK", chunk)
        denoiser.zero_grad()
        loss = accumulate(denoiser, objective, Draw(tensors, y_0, t, eps, weights, shown, keep), None)
        return loss, [p.grad.clone() for p in denoiser.parameters()]

    whole, parts = gradient(2**20), gradient(int(8 * graph.num_nodes * size))
    assert whole[0] == pytest.approx(parts[0], rel=1e-12)
    for one, other in zip(whole[1], parts[1]):
        torch.testing.assert_close(one, other)

    monkeypatch.undo()
    denoiser.zero_grad()
    context = denoiser.encode(tensors)
    seen = type(context)(context.encoded * keep, tensors)
    y_t = objective.corrupt(y_0, t, eps)
    loss = (weights * objective.loss(denoiser(objective.scale_input(y_t, t), t, seen, shown), y_0, eps, t)).sum()
    loss.backward()
    assert whole[0] == pytest.approx(loss.item(), rel=1e-12)
    for one, parameter in zip(whole[1], denoiser.parameters()):
        torch.testing.assert_close(one, parameter.grad)
