import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import CLGNN, GNN
from dpmsnc.baselines.clgnn import FOLDS, Kept, Learner, Reader, label_fields, sharpened
from dpmsnc.data import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy
from dpmsnc.nn.operator import GraphTensors

QUICK = {"rounds": 3, "steps": 20, "first_steps": 40, "samples": 4, "evaluate_every": 10, "hidden_channels": 16}


def fitted(task, **options):
    return CLGNN(**{**QUICK, **options}).fit(task.graph, task.validation)


def learner_of(task, dtype=torch.float32, **options):
    options = CLGNN(**{**QUICK, **options})
    torch.manual_seed(0)
    tensors, classes = GraphTensors.of(task.graph, dtype=dtype), task.graph.num_classes
    network = options._build(tensors.num_features, classes).to(dtype)
    return Learner(network, tensors, np.where(task.train, task.truth, -1), classes, options)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_clusters_are_told_apart(backbone):
    task = clusters()
    proba = fitted(task, backbone=backbone).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


def test_labels_are_read_where_there_are_no_features():
    task = grid_scattered(columns=60)
    options = {"hidden_channels": 16, "num_layers": 2, "dropout": 0.0}
    answers = [
        GNN(**options, epochs=50).fit(task.graph, task.validation),
        CLGNN(**{**QUICK, **options, "first_steps": 150}).fit(task.graph, task.validation),
    ]
    blind, reading = (accuracy(a.predict_proba(**OWN).argmax(axis=1), task.truth, task.test) for a in answers)
    assert blind <= 0.65 and reading >= 0.8


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
@pytest.mark.parametrize("head", ["linear", "convolution"])
def test_a_batch_of_fields_equals_its_fields_one_by_one(backbone, head, monkeypatch):
    learner = learner_of(clusters(size=10), torch.float64, backbone=backbone, head=head)
    draws = torch.Generator().manual_seed(0)
    shown = learner.show(torch.rand(len(learner.nodes), 3, generator=draws) < 0.5)
    q = torch.rand(30, 3, generator=draws, dtype=torch.float64)
    fields = label_fields(learner.Y0.double(), shown, learner.drawn(q, 3, torch.Generator().manual_seed(1)))
    assert fields.shape == (30, 3, 4, 3) and (fields.sum(dim=3) == 1).all()
    one_by_one = torch.stack(
        [sum(learner.read(fields[:, p, m : m + 1])[:, 0] for m in range(4)) / 4 for p in range(3)], dim=1
    )
    learner.Y0 = learner.Y0.double()
    together = learner.logits(shown, q, torch.Generator().manual_seed(1))
    torch.testing.assert_close(together, one_by_one)
    monkeypatch.setattr("dpmsnc.baselines.clgnn.CHUNK", 1)
    torch.testing.assert_close(learner.logits(shown, q, torch.Generator().manual_seed(1)), one_by_one)


def test_fields_hold_shown_labels_and_elsewhere_draws_from_the_sharpened_distribution():
    task = clusters()
    learner = learner_of(task, samples=3000, temperature=0.5)
    q = torch.rand(120, 3, generator=torch.Generator().manual_seed(0))
    shown = learner.show(torch.arange(len(learner.nodes)).unsqueeze(1) % 2 == 0)
    fields = label_fields(learner.Y0, shown, learner.drawn(q, 1, torch.Generator().manual_seed(1)))
    held = shown[:, 0]
    assert (fields[held] == learner.Y0[held][:, None, None]).all()
    expected = q**2 / (q**2).sum(dim=1, keepdim=True)
    np.testing.assert_allclose(fields.mean(dim=(1, 2))[~held], expected[~held], atol=0.05)
    torch.testing.assert_close(sharpened(q, 0.5), expected)
    blank = label_fields(learner.Y0, shown, learner.drawn(None, 1, torch.Generator()))
    assert blank.shape == (120, 1, 1, 3) and (blank[~held] == 0).all()


def test_what_training_reads_about_a_node_never_comes_from_its_own_label():
    task = clusters()
    learner, other = learner_of(task), learner_of(task)
    node = learner.nodes[3]
    other.y, other.Y0 = learner.y.clone(), learner.Y0.clone()
    other.y[node] = (learner.y[node] + 1) % 3
    other.Y0[node] = other.Y0[node].roll(1)
    kept = Kept(torch.full((120, 3), 1 / 3), torch.full((120, 3), 1 / 3))
    for before in (None, kept):
        torch.testing.assert_close(learner.predict_hidden(before)[node], other.predict_hidden(before)[node])
        assert (
            learner.predict(before and before.inference)[node] - other.predict(before and before.inference)[node]
        ).abs().max() > 1e-4
    torch.testing.assert_close(learner.predict_hidden(kept).sum(dim=1), torch.ones(120))
    assert FOLDS > 1


def test_targets_of_a_step_are_never_among_the_labels_shown(monkeypatch):
    learner, seen = learner_of(clusters(), partitions=5, shown=0.4), []
    show = learner.show
    monkeypatch.setattr(learner, "show", lambda training: seen.append(training) or show(training))
    targets = []
    monkeypatch.setattr(
        "dpmsnc.baselines.clgnn.F.cross_entropy", lambda logits, y: targets.append(y) or logits.square().mean()
    )
    learner.step(None)
    assert seen[0].shape == (15, 5) and (seen[0].sum(dim=0) == 6).all() and len(targets[0]) == 9 * 5
    expected = learner.y[learner.nodes].unsqueeze(1).expand(-1, 5)[~seen[0]]
    torch.testing.assert_close(targets[0], expected)


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted, first_steps=10, steps=5)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


def test_validation_labels_only_select():
    task = clusters()
    # with one evaluation in each of one round there is nothing to select
    single = {"rounds": 1, "first_steps": 10, "evaluate_every": 10}
    swapped = task.graph.with_labels(np.where(task.validation, (task.graph.y + 1) % 3, task.graph.y))
    answers = [CLGNN(**{**QUICK, **single}).fit(g, task.validation).predict_proba(**OWN) for g in (task.graph, swapped)]
    np.testing.assert_array_equal(*answers)


def test_without_validation_the_last_round_answers():
    task = clusters()
    proba = CLGNN(**QUICK).fit(task.graph).predict_proba(**OWN)
    assert np.isfinite(proba).all() and accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


@pytest.mark.parametrize("wrong", [{"backbone": "gnc"}, {"temperature": 0}, {"samples": 0}, {"shown": 1.2}])
def test_impossible_options_are_explained(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(clusters(), **wrong)


def test_an_answer_goes_through_the_rounds_of_the_fit_again():
    task, other = clusters(), clusters(size=15, seed=4)
    model = fitted(task)
    assert len(model.network_) == model.rounds_ <= QUICK["rounds"]
    tensors, y, q = model._tensors(other.graph), other.graph.y, None
    for network in model.network_:
        q = Reader(network, tensors, y, 3, model).predict(q)
    np.testing.assert_allclose(model.predict_proba(other.graph, clamp_known=False), q)
    blind = model.predict_proba(other.graph.with_labels(np.full(45, -1)))
    assert np.abs(blind - q.numpy())[~other.train].max() > 1e-3  # labels of the asked graph are read
