"""Training on many graphs: times of their own, and what is shown."""

import numpy as np
import pytest
import torch

from dpmsnc.config import Training
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.full import FullyLabelled, LabelledGraphs
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.trainer import Trainer

PATH = Graph.build([(0, 1), (1, 2)], x=np.eye(3), y=[0, 1, 0], classes=[0, 1])
CYCLE = Graph.build([(0, 1), (1, 2), (2, 3), (3, 0)], x=np.ones((4, 3)), y=[0, 1, 0, 1], classes=[0, 1])


def trainer(shows_known: bool, parameterisation: str = "label", **options: float) -> Trainer:
    torch.manual_seed(0)
    denoiser = Denoiser("sage", 3, 2, hidden_channels=8, num_layers=2, dropout=0.0, shows_known=shows_known)
    objective = Objective(Schedule(20), parameterisation, target=PATH.target)  # type: ignore[arg-type]
    batches = [LabelledGraphs.of([PATH, CYCLE] * 10), LabelledGraphs.of([CYCLE, CYCLE])]
    settings, generator = Training(**options), torch.Generator().manual_seed(0)  # type: ignore[arg-type]
    optimiser = Optimiser(denoiser, settings)
    source = FullyLabelled(optimiser, objective, batches, settings, generator)
    return Trainer(optimiser, objective, source, settings, generator)


def test_a_node_without_a_label_is_known_to_be_one():
    batch = LabelledGraphs.of([PATH.with_labels(np.array([0, 1, -1])), CYCLE])
    assert batch.known.tolist() == [True, True, False] + [True] * CYCLE.num_nodes


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gcnii", "sage", "gin"])
def test_a_time_for_every_graph_gives_what_each_graph_alone_gives(backbone):
    torch.manual_seed(0)
    denoiser = Denoiser(backbone, 3, 2, hidden_channels=8, num_layers=2, dropout=0.0)
    y_t = torch.randn(7, 3, 2)
    t = torch.tensor([[1, 5, 9], [20, 5, 2]])
    member = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    together = denoiser(y_t, t[member], denoiser.encode(GraphTensors.of(GraphBatch.of([PATH, CYCLE]).graph, "raw")))
    for k, graph in enumerate([PATH, CYCLE]):
        alone = denoiser(y_t[member == k], t[k], denoiser.encode(GraphTensors.of(graph, "raw")))
        assert torch.allclose(together[member == k], alone, atol=1e-6)


def test_each_graph_has_one_time_and_one_labelling_in_each_draw():
    running = trainer(shows_known=False, time_draws=5).source
    labels = torch.tensor([[0, 1], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1], [1, 0]])
    batch = LabelledGraphs.of([PATH, CYCLE], labels)
    t, y = running.times(batch), running.labels(batch).argmax(dim=-1)
    for k in range(2):
        mine = batch.member == k
        assert (t[mine] == t[mine][:1]).all()
        assert all(any(torch.equal(y[mine, d], labels[mine, c]) for c in range(2)) for d in range(5))
    assert len(running.times(running.batches[0]).unique()) == 20


def test_shares_shown_differ_between_graphs_and_a_guided_model_is_shown_nothing():
    running = trainer(shows_known=True, time_draws=200).source
    batch = running.batches[1]
    y_0 = running.labels(batch)
    shown = running.show(batch, y_0)
    assert shown is not None and torch.equal(shown.y, y_0 * shown.mask.unsqueeze(-1))
    counts = shown.mask.view(2, 4, -1).sum(dim=1)
    assert counts.unique().tolist() == [0, 1, 2, 3, 4] and not torch.equal(counts[0], counts[1])
    assert trainer(shows_known=False).source.show(batch, y_0) is None


@pytest.mark.parametrize("parameterisation", ["label", "epsilon"])
@pytest.mark.parametrize("shows_known", [False, True])
def test_training_lowers_the_loss_and_repeats_itself(parameterisation, shows_known):
    runs = []
    for _ in range(2):
        running, losses = trainer(shows_known, parameterisation, steps=150, learning_rate=0.01), []
        running.run(lambda r, losses=losses: losses.append(r.loss))
        runs.append(losses)
    assert runs[0] == runs[1]
    assert np.mean(runs[0][-30:]) < 0.9 * np.mean(runs[0][:10])
