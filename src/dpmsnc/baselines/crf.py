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

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.base import NOT_PROBABILITIES, Baseline, one_hot
from dpmsnc.baselines.choice import CLOSE, Builders, Candidate, Labels, compare
from dpmsnc.baselines.folds import assign_folds, fitted
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.neighbourhood import NeighbourhoodFeatures
from dpmsnc.baselines.pta import PTA
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.config import LIMITS, ScalingName, check_number
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import METHODS, Method, Which, seeded
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import Gibbs
from dpmsnc.pairwise.learning import Folds, learn, with_coupling
from dpmsnc.pairwise.potentials import LEAST, Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation
from dpmsnc.training.chains import Chains

LABELS_A_COUPLING = 4
"""Training labels that there must be for every number of a full matrix of couplings; with fewer, one has to do."""
LEARNING_ITERATIONS = 12
"""Of belief propagation, while the pairwise model is learned."""
ITERATIONS = (LEARNING_ITERATIONS, 200)
"""When a fitted model is asked, whichever scores better: labels travel further with many, but on dense graphs belief
propagation need not converge."""
SWEEPS = 20
WORK = 2.0e9
"""Entries of messages that learning may touch; graphs with many edges take fewer steps."""
LEAST_STEPS, MOST_STEPS = 8, 25
STRONGER = (0.25, 0.5, 1.0)
"""Couplings that are tried in place of a weaker one. Few labels do not tell a sure base model without couplings from a
less sure one with them. Of equally good ones the strongest is taken, which listens most to labels that are revealed."""
MOST_SHOWN = 0.5
"""Share of its own labels that a joint labelling gives at most."""
UNDER_MODEL = 2
"""Base models that are tried under the pairwise model."""
CouplingChoice = Literal["auto", "none", "one", "full"]


