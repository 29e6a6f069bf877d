"""One trial of a search: the fits it consists of, on what a search may see, and their score."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
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
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.search.config_files import overridden
from dpmsnc.evidence.search.search import Search, scored_by
from dpmsnc.graph import UNKNOWN, Graph

if TYPE_CHECKING:
    from optuna import Trial

    from dpmsnc.training.trainer import Trainer


STEPS_APART = 10**6
"""Between the first steps of two seeds, on the axis on which trials are compared: more than any trial has."""


@dataclass(frozen=True)
class Visible:
    """What a search sees of a task: the graph without test labels, and the validation nodes."""

    graph: Graph
    validation: NDArray[np.bool_]
    initialisers: dict[str, FittedInitialiser] = field(default_factory=dict)
    """Fitted for the first trial that asked for them, and remembered for the others."""

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """What each validation node counts: equally, or as much as its class among unlabelled nodes where validation
        nodes were drawn evenly. The shares of the classes are the same for all trials, by PTA's answers."""
        y, classes = self.graph.y[self.validation], self.graph.num_classes
        counts = np.bincount(y, minlength=classes)
        shares = counts.astype(np.float64)
        if estimates_shares("auto", counts.tolist()):
            proba = Stack({"pta": {}}).fit(self.graph, validation=self.validation).predict_proba()
            shares = proba[self.validation | (self.graph.y == UNKNOWN)].mean(axis=0)
        weight = (shares / np.maximum(counts, 1))[y]
        return weight / weight.sum()

    def initialiser(self, model: NodeClassifier) -> Any:
        """The initialiser of a classifier; fitted already, unless it depends on the classifier's other settings."""
        if "gnn" in (model.initialiser, model.initialiser[0]):
            return model.initialiser
        name = json.dumps(model.initialiser)
        if name not in self.initialisers:
            initialiser = make_initialiser(model).fit(self.graph, validation=self.validation)
            self.initialisers[name] = FittedInitialiser(initialiser.predict_proba())
        return self.initialisers[name]


@dataclass(frozen=True, eq=False)
class FittedInitialiser:
    """An initialiser that has its answer."""

    proba: NDArray[np.float64]

    def fit(self, graph: Graph, validation: Any = None) -> Self:
        return self

    def predict_proba(self) -> NDArray[np.float64]:
        return self.proba


def what_is_seen(task: Task) -> Visible:
    """All that a search gets of a task."""
    if not task.validation.any():
        raise InputError(f"{task.name} has no validation nodes, so there is nothing to choose by")
    return Visible(task.graph, task.validation)


def prepared(search: Search, seed: int, chosen: dict[str, Any], seen: Visible) -> Any:
    """The estimator of a trial; its initialiser is fitted or validation nodes are weighed, so that no trial pays for
    what others share."""
    torch.set_num_threads(1)
    model = overridden(search.default(seed), search.settings(chosen))
    if isinstance(model, NodeClassifier):
        model.initialiser = seen.initialiser(model)
    else:
        _ = seen.weight
    return model


def mean_score(models: Sequence[Any], visible: Sequence[Visible], trial: Trial) -> float:
    """The mean over the seeds."""
    scores: list[float] = []
    for model, seen in zip(models, visible, strict=True):
        scores.append(validation_score(model, seen, watch(trial, scores)))
    return statistics.fmean(scores)


def validation_score(model: Any, seen: Visible, progress: Callable[[Trainer], None] | None = None) -> float:
    """Fit, and how well the weights that the fit kept do on validation nodes."""
    graph, validation = seen.graph, seen.validation
    if scored_by(model) == "likelihood":
        return likelihood(model.fit(graph, validation=validation).predict_proba(), seen)
    model.fit(graph, validation=validation, progress=progress)
    if model.interrupted_:  # `fit` turns Ctrl-C into an early end
        raise KeyboardInterrupt
    return model.best_score_


def likelihood(proba: NDArray[np.float64], seen: Visible) -> float:
    """The probability of a validation label, as a geometric mean over them; calibrated, so that an answer that is as
    good but too sure of itself counts as much. Classes may be weighed (`Visible.weight`)."""
    nodes = np.flatnonzero(seen.validation)
    y = seen.graph.y[nodes]
    q = calibrated(proba, nodes, y, seen.weight)[nodes, y]
    mean = float(np.exp(np.log(q) @ seen.weight))
    return round(mean, 9) if isfinite(mean) else 0.0  # an answer of no numbers is no answer, and optuna would ask again


def watch(trial: Trial, before: Sequence[float]) -> Callable[[Trainer], None]:
    """Reports the mean over the seeds so far at every evaluation, and ends a trial that falls behind the others.

    Seeds follow each other on one axis of steps, so that trials are compared after the same steps of the same seed.
    """
    optuna = import_optuna()
    known = list(before)

    def report(running: Trainer) -> None:
        if not running.history.step or running.history.step[-1] != running.step:
            return
        step = len(known) * STEPS_APART + running.step
        trial.report(statistics.fmean([*known, running.best_score]), step)
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
