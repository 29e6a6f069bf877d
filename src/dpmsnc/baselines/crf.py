r"""A conditional random field: a base model looks at every node, and neighbours are tied by one pairwise model.

Base models are compared by the likelihood of labels that they have not seen, calibrated by one temperature: cheap ones
first, fold by fold, and what is behind by more than chance is not fitted again. The best are then put under the
pairwise model (`dpmsnc.pairwise`), learned on the same fold-wise answers, and compared again, with and without
couplings. Scores are means of log-probabilities over training labels, each asked of a fit without it, and over the
declared validation labels, which no fit sees. Couplings learned from the scored labels are charged one nat a parameter.

The marginals are those of belief propagation given the labels known when it is asked; `sample` draws joint labellings
by Gibbs sampling.

References: Lafferty et al., "Conditional Random Fields", ICML 2001; Jia et al., "A Unifying Generative Model for Graph
Learning Algorithms", 2021; Qu et al., "Neural Structured Prediction for Inductive Node Classification", ICLR 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.base import Baseline, one_hot
from dpmsnc.baselines.choice import Candidate, Labels, compare
from dpmsnc.baselines.folds import assign_folds, fitted
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.learning import Folds, learn
from dpmsnc.pairwise.potentials import LEAST, Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation

LABELS_A_COUPLING = 10
"""Training labels that there must be for every number of a full matrix of couplings; with fewer, one has to do."""
LEARNING_ITERATIONS = 12
"""Of belief propagation, while the pairwise model is learned."""
ITERATIONS = (LEARNING_ITERATIONS, 200)
"""When a fitted model is asked, whichever scores better: labels travel further with many, but on dense graphs belief
propagation need not converge."""
SWEEPS = 40
WORK = 2.0e9
"""Entries of messages that learning may touch; graphs with many edges take fewer steps."""
LEAST_STEPS, MOST_STEPS = 8, 25
UNDER_MODEL = 2
"""Base models that are tried under the pairwise model."""
CouplingChoice = Literal["auto", "none", "one", "full"]


def _bases(graph: Graph, seed: int) -> dict[str, Callable[[], Baseline]]:
    """Base models to choose from, cheap ones first; those that need features only where there are some."""
    names = ["neighbourhood", "pta", "gcn", "sage"] if graph.x is not None else ["neighbourhood"]
    own = {"uniform": Uniform, "lp": partial(LabelPropagation, num_layers=50, clamp=True)}
    return own | {name: partial(METHODS[name].build, seed) for name in names if name in METHODS}


@dataclass(eq=False, repr=False)
class CRF(Baseline):
    """A base model of every node under a pairwise model of neighbours.

    Args:
        base: A method by name, in Python also with settings, as in ("pta", {"scaling": "rows"}); "auto" chooses among
            label propagation, PTA, GCN, SAGE, neighbourhood features and no base at all.
        coupling: "one" number for all classes, a "full" matrix, or "none", which calibrates the base model and no more.
            "auto" takes a full matrix where classes are few, and none where a coupling does not help.

    Example:
        >>> path = Graph.build([(i, i + 1) for i in range(9)], y=["red", "blue"] * 3 + [None] * 4)
        >>> CRF(base="uniform").fit(path).predict().tolist()[6:]
        ['red', 'blue', 'red', 'blue']
    """

    base: Any = "auto"
    coupling: CouplingChoice = "auto"
    seed: int = 0

    any_target: ClassVar[bool] = False

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.base != "auto":
            self._named_base()._check_settings()

    def _named_base(self) -> Baseline:
        name, settings = (self.base, {}) if isinstance(self.base, str) else tuple(self.base)
        if name == "uniform":
            return Uniform()
        return METHODS.find(name).build(self.seed, **settings)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        fold = assign_folds(y_train, self.seed)
        labels = Labels.of(y_train, y_validation, fold)
        auto = self.base == "auto"
        builders = _bases(graph, self.seed) if auto else {str(self.base): self._named_base}
        bases, scores = compare(builders, graph, y_train, labels)
        edges = Edges(graph)
        trials = [
            self._trial(base, coupling, edges, labels)
            for base in bases[:UNDER_MODEL]
            for coupling in self._couplings(graph.num_classes, int((y_train != UNKNOWN).sum()))
        ]
        best = max(trials, key=lambda trial: trial.score)
        self.choices_ = describe(trials, scores)
        self.base_ = fitted(builders[best.base.name](), graph, y_train)
        self.network_, self.mean_log_ = best.potentials.requires_grad_(False), edges.mean_log
        self.coupling_, self.iterations_ = best.potentials.coupling, best.iterations
        self._labels, self._fold_answers = labels, np.stack(best.base.answers)

    def _couplings(self, num_classes: int, num_labels: int) -> tuple[Coupling, ...]:
        if self.coupling != "auto":
            return (self.coupling,)
        enough = num_labels >= LABELS_A_COUPLING * num_classes * (num_classes + 1) / 2
        return ("none", "full" if enough else "one")

    def _trial(self, base: Candidate, coupling: Coupling, edges: Edges, labels: Labels) -> Trial:
        log_p = log_probabilities(np.stack(base.answers, axis=1))
        folds = Folds(log_p, torch.from_numpy(labels.y), torch.from_numpy(labels.fold))
        work = LEARNING_ITERATIONS * max(len(edges), 1) * log_p.shape[-1]
        steps = int(np.clip(WORK / work / 100, LEAST_STEPS, MOST_STEPS))
        potentials = learn(folds, edges, coupling, steps, LEARNING_ITERATIONS)
        scores = {many: trial_score(potentials, folds, edges, labels, many) for many in ITERATIONS}
        iterations = max(scores, key=lambda many: scores[many])
        return Trial(base, potentials, scores[iterations], iterations)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        log_p = log_probabilities(self.base_._marginals(graph, y))
        return self._beliefs(graph, log_p, y).softmax(dim=-1).double().numpy()

    @torch.no_grad()
    def _beliefs(self, graph: Graph, log_p: Tensor, y: NDArray[np.int64]) -> Tensor:
        propagation = Propagation(self.network_, edges_of(graph), self.mean_log_)
        known = torch.from_numpy(one_hot(y, self.target_.channels)).float().unsqueeze(1)
        return propagation.beliefs(self.network_.unary(log_p).unsqueeze(1), known, self.iterations_).squeeze(1)

    def _fitted_network(self) -> Potentials:
        return Potentials(self.target_.channels, self.coupling_)


@dataclass
class Trial:
    """A base model under one kind of coupling."""

    base: Candidate
    potentials: Potentials
    score: float
    iterations: int


@torch.no_grad()
def trial_score(potentials: Potentials, folds: Folds, edges: Edges, labels: Labels, iterations: int) -> float:
    """Mean log-likelihood of training labels in their folds, less a nat a coupling, and of validation labels."""
    beliefs = folds.beliefs(potentials, edges, iterations)
    V = torch.from_numpy(labels.validation)
    outside = beliefs[V].log_softmax(dim=-1)[torch.arange(len(V)), :, folds.y[V]].mean(dim=1)
    total = folds.log_likelihood(beliefs).sum() + outside.sum()
    C = potentials.num_classes
    couplings = {"none": 0, "one": 2, "full": 1 + C * (C + 1) // 2}[potentials.coupling]
    return ((total - couplings) / (folds.size + len(V))).item()


def describe(trials: list[Trial], scores: dict[str, float]) -> list[dict[str, Any]]:
    """All that was compared, the best first, as JSON values."""
    under = [
        {"base": trial.base.name, "coupling": trial.potentials.coupling, "score": round(trial.score, 4)}
        for trial in sorted(trials, key=lambda trial: -trial.score)
    ]
    tried = {trial.base.name for trial in trials}
    alone = [
        {"base": name, "coupling": None, "score": round(score, 4)}
        for name, score in sorted(scores.items(), key=lambda item: -item[1])
        if name not in tried
    ]
    return under + alone


def log_probabilities(p: NDArray[np.float64]) -> Tensor:
    """Logarithms of probabilities, none of which is ruled out."""
    return torch.from_numpy(np.log(np.maximum(p, LEAST))).float()


def edges_of(graph: Graph) -> Edges:
    """The directed edges of a graph, made once."""
    return graph.cached("edges", lambda: Edges(graph))


METHODS["crf"] = Method(partial(seeded, CRF))
