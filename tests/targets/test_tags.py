"""Tags end to end: thresholds, baselines, the pool that starts a diffusion model, and the model itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dpmsnc import Graph, NodeClassifier, Schedule, Training
from dpmsnc.baselines import GNN, LabelPropagation, MaskedLabels, Spectral
from dpmsnc.baselines.gnn import training_loss
from dpmsnc.baselines.tag_pool import TagPool, learn, loss_of
from dpmsnc.diffusion.objective import Objective
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.tag_report import TagReport
from dpmsnc.metrics import best_threshold, micro_f1
from dpmsnc.targets import Tags

SHORT = Training(steps=20, evaluate_every=10, refresh_every=5, initialiser_refreshes=1, buffer_size=8)
OWN = {"condition_on": "train", "clamp_known": False}


def cliques(size: int = 10, known: int = 6, bridge: int = 0) -> tuple[Graph, np.ndarray]:
    """Two cliques and a bridge; all nodes of the first have tags a and c, those of the second b and c."""
    groups = [range(size), range(size, 2 * size)]
    edges = [(i, j) for group in groups for i in group for j in group if i < j]
    truth = np.array([[1, 0, 1]] * size + [[0, 1, 1]] * size)
    y = np.where((np.arange(2 * size) % size < known)[:, None], truth, -1)
    return Graph.build([*edges, (bridge, size + bridge)], y=y, classes=["a", "b", "c"], kind="tags"), truth


GRAPH, TRUTH = cliques()
VALIDATION = np.isin(np.arange(20) % 10, (4, 5))


def classifier(**changes) -> NodeClassifier:
    settings = {"hidden_channels": 8, "training": SHORT, "schedule": Schedule(20), "device": "cpu"}
    return NodeClassifier(**settings | changes)


MODELS = {
    "gcn": lambda: GNN(epochs=30),
    "sage": lambda: GNN("sage", epochs=30),
    "gat": lambda: GNN("gat", epochs=10),
    "lp": LabelPropagation,
    "spectral": Spectral,
    "pool": TagPool,
    "dpm-snc": classifier,
    "dpm-snc random": lambda: classifier(start="random", initialiser="lp"),
}


def brute_force(scores, truth):
    """The best F1 of all thresholds that tell scores apart, and those that reach it."""
    tried = np.unique([0.0, 0.5, *scores.ravel(), *(np.diff(np.unique(scores)) / 2 + np.unique(scores)[:-1])])
    everyone = np.ones(len(truth), dtype=bool)
    found = np.array([micro_f1((scores > t).astype(int), truth, everyone) for t in tried])
    return found.max(), tried[found == found.max()]


@pytest.mark.parametrize("seed", range(20))
def test_the_threshold_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 8, (12, 3)) / 8 if seed % 2 else rng.random((12, 3))  # with ties, and without
    truth = (rng.random((12, 3)) < scores * rng.random()).astype(int)
    threshold, f1 = best_threshold(scores, truth, np.ones(12, dtype=bool))
    best, where = brute_force(scores, truth)
    assert f1 == pytest.approx(best)
    assert micro_f1((scores > threshold).astype(int), truth, np.ones(12, dtype=bool)) == pytest.approx(best)
    assert 0 <= threshold < 1 and (0.5 not in where or threshold == 0.5)


def test_thresholds_where_there_is_little_to_choose():
    scores, everyone = np.array([[0.9, 0.8], [0.1, 0.2]]), np.ones(2, dtype=bool)
    assert best_threshold(scores, np.array([[1, 1], [0, 0]]), everyone) == (0.5, 1.0)
    assert best_threshold(scores, np.zeros((2, 2), dtype=int), everyone) == (0.5, 0.0)
    assert best_threshold(scores, np.array([[1, 0], [0, 0]]), everyone)[0] == pytest.approx(0.85)
    assert np.isnan(best_threshold(scores, np.full((2, 2), -1), everyone)[1])
    # two cuts have an F1 of 2/3: the one nearer to .5
    assert best_threshold(np.array([[0.9, 0.6, 0.55]]), np.array([[1, 0, 1]]), everyone[:1])[0] == 0.5


def test_the_loss_of_tags_is_binary_cross_entropy():
    output, y = torch.randn(7, 3), torch.randint(2, (7, 3))
    expected = F.binary_cross_entropy_with_logits(output, y.float(), reduction="sum") / 7
    torch.testing.assert_close(training_loss(Tags(("a", "b", "c")), y)(output), expected)


def test_label_propagation_converges_to_its_closed_form():
    A = GRAPH.adjacency.toarray().astype(float)
    scale = np.diag(1 / np.sqrt(A.sum(axis=1)))
    known, alpha = GRAPH.known.astype(float), 0.6
    start = np.column_stack([np.maximum(GRAPH.y, 0) * known[:, None], known])
    exact = np.linalg.solve(np.eye(20) - alpha * scale @ A @ scale, (1 - alpha) * start)
    assert exact.max() <= 1
    found = LabelPropagation(num_layers=300, alpha=alpha).fit(GRAPH).predict_proba(**OWN)
    np.testing.assert_allclose(found, exact[:, :-1] / exact[:, -1:], atol=1e-10)


def test_nodes_that_no_label_reaches_have_the_frequencies_of_tags():
    graph = Graph.build([(0, 1), (2, 3)], y=[{"a", "b"}, {"a"}, None, None], kind="tags")
    model = LabelPropagation().fit(graph)
    np.testing.assert_allclose(model.predict_proba()[2:], [[1, 0.5]] * 2)
    np.testing.assert_allclose(model.predict_proba(graph.with_labels(np.full((4, 2), -1))), [[1, 0.5]] * 4)


@pytest.mark.parametrize("name", MODELS)
def test_tags_are_learned_answered_above_the_threshold_and_saved(name, tmp_path):
    model = MODELS[name]().fit(GRAPH, validation=VALIDATION)
    answer = GRAPH.encode(model.predict())
    np.testing.assert_array_equal(answer[GRAPH.known], TRUTH[GRAPH.known])
    own = GRAPH.encode(model.predict(**OWN))
    np.testing.assert_array_equal(own, model.predict_proba(**OWN) > model.threshold_)
    asked = model.validation_
    assert micro_f1(own, GRAPH.y, asked) == best_threshold(model.predict_proba(**OWN), GRAPH.y, asked)[1]
    if name not in ("gcn", "sage", "gat", "dpm-snc random"):  # which see the structure alone, or learn too shortly
        np.testing.assert_array_equal(answer, TRUTH)
        assert model.score(GRAPH.with_labels(TRUTH)) == 1.0
    model.save(tmp_path / "model")
    loaded = Estimator.load(tmp_path / "model")
    assert loaded.threshold_ == model.threshold_
    np.testing.assert_array_equal(loaded.predict(), model.predict())
    np.testing.assert_array_equal(loaded.sample(2, seed=1), model.sample(2, seed=1))


@pytest.mark.parametrize("name", ["lp", "spectral", "pool"])
def test_poisoned_validation_tags_change_nothing_but_the_threshold(name):
    poisoned = GRAPH.with_labels(np.where(VALIDATION[:, None], 1 - TRUTH, GRAPH.y))
    proba = [MODELS[name]().fit(graph, validation=VALIDATION).predict_proba(**OWN) for graph in (GRAPH, poisoned)]
    np.testing.assert_array_equal(*proba)


def test_poisoned_validation_tags_do_not_reach_the_weights():
    """Without the choice of an evaluation, the network is the same."""
    poisoned = GRAPH.with_labels(np.where(VALIDATION[:, None], 1 - TRUTH, GRAPH.y))
    once = classifier(training=Training(steps=10, evaluate_every=10, buffer_size=8, patience=1000))
    last = [classifier(**once.get_params(deep=False)).fit(g, validation=VALIDATION) for g in (GRAPH, poisoned)]
    ours, theirs = (model.last_denoiser_.state_dict() for model in last)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_validation_tags_do_not_change_a_gnn_but_for_its_epoch():
    poisoned = GRAPH.with_labels(np.where(VALIDATION[:, None], 1 - TRUTH, GRAPH.y))
    proba = [
        GNN(epochs=10, evaluate_every=10).fit(graph, validation=VALIDATION).predict_proba(**OWN)
        for graph in (GRAPH, poisoned)
    ]
    np.testing.assert_array_equal(*proba)


def test_without_validation_tags_are_answered_above_one_half():
    model = LabelPropagation().fit(GRAPH)
    assert not hasattr(model, "threshold_")
    np.testing.assert_array_equal(GRAPH.encode(model.predict(**OWN)), model.predict_proba(**OWN) > 0.5)


def test_graphs_without_features_are_seen_by_their_structure():
    for model in (GNN(epochs=1), classifier()):
        assert model.fit(GRAPH, validation=VALIDATION).features_.longest_walk is not None


def test_spectral_tells_cliques_apart_and_refuses_another_graph():
    labels = ["u", *[None] * 9, *[None] * 9, "v"]
    graph = Graph.build(GRAPH.edge_index, y=labels)
    model = Spectral().fit(graph)
    assert model.predict().tolist() == ["u"] * 10 + ["v"] * 10
    np.testing.assert_allclose(np.linalg.norm(model.embedding_, axis=1), 1)
    with pytest.raises(InputError, match="for the nodes of the fitted graph"):
        model.predict(cliques(size=8)[0].with_labels(np.full(16, -1), graph.target))


def test_spectral_refuses_several_graphs_before_it_computes_anything(monkeypatch):
    monkeypatch.setattr("dpmsnc.baselines.spectral.embedding", None)
    for graphs, validation in (([GRAPH, GRAPH], None), ([GRAPH], [GRAPH])):
        with pytest.raises(InputError, match=r"there are several; fit it on one of them, or take .* gcn, sage or lp"):
            Spectral().fit(graphs, validation=validation)
    assert [type(base).__name__ for base in TagPool().fit([GRAPH, GRAPH]).bases_] == ["LabelPropagation"]


def test_an_isolated_node_and_a_tag_without_examples_have_a_place():
    graph = Graph.build([(0, 1), (1, 2)], num_nodes=4, y=np.array([[1, 0], [1, 0], [0, 0], [-1, -1]]), kind="tags")
    model = Spectral().fit(graph)
    assert not model.embedding_[3].any()
    np.testing.assert_allclose(model.predict_proba()[3, 1], 0.5 / 4)


def test_the_pool_learns_the_weights_of_base_models():
    """Tags are drawn from the first of two base models; the second knows nothing."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2, 3000, 4))
    y = (rng.random((3000, 4)) < 1 / (1 + np.exp(-(2 * z[0] - 1)))).astype(int)
    weights, bias = learn(z, y)
    np.testing.assert_allclose([*weights, bias], [2, 0, -1], atol=0.1)
    best = loss_of(np.tensordot(weights, z, 1) + bias, y)
    for step in ([0.05, 0], [0, 0.05], [-0.05, 0]):
        assert loss_of(np.tensordot(weights + step, z, 1) + bias, y) > best


