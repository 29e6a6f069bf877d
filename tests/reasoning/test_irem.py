"""IREM: what it begins at, and the replay buffer."""

import numpy as np
import pytest
import torch

from dpmsnc.errors import InputError
from dpmsnc.estimators.base import METHODS
from dpmsnc.graph import Graph
from dpmsnc.reasoning import methods  # noqa: F401 (which registers them)
from dpmsnc.reasoning.irem import STORED, joined
from dpmsnc.reasoning.tasks import TASKS, TaskStream, generator

STREAM = TaskStream("shortest_path", num_validation=2)


def model(steps=4, **settings):
    made = METHODS["irem"].build(0, steps=steps, hidden_channels=8, num_layers=1, **settings)
    return made.set_params(training__batch_size=32, training__evaluate_every=2)


def watched(steps):
    """What the source of training did: the blocks of every step, and its buffer at the end."""
    blocks, trainers = [], []

    def watch(trainer):
        blocks.append(list(trainer.source.blocks))
        trainers.append(trainer)

    model(steps).fit(STREAM, progress=watch)
    return blocks, trainers[-1].source


def test_graphs_return_with_the_labels_they_were_left_with():
    blocks, source = watched(12)
    stored = [block[~block[:, 2, 0, 0].isnan()] for step in blocks for block in step]
    assert all(block.isnan().any() for block in blocks[0]) and sum(map(len, stored)) > 0
    source.store()
    left = {tuple(block[2].flatten().tolist()) for block in source.buffer}
    again = [tuple(labels.flatten().tolist()) for group in stored for labels in group[:, 2]]
    assert set(again) <= left
    answers = TASKS["shortest_path"].answer
    for block in list(source.buffer)[:20]:
        torch.testing.assert_close(answers(block[:1]), block[1:2])
    graphs = 12 * 32
    assert 0.3 * STORED * graphs < len(source.buffer) - sum(map(len, stored)) < 3 * STORED * graphs


def test_descent_begins_at_the_stored_labels():
    _, source = watched(12)
    drawn = source.draw()
    start = torch.cat([block[:, 2].flatten() for block in source.blocks])
    replayed = ~start.isnan()
    torch.testing.assert_close(drawn.eps.flatten()[replayed], start[replayed])
    assert replayed.any() and source.objective.corrupt(drawn.y_0, drawn.t, drawn.eps) is drawn.eps


def test_graphs_of_one_size_are_joined():
    fresh = [TASKS["shortest_path"].draw(3, n, generator(0, "train")) for n in (2, 4)]
    blocks = joined(fresh, [torch.ones(3, 4, 4), torch.ones(3, 3, 3)])
    assert [block.shape for block in blocks] == [(3, 3, 2, 2), (4, 3, 4, 4), (1, 3, 3, 3)]


def test_training_that_was_stopped_goes_on_with_its_buffer(tmp_path):
    class Stop(Exception):
        pass

    def stop(trainer):
        if trainer.step == 5:
            raise Stop

    path, whole = tmp_path / "checkpoint", model(8).fit(STREAM)
    with pytest.raises(Stop):
        model(8).fit(STREAM, checkpoint=path, progress=stop)
    resumed = model(8).fit(STREAM, checkpoint=path, resume=True)
    for name, weight in whole.denoiser_.state_dict().items():
        assert torch.equal(weight, resumed.denoiser_.state_dict()[name])


def test_the_users_own_graphs_are_learned_from():
    rng = np.random.default_rng(0)
    graph = Graph.build([(i, j) for i in range(5) for j in range(i)], edge_y=rng.normal(size=10))
    unknown = graph.with_labels(np.where(rng.random(10) < 0.5, np.nan, graph.y), graph.target)
    made = model(conditioning="amortised").set_params(training__batch_size=None)
    answer = made.fit(unknown, validation=None).predict()
    np.testing.assert_array_equal(answer[unknown.known], unknown.y[unknown.known])


def test_known_labels_do_not_guide_a_descent():
    fitted = model(1).fit(STREAM)
    with pytest.raises(InputError, match="amortised"):
        fitted.predict(np.zeros((1, 3, 3)), np.zeros((1, 3, 3)))
