"""One list of promises that every estimator keeps: all methods of the tables, and those that only start others."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from dpmsnc import baselines, config
from dpmsnc.baselines import GMNN, METHODS, MLP, Stack
from dpmsnc.baselines.initialiser import Uniform
from dpmsnc.baselines.scaled_pta import ScaledPTA
from dpmsnc.config import Sampling, Training
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.graph import UNKNOWN, Graph

pytestmark = pytest.mark.usefixtures("brief_couplings")
SHORT = Training(steps=4, evaluate_every=2, refresh_every=2, initialiser_refreshes=1, buffer_size=4)
DIFFUSION: dict[str, Any] = {
    "hidden_channels": 8,
    "device": "cpu",
    "initialiser": "lp",
    # a network that hardly differs from its initialiser gives the same sample again and again
    "training": replace(SHORT, steps=12, evaluate_every=6, learning_rate=0.1),
    "sampling": Sampling(steps=2, progressive=0.0),
}
QUICK: dict[str, dict[str, Any]] = {
    "gcnii": {"epochs": 6, "num_layers": 3},
    "polynormer": {"backbone": "polynormer(warm_up=5)", "epochs": 10},
    "cpgnn": {"backbone": "cpgnn(warm_up=5)", "epochs": 10},
    "lp": {},
    "majority": {},
    "spectral": {},
    "neighbourhood": {},
    "label-counts": {},
    "crf": {"base": "lp"},
    "pta": {"max_epochs": 10},
    "gmnn": {"pretraining": 5, "epochs": 5},
    # nearly the most probable labels: those drawn by the random numbers of each row change with the order of nodes
    "clgnn": {"rounds": 2, "first_steps": 6, "steps": 3, "samples": 2, "temperature": 1e-3},
    "dpm-snc": DIFFUSION,
    "masked-labels": DIFFUSION,
    "dpm-snc-paper": {
        "initialiser": "lp",
        "device": "cpu",
        "setting": "synthetic",
        "steps": 4,
        "schedule": Schedule(20),
    },
    "spn": {"epochs": 10, "refinement_epochs": 5},
}
"""Settings for a short fit; 10 epochs where a method is not listed."""
OTHERS = {
    "mlp": partial(MLP, epochs=6),
    "uniform": lambda seed: Uniform(),
    "scaled pta": lambda seed: ScaledPTA(seed, {"max_epochs": 10}),
    "stack": partial(Stack, {"gcn": {"epochs": 5}, "pta": {"max_epochs": 5}}),
    "gmnn p": partial(GMNN, prediction="p", draw="max", pretraining=5, epochs=5),
}
"""Estimators that are no method of the tables."""
NAMES = [*(name for name, method in METHODS.items() if method.on == "node"), *OTHERS]
OWN: dict[str, Any] = {"condition_on": "train", "clamp_known": False}
"""A method's own answers given its training labels, as in the tables."""
NOT_RANDOM = ("lp", "majority", "spectral", "neighbourhood", "label-counts", "uniform")
FITTED_GRAPH_ONLY = {
    "gcn-lpa": "a weight for every edge",
    "glognn": "weights for every node",
    "spectral": "for the nodes of the fitted graph",
}
"""Methods that cannot answer for another graph, and what they say."""


