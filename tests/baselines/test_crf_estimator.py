"""The conditional random field as an estimator: what it is shown, saved as, and taken for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clusters import OWN, clusters
from dpmsnc import NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines import METHODS
from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.crf import CRF, MOST_BASES
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import UNKNOWN, Graph

pytestmark = pytest.mark.usefixtures("brief_couplings")
QUICK_GNN = ("gcn", {"epochs": 5, "hidden_channels": 8})


class Recorder(Uniform):
    """A base model that keeps the labels it was shown, and those that it was asked with."""

    fits: list[NDArray[np.int64]]
    asked: list[NDArray[np.int64]]

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        type(self).fits.append(y_train.copy())
        assert (y_validation == UNKNOWN).all()

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        type(self).asked.append(y.copy())
        return super()._marginals(graph, y)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    monkeypatch.setattr(Recorder, "fits", [], raising=False)
    monkeypatch.setattr(Recorder, "asked", [], raising=False)
    return Recorder


def test_a_pool_has_at_most_so_many_base_models_and_is_saved_with_all_of_them(monkeypatch, tmp_path):
    task = clusters(size=15)
    builders = {str(n): partial(LabelPropagation, num_layers=n) for n in (50, 51, 52, 53)}
    monkeypatch.setattr("dpmsnc.baselines.crf._bases", lambda graph, seed: builders)
    crf = CRF(coupling="one").fit(task.graph, validation=task.validation)
    assert len(crf.bases_) == len(crf.network_.a) == MOST_BASES
    assert crf._fold_answers.shape == (MOST_BASES, task.graph.num_nodes, 4, 3)
    assert crf.choices_[0]["base"] == " + ".join(str(base.num_layers) for base in crf.bases_)
    crf.save(tmp_path / "model")
    loaded = CRF.load(tmp_path / "model")
    assert [base.num_layers for base in loaded.bases_] == [base.num_layers for base in crf.bases_]
    assert np.array_equal(loaded.predict_proba(**OWN), crf.predict_proba(**OWN))


def test_no_fit_sees_validation_labels(recorder):
    task = clusters(size=15)
    CRF(base=recorder()).fit(task.graph, validation=task.validation)
    assert len(recorder.fits) == 5  # one without each fold, and one with all of them
    for y in recorder.fits + recorder.asked:
        assert (y[task.validation] == UNKNOWN).all() and set(np.flatnonzero(y != UNKNOWN)) <= set(
            np.flatnonzero(task.train)
        )
    assert (recorder.fits[-1][task.train] == task.truth[task.train]).all()
    shown = np.stack([y[task.train] != UNKNOWN for y in recorder.fits[:4]])
    assert (shown.sum(axis=0) == 3).all()  # each label is hidden from exactly one


@pytest.mark.parametrize("base", ["uniform", LabelPropagation(num_layers=3), QUICK_GNN])
def test_a_saved_model_answers_and_samples_as_before(base, tmp_path):
    task = clusters(size=15)
    crf = CRF(base=base, coupling="full").fit(task.graph, validation=task.validation)
    crf.save(tmp_path / "model")
    for kind in (CRF, Estimator):
        loaded = kind.load(tmp_path / "model")
        assert np.array_equal(loaded.predict_proba(**OWN), crf.predict_proba(**OWN))
        assert (loaded.sample(3, seed=1) == crf.sample(3, seed=1)).all() and loaded.choices_ == crf.choices_
    assert isinstance(loaded._given_base(), type(crf.bases_[0]))
    assert loaded._given_base().get_params() == crf.bases_[0].get_params()  # so that it can be fitted again


def test_couplings_that_were_asked_for():
    task = clusters(size=15)
    for coupling in ("none", "one", "full"):
        crf = CRF(base="uniform", coupling=coupling).fit(task.graph, validation=task.validation)
        assert crf.coupling_ == coupling and [c["coupling"] for c in crf.choices_] == [coupling, None]
    few = Graph.build([(i, i + 1) for i in range(9)], y=["a", "b", "c"] + [None] * 7)
    assert "full" not in {c["coupling"] for c in CRF(base="uniform").fit(few).choices_}


@pytest.mark.parametrize(
    "base, words",
    [
        ("nothing", "unknown method 'nothing'"),
        (3, "neither a baseline nor the name of one"),
        (("lp", 3), "neither a baseline nor the name of one"),
        (("lp", {"clam": True}), "does not take the settings"),
        (("lp", {"alpha": 7}), "alpha must be"),
        ("dpm-snc", "is no base of a pairwise model"),
    ],
)
def test_a_wrong_base_is_refused(base, words):
    with pytest.raises(InputError, match=words):
        CRF(base=base).fit(Graph.build([(0, 1), (1, 2)], y=["red", "blue", None]))


def test_it_is_a_method_and_an_initialiser(tmp_path):
    task = clusters(size=15)
    method = METHODS["crf"].build(3, base="lp")
    assert isinstance(method, CRF) and isinstance(method, Baseline) and method.seed == 3
    options = {"training": Training(steps=2, evaluate_every=2), "schedule": Schedule(10), "sampling": Sampling(steps=2)}
    model = NodeClassifier(initialiser=("crf", {"base": "lp", "coupling": "one"}), hidden_channels=8, **options)
    model.fit(task.graph, validation=task.validation)
    assert isinstance(model.initialiser_, CRF) and model.initialiser_.coupling_ == "one"
    assert [type(base) for base in model.initialiser_.bases_] == [LabelPropagation]  # not under a second one
    model.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(seed=1), model.predict_proba(seed=1))


class Mine:
    """An initialiser of a user's own, which is sure of the labels it was shown and keeps what they were."""

    seen: list[NDArray[np.int64]]

    def fit(self, graph: Graph, validation: Any = None) -> None:
        self.seen.append(graph.y.copy())
        self.p = np.where(graph.known[:, None], np.eye(3)[graph.y], 1 / 3)

    def predict_proba(self) -> NDArray[np.float64]:
        return self.p


def test_an_initialiser_of_the_users_own_is_fitted_fold_by_fold(monkeypatch, tmp_path):
    monkeypatch.setattr(Mine, "seen", [], raising=False)
    task = clusters(size=15)
    options = {"training": Training(steps=2, evaluate_every=2), "schedule": Schedule(10), "sampling": Sampling(steps=2)}
    model = NodeClassifier(initialiser=Mine(), hidden_channels=8, **options)
    model.fit(task.graph, validation=task.validation)
    hidden = [(task.train & (y == UNKNOWN)).sum() for y in Mine.seen]
    assert sum(hidden) == task.train.sum() and hidden[-1] == 0 and len(hidden) == 5
    assert all((y[~task.train] == UNKNOWN).all() for y in Mine.seen)
    model.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(seed=1), model.predict_proba(seed=1))
    with pytest.raises(InputError, match="answers for the fitted graph alone"):
        model.predict(clusters(size=15, seed=1).graph)
