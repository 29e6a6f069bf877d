from dataclasses import replace

import numpy as np
import pytest
import torch

from clusters import clusters
from dpmsnc import Graph, InputError, NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines import GNN, PTA, LabelPropagation, MaskedLabels
from dpmsnc.baselines.scaled_pta import ScaledPTA
from dpmsnc.data.grids import cyclic_grid, grid_localized, grid_scattered
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.nn.backbones import BACKBONES
from dpmsnc.presets import FROM_RANDOM, preset
from dpmsnc.targets import Tags

pytestmark = pytest.mark.usefixtures("brief_couplings")
QUICK = Training(steps=30, refresh_every=10, initialiser_refreshes=2, evaluate_every=10)
TASK = grid_scattered(columns=20, seed=0)


def quick(**arguments):
    defaults = {"hidden_channels": 8, "training": QUICK, "sampling": Sampling(steps=5), "schedule": Schedule(10)}
    return NodeClassifier(**(defaults | arguments))


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(TASK.graph, validation=TASK.validation)


def test_known_labels_come_back_unchanged(fitted):
    known = TASK.graph.known
    names = TASK.graph.decode(TASK.graph.y)
    assert (fitted.predict()[known] == names[known]).all()
    assert (fitted.sample(4)[:, known] == names[known]).all()
    proba = fitted.predict_proba()
    assert proba[known].max(axis=1) == pytest.approx(1) and proba.sum(axis=1) == pytest.approx(1)


def test_benchmark_rule_conditions_on_training_labels_only(fitted):
    labels = fitted._asked(None, None, "train").y
    assert (labels != -1).sum() == TASK.train.sum() and (labels[~TASK.train] == -1).all()


def test_revealed_labels_are_conditioned_on_without_a_refit(fitted):
    node = int(np.flatnonzero(TASK.test)[0])
    before = fitted.predict(condition_on="train")[node]
    other = next(name for name in fitted.classes_ if name != before)
    weights = [value.clone() for value in fitted.denoiser_.parameters()]
    after = fitted.predict(known={TASK.graph.ids[node]: other}, condition_on="train")
    assert after[node] == other
    assert all(torch.equal(a, b) for a, b in zip(weights, fitted.denoiser_.parameters(), strict=True))


def test_a_revealed_label_overrides_the_one_given(fitted):
    node = int(np.flatnonzero(TASK.train)[0])
    given = fitted.predict(condition_on="train")[node]
    wrong = next(name for name in fitted.classes_ if name != given)
    assert fitted.predict(known={TASK.graph.ids[node]: wrong})[node] == wrong


def test_own_opinion_is_the_networks_also_where_labels_are_given(fitted, monkeypatch):
    monkeypatch.setattr(Posterior, "draw", lambda self, *_: torch.eye(2)[torch.zeros(40, 1, dtype=torch.long)])
    assert (fitted.predict(clamp_known=False) == fitted.classes_[0]).all()
    assert (fitted.predict() == fitted.classes_[1]).any()


def test_same_seed_same_samples(fitted):
    assert (fitted.sample(5, seed=1) == fitted.sample(5, seed=1)).all()
    again = quick().fit(TASK.graph, validation=TASK.validation)
    assert (again.sample(5, seed=1) == fitted.sample(5, seed=1)).all()


def test_another_seed_gives_other_samples():
    """From a random start: what the initialiser knows of this grid leaves no choice, nor does a short fit."""
    clf = quick(**FROM_RANDOM).fit(TASK.graph, validation=TASK.validation)
    assert (clf.sample(5, seed=1) != clf.sample(5, seed=2)).any()


@pytest.mark.parametrize("conditioning", ["amortised", "guided"])
def test_permuting_nodes_permutes_the_answer(conditioning):
    clf = quick(conditioning=conditioning).fit(TASK.graph, validation=TASK.validation)
    answer = clf.predict()
    order = np.random.default_rng(0).permutation(40)
    place = np.argsort(order)  # old node i stands at place[i]
    old = TASK.graph
    clf.graph_ = Graph.build(
        place[old.edge_index], num_nodes=40, y=old.y[order], classes=old.classes, ids=old.ids[order]
    )
    assert (clf.predict() == answer[order]).all()


