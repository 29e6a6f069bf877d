r"""A conditional random field: a base model looks at every node, and neighbours are tied by one pairwise model.

Base models are compared by the likelihood of labels that they have not seen, calibrated by one temperature: cheap ones
first, fold by fold, and what is far behind is not fitted again (`dpmsnc.baselines.choice`). Those that are left are
pooled under the pairwise model (`dpmsnc.pairwise`), learned on the same fold-wise answers, with and without couplings
(`dpmsnc.baselines.couplings`).

The marginals are those of belief propagation given the labels known when it is asked; `sample` draws joint labellings
by Gibbs sampling.

References: Lafferty et al., "Conditional Random Fields", ICML 2001; Jia et al., "A Unifying Generative Model for Graph
Learning Algorithms", 2021; Qu et al., "Neural Structured Prediction for Inductive Node Classification", ICLR 2022.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf
from typing import Any, Self, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.base import NOT_PROBABILITIES, Baseline, one_hot
from dpmsnc.baselines.choice import CLOSE, Builders, Candidate, Labels, compare
from dpmsnc.baselines.couplings import (
    CouplingChoice,
    Trial,
    describe,
    learning_steps,
    log_probabilities,
    pooled_answers,
    trials,
)
from dpmsnc.baselines.folds import assign_folds, fitted, in_several_graphs
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.grand import GRAND
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.neighbourhood import NeighbourhoodFeatures
from dpmsnc.baselines.other_graphs import continues, places, two_halves
from dpmsnc.baselines.pta import PTA
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.config import ScalingName, check_number
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.sampler import Noise
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.base import KINDS, METHODS, Method, seeded
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.pairwise.denoiser import PairwiseDenoiser
from dpmsnc.pairwise.edges import edges_of
from dpmsnc.pairwise.few_labels import Trust, learn_trust, share_known
from dpmsnc.pairwise.gibbs import SWEEPS, Gibbs
from dpmsnc.pairwise.learning import Folds, asking_iterations
from dpmsnc.pairwise.potentials import Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation, Unaries
from dpmsnc.pairwise.unlabelled import ENOUGH, LEAST_NODES, Unlabelled, components, score, uncoupled
from dpmsnc.training.chains import ChainSampler

MOST_BASES = 3
"""Base models that are pooled."""
DAMAGED = "what was saved of the pairwise model is damaged; fit again"
Told = tuple[bool, ...]
"""Which of the base models spread the labels that are known when they are asked."""


def _bases(graph: Graph, seed: int) -> Builders:
    """Base models to choose from, cheap ones first; those that need features only where there are some."""
    cheap: Builders = {
        "uniform": Uniform,
        "lp": partial(LabelPropagation, num_layers=50, clamp=True),
        "neighbourhood": partial(NeighbourhoodFeatures, seed=seed),
    }
    if graph.x is None:
        return cheap
    scalings: tuple[ScalingName, ...] = ("rows", "unit")
    ptas = {f"pta ({scaling})": partial(PTA, scaling=scaling, seed=seed) for scaling in scalings}
    grands = {
        # features that sum to 1 in a row are small, and take longer to be learned from
        f"grand ({scaling})": partial(GRAND, scaling=scaling, epochs=epochs, augmentations=2, seed=seed)
        for scaling, epochs in zip(scalings, (400, 200))
    }
    gnns = {name: partial(GNN, name, seed=seed) for name in ("gcn", "sage")}
    return {**cheap, **ptas, **grands, **gnns}


@dataclass(eq=False, repr=False)
class CRF(Baseline):
    """A base model of every node under a pairwise model of neighbours.

    Args:
        base: A method by name, in Python also with settings, as in ("pta", {"scaling": "rows"}); "auto" chooses among
            label propagation, PTA, GRAND, GCN, SAGE, neighbourhood features and no base at all.
        coupling: "one" number for all classes, a "full" matrix, "balanced", which leaves marginals as the base model
            has them until labels are revealed that surprise it, or "none", which calibrates the base model and no
            more. "auto" chooses by the likelihood of unseen labels; a matrix is tried where classes are few.

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
        match self.base:
            case str(name) | [str(name)]:
                settings: Mapping[str, Any] = {}
            case [str(name), Mapping() as settings]:
                pass
            case _:
                raise InputError(f"base={self.base!r} is neither a baseline nor the name of one, maybe with settings")
        if name == "uniform":
            return Uniform()
        try:
            base = METHODS.find(name).build(self.seed, **settings)
        except TypeError as error:
            raise InputError(f"the base {name!r} does not take the settings {settings} ({error})") from error
        if not isinstance(base, Baseline):
            raise InputError(f"{name!r} is no base of a pairwise model; take a baseline")
        return base

    def _fit(
        self,
        graph: Graph,
        y_train: NDArray[np.int64],
        y_validation: NDArray[np.int64],
        builders: Builders | None = None,
    ) -> None:
        """`builders` are the base models to choose from, by default all, or the one that was given."""
        fold = assign_folds(y_train, self.seed, member=graph.member)
        labels = Labels.of(y_train, y_validation, fold)
        auto = isinstance(self.base, str) and self.base == "auto"
        builders = builders or (_bases(graph, self.seed) if auto else {str(self.base): self._given_base})
        bases, scores = compare(builders, graph, y_train, labels)
        if not bases:
            raise InputError(NOT_PROBABILITIES)
        pools = [informative(bases, scores)[:MOST_BASES]]
        if graph.x is None and "uniform" in builders and pools[0][0].name != "uniform":
            pools.append(compare({"uniform": Uniform}, graph, y_train, labels)[0])
        half = None
        if graph.member is not None and in_several_graphs(y_train, graph.member):
            pools = [[candidate.unseen(labels, graph.member) for candidate in pool] for pool in pools]
            labels, half = replace(labels, fold=np.minimum(fold, 0)), assign_folds(y_train, self.seed, num_folds=2)
        edges = edges_of(graph)
        tried: list[Trial] = []
        for pool in pools:
            # without features couplings have to carry the answer
            balances = graph.x is not None and half is None and all(builders[b.name]().learns_answers for b in pool)
            tried += trials(pool, self.coupling, edges, labels, half, balances)
        best = max(tried, key=lambda trial: trial.rank)
        self.choices_ = describe(tried, scores, best)
        self.names_ = [base.name for base in best.bases]
        self.bases_ = [fitted(builders[name](), graph, y_train) for name in self.names_]
        self.network_, self.mean_log_ = best.potentials.requires_grad_(False), edges.mean_log
        self.coupling_ = best.potentials.coupling
        self._labels, self._fold_answers = labels, pooled_answers(best.bases)
        self.learned_ = y_train if self.coupling_ == "balanced" and half is None else None
        self.unlabelled_, self.least_unlabelled_ = None, LEAST_NODES
        self.elsewhere_ = self._learn_elsewhere(graph, y_train, scores) if auto and graph.member is None else None
        self.trust_ = None
        told = None if self.coupling_ == "none" or half is not None else self._told(graph, y_train)
        if told is not None:
            alone, nothing = self._learn_alone(graph, y_train, told)
            # several graphs need none, since theirs are learned without labels, too
            if score(alone, nothing, edges) > score(self._potentials, nothing, edges) + ENOUGH:
                self.unlabelled_ = alone
            if self.elsewhere_ is not None:
                self.trust_ = self._learn_trust(graph, y_train, told, alone.unary(nothing.log_p))

    def _learn_alone(self, graph: Graph, y_train: NDArray[np.int64], told: Told) -> tuple[Potentials, Folds]:
        """Potentials of components without a known label, and the labels that they are learned from: all that there
        are, no other being shown."""
        log_p = self._told_less(graph, y_train, told, np.full((len(y_train), self._fold_answers.shape[2]), False))
        nothing = Folds.without_labels(log_p, torch.from_numpy(self._labels.y), torch.from_numpy(self._labels.fold))
        edges = edges_of(graph)
        return uncoupled(self._potentials, nothing, edges, learning_steps(edges, nothing.num_classes) // 3), nothing

    @torch.no_grad()
    def _learn_trust(
        self, graph: Graph, y_train: NDArray[np.int64], told: Told, alone: Tensor
    ) -> dict[str, float] | None:
        """How far couplings are trusted on other graphs where fewer labels are known, learned by hiding more of them;
        `alone` are the logits (nodes, folds, classes) of nodes in components without a known label.

        Base models that have seen the nodes make up for labels that are hidden from propagation alone. So couplings may
        be trusted too far, but hardly too little.
        """
        fold = self._labels.fold[:, None]
        asked = fold == np.arange(self._fold_answers.shape[2])
        given = (fold >= 0) & ~asked
        order = np.where(given, np.random.default_rng(self.seed).random(given.shape), np.inf).argsort(axis=0)
        rank, y = order.argsort(axis=0), torch.from_numpy(self._labels.y)

        def question(share: float) -> Folds:
            shown = given & (rank < np.maximum(1, share * given.sum(axis=0)))
            log_p = self._told_less(graph, y_train, told, shown)
            return Folds(log_p, y, torch.from_numpy(shown), torch.from_numpy(asked))

        component = torch.from_numpy(components(graph))
        usual = float(share_known(component, torch.from_numpy(given))[torch.from_numpy(asked)].mean())
        trust = learn_trust(self._potentials, alone, edges_of(graph), component, usual, question) if usual else None
        return asdict(trust) if trust else None

    def _told(self, graph: Graph, y_train: NDArray[np.int64]) -> Told | None:
        """Which base models spread known labels; None where what one of them learned would give labels away."""
        nothing = np.full_like(y_train, UNKNOWN)
        told = [
            not np.allclose(base._marginals(graph, y_train), base._marginals(graph, nothing)) for base in self.bases_
        ]
        sound = all(isinstance(base, LabelPropagation) for base, spreads in zip(self.bases_, told) if spreads)
        return tuple(told) if sound else None

    def _told_less(self, graph: Graph, y_train: NDArray[np.int64], told: Told, shown: NDArray[np.bool_]) -> Tensor:
        """Answers in the folds, where fewer labels are shown (nodes, folds)."""
        log_p = self._fold_answers.clone()
        for k in np.flatnonzero(told):
            answers = [self.bases_[k]._marginals(graph, np.where(part, y_train, UNKNOWN)) for part in shown.T]
            log_p[k] = torch.stack([log_probabilities(p) for p in answers], dim=1)
        return log_p

    def _learn_elsewhere(self, graph: Graph, y_train: NDArray[np.int64], scores: Mapping[str, float]) -> CRF | None:
        """The model of components without a known label on other graphs: it learned from each half of the graph for
        the other one.

        Base models that were fitted to all nodes of a graph know them, labelled or not, and are too sure elsewhere.
        In a half at random a node keeps half of its neighbours, so that couplings are learned where there are fewer.
        """
        halves, builders = two_halves(graph, y_train, self.seed), _bases(graph, self.seed)
        networks = sorted({"gcn", "sage"} & scores.keys(), key=lambda name: -scores[name])[:1]
        builders = {name: builders[name] for name in ("uniform", "neighbourhood", *networks) if name in builders}
        if halves is None or not builders or self.coupling == "none":  # without couplings nothing adds up
            return None
        # a matrix of couplings takes as long again to learn
        other, y = CRF(coupling="one", seed=self.seed), np.concatenate([y_train[half] for half in halves])
        union = GraphBatch.of([graph.subgraph(half) for half in halves], graph.target).graph
        other._learn(union, y, np.full_like(y, UNKNOWN), builders=builders)
        told = other._told(union, y)
        if told is not None and other.coupling_ != "none":
            other.unlabelled_ = other._learn_alone(union, y, told)[0]
        other._take(graph, other._fit_features(graph))
        other.bases_ = [fitted(builders[name](), graph, y_train) for name in other.names_]
        other.mean_log_, other.least_unlabelled_ = self.mean_log_, 1
        return other

    def _for(self, graph: Graph) -> CRF:
        """The model of components without a known label: another one on other graphs than the fitted one."""
        elsewhere: CRF | None = getattr(self, "elsewhere_", None)  # which an older model lacks
        return self if elsewhere is None or not self._is_another(graph) else elsewhere

    def _is_another(self, graph: Graph) -> bool:
        """Whether it is neither the fitted graph nor that graph with changes; several at a time are others."""
        several = graph.member is not None and self.graph_.member is None
        return several or (not self._is_fitted_graph(graph) and not continues(graph, self.graph_))

    @property
    def _potentials(self) -> Potentials:
        return cast(Potentials, self.network_)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        answers, known = self._answers_of_bases(graph, y), self._one_hot(y)
        logits = self._beliefs(graph, self._unaries(graph, answers, y), known)
        if (unlabelled := self._unlabelled(graph, y, answers)) is not None:
            logits = unlabelled.pooled_with(logits, as_known(known), torch.zeros_like(logits))
        return logits.squeeze(1).softmax(dim=-1).double().numpy()

    @torch.no_grad()
    def _beliefs(self, graph: Graph, unaries: Unaries, known: Tensor) -> Tensor:
        """Logits (nodes, batch, classes) given one-hot labels of that shape."""
        iterations = asking_iterations(edges_of(graph, self.graph_), known.shape[-1])
        return self._propagation(graph).beliefs(unaries.theta, known, iterations, unaries.messages)

    def _answers_of_bases(self, graph: Graph, y: NDArray[np.int64]) -> Tensor:
        """Log-probabilities (bases, nodes, classes) given known labels."""
        return torch.stack([log_probabilities(base._marginals(graph, y)) for base in self.bases_])

    @torch.no_grad()
    def _unaries(self, graph: Graph, answers: Tensor, *labels: NDArray[np.int64]) -> Unaries:
        """Unaries given some known labels, an entry of the batch for each.

        `answers` are those of the base models (bases, nodes, classes), or with such an entry for each.
        """
        log_p = answers if answers.ndim == 4 else answers.unsqueeze(2)
        seen = None
        if self.coupling_ == "balanced":
            seen = torch.cat([self._one_hot(self._seen(graph, y)) for y in labels], dim=1)
        return self._propagation(graph).unaries(log_p, seen)

    def _seen(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of known labels that base models learned from, on nodes that the fitted graph has, too."""
        learned = np.full_like(y, UNKNOWN)
        if self.learned_ is not None:
            same = self._is_fitted_graph(graph)
            where = np.arange(len(y)) if same else places(self.graph_, graph)
            learned[where[where >= 0]] = self.learned_[where >= 0]
        return np.where(y == learned, y, UNKNOWN)

    @torch.no_grad()
    def _unlabelled(
        self, graph: Graph, y: NDArray[np.int64], answers: Tensor | None, trust: Trust | None = None
    ) -> Unlabelled | None:
        """The components of a graph without a known label, if they have potentials of their own, and those in which so
        few are known that couplings are not trusted fully.

        `answers` are those of the base models, where they have been asked already.
        """
        component = components(graph)
        if (model := self._for(graph)) is not self:
            return model._unlabelled(graph, y, None, self._trust())
        potentials = getattr(self, "unlabelled_", None)  # which an older model lacks
        rows = ~np.isin(component, component[y != UNKNOWN])
        rows &= np.bincount(component)[component] >= self.least_unlabelled_
        if potentials is None or not (rows.any() or trust):
            return None
        marginals, couplings = potentials.unary(self._answers_of_bases(graph, y) if answers is None else answers), None
        if rows.any():
            part = graph if rows.all() else graph.subgraph(rows)
            couplings = self._propagation(part), self._sampler(part)
        return Unlabelled(torch.from_numpy(component), torch.from_numpy(rows), marginals, couplings, trust)

    def _trust(self) -> Trust | None:
        """In couplings on other graphs, if it depends on how many labels are known there."""
        values = getattr(self, "trust_", None)  # which an older model lacks
        return None if values is None else Trust(**values)

    def _one_hot(self, y: NDArray[np.int64]) -> Tensor:
        """Known labels (nodes, 1, classes), zero where there is none."""
        return torch.from_numpy(one_hot(y, self.target_.channels)).float().unsqueeze(1)

    def _drawn(self, asked: Graph, num_samples: int, generator: torch.Generator) -> NDArray[np.int64]:
        """Joint labellings by Gibbs sampling."""
        answers, given = self._answers_of_bases(asked, asked.y), self._one_hot(asked.y)
        unaries = self._unaries(asked, answers, asked.y)
        theta, beliefs = unaries.theta, self._beliefs(asked, unaries, given)
        if (unlabelled := self._unlabelled(asked, asked.y, answers)) is not None:
            given = unlabelled.begin(as_known(given), num_samples, Noise(1.0, generator)).y
        sampler = self._sampler(asked)
        theta, beliefs, given = (part.expand(-1, num_samples, -1) for part in (theta, beliefs, given))
        return sampler.sample(theta, beliefs, given, SWEEPS, generator).T.numpy()

    def chains(self, y_train: NDArray[np.int64]) -> ChainSampler:
        """Draws joint labellings of the fitted graph for a model that is to learn from them; only right after `fit`."""
        propagation, sampler = self._propagation(self.graph_), self._sampler(self.graph_)
        folds = Folds.of(self._fold_answers, torch.from_numpy(self._labels.y), torch.from_numpy(self._labels.fold))
        with torch.no_grad():
            unaries = propagation.unaries(self._fold_answers, folds.seen)
        several, member = in_several_graphs(y_train, self.graph_.member), self.graph_.member
        return ChainSampler(unaries, propagation, sampler, y_train, self._labels.fold, member, several)

    def denoiser(self, graph: Graph, *labels: NDArray[np.int64]) -> PairwiseDenoiser:
        """The denoiser of the pairwise model on a graph, an entry of the batch for each of some known labels."""
        answers = torch.stack([self._answers_of_bases(graph, y) for y in labels], dim=2)
        theta, messages = self._unaries(graph, answers, *labels)
        return PairwiseDenoiser(self._propagation(graph), theta, messages=messages)

    def asked_denoiser(self, graph: Graph) -> PairwiseDenoiser:
        """The denoiser for the questions of users: components without a known label have marginals of their own."""
        answers = self._answers_of_bases(graph, graph.y)
        unlabelled = self._unlabelled(graph, graph.y, answers)
        theta, messages = self._unaries(graph, answers, graph.y)
        return PairwiseDenoiser(self._propagation(graph), theta, unlabelled, messages)

    def _propagation(self, graph: Graph) -> Propagation:
        return Propagation(self._potentials, edges_of(graph, self.graph_), self.mean_log_)

    def _sampler(self, graph: Graph) -> Gibbs:
        return Gibbs(self._potentials, edges_of(graph, self.graph_), self.mean_log_)

    def _fitted_network(self) -> Potentials:
        return Potentials(self.target_.channels, self.coupling_, num_bases=len(self.bases_))

    def _check_state(self) -> None:
        super()._check_state()
        sound = isinstance(self.bases_, list) and all(isinstance(base, Baseline) for base in self.bases_)
        if not sound or self.coupling_ not in get_args(Coupling) or not np.isfinite(float(self.mean_log_)):
            raise ModelFileError(DAMAGED)
        learned = getattr(self, "learned_", None)  # which an older model lacks
        if learned is not None and (learned.shape != (self.graph_.num_nodes,) or learned.dtype != np.int64):
            raise ModelFileError(DAMAGED)
        others = getattr(self, "elsewhere_", None), getattr(self, "unlabelled_", None)
        if not all(other is None or isinstance(other, kind) for other, kind in zip(others, (CRF, Potentials))):
            raise ModelFileError(DAMAGED)
        check_number("least_unlabelled_", getattr(self, "least_unlabelled_", LEAST_NODES), 1, whole=True)
        several = in_several_graphs(self.graph_.y, self.graph_.member)
        if learned is None and self.coupling_ == "balanced" and not several:
            raise ModelFileError(DAMAGED)
        try:
            self._trust()
        except (TypeError, ValueError) as error:
            raise ModelFileError(DAMAGED) from error

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        base = params["base"]
        if base is not None and not (isinstance(base, str) and base in KINDS):
            return super()._from_state(params, tensors, values, graph)
        # of a base that was given as an estimator, the settings are lost, but not the one that was fitted
        model = super()._from_state(params | {"base": "uniform"}, tensors, values, graph)
        model.base = model.bases_[0]
        return model


def informative(bases: list[Candidate], scores: dict[str, float]) -> list[Candidate]:
    """Those that say more than nothing; if there are none, the one that says nothing."""
    nothing = scores.get("uniform", -inf)
    found = [base for base in bases if scores[base.name] > nothing + CLOSE]
    return found or [base for base in bases if base.name == "uniform"] or bases[:1]


def as_known(one_hot: Tensor) -> Known:
    """Labels (nodes, batch, classes) that are zero where there is none."""
    return Known(one_hot.sum(dim=-1) > 0, one_hot)


METHODS["crf"] = Method(partial(seeded, CRF))
