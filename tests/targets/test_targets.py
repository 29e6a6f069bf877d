"""Every kind of target keeps the same promises, and a classifier learns each of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dpmsnc import Graph, NodeClassifier, Sampling, Schedule, Training
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.targets import TARGETS, OneClass, RealValue, Tags, target_from

VALUES = {
    "class": ["red", None, "blue", "green", "red", "blue"],
    "tags": [{"a", "b"}, None, {"b"}, set(), {"a", "c"}, {"b", "c"}],
    "value": [1.5, None, -2.0, 0.25, 3.0, 0.0],
}
KINDS = pytest.mark.parametrize("kind", VALUES)


def made(kind):
    return TARGETS.find(kind).from_values(VALUES[kind], 6)


@KINDS
def test_values_labels_and_fields_are_the_same_thing(kind):
    target, labels = made(kind)
    known = target.known(labels)
    assert known.tolist() == [True, False, True, True, True, True]
    np.testing.assert_array_equal(target.encode(target.decode(labels)), labels)
    field = target.field(torch.from_numpy(labels))
    assert field.shape == (6, target.channels) and field.isfinite().all()
    np.testing.assert_allclose(target.nearest(field).numpy()[known], labels[known], atol=1e-6)
    assert not target.known(target.unknown(3)).any()
    assert target_from(target.describe()) == target


@KINDS
def test_the_gradient_of_the_link_is_that_of_autograd(kind):
    target, _ = made(kind)
    output = torch.randn(5, 2, target.channels, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(output)
    mean = target.link(output)
    (expected,) = torch.autograd.grad((grad * mean).sum(), output)
    torch.testing.assert_close(target.link_backward(grad, mean.detach()), expected)


@KINDS
def test_the_loss_is_least_where_the_link_gives_the_truth(kind):
    target, labels = made(kind)
    y = target.field(torch.from_numpy(labels))[[0, 2, 3]].double()
    output = torch.zeros_like(y, requires_grad=True)
    (grad,) = torch.autograd.grad(target.loss(output, y).sum(), output)
    scale = 2 if kind == "value" else 1
    torch.testing.assert_close(grad, scale * (target.link(output.detach()) - y))


@pytest.mark.parametrize("kind", ["class", "tags"])
def test_draws_have_the_frequencies_they_are_drawn_with(kind):
    target, _ = made(kind)
    generator = torch.Generator().manual_seed(0)
    mean = torch.tensor([[0.2, 0.5, 0.3]])
    expected = mean**2 / ((mean**2).sum() if kind == "class" else mean**2 + (1 - mean) ** 2)
    torch.testing.assert_close(target.sharpen(mean, 0.5), expected)
    drawn = target.draw(mean, 50_000, generator)
    torch.testing.assert_close(target.field(drawn).mean(dim=0), mean, atol=0.01, rtol=0)
    u = torch.rand(50_000, 1, 3, generator=generator)
    perturbed = target.field(target.nearest(target.perturb(mean, u, 0.5)))
    torch.testing.assert_close(perturbed.mean(dim=0), expected, atol=0.01, rtol=0)
    assert target.marginals(drawn.numpy())[0] == pytest.approx(mean[0].numpy(), abs=0.01)


@KINDS
def test_skill_is_one_for_the_truth_and_zero_for_a_constant(kind):
    target, labels = made(kind)
    truth = torch.from_numpy(labels[target.known(labels)])
    constant = torch.full_like(truth, truth.mean().item()) if kind == "value" else torch.zeros_like(truth)
    assert target.skill(truth, truth) == 1 and target.skill(constant, truth) == 0


@KINDS
def test_averages_are_those_of_the_fields(kind):
    target, labels = made(kind)
    y = torch.from_numpy(labels[target.known(labels)])
    torch.testing.assert_close(target.average(y), target.field(y).double().mean(dim=0))
    total = torch.zeros(len(y), target.channels)
    target.add_field(total, y)
    torch.testing.assert_close(total, target.field(y))


def test_wrong_values_are_refused_by_name():
    with pytest.raises(InputError, match="outside the classes: 'grey'"):
        OneClass(("red", "blue")).encode(["grey"])
    with pytest.raises(InputError, match="unknown tags 'z'"):
        Tags(("a", "b")).encode([{"a", "z"}])
    with pytest.raises(InputError, match="must be a number"):
        RealValue().encode([1.0, "much"])
    with pytest.raises(InputError, match="unknown kind of target 'colour'; there are class"):
        Graph.build([(0, 1)], y=[0, 1], kind="colour")


def ring(kind, num_nodes=40):
    """Nodes on a ring whose label is a function of two features; every fourth is unknown."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_nodes, 2)).astype(np.float32)
    positive = x > 0
    values = {
        "class": positive[:, 0].astype(int).tolist(),
        "tags": [{name for name, there in zip("ab", row) if there} for row in positive],
        "value": (x[:, 0] - 2 * x[:, 1]).tolist(),
    }[kind]
    given = [None if k % 4 == 3 else value for k, value in enumerate(values)]
    edges = [(k, (k + 1) % num_nodes) for k in range(num_nodes)]
    return Graph.build(edges, x=x, y=given, kind=kind), values


@KINDS
def test_a_classifier_learns_every_kind_of_target(kind, tmp_path):
    graph, truth = ring(kind)
    steps = 400 if kind == "class" else 200  # a network that corrects learns more slowly from labels it begins with
    clf = NodeClassifier(
        hidden_channels=16,
        num_layers=1,
        dropout=0.0,
        backbone="sage",
        scaling="raw",
        initialiser="uniform" if kind == "class" else Half(),
        schedule=Schedule(20),
        sampling=Sampling(progressive=0.0),
        training=Training(steps=steps, evaluate_every=50, refresh_every=50, initialiser_refreshes=1, weight_decay=0.0),
    ).fit(graph, validation=0.2)
    predicted = clf.predict()
    known = graph.known
    np.testing.assert_array_equal(graph.target.encode(predicted)[known], graph.y[known])
    labels, expected = (graph.target.encode(values)[~known] for values in (predicted, truth))
    if kind == "value":
        assert np.square(labels - expected).mean() < 0.5 * np.var(expected)
    else:
        assert (labels == expected).mean() > 0.7
    clf.save(tmp_path / "model")
    loaded = Estimator.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.sample(3, seed=1), clf.sample(3, seed=1))
    assert loaded.predict_proba().shape == (40, graph.target.channels)


class Half:
    """An initialiser that knows nothing of any target."""

    def fit(self, graph, validation=None):
        self.shape = graph.num_nodes, graph.target.channels
        self.value = 0.0 if graph.target.kind == "value" else 0.5
        return self

    def predict_proba(self):
        return np.full(self.shape, self.value)