@pytest.mark.parametrize(
    "initialiser",
    ["pta", "gnn", "grand", "g3nn", "lp", "uniform", ("grand", {"num_layers": 2}), LabelPropagation()],
    ids=["pta", "gnn", "grand", "g3nn", "lp", "uniform", "with settings", "object"],
)
def test_any_initialiser_fills_the_first_buffer(initialiser):
    few = Training(steps=10, evaluate_every=10)
    clf = quick(initialiser=initialiser, start="random", training=few).fit(TASK.graph, validation=0.3)
    assert clf.predict().shape == (40,)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_default_start_chooses_how_features_are_scaled_by_validation_labels(seed):
    task = clusters(seed=seed)
    few = {"max_epochs": 60, "epochs_unvalidated": 60}
    starts = ScaledPTA(settings=few), *(PTA(scaling=scaling, **few) for scaling in ("unit", "rows", "binary"))
    chosen, *answers = [start.fit(task.graph, validation=task.validation).predict_proba() for start in starts]
    scores = [(task.graph.y == proba.argmax(axis=1))[task.validation].mean() for proba in answers]
    assert not np.array_equal(*answers[:2])
    assert np.array_equal(chosen, answers[np.argmax(scores)])
    short = ScaledPTA(settings={"max_epochs": 3}).fit(task.graph, validation=task.validation).predict_proba()
    assert not np.array_equal(short, chosen)
    unvalidated = [start.fit(task.graph).predict_proba() for start in starts[:2]]
    assert np.array_equal(*unvalidated)


def test_a_start_without_the_verbs_is_refused():
    with pytest.raises(InputError, match="predict_proba"):
        quick(initialiser=42).fit(TASK.graph)


def test_every_label_may_be_trained_on_without_validation():
    clf = quick().fit(TASK.graph, validation=None)
    assert clf.train_.sum() == TASK.graph.known.sum() and clf.best_step_ == QUICK.steps


def test_nothing_to_learn_from_is_said():
    with pytest.raises(InputError):
        quick().fit(TASK.graph.with_labels(np.full(40, -1)))
    with pytest.raises(InputError, match="not fitted"):
        NodeClassifier().predict()


def test_lower_bound_has_all_its_terms_and_repeats(fitted):
    bound = fitted.lower_bound(num_draws=8)
    assert bound.total == pytest.approx(bound.prior + bound.steps + bound.reconstruction + bound.entropy)
    assert bound.prior < 0 and bound.steps < 0 and bound.entropy >= 0
    assert fitted.lower_bound(num_draws=8) == bound


@pytest.mark.parametrize(
    ("setting", "steps", "refreshes", "every"),
    [
        ("synthetic", 100, 10, 30),
        ("homophilic", 80, 20, 100),
        ("heterophilic", 80, 100, 100),
        ("inductive", 80, 20, 100),
        ("inductive-huge", 80, 20, 100),
    ],
)
def test_paper_preset_resolves_per_setting(setting, steps, refreshes, every):
    clf = NodeClassifier.from_preset("paper", setting)
    assert clf.schedule.num_steps == steps
    assert (clf.training.initialiser_refreshes, clf.training.refresh_every) == (refreshes, every)
    assert (clf.training.buffer_size, clf.training.samples_per_refresh) == (50, 5)
    assert (clf.conditioning, clf.parameterisation, clf.sampling.method) == ("guided", "epsilon", "ancestral")
    assert clf.dropout == (0.0 if setting in ("synthetic", "inductive-huge") else 0.5)
    assert not clf.training.refuse_collapsed and not clf.training.stratified
    assert NodeClassifier.from_preset("paper", setting, seed=7).seed == 7
    with pytest.raises(InputError, match="paper"):
        NodeClassifier.from_preset("article", setting)


def test_a_backbone_that_a_preset_names_and_nobody_has_is_missed_by_name(monkeypatch):
    monkeypatch.delitem(BACKBONES, "gat-sep", raising=False)
    clf = NodeClassifier.from_preset("paper", "heterophilic")
    with pytest.raises(InputError, match="unknown backbone 'gat-sep'; there are gcn"):
        clf.fit(TASK.graph, validation=TASK.validation)


