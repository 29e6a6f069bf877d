"""One trial of a search: the fits it consists of, on what a search may see, and their score."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.baselines.initialiser import make_initialiser
from dpmsnc.baselines.stack import Stack, calibrated
from dpmsnc.config import estimates_shares
from dpmsnc.data import Task
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.estimators import Progress, fit, own_probabilities, scored_by, with_settings
from dpmsnc.evidence.search.search import Search
from dpmsnc.graph import UNKNOWN, Graph

if TYPE_CHECKING:
    from optuna import Trial

STEPS_APART = 10**6
"""Between the first steps of two seeds, on the axis on which trials are compared: more than any trial has."""


@dataclass(frozen=True)
class VisibleTask:
    """What a search sees of a task: the graph without test labels, and the validation nodes."""

    graph: Graph
    validation: NDArray[np.bool_]
    initialisers: dict[str, FittedInitialiser] = field(default_factory=dict)
    """Fitted for the first trial that asked for them, and remembered for the others."""

    @classmethod
    def of(cls, task: Task) -> Self:
        """All that a search gets of a task."""
        if not task.validation.any():
            raise InputError(f"{task.name} has no validation nodes, so there is nothing to choose by")
        return cls(task.graph, task.validation)

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """What each validation node counts: equally, or as much as its class among unlabelled nodes where validation
        nodes were drawn evenly. The shares of the classes are the same for all trials, by PTA's answers."""
        y, classes = self.graph.y[self.validation], self.graph.num_classes
        counts = np.bincount(y, minlength=classes)
        shares = counts.astype(np.float64)
        if estimates_shares("auto", counts.tolist()):
            proba = own_probabilities(Stack({"pta": {}}).fit(self.graph, validation=self.validation))
            shares = proba[self.validation | (self.graph.y == UNKNOWN)].mean(axis=0)
        weight = (shares / np.maximum(counts, 1))[y]
        return weight / weight.sum()

    def initialiser(self, model: Any) -> Any:
        """The initialiser of an estimator; fitted already, unless it depends on the estimator's other settings.

        A network that begins as its initialiser learns from answers to labels that the initialiser has not seen, which
        one that is fitted already cannot give.
        """
        if getattr(model, "start", "random") == "initialiser" or "gnn" in (model.initialiser, model.initialiser[0]):
            return model.initialiser
        name = json.dumps(model.initialiser)
        if name not in self.initialisers:
            initialiser = make_initialiser(model).fit(self.graph, validation=self.validation)
            self.initialisers[name] = FittedInitialiser(own_probabilities(initialiser))
        return self.initialisers[name]


@dataclass(frozen=True, eq=False)
class FittedInitialiser:
    """An initialiser that has its answer."""

    proba: NDArray[np.float64]

    def fit(self, graph: Graph, validation: Any = None) -> Self:
        return self

    def predict_proba(self, **conditions: Any) -> NDArray[np.float64]:
        return self.proba


def prepared(search: Search, seed: int, chosen: dict[str, Any], seen: VisibleTask) -> Any:
    """The estimator of a trial; its initialiser or the weights of nodes are ready, so that no trial pays for these."""
    torch.set_num_threads(1)
    model = with_settings(search.default(seed), search.settings(chosen))
    if hasattr(model, "initialiser"):
        model.initialiser = seen.initialiser(model)
    else:
        _ = seen.weight
    return model


def mean_score(models: Sequence[Any], visible: Sequence[VisibleTask], trial: Trial) -> float:
    """The mean over the seeds."""
    scores: list[float] = []
    for model, seen in zip(models, visible, strict=True):
        scores.append(validation_score(model, seen, watch(trial, scores)))
    return statistics.fmean(scores)


def validation_score(model: Any, seen: VisibleTask, progress: Progress | None = None) -> float:
    """Fit, and how well the weights that the fit kept do on validation nodes."""
    fit(model, seen.graph, seen.validation, progress)
    return likelihood(own_probabilities(model), seen) if scored_by(model) == "likelihood" else model.best_score_


def likelihood(proba: NDArray[np.float64], seen: VisibleTask) -> float:
    """The probability of a validation label, as a geometric mean over them; calibrated, so that an answer that is as
    good but too sure of itself counts as much. Classes may be weighed (`VisibleTask.weight`)."""
    nodes = np.flatnonzero(seen.validation)
    y = seen.graph.y[nodes]
    q = calibrated(proba, nodes, y, seen.weight)[nodes, y]
    mean = float(np.exp(np.log(q) @ seen.weight))
    return round(mean, 9) if isfinite(mean) else 0.0  # an answer of no numbers is no answer, and optuna would ask again


def watch(trial: Trial, before: Sequence[float]) -> Progress:
    """Reports the mean over the seeds so far at every evaluation, and ends a trial that falls behind the others.

    Seeds follow each other on one axis of steps, so that trials are compared after the same steps of the same seed.
    """
    optuna, known = import_optuna(), list(before)

    def report(running: Any) -> None:
        if not running.history.step or running.history.step[-1] != running.step:
            return
        trial.report(statistics.fmean([*known, running.best_score]), len(known) * STEPS_APART + running.step)
        if trial.should_prune():
            raise optuna.TrialPruned

    return report


def import_optuna() -> ModuleType:
    """optuna, quiet."""
    try:
        import optuna
    except ImportError as error:
        raise InputError('tune needs optuna: pip install "dpmsnc[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