def blocks(num_nodes: int = 60, seed: int = 0, labels: str = "abc") -> Graph:
    """Three groups whose nodes are linked and have words of their own; every label is known."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) % 3
    i, j = np.triu_indices(num_nodes, 1)
    chosen = rng.random(len(i)) < np.where(y[i] == y[j], 0.2, 0.02)
    x = (rng.random((num_nodes, 12)) < np.where(np.arange(12) % 3 == y[:, None], 0.5, 0.1)).astype(float)
    names = [f"node {k}" for k in range(num_nodes)]
    pairs = [(names[a], names[b]) for a, b in zip(i[chosen], j[chosen])]
    return Graph.build(pairs, ids=names, x=x, y=[labels[k] for k in y])


TRUTH = blocks()
TRAIN, VALIDATION = (np.arange(60) % 20 // 4 == part for part in (0, 1))
GRAPH = TRUTH.with_labels(np.where(TRAIN | VALIDATION, TRUTH.y, UNKNOWN))
OTHER = blocks(45, seed=1, labels="bca")
"""A graph that is not fitted; its classes stand in the same order and belong to other groups."""


def build(name: str, seed: int = 0) -> Any:
    if name in OTHERS:
        return OTHERS[name](seed=seed)
    return METHODS[name].build(seed, **QUICK.get(name, {"epochs": 10}))


def fit(name: str, graph: Graph = GRAPH, seed: int = 0) -> Any:
    return build(name, seed).fit(graph, validation=VALIDATION)


@cache
def fitted(name: str) -> Any:
    """Shared: tests must not change it."""
    return fit(name)


def permuted(graph: Graph, order: np.ndarray) -> Graph:
    """The same graph with its nodes in another order."""
    place = np.argsort(order)
    edges = np.sort(place[graph.edge_index], axis=0)
    assert graph.x is not None
    return Graph(
        graph.num_nodes,
        edges[:, np.lexsort(edges[::-1])],
        graph.x[order],
        graph.y[order],
        graph.target,
        graph.ids[order],
    )


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(name):
    torch.manual_seed(5)
    again, other = fit(name), fit(name, seed=7)
    ask = partial(type(again).predict_proba, condition_on="train")
    np.testing.assert_array_equal(ask(fitted(name)), ask(again))
    np.testing.assert_array_equal(again.sample(3, seed=2), fitted(name).sample(3, seed=2))
    if name not in NOT_RANDOM:
        assert (ask(other) != ask(again)).any()
        assert (again.sample(3, seed=3) != again.sample(3, seed=2)).any()


def test_labels_that_were_hidden_change_nothing(name):
    """The same graph was fitted with wrong labels before, and shares its operators with that copy."""
    fresh = blocks()
    fit(name, fresh.with_labels((fresh.y + 1) % 3))
    after = fit(name, fresh.with_labels(GRAPH.y))
    np.testing.assert_array_equal(after.predict(**OWN), fitted(name).predict(**OWN))


def test_a_label_changes_only_where_it_is_asked_to(name):
    """Labels that are revealed to the fitted graph are no training labels."""
    model, wrong = fitted(name), GRAPH.with_labels((TRUTH.y + 1) % 3)
    np.testing.assert_array_equal(model.predict_proba(wrong, **OWN), model.predict_proba(**OWN))
    np.testing.assert_array_equal(model.predict(wrong), wrong.decode(wrong.y))


def test_known_labels_come_back_and_unknown_ones_are_filled(name):
    model = fitted(name)
    answer, proba = model.predict(), model.predict_proba()
    assert answer.shape == (60,) and set(answer) <= {"a", "b", "c"}
    np.testing.assert_array_equal(answer[GRAPH.known], TRUTH.decode(TRUTH.y)[GRAPH.known])
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(proba[GRAPH.known], np.eye(3)[TRUTH.y[GRAPH.known]])
    known = {"node 59": "a", "node 58": "b"}
    assert model.predict(known=known)[[59, 58]].tolist() == ["a", "b"]
    samples = model.sample(4, known=known)
    assert samples.shape == (4, 60) and set(samples[:, 59]) == {"a"} and None not in samples
    np.testing.assert_array_equal(samples[:, GRAPH.known], np.tile(answer[GRAPH.known], (4, 1)))


def test_permuted_nodes_have_permuted_answers(name):
    if name in FITTED_GRAPH_ONLY:
        pytest.skip("the permuted graph is another graph")
    order = np.random.default_rng(0).permutation(60)
    model, other = fitted(name), permuted(GRAPH, order)
    np.testing.assert_array_equal(model.predict(other), model.predict()[order])
    np.testing.assert_array_equal(model.predict(other, clamp_known=False), model.predict(clamp_known=False)[order])


def test_another_graph_is_answered_for_or_refused(name):
    model = fitted(name)
    if name in FITTED_GRAPH_ONLY:
        for verb in (model.predict, model.predict_proba, partial(model.sample, 2)):
            with pytest.raises(InputError, match=FITTED_GRAPH_ONLY[name]):
                verb(OTHER)
        return
    few = OTHER.with_labels(np.where(np.arange(45) < 9, OTHER.y, UNKNOWN))
    for asked in (few, few.with_labels(np.full(45, UNKNOWN))):
        answer, proba = model.predict(asked), model.predict_proba(asked)
        assert set(answer) <= {"a", "b", "c"} and model.sample(2, asked).shape == (2, 45)
        np.testing.assert_array_equal(answer[asked.known], asked.decode(asked.y)[asked.known])
        assert proba.shape == (45, 3) and np.isfinite(proba).all() and proba.min() >= 0
    with pytest.raises(InputError, match="no training labels"):
        model.predict(few, condition_on="train")
    # classes are told apart by their names, wherever they stand
    turned = replace(
        few, target=replace(few.target, classes=("c", "a", "b")), y=np.where(few.known, (few.y + 1) % 3, -1)
    )
    np.testing.assert_array_equal(model.predict(turned), model.predict(few))


def test_other_features_and_classes_are_refused_by_name(name):
    model = fitted(name)
    assert OTHER.x is not None
    for verb in (model.predict, model.predict_proba, partial(model.sample, 2), partial(model.score, OTHER)):
        with pytest.raises(InputError, match="7 features a node, the fitted one 12"):
            verb(replace(OTHER, x=OTHER.x[:, :7]))
    with pytest.raises(InputError, match=r"not fitted with 'zebra'.*fit again"):
        model.predict(blocks(45, seed=1, labels=["a", "b", "zebra"]))  # type: ignore[arg-type]


def test_score_counts_what_was_not_given(name):
    model = fitted(name)
    right = (model.predict() == TRUTH.decode(TRUTH.y))[~GRAPH.known]
    assert model.score(TRUTH) == pytest.approx(right.mean())
    assert model.score(dict(zip(TRUTH.ids.tolist(), TRUTH.decode(TRUTH.y)))) == model.score(TRUTH)
    assert model.score(TRUTH.decode(TRUTH.y)) == model.score(TRUTH)
    trained = (model.predict(condition_on="train") == TRUTH.decode(TRUTH.y))[~TRAIN]
    assert model.score(TRUTH, condition_on="train") == pytest.approx(trained.mean())
    with pytest.raises(InputError, match="not given already"):
        model.score(GRAPH)


def test_fitted_attributes_are_those_of_scikit_learn(name):
    model = fitted(name)
    check_is_fitted(model)
    assert isinstance(model.classes_, np.ndarray) and model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 12 and model.graph_ is GRAPH
    np.testing.assert_array_equal(model.train_, TRAIN)
    np.testing.assert_array_equal(model.validation_, VALIDATION)


def test_scikit_learn_can_clone_it(name):
    copied = clone(fitted(name))
    assert type(copied) is type(fitted(name)) and copied.get_params(deep=False) == fitted(name).get_params(deep=False)
    with pytest.raises(NotFittedError):
        check_is_fitted(copied)


def test_settings_are_reached_by_name(name):
    model = clone(fitted(name))
    before = model.get_params()
    assert model.set_params(**before) is model and model.get_params() == before
    for setting in [key for key, value in before.items() if isinstance(value, int) and not isinstance(value, bool)]:
        for chosen in ParameterGrid({setting: [3, 4]}):
            assert model.set_params(**chosen).get_params()[setting] == chosen[setting]
    with pytest.raises(InputError, match="no setting 'epoch_count'; it has"):
        model.set_params(epoch_count=3)
    settings = model.configuration()
    assert json.loads(json.dumps(settings)) == settings and not {"seed", "device", "threads"} & set(settings)


def test_its_repr_is_a_call_of_its_constructor(name):
    model = build(name)
    words = {**vars(baselines), **vars(config), "Uniform": Uniform, "ScaledPTA": ScaledPTA}
    words |= {kind.__name__: kind for kind in (NodeClassifier, type(getattr(model, "schedule", None)))}
    again = eval(repr(model), words)
    assert again.get_params(deep=False) == model.get_params(deep=False)
    assert repr(type(model)()) == f"{type(model).__name__}()"


def test_a_deep_copy_answers_the_same(name):
    model = copy.deepcopy(fitted(name))
    assert model.graph_ is not GRAPH
    np.testing.assert_array_equal(model.predict(**OWN), fitted(name).predict(**OWN))
    np.testing.assert_array_equal(model.sample(2, seed=1), fitted(name).sample(2, seed=1))


def test_it_says_that_it_is_not_fitted(name):
    model = build(name)
    for verb in (model.predict, model.predict_proba, model.sample, partial(model.score, TRUTH)):
        for kind in (InputError, NotFittedError):
            with pytest.raises(kind, match=f"{type(model).__name__} is not fitted yet; call fit"):
                verb()


def test_what_is_no_graph_is_refused(name):
    frame = pd.DataFrame({"a": [1, 2]})
    advice = {"from_tables": frame, "Graph.build": np.eye(3), "from_npz": "cora", "from_networkx": [GRAPH, nx.Graph()]}
    for words, wrong in advice.items():
        with pytest.raises(InputError, match=words):
            build(name).fit(wrong)
        with pytest.raises(InputError, match=words):
            fitted(name).predict(wrong)
    with pytest.raises(InputError, match="nothing to learn from"):
        build(name).fit(GRAPH.with_labels(np.full(60, UNKNOWN)))


LOAD = """
import sys
from pathlib import Path
import numpy as np
from dpmsnc.estimators.base import Estimator
for folder in Path(sys.argv[1]).iterdir():
    np.save(f"{sys.argv[2]}/{folder.name}.npy", Estimator.load(folder).sample(3, seed=1).astype(str))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Path:
    """A folder with the samples of every estimator, drawn in a process that loaded it."""
    models, samples = tmp_path_factory.mktemp("models"), tmp_path_factory.mktemp("samples")
    for name in NAMES:
        fitted(name).save(models / name)
    subprocess.run([sys.executable, "-c", LOAD, str(models), str(samples)], check=True)
    return samples


def test_a_new_process_loads_it_and_samples_the_same(name, loaded):
    np.testing.assert_array_equal(np.load(loaded / f"{name}.npy"), fitted(name).sample(3, seed=1).astype(str))