def test_the_preset_of_reasoning_is_for_labels_on_edges():
    settings = preset("paper", "reasoning")
    assert (settings["network"], settings["num_layers"], settings["hidden_channels"]) == ("gine", 3, 128)
    assert settings["sampling"].temperature == 1 and settings["schedule"].num_steps == 80
    with pytest.raises(InputError, match="labels on edges"):
        NodeClassifier.from_preset("paper", "reasoning")


def test_the_preset_of_huge_graphs_fits_tags_of_several_graphs():
    def graph(seed):
        rng = np.random.default_rng(seed)
        edges, x = np.stack([np.arange(11), np.arange(1, 12)]), rng.normal(size=(12, 4)).astype(np.float32)
        target = Tags(("a", "b", "c"))
        return Graph(12, edges, x=x, y=rng.integers(0, 2, (12, 3)), target=target, ids=np.arange(12))

    training = replace(preset("paper", "inductive-huge")["training"], steps=4, evaluate_every=2)
    clf = NodeClassifier.from_preset("paper", "inductive-huge", hidden_channels=8, training=training)
    clf.fit([graph(0), graph(1), graph(2)], validation=[graph(3)])
    (answer,) = clf.predict([graph(4).hide(np.ones(12, dtype=bool))])
    assert len(answer) == 12 and 0 <= clf.best_score_ <= 1


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gcnii", "sage", "gin"])
def test_every_backbone_fits(backbone):
    clf = quick(backbone=backbone, training=Training(steps=4, evaluate_every=2)).fit(TASK.graph, validation=0.3)
    assert clf.predict().shape == (40,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_and_cpu_predict_alike(fitted):
    on_gpu = quick(device="cuda").fit(TASK.graph, validation=TASK.validation)
    assert (on_gpu.predict() == fitted.predict()).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("make", [grid_scattered, grid_localized])
def test_defaults_solve_both_grids_and_stay_there(make):
    task = make(columns=100, seed=3)
    clf = NodeClassifier(training=Training(steps=600)).fit(task.graph, validation=task.validation)
    predicted = task.graph.encode(clf.predict(condition_on="train"))
    assert (predicted == task.truth)[task.test].mean() >= 0.99
    curve = np.array(clf.history_.validation_score)
    settled = curve[np.argmax(curve >= curve.max() - 0.01) :]
    assert settled.min() >= curve.max() - 0.03


@pytest.mark.slow
def test_the_same_code_learns_a_rule_of_three_classes():
    task = grid_scattered(columns=600, seed=0, rule="three")
    clf = NodeClassifier(dropout=0, training=Training(steps=800)).fit(task.graph, validation=task.validation)
    predicted = task.graph.encode(clf.predict(condition_on="train"))
    assert (predicted == task.truth)[task.test].mean() >= 0.97


@pytest.mark.slow
def test_masked_labels_is_the_same_estimator_without_diffusion():
    task = grid_scattered(columns=100, seed=0)
    clf = MaskedLabels(training=Training(steps=1000)).fit(task.graph, validation=task.validation)
    predicted = task.graph.encode(clf.predict(condition_on="train"))
    assert (predicted == task.truth)[task.test].mean() >= 0.8


def test_a_classifier_as_start_does_not_hand_over_validation_labels():
    clf = quick(initialiser=quick(initialiser="uniform")).fit(TASK.graph, validation=TASK.validation)
    assert (clf.initialiser_proba_[TASK.validation] < 1).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: quick(backbone="transformer").fit(TASK.graph),
        lambda: quick(conditioning="amortized").fit(TASK.graph),
        lambda: quick(parameterisation="eps").fit(TASK.graph),
        lambda: quick(num_layers=0).fit(TASK.graph),
        lambda: quick(head_layers=0).fit(TASK.graph),
        lambda: Schedule(kind="cos"),
        lambda: quick(sampling=Sampling(method="dim")).fit(TASK.graph),
        lambda: Sampling(progressive="always"),
        lambda: Training(unlabelled_weight="trust"),
        lambda: Training(patience=0),
        lambda: Training(hide_features=2),
    ],
)
def test_misspelt_and_impossible_settings_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_a_misspelt_condition_is_not_taken_for_the_other(fitted):
    with pytest.raises(InputError, match="known, train"):
        fitted.predict(condition_on="training")


