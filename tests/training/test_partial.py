"""Algorithm 1: what may be learned from, what must not, and that stopping is harmless."""

from dataclasses import replace

import pytest
import torch

from dpmsnc.config import Sampling, Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.partial import PartlyLabelled
from dpmsnc.training.trainer import Trainer

TASK = grid_scattered(columns=20, seed=0)
LABELS = torch.from_numpy(TASK.truth)
TRAIN, VALIDATION, TEST = (torch.from_numpy(mask) for mask in (TASK.train, TASK.validation, TASK.test))
OPTIONS = Training(steps=40, refresh_every=10, initialiser_refreshes=2, evaluate_every=10)


def trainer(labels=LABELS, amortised=True, options=OPTIONS, progressive=0.0):
    torch.manual_seed(0)
    optimiser = Optimiser(Denoiser("gcn", 1, 2, hidden_channels=8, num_layers=2, shows_known=amortised), options)
    objective = Objective(Schedule(num_steps=10), "label", target=TASK.graph.target)
    generator, sampling = torch.Generator().manual_seed(0), Sampling(steps=5, progressive=progressive)
    tensors, initial = GraphTensors.of(TASK.graph), torch.full((40, 2), 0.5)
    source = PartlyLabelled(
        optimiser, objective, tensors, labels, TRAIN, VALIDATION, initial, options, sampling, generator
    )
    return Trainer(optimiser, objective, source, options, generator)


def entries(running):
    return running.source.buffer.entries


def weights(running):
    return torch.cat([value.detach().flatten() for value in running.denoiser.parameters()])


@pytest.mark.parametrize("amortised", [True, False], ids=["amortised", "guided"])
def test_poisoned_test_labels_change_nothing(amortised):
    poisoned = torch.where(TEST, 1 - LABELS, LABELS)
    honest, other = trainer(LABELS, amortised), trainer(poisoned, amortised)
    honest.run(), other.run()
    assert torch.equal(weights(honest), weights(other)) and torch.equal(entries(honest), entries(other))
    assert honest.history == other.history


@pytest.mark.parametrize("amortised", [True, False], ids=["amortised", "guided"])
def test_validation_labels_never_reach_conditioning_or_the_buffer(amortised):
    poisoned = torch.where(VALIDATION, 1 - LABELS, LABELS)
    honest, other = trainer(LABELS, amortised), trainer(poisoned, amortised)
    honest.run(), other.run()
    assert torch.equal(weights(honest), weights(other)) and torch.equal(entries(honest), entries(other))
    assert honest.history.validation_score != other.history.validation_score  # this is all they are for


def test_training_labels_do_matter():
    honest, other = trainer(LABELS), trainer(torch.where(TRAIN, 1 - LABELS, LABELS))
    honest.run(), other.run()
    assert not torch.equal(weights(honest), weights(other))


@pytest.mark.parametrize("stopped_at", [7, 10, 33])
def test_a_run_continued_from_its_state_ends_with_the_same_weights(stopped_at):
    whole, first, second = trainer(progressive="auto"), trainer(progressive="auto"), trainer(progressive="auto")
    whole.run()

    class Stopped(Exception):
        pass

    def stop(running):
        if running.step == stopped_at:
            raise Stopped

    with pytest.raises(Stopped):
        first.run(stop)
    tensors, values = first.state()
    second.load_state({name: value.clone() for name, value in tensors.items()}, values)
    second.run()
    assert torch.equal(weights(whole), weights(second))
    assert all(torch.equal(whole.best[name], second.best[name]) for name in whole.best)
    assert whole.history == second.history


def test_a_collapsed_sample_never_enters_the_buffer(monkeypatch):
    source = trainer().source
    source.refresh(0)
    before = source.buffer.entries.clone()
    monkeypatch.setattr(Posterior, "sample", lambda self, count, *_: torch.zeros(40, count, dtype=torch.long))
    source.refresh(OPTIONS.refresh_every * OPTIONS.initialiser_refreshes)
    assert torch.equal(source.buffer.entries, before)
    assert source.buffer.refused == OPTIONS.samples_per_refresh


def test_the_guard_against_collapsed_samples_can_be_switched_off(monkeypatch):
    source = trainer(options=replace(OPTIONS, refuse_collapsed=False)).source
    source.refresh(0)
    monkeypatch.setattr(Posterior, "sample", lambda self, count, *_: torch.zeros(40, count, dtype=torch.long))
    source.refresh(OPTIONS.refresh_every * OPTIONS.initialiser_refreshes)
    entered = source.buffer.entries[-OPTIONS.samples_per_refresh :]
    assert (entered[:, ~TRAIN] == 0).all() and source.buffer.refused == 0