def test_independent_tags_and_evidence_are_the_exact_denoiser():
    """P(y = 1 | y_t) by Bayes' rule on the densities themselves."""
    schedule = Schedule(10)
    objective, t = Objective(schedule, "label", target=Tags(("a",))), 4
    prior, y_t = torch.tensor([[[0.2]], [[0.7]]]), torch.tensor([[[0.9]], [[-0.4]]])
    s, n = schedule.signal[t], schedule.noise[t]
    one, zero = (torch.exp(-((y_t - s * y) ** 2) / (2 * n**2)) for y in (1, 0))
    expected = prior * one / (prior * one + (1 - prior) * zero)
    torch.testing.assert_close((prior.logit() + objective.evidence(y_t, t)).sigmoid(), expected)


def test_a_network_begins_as_its_initialiser():
    model = classifier(training=Training(steps=1, learning_rate=0.0, evaluate_every=1), initialiser="spectral")
    model.fit(GRAPH, validation=VALIDATION)
    start = model.target_.sharpen(torch.from_numpy(model.initialiser_proba_).double(), 1 / model.sharpness_)
    np.testing.assert_allclose(model.predict_proba(**OWN), start.numpy(), atol=1e-5)


@pytest.mark.parametrize("changes", [{}, {"conditioning": "guided"}, {"start": "random"}], ids=str)
def test_an_interrupted_fit_goes_on_where_it_was(changes, tmp_path):
    whole = classifier(**changes).fit(GRAPH, validation=VALIDATION)

    def stop(trainer):
        if trainer.step == 15:
            raise KeyboardInterrupt

    model, state = classifier(**changes), tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        model.fit(GRAPH, validation=VALIDATION, checkpoint=state, progress=stop)
    assert model.predict().shape == (20,)
    model.fit(GRAPH, validation=VALIDATION, checkpoint=state, resume=True)
    np.testing.assert_array_equal(model.predict_proba(), whole.predict_proba())
    assert model.threshold_ == whole.threshold_ and np.isfinite(model.lower_bound(4).total)