def test_a_graph_without_a_question_teaches_the_labels_of_another():
    training = Training(steps=150, evaluate_every=50)
    clf = NodeClassifier(hidden_channels=16, schedule=Schedule(10), training=training)
    clf.fit([cyclic_grid(20), cyclic_grid(30)], validation=None)
    other = cyclic_grid(12)
    few = other.with_labels(np.where(np.arange(24) % 3 == 0, other.y, -1))
    assert (np.concatenate(clf.predict()) == clf.graph_.decode(clf.graph_.y)).all()
    assert (clf.predict(few) == other.decode(other.y)).mean() > 0.9


def test_numbers_are_finite_and_whole_where_they_count(fitted):
    for settings in ({"hidden_channels": 1.5}, {"num_layers": 2.0}, {"threads": 1.5}, {"seed": 1.5}, {"seed": True}):
        with pytest.raises(InputError, match=f"{next(iter(settings))} must be .* a whole number"):
            quick(**settings).fit(TASK.graph)
    for seed in (2**70, -1):
        with pytest.raises(InputError, match="seed must be at least 0 and at most"):
            quick(seed=seed).fit(TASK.graph)
        with pytest.raises(InputError, match="seed must be at least 0 and at most"):
            fitted.sample(seed=seed)
    wrong = {"steps": 1.5, "evaluate_every": 2.5, "learning_rate": np.inf, "unlabelled_weight": np.inf}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=f"{name} must be"):
            Training(**{name: value})
    with pytest.raises(InputError, match="seed must be"):
        PTA(seed=2**70).fit(TASK.graph)
    with pytest.raises(InputError, match="num_samples must be"):
        fitted.sample(2.5)


def test_a_seed_from_numpy_is_a_seed(fitted, tmp_path):
    assert (fitted.sample(2, seed=np.int64(3)) == fitted.sample(2, seed=3)).all()
    clf = quick(seed=np.int64(3)).fit(TASK.graph)
    assert (clf.predict_proba() == quick(seed=3).fit(TASK.graph).predict_proba()).all()
    clf.save(tmp_path / "model")
    assert NodeClassifier.load(tmp_path / "model").seed == 3
    assert (GNN(epochs=3, seed=np.int64(3)).fit(TASK.graph).predict_proba() >= 0).all()


def test_no_samples_are_refused_in_words(fitted):
    with pytest.raises(InputError, match="at least 1"):
        fitted.sample(0)


def test_what_cannot_be_asked_is_refused(fitted, tmp_path):
    for temperature in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="temperature must be at least 0"):
            fitted.sample(temperature=temperature)
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match="fit again"), NodeClassifier.load(tmp_path / "model").using_last():
        pass
    with pytest.raises(InputError, match="other data or settings"):
        quick().fit(TASK.graph, checkpoint=next((tmp_path / "model").glob("weights-*")), resume=True)
    with pytest.raises(InputError, match="no noise to predict"):
        MaskedLabels(parameterisation="epsilon", start="random").fit(TASK.graph)
    with pytest.raises(InputError, match="noise is no correction of an initialiser"):
        quick(parameterisation="epsilon").fit(TASK.graph)


class Wrapped:
    """An initialiser of a user's own that answers with every label it was given."""

    def fit(self, graph, validation=None):
        self.inner = LabelPropagation().fit(graph)  # which returns nothing here

    def predict_proba(self):
        return self.inner.predict_proba()


def test_an_initialiser_of_the_users_own_never_sees_validation_labels():
    mine = Wrapped()
    clf = quick(initialiser=mine).fit(TASK.graph, validation=TASK.validation)
    assert (clf.initialiser_proba_[TASK.validation].max(axis=1) < 1).any() and not hasattr(mine, "inner")
    with pytest.raises(InputError, match="NaN, infinite or negative"):
        quick(initialiser=Nonsense()).fit(TASK.graph, validation=TASK.validation)