def _bases(graph: Graph, seed: int) -> Builders:
    """Base models to choose from, cheap ones first; those that need features only where there are some."""
    cheap: Builders = {
        "uniform": Uniform,
        "lp": partial(LabelPropagation, num_layers=50, clamp=True),
        "neighbourhood": partial(NeighbourhoodFeatures, seed=seed),
    }
    if graph.x is None:
        return cheap
    scalings: tuple[ScalingName, ...] = ("rows", "unit", "binary")
    ptas = {f"pta ({scaling})": partial(PTA, scaling=scaling, seed=seed) for scaling in scalings}
    return {**cheap, **ptas, "gcn": partial(GNN, "gcn", seed=seed), "sage": partial(GNN, "sage", seed=seed)}


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

    def _check_settings(self) -> None:
        super()._check_settings()
        if not isinstance(self.base, str) or self.base != "auto":
            self._given_base()._check_settings()

    def _given_base(self) -> Baseline:
        """The base model that was given, by name or as an estimator, not fitted."""
        if isinstance(self.base, Baseline):
            return copy.deepcopy(self.base)
        name, settings = (self.base, {}) if isinstance(self.base, str) else tuple(self.base)
        if name == "uniform":
            return Uniform()
        return METHODS.find(name).build(self.seed, **settings)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        fold = assign_folds(y_train, self.seed)
        labels = Labels.of(y_train, y_validation, fold)
        auto = isinstance(self.base, str) and self.base == "auto"
        builders = _bases(graph, self.seed) if auto else {str(self.base): self._given_base}
        bases, scores = compare(builders, graph, y_train, labels)
        if not bases:
            raise InputError(NOT_PROBABILITIES)
        edges = edges_of(graph)
        trials = [
            self._trial(base, coupling, edges, labels)
            for base in bases[:UNDER_MODEL]
            for coupling in self._couplings(graph.num_classes, int((y_train != UNKNOWN).sum()))
        ]
        best = max(trials, key=lambda trial: trial.score + CLOSE * (trial.potentials.coupling != "none"))
        self.choices_ = describe(trials, scores)
        self.base_ = fitted(builders[best.base.name](), graph, y_train)
        self.network_, self.mean_log_ = best.potentials.requires_grad_(False), edges.mean_log
        self.coupling_, self.iterations_ = best.potentials.coupling, best.iterations
        self._labels, self._fold_answers = labels, np.stack(best.base.answers)

    def _couplings(self, num_classes: int, num_labels: int) -> tuple[Coupling, ...]:
        if self.coupling != "auto":
            return (self.coupling,)
        enough = num_labels >= LABELS_A_COUPLING * num_classes * (num_classes + 1) / 2
        return ("none", "one", "full") if enough else ("none", "one")

    def _trial(self, base: Candidate, coupling: Coupling, edges: Edges, labels: Labels) -> Trial:
        log_p = log_probabilities(np.stack(base.answers, axis=1))
        folds = Folds(log_p, torch.from_numpy(labels.y), torch.from_numpy(labels.fold))
        work = LEARNING_ITERATIONS * max(len(edges), 1) * log_p.shape[-1]
        steps = int(np.clip(WORK / work / 100, LEAST_STEPS, MOST_STEPS))
        trial = self._scored(base, learn(folds, edges, coupling, steps, LEARNING_ITERATIONS), folds, edges, labels)
        for J in STRONGER if coupling == "one" and abs(trial.potentials.J.item()) < STRONGER[-1] else ():
            if abs(trial.potentials.J.item()) >= J:
                continue
            fixed = with_coupling(trial.potentials, J, folds, edges, steps // 3, LEARNING_ITERATIONS)
            stronger = self._scored(base, fixed, folds, edges, labels)
            if stronger.score < trial.score - CLOSE:
                break
            trial = Trial(base, fixed, max(stronger.score, trial.score), stronger.iterations)
        return trial

    def _scored(self, base: Candidate, potentials: Potentials, folds: Folds, edges: Edges, labels: Labels) -> Trial:
        scores = {many: trial_score(potentials, folds, edges, labels, many) for many in ITERATIONS}
        iterations = max(scores, key=lambda many: scores[many])
        return Trial(base, potentials, scores[iterations], iterations)

    @property
    def _potentials(self) -> Potentials:
        return cast(Potentials, self.network_)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        theta = self._unary(graph, y)
        return self._beliefs(graph, theta, self._one_hot(y)).squeeze(1).softmax(dim=-1).double().numpy()

    @torch.no_grad()
    def _beliefs(self, graph: Graph, theta: Tensor, known: Tensor) -> Tensor:
        """Logits (nodes, batch, classes) given unaries and one-hot labels of that shape."""
        propagation = Propagation(self._potentials, edges_of(graph), self.mean_log_)
        return propagation.beliefs(theta, known, self.iterations_)

    def _unary(self, graph: Graph, y: NDArray[np.int64]) -> Tensor:
        """theta (nodes, 1, classes) given known labels."""
        return self._potentials.unary(log_probabilities(self.base_._marginals(graph, y))).unsqueeze(1)

    def _one_hot(self, y: NDArray[np.int64]) -> Tensor:
        """Known labels (nodes, 1, classes), zero where there is none."""
        return torch.from_numpy(one_hot(y, self.target_.channels)).float().unsqueeze(1)

    def sample(
        self,
        num_samples: int = 1,
        graph: Graph | None = None,
        known: Any = None,
        *,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> NDArray[Any]:
        """Joint labellings (num_samples, nodes) by name, by Gibbs sampling; the same seed gives the same samples."""
        check_number("num_samples", num_samples, 1, LIMITS["num_samples"], whole=True)
        asked = self._asked(graph, known, condition_on)
        theta, given = self._unary(asked, asked.y), self._one_hot(asked.y)
        generator, sampler = self._generator(seed), Gibbs(self._potentials, edges_of(asked), self.mean_log_)
        beliefs = self._beliefs(asked, theta, given)
        theta, beliefs, given = (part.expand(-1, num_samples, -1) for part in (theta, beliefs, given))
        return self.target_.decode(sampler.sample(theta, beliefs, given, SWEEPS, generator).T.numpy())

    def chains(self, y_train: NDArray[np.int64]) -> ChainSampler:
        """Draws joint labellings of the fitted graph for a model that is to learn from them; only right after `fit`."""
        sampler = Gibbs(self._potentials, edges_of(self.graph_), self.mean_log_)
        unary = self._potentials.unary(log_probabilities(self._fold_answers.transpose(1, 0, 2)))
        return ChainSampler(unary, partial(self._beliefs, self.graph_), sampler, y_train, self._labels.fold)

    def _fitted_network(self) -> Potentials:
        return Potentials(self.target_.channels, self.coupling_)

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        if params["base"] is None:
            params = params | {"base": "uniform"}  # only `fit` needs the object again
        return super()._from_state(params, tensors, values, graph)


class ChainSampler:
    """Joint labellings, one for each fold of the training labels at a time.

    Each is drawn without the labels of its fold, from answers of a base model that did not see them. In every other
    call some of its own labels are given, too, up to half of them.
    """

    def __init__(
        self,
        unary: Tensor,
        beliefs: Callable[[Tensor, Tensor], Tensor],
        sampler: Gibbs,
        y_train: NDArray[np.int64],
        fold: NDArray[np.int64],
    ) -> None:
        self.unary, self.beliefs, self.sampler = unary, beliefs, sampler
        self.truth, of_node = torch.from_numpy(y_train).unsqueeze(1), torch.from_numpy(fold).unsqueeze(1)
        self.labelled = of_node >= 0
        self.hidden = of_node == torch.arange(unary.shape[1])
        self.given = self.labelled & ~self.hidden
        self.known = self.field(self.truth.expand_as(self.given), self.given)
        self.given_beliefs = beliefs(unary, self.known)

    def field(self, y: Tensor, mask: Tensor) -> Tensor:
        """One-hot labels (nodes, folds, classes) where the mask says so, zero elsewhere."""
        return torch.nn.functional.one_hot(y.clamp_min(0), self.unary.shape[-1]).float() * mask.unsqueeze(-1)

    @torch.no_grad()
    def draw(self, generator: torch.Generator, shows_own: bool) -> Chains:
        y = self.sampler.sample(self.unary, self.given_beliefs, self.known, SWEEPS, generator)
        y = torch.where(self.labelled, self.truth, y)
        shown, beliefs = self.given, self.given_beliefs
        if shows_own:
            share = MOST_SHOWN * torch.rand(y.shape[1], generator=generator)
            shown = shown | ((torch.rand(y.shape, generator=generator) < share) & ~self.hidden)
            beliefs = self.beliefs(self.unary, self.field(y, shown))
        return Chains(y.T, shown.T, beliefs.log_softmax(dim=-1).transpose(0, 1))


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