def test_masked_labels_answers_for_tags():
    model = MaskedLabels(hidden_channels=8, training=SHORT, device="cpu").fit(GRAPH, validation=VALIDATION)
    np.testing.assert_array_equal(GRAPH.encode(model.predict()), TRUTH)


@pytest.mark.parametrize(
    "initialiser", ["auto", *((name, {"epochs": 3}) for name in ("gnn", "gcn", "sage")), "lp", "spectral", "uniform"]
)
@pytest.mark.parametrize("start", ["initialiser", "random"])
def test_methods_by_name_start_a_model_of_tags(initialiser, start):
    short = Training(steps=2, evaluate_every=2, buffer_size=4)
    model = classifier(initialiser=initialiser, start=start, training=short).fit(GRAPH, validation=VALIDATION)
    assert model.initialiser_proba_.shape == (20, 3) and model.predict_proba().shape == (20, 3)
    assert model.corrects_initialiser == (start == "initialiser")


def test_methods_that_know_no_tags_say_so():
    for start in ("initialiser", "random"):
        with pytest.raises(InputError, match="PTA predicts the class of a node, not the tags"):
            classifier(initialiser="pta", start=start).fit(GRAPH, validation=VALIDATION)


def test_another_graph_is_answered_where_the_initialiser_can():
    other, truth = cliques(known=3, bridge=2)
    model = classifier(initialiser="lp").fit(GRAPH, validation=VALIDATION)
    np.testing.assert_array_equal(other.encode(model.predict(other)), truth)
    with pytest.raises(InputError, match="for the nodes of the fitted graph"):
        classifier().fit(GRAPH, validation=VALIDATION).predict(other)


