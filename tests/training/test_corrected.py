"""A network that corrects its initialiser: where it begins, what it learns from, and what it answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpmsnc import NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines.crf import CRF
from dpmsnc.config import Guidance
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.posterior import Beliefs
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.chains import Chains
from dpmsnc.training.corrected import REFRESH_EVERY, Corrected, ahead, sharpness
from pairwise_models import bipartite_tree
from random_graphs import random_graph

pytestmark = pytest.mark.usefixtures("brief_couplings")
NUM_NODES = 60
STILL = Training(steps=2, evaluate_every=2, learning_rate=0.0)
"""Nothing is learned."""
INITIALISERS: dict[float | None, CRF] = {}
"""By the share of validation labels."""


def two_coloured_tree(num_nodes: int = NUM_NODES) -> tuple[Graph, NDArray[np.int64]]:
    """A tree with a quarter of the labels of its two-colouring, and the whole of it."""
    graph, truth = bipartite_tree(num_nodes, 0)
    y = np.where(np.arange(num_nodes) % 4 == 0, truth, UNKNOWN)
    return Graph.build(graph.edge_index.T, num_nodes=num_nodes, y=y.tolist(), classes=[0, 1]), truth


def classifier(training: Training = STILL, **settings: Any) -> NodeClassifier:
    defaults: dict[str, Any] = {"hidden_channels": 8, "schedule": Schedule(10), "sampling": Sampling(steps=5)}
    return NodeClassifier(training=training, device="cpu", **({"initialiser": "uniform"} | defaults | settings))


def trainer(validation: Any = 0.3, **options: Any) -> Any:
    """A trainer that has not begun, and whose source is `Corrected`."""
    graph, _ = two_coloured_tree()
    model = classifier(Training(**({"steps": 40, "evaluate_every": 20, "time_draws": 6} | options)))
    model.train_, model.validation_ = graph.known.copy(), np.zeros(NUM_NODES, bool)
    if validation is not None:
        held_back = np.flatnonzero(graph.known)[:: round(1 / validation)]
        model.train_[held_back], model.validation_[held_back] = False, True
    model._take(graph, model._fit_features(graph))
    y_train, y_validation = (np.where(mask, graph.y, UNKNOWN) for mask in (model.train_, model.validation_))
    if validation not in INITIALISERS:
        INITIALISERS[validation] = model._fit_initialiser(graph, y_train, y_validation)
    model._fit_initialiser = lambda *arguments: INITIALISERS[validation]  # fitted once for all tests
    running = model._trainer(graph, y_train, y_validation)
    assert isinstance(running.source, Corrected)
    return running


@pytest.mark.parametrize(
    "settings",
    [
        {"initialiser": "lp"},
        {"initialiser": ("gcn", {"epochs": 5}), "head_layers": 2},
        {"conditioning": "guided", "sampling": Sampling(steps=5, guidance=Guidance(strength=0.0))},
    ],
)
def test_a_network_that_learned_nothing_is_its_initialiser(settings):
    graph, _ = two_coloured_tree()
    model = classifier(**settings).fit(graph, validation=None)
    for asked in (graph, graph.with_labels(np.full(NUM_NODES, UNKNOWN))):
        expected = model.initialiser_._marginals(asked, asked.y)
        found = model.predict_proba(asked, clamp_known=False, num_samples=2)
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_marginals_are_those_of_the_initialiser_raised_to_the_sharpness():
    graph, _ = two_coloured_tree()
    model = classifier().fit(graph, validation=None)
    assert model.sharpness_ == 1  # there is nothing to calibrate by
    model.sharpness_ = 0.5
    q = model.initialiser_._marginals(graph, graph.y).clip(1e-6) ** model.sharpness_
    expected = q / q.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(clamp_known=False, num_samples=2), expected, atol=1e-3)


class IndependentLabels:
    """The denoiser of labels that are drawn one by one with the same probabilities."""

    most_samples = 1000

    def __init__(self, p: list[float]) -> None:
        self.log_p = torch.tensor(p).log()

    def given(self, known: Known) -> Beliefs:
        return lambda evidence: self.log_p + evidence

    def begin(self, known: Known, num_samples: int, noise: object, logits: object) -> Known:
        return known


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
def test_samples_are_as_sharp_as_marginals(monkeypatch, sharpness: float):
    graph, _ = two_coloured_tree()
    model = classifier().fit(graph, validation=None)
    monkeypatch.setattr(model, "sharpness_", sharpness)
    monkeypatch.setattr(model.initialiser_, "asked_denoiser", lambda graph: IndependentLabels([0.3, 0.7]))
    path = Graph.build([(i, i + 1) for i in range(49)], num_nodes=50, classes=[0, 1])
    odds = (0.7 / 0.3) ** sharpness
    np.testing.assert_allclose(model.predict_proba(path)[:, 1], odds / (1 + odds), atol=1e-4)
    assert (model.sample(200, path, seed=0) == 1).mean() == pytest.approx(odds / (1 + odds), abs=0.02)
    np.testing.assert_array_equal(model.sample(1, path, temperature=0)[0], model.predict(path))


def test_the_initialiser_is_asked_again_when_labels_are_known():
    graph, _ = two_coloured_tree()
    model = classifier().fit(graph, validation=None)
    path = Graph.build([(i, i + 1) for i in range(5)], num_nodes=6, classes=[0, 1])
    nothing = model.predict_proba(path, num_samples=2)
    for label in (0, 1):
        p = model.predict_proba(path, known={0: label}, num_samples=2)
        assert p[1, 1 - label] > nothing[1, 1 - label] + 0.2 and p[2, label] > nothing[2, label] + 0.1
        assert (p.argmax(axis=1) == (np.arange(6) + label) % 2).all()
        np.testing.assert_allclose(p[1:], model.initialiser_.predict_proba(path, known={0: label})[1:], atol=1e-4)
        assert model.predict(path, known={0: label})[0] == label


def test_joint_samples_of_a_two_colouring_keep_to_it():
    graph, truth = two_coloured_tree()
    model = classifier(Training(steps=150, evaluate_every=50), hidden_channels=16, sampling=Sampling(steps=10))
    model.fit(graph, validation=None)
    i, j = graph.edge_index
    y = model.sample(20, seed=0)
    assert (y[:, graph.known] == graph.y[graph.known]).all()
    assert (y[:, i] != y[:, j]).mean() > 0.9 and (y == truth).mean() > 0.9


@pytest.mark.parametrize("options", [{}, {"head_layers": 2}, {"shows_known": True, "num_layers": 3}])
def test_a_denoiser_that_corrects_begins_as_its_offset(options):
    graph = GraphTensors.of(random_graph())
    offset = torch.randn(20, 1, 3).log_softmax(dim=-1)
    denoiser = Denoiser("gcn", 6, 3, hidden_channels=8, corrects=True, **options)
    posterior_context = denoiser.encode(graph)
    known = Known(torch.arange(20).unsqueeze(1) < 5, torch.zeros(20, 1, 3))
    for batch, of_batch in ((4, offset), (4, torch.randn(20, 4, 3))):
        context = type(posterior_context)(posterior_context.encoded, graph, offset=of_batch)
        y_t = torch.randn(20, batch, 3)
        found = denoiser(y_t, torch.randint(1, 9, (batch,)), context, known, torch.Generator().manual_seed(0))
        assert torch.equal(found, of_batch.expand(-1, batch, -1))


def test_a_denoiser_that_corrects_reads_its_offset():
    graph = GraphTensors.of(random_graph())
    denoiser = Denoiser("gcn", 6, 3, hidden_channels=8, corrects=True)
    torch.nn.init.normal_(denoiser.head[-1].weight, generator=torch.Generator().manual_seed(0))
    y_t, encoded = torch.zeros(20, 1, 3), denoiser.encode(graph)
    first, second = (torch.randn(20, 1, 3, generator=torch.Generator().manual_seed(s)).log_softmax(-1) for s in (1, 2))
    corrections = [denoiser(y_t, 1, type(encoded)(encoded.encoded, graph, offset=o)) - o for o in (first, second)]
    assert not torch.allclose(*corrections)
    assert not denoiser.has_backward


def test_an_offset_of_a_batch_is_cut_with_it(monkeypatch):
    graph = GraphTensors.of(random_graph())
    denoiser = Denoiser("gcn", 6, 3, hidden_channels=8, corrects=True)
    torch.nn.init.normal_(denoiser.head[-1].weight)
    encoded, offset, y_t = denoiser.encode(graph), torch.randn(20, 5, 3), torch.randn(20, 5, 3)
    context, t = type(encoded)(encoded.encoded, graph, offset=offset), torch.arange(1, 6)
    whole = denoiser(y_t, t, context)
    monkeypatch.setattr("dpmsnc.nn.denoiser.CHUNK", 1)
    assert len(denoiser.chunks(20, 5)) == 5
    torch.testing.assert_close(denoiser(y_t, t, context), whole)


def chains(first: int, count: int) -> Chains:
    labels = torch.arange(first, first + count).unsqueeze(1).expand(-1, 3)
    return Chains(labels, labels % 2 == 0, labels[:, 0] % 4)


def test_newer_chains_take_the_place_of_the_oldest():
    both = chains(0, 4).followed_by(chains(4, 4), size=6)
    assert both.labels[:, 0].tolist() == [2, 3, 4, 5, 6, 7]
    assert chains(0, 4).followed_by(chains(4, 4), size=50).labels[:, 0].tolist() == list(range(8))
    assert torch.equal(both.shown, both.labels % 2 == 0)  # all parts of a chain stay together
    assert torch.equal(both.fold, both.labels[:, 0] % 4)


def test_chains_are_drawn_with_all_that_belongs_to_them():
    drawn = chains(0, 5).draw(2000, torch.Generator().manual_seed(0))
    assert torch.equal(drawn.fold, drawn.labels[:, 0] % 4) and torch.equal(drawn.shown, drawn.labels % 2 == 0)
    counts = torch.bincount(drawn.labels[:, 0])
    assert len(counts) == 5 and counts.min() > 300


@pytest.mark.parametrize("own", [False, True])
def test_what_is_shown_is_not_asked_for_and_hidden_labels_are_true(own):
    source = trainer().source
    source.refresh(REFRESH_EVERY if own else 0)
    draw, train = source.draw(), source.train
    mask = draw.shown.mask
    assert (draw.weights[mask] == 0).all() and draw.weights.sum().item() == pytest.approx(1)
    assert len(draw.weights[~mask].unique()) == 1  # every other row counts the same
    assert torch.equal(draw.y_0[train].argmax(dim=-1), source.labels[train].unsqueeze(1).expand(-1, 6))
    hidden = train.unsqueeze(1) & ~mask
    assert hidden.any(dim=0).all() and (hidden.sum(dim=0) <= math.ceil(int(train.sum()) / 4)).all()
    assert bool(mask[~train].any()) == own
    torch.testing.assert_close(draw.shown.y, draw.y_0 * mask.unsqueeze(-1))


def test_pseudo_labels_together_count_for_so_many_true_ones_at_most(monkeypatch):
    monkeypatch.setattr("dpmsnc.training.corrected.MOST_PSEUDO", 5.0)
    source = trainer().source
    source.refresh(0)  # none of its own labels is shown
    draw, train = source.draw(), source.train.unsqueeze(1)
    true = draw.weights[(train & ~draw.shown.mask)].unique()
    assert len(true) == 1
    torch.testing.assert_close((draw.weights * ~train).sum(dim=0), 5 * true.expand(6))


def test_the_offset_of_a_draw_is_the_initial_denoiser_at_its_y_t(monkeypatch):
    monkeypatch.setattr("dpmsnc.pairwise.denoiser.WARM_ITERATIONS", 200)  # so that it converges
    source = trainer().source
    source.refresh(0)
    draw = source.draw()
    evidence = source.objective.evidence(source.objective.corrupt(draw.y_0, draw.t, draw.eps), draw.t)
    hidden = source.train.unsqueeze(1) & ~draw.shown.mask
    fold = torch.stack([source.initialiser.hidden[:, k] for k in range(4)], dim=1)
    of_draw = [int((fold == hidden[:, d : d + 1]).all(dim=0).nonzero()) for d in range(6)]
    denoiser = source.initialiser.denoiser
    theta = denoiser.theta[:, of_draw] + evidence
    expected = denoiser.propagation.beliefs(theta, draw.shown.y, 200)
    torch.testing.assert_close(draw.offset.softmax(dim=-1), expected.softmax(dim=-1), atol=1e-3, rtol=0)


def test_validation_rows_are_never_given_their_labels():
    source = trainer().source
    for step in (0, REFRESH_EVERY):
        source.refresh(step)
    poisoned = trainer().source
    poisoned.labels = torch.where(poisoned.validation, 1 - poisoned.labels, poisoned.labels)
    for step in (0, REFRESH_EVERY):
        poisoned.refresh(step)
    for one, other in zip(vars(source.chains).values(), vars(poisoned.chains).values()):
        assert torch.equal(one, other)
    assert not torch.equal(source.labels, poisoned.labels)


def test_labellings_are_drawn_every_few_steps_and_in_turn_with_some_of_their_own():
    source, asked = trainer(buffer_size=6).source, []
    draw = source.initialiser.draw
    source.initialiser.draw = lambda generator, own, labels: asked.append((own, labels)) or draw(generator, own, labels)
    for step in range(4 * REFRESH_EVERY):
        source.refresh(step)
    assert asked == [(False, None), (True, None)] * 2 and len(source.chains.labels) == 6


def test_a_network_that_leads_fills_the_buffer_itself():
    source, asked = trainer().source, []
    draw = source.initialiser.draw
    source.initialiser.draw = lambda generator, own, labels: asked.append(labels) or draw(generator, own, labels)
    source.leads = True
    source.refresh(0)
    (labels,) = asked
    assert labels.shape == (4, NUM_NODES)
    assert torch.equal(source.chains.labels[:, ~source.train], labels[:, ~source.train])
    truth = source.labels[source.train].expand(4, -1)
    assert torch.equal(source.chains.labels[:, source.train], truth)
    source.leads = False
    source.refresh(REFRESH_EVERY)
    assert asked[1] is None


def test_labellings_of_its_own_come_from_base_models_without_the_fold():
    source = trainer().source
    asked = []
    given = type(source.initialiser.denoiser).given
    source.initialiser.denoiser.given = lambda known: asked.append(known) or given(source.initialiser.denoiser, known)
    assert source.own_labellings(4).shape == (4, NUM_NODES)
    assert len(asked) == 1 and source.initialiser.denoiser.theta.shape[1] == 4


@pytest.mark.parametrize("stopped_at", [7, 20])
def test_a_run_continued_from_its_state_ends_with_the_same_weights(stopped_at):
    whole, first, second = trainer(), trainer(), trainer()
    whole.run()

    class Stopped(Exception):
        pass

    def stop(running: Any) -> None:
        if running.step == stopped_at:
            raise Stopped

    with pytest.raises(Stopped):
        first.run(stop)
    tensors, values = first.state()
    second.load_state({name: value.clone() for name, value in tensors.items()}, values)
    second.run()
    assert all(torch.equal(a, b) for a, b in zip(whole.denoiser.parameters(), second.denoiser.parameters()))
    assert whole.history.validation_score == second.history.validation_score
    assert whole.source.best_sharpness == second.source.best_sharpness
    assert torch.equal(whole.source.chains.labels, second.source.chains.labels)


def scores(monkeypatch: pytest.MonkeyPatch, first: float, later: float, leads: bool) -> None:
    """The score of the initialiser, that of all weights after it, and whether the difference is more than chance."""

    def score(self: Corrected) -> float:
        self.leads, self.may_be_kept = self.chains is not None and leads, self.chains is None or leads
        return first if self.chains is None else later

    monkeypatch.setattr(Corrected, "score", score)


@pytest.mark.parametrize("later, leads, kept", [(0.5, False, False), (0.95, False, False), (0.95, True, True)])
def test_the_initialiser_is_left_only_for_what_is_better_by_more_than_chance(monkeypatch, later, leads, kept):
    running = trainer()
    scores(monkeypatch, 0.9, later, leads)
    running.run()
    assert running.history.step[0] == 0 and (running.denoiser.head[0].weight != 0).any()
    assert (running.best_step > 0) == kept and running.best_score == (later if kept else 0.9)
    assert (running.best["head.0.weight"] == 0).all() != kept


@pytest.mark.parametrize("leads, last", [(False, 4 * 5), (True, 40)])
def test_training_ends_early_without_a_lead(monkeypatch, leads, last):
    monkeypatch.setattr("dpmsnc.training.corrected.ahead", lambda difference, weight: leads)
    running = trainer(steps=40, evaluate_every=5)
    running.run()
    assert running.step == running.history.step[-1] == last


def test_ahead_is_a_lead_beyond_the_standard_error():
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.normal(size=2000)).repeat(2)  # every label is asked for twice
    noise -= noise.mean()
    even = torch.full((4000,), 1 / 4000, dtype=torch.float64)
    error = noise.std().item() / 2000**0.5
    assert ahead(noise + 1.1 * error, even) and not ahead(noise + 0.9 * error, even)
    assert not ahead(noise - 5 * error, even) and not ahead(torch.zeros(4000, dtype=torch.float64), even)
    one = torch.ones(2, dtype=torch.float64)
    assert not ahead(one, one / 2)  # a single label tells nothing of chance


def test_validation_labels_are_asked_for_without_and_with_the_other_half():
    exam, source = (one := trainer().source).exam, one
    train, validation = source.train, source.validation
    given = exam.known.mask
    assert torch.equal(given[:, 0], train) and (given[train]).all()
    halves = given[:, 1:] & ~train.unsqueeze(1)
    assert torch.equal(halves.any(dim=1), validation) and not halves.all(dim=1).any()
    assert abs(int(halves[:, 0].sum()) - int(halves[:, 1].sum())) <= 1
    assert not given[exam.row, exam.entry].any()  # nothing that is asked for is given
    assert torch.equal(exam.row.bincount(minlength=NUM_NODES), 2 * validation.long())
    crf, y = INITIALISERS[0.3], np.where(train, source.labels, UNKNOWN)
    expected = crf.denoiser(crf.graph_, y).given(source.known)(torch.zeros(NUM_NODES, 1, 2))
    torch.testing.assert_close(exam.logits[:, :1].softmax(dim=-1), expected.softmax(dim=-1), atol=1e-3, rtol=0)


def test_there_is_no_score_without_validation_labels():
    assert math.isnan(trainer(validation=None).source.score())


def even(count: int) -> torch.Tensor:
    return torch.full((count,), 1 / count)


def test_sharpness_stays_near_one_where_labels_are_few():
    log_p = torch.tensor([[0.9, 0.1]] * 2).log()
    assert sharpness(log_p, torch.tensor([0, 0]), even(2)) == pytest.approx(1, abs=0.02)
    assert sharpness(log_p, torch.tensor([1, 1]), even(2)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_sharpness_is_right_where_labels_are_many(factor):
    # labels drawn from softmax(logits), and a model that is `factor` times as sure of them
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(20_000, 3))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = torch.from_numpy((p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1))
    log_p = torch.from_numpy(factor * logits).float().log_softmax(dim=1)
    assert sharpness(log_p, y, even(len(y))) == pytest.approx(1 / factor, rel=0.05)


def test_sharpness_weighs_labels():
    log_p, y = torch.tensor([[0.8, 0.2]]).log().expand(4000, -1), torch.arange(4000) % 2
    right = (y == 0).double()
    assert sharpness(log_p, y, right / right.sum()) > 1.5 > 0.5 > sharpness(log_p, y, even(4000))


def test_a_saved_classifier_has_its_initialiser_and_its_sharpness(tmp_path):
    graph, _ = two_coloured_tree()
    model = classifier(Training(steps=4, evaluate_every=2), initialiser="lp").fit(graph, validation=0.3)
    model.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.sharpness_ == model.sharpness_ and loaded.initialiser_.coupling_ == model.initialiser_.coupling_
    assert np.array_equal(loaded.predict_proba(known={1: 1}, seed=1), model.predict_proba(known={1: 1}, seed=1))
    assert np.array_equal(loaded.sample(2, seed=1), model.sample(2, seed=1))