def test_hidden_and_unlabelled_nodes_share_the_loss_as_told():
    source = trainer(options=Training(unlabelled_weight=0.5, time_draws=3)).source
    source.refresh(0)
    shown = source.show()
    assert (shown.mask <= TRAIN.unsqueeze(1)).all()
    weight = source.row_weights(shown)
    assert (weight[shown.mask] == 0).all()
    assert weight[~TRAIN].sum().item() == pytest.approx(0.5)
    hidden = TRAIN.unsqueeze(1) & ~shown.mask
    assert weight[hidden].sum().item() == pytest.approx(1.0)


def test_average_over_nodes_is_the_papers_plain_mean():
    options = Training(unlabelled_weight=1.0, average_over="nodes", time_draws=2)
    source = trainer(amortised=False, options=options).source
    source.refresh(0)
    assert torch.allclose(source.row_weights(None), torch.full((40, 1), 1 / 80))


def test_without_averaging_the_sampling_weights_are_the_raw_ones():
    running = trainer(options=Training(steps=5, averaging=0.0, evaluate_every=5))
    running.run()
    averaged = running.optimiser.averaged.state_dict()
    assert all(torch.equal(averaged[name], value) for name, value in running.denoiser.named_parameters())


def test_stops_when_validation_no_longer_improves_and_keeps_the_best():
    running = trainer(options=Training(steps=1000, evaluate_every=5, patience=3, refresh_every=10))
    scores = iter([0.5, 0.6, 0.7, 0.7, 0.6, 0.5])
    running.source.score_with = lambda share: next(scores)
    running.run()
    assert running.step == 30 and running.best_step == 20 and running.best_score == 0.7


def test_validation_nodes_that_were_drawn_evenly_count_by_the_shares_of_their_classes():
    options = (replace(OPTIONS, class_shares=name) for name in ("as-validation", "estimated"))
    plain, weighed = (trainer(options=one).source for one in options)
    weighed.initial[~TRAIN] = torch.tensor([0.8, 0.2])
    weighed.class_weight = weighed.estimated_weight()
    y = LABELS[VALIDATION]
    assert plain.class_weight is None and set(y.tolist()) == {0, 1}
    assert weighed.class_weight[y == 0].sum() == pytest.approx(0.8)
    for source, expected in ((plain, (y == 0).double().mean()), (weighed, 0.8)):
        assert source.rate(torch.zeros_like(LABELS)) == pytest.approx(float(expected))
    options = replace(OPTIONS, class_shares="estimated")
    resumed = trainer(options=options).source  # with an initialiser that says nothing
    resumed.load_state(*weighed.state())
    assert torch.equal(resumed.class_weight, weighed.class_weight)
    few = trainer(options=OPTIONS).source  # "auto": not even, or too few of each
    assert few.class_weight is None


def test_a_run_may_begin_with_the_models_own_samples():
    running = trainer(options=replace(OPTIONS, initialiser_refreshes=0))
    running.source.refresh(0)
    running.update(running.source.draw())
    assert len(entries(running)) == OPTIONS.samples_per_refresh


@pytest.mark.parametrize("gain, adopted", [(0.0, 0.0), (0.009, 0.0), (0.01, 0.1)])
def test_rounds_are_adopted_only_where_they_gain_a_point(monkeypatch, gain, adopted):
    running = trainer(progressive="auto")
    monkeypatch.setattr(running.source, "score_with", lambda share: 0.8 + gain * (share > 0))
    running.evaluate()
    assert running.source.rounds.share == running.source.rounds.best_share == adopted
    assert running.best_score == pytest.approx(0.8 + gain * (adopted > 0))


def test_without_validation_there_is_nothing_to_choose_rounds_by(monkeypatch):
    monkeypatch.setattr("test_partial.VALIDATION", torch.zeros_like(VALIDATION))
    assert trainer(progressive="auto").source.rounds.shares == [0.0]


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_training_with_advice(monkeypatch, loss):
    monkeypatch.setattr("dpmsnc.training.trainer.accumulate", lambda *arguments: loss)
    with pytest.raises(InputError, match="lower training"):
        trainer().run()