def test_the_report_says_what_tags_would_be_found_without_a_model(tmp_path):
    model = classifier().fit(GRAPH, validation=VALIDATION)
    report = model.report_
    assert isinstance(report, TagReport) and (report.num_train, report.num_validation) == (8, 4)
    # on 2 + 2 nodes: c alone, 4 of 4 right and 8 there, has 2/3; all tags, 8 of 12 right, have 4/5
    assert report.constant == pytest.approx(0.8) and report.fitted == report.initialiser == 1.0
    assert report.threshold == model.threshold_ and "validation micro-F1  100.0%" in str(report)
    assert [choice["base"] for choice in report.choices] == ["lp", "spectral"]
    model.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").report_ == report
    assert str(classifier().fit(GRAPH, validation=None).report_).splitlines()[0].endswith("0 for validation")


def test_a_fit_that_is_no_better_than_the_same_tags_everywhere_warns():
    rng = np.random.default_rng(0)
    y = np.where((np.arange(80) < 60)[:, None], rng.integers(0, 2, (80, 2)), -1)
    graph = Graph.build(rng.integers(80, size=(2, 160)), num_nodes=80, y=y, kind="tags")
    model = classifier(initialiser="uniform", training=Training(steps=1, learning_rate=0.0, evaluate_every=1))
    with pytest.warns(FitWarning, match="no better than that of the same tags everywhere"):
        model.fit(graph, validation=0.3)


def test_a_gnn_learns_numbers():
    x = np.random.default_rng(0).normal(size=(60, 2))
    values = (3 + 2 * x[:, 0]).tolist()
    given = [None if k % 4 == 3 else value for k, value in enumerate(values)]
    graph = Graph.build([(k, (k + 1) % 60) for k in range(60)], x=x, y=given, kind="value")
    model = GNN("sage", dropout=0.0, epochs=200).fit(graph, validation=0.2)
    hidden = ~graph.known
    error = np.square(model.predict() - values)[hidden].mean()
    assert error < 0.3 * np.var(values) and model.score(values) == pytest.approx(-error)