class Nonsense(Wrapped):
    def predict_proba(self):
        return np.full((40, 2), np.nan)


def test_what_a_network_begins_as_can_be_of_the_users_own(tmp_path):
    clf = quick(initialiser=Wrapped()).fit(TASK.graph, validation=TASK.validation)
    clf.save(tmp_path / "model")
    loaded, revealed = NodeClassifier.load(tmp_path / "model"), {TASK.graph.ids[0]: 0}
    assert (loaded.predict_proba(known=revealed) == clf.predict_proba(known=revealed)).all()
    with pytest.raises(InputError, match="answers for the fitted graph alone"):
        clf.predict(grid_scattered(columns=30, seed=1).graph)


@pytest.mark.parametrize("change", [lambda p: -p, lambda p: p[:, :1], lambda p: p / 0])
def test_what_is_no_probability_is_refused_in_either_start(change, monkeypatch):
    predict_proba = Wrapped.predict_proba
    monkeypatch.setattr(Wrapped, "predict_proba", lambda self: change(predict_proba(self)))
    for start in ("initialiser", "random"):
        with np.errstate(all="ignore"), pytest.raises(InputError, match="the initialiser gave"):
            quick(initialiser=Wrapped(), start=start).fit(TASK.graph, validation=TASK.validation)


@pytest.mark.parametrize("start", ["initialiser", "random"])
def test_an_initialiser_that_diverges_is_refused(start):
    with pytest.raises(InputError, match="NaN, infinite or negative"):
        quick(initialiser=("gcn", {"lr": 1e30, "epochs": 20}), start=start).fit(TASK.graph, validation=0.3)


@pytest.mark.usefixtures("full_couplings")
@pytest.mark.parametrize("initialiser", ["auto", "lp"])
@pytest.mark.parametrize(
    "edges, known",
    [([], 12), ([(k, k + 1) for k in range(19)], 2), ([(k, k + 1) for k in range(19)], 20)],
    ids=["no edges", "one label a class", "all known"],
)
def test_poor_graphs_are_fitted_at_the_defaults(edges, known, initialiser):
    graph = Graph.build(edges, num_nodes=20, y=[k % 2 if k < known else None for k in range(20)])
    few = Training(steps=4, evaluate_every=2)
    clf = quick(initialiser=initialiser, training=few).fit(graph, validation=None)
    assert clf.predict_proba(num_samples=2).sum(axis=1) == pytest.approx(1) and clf.sample(2).shape == (2, 20)


def test_numbers_are_scaled_by_training_labels_alone_and_keep_their_unit():
    x = np.random.default_rng(0).normal(size=(30, 1))
    y = [None if k % 5 == 4 else 1000 + 10 * value for k, value in enumerate(x[:, 0])]
    edges = [(k, (k + 1) % 30) for k in range(30)]
    validation = [0, 5, 10]

    def fitted(changed):
        values = [1e6 if k in validation and changed else value for k, value in enumerate(y)]
        return quick().fit(Graph.build(edges, x=x, y=values, kind="value"), validation=validation)

    honest, other = fitted(False), fitted(True)
    assert honest.target_ == other.target_ and honest.history_.loss == other.history_.loss
    assert honest.predict_proba(known={4: 1234.5})[4, 0] == honest.predict(known={4: 1234.5})[4] == 1234.5
    assert 900 < honest.predict()[9] < 1100 and abs(honest.initialiser_proba_.mean()) < 3


@pytest.mark.parametrize("wrong", [3, TASK.graph, "red"])
def test_known_labels_of_a_wrong_kind_are_refused(fitted, wrong):
    with pytest.raises(InputError, match="known"):
        fitted.predict(known=wrong)


@pytest.mark.parametrize("backbone", ["gcn(norm='batch', residual=True, input_layer=True)", ("gat", {"norm": "layer"})])
def test_running_statistics_and_options_of_a_backbone_are_kept(backbone, tmp_path):
    clf = quick(backbone=backbone, num_layers=2).fit(TASK.graph, validation=TASK.validation)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.sample(2, seed=1), clf.sample(2, seed=1))
