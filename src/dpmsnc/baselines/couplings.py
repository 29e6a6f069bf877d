"""Which couplings suit base models, by the likelihood of labels that none of them has seen.

Scores are means of log-probabilities over training labels, each asked of a fit without it, and over the declared
validation labels, which no fit sees. Couplings learned from the scored labels are charged one nat a parameter.

Balanced couplings (`dpmsnc.pairwise.potentials`) change no marginal before a label is revealed, so scores do not depend
on their strength. It is learned from what one half of the unseen labels tells about the other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.choice import CLOSE, Candidate, Labels
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.learning import (
    BALANCED_GAMMA,
    Folds,
    asking_iterations,
    direction,
    learn,
    log_prior,
    refine,
    told_by_labels,
    with_coupling,
)
from dpmsnc.pairwise.potentials import LEAST, Potentials
from dpmsnc.pairwise.propagation import Propagation

LABELS_A_COUPLING = 4
"""Training labels that there must be for every number of a full matrix of couplings; with fewer, one has to do."""
WORK = 2.0e6
"""Entries of messages times steps of learning; graphs with many edges take fewer steps."""
LEAST_STEPS, MOST_STEPS = 8, 25
STRENGTHS, FACTORS = (0.0, 0.25, 0.5, 1.0), (1.0, 2.0, 4.0)
"""Couplings that are weighed against each other: these, with the sign that labels alone tell, and the learned one
multiplied by these, where it has that sign."""
LISTENING, ITS_PRICE = (0.5, 0.25), 0.025
"""Couplings that are preferred to weaker ones where neighbours agree, and the nats a label that they may cost: without
a coupling, a label that is revealed later changes no neighbour. Balanced couplings, where they are tried, cost none."""
BALANCED = 6
"""Balanced couplings that are weighed against each other, evenly from 0 to the strongest one."""
WEAKER, MOST_STRAYING = 0.7, 0.01
"""The strongest one is what labels alone tell, times this factor until beliefs are this close in total variation to
the marginals that it is balanced for."""
LEAST_COUPLING = 0.02
"""Couplings below are none."""
CouplingChoice = Literal["auto", "none", "one", "balanced", "full"]


@dataclass
class Trial:
    """Base models under one kind of coupling."""

    bases: list[Candidate]
    potentials: Potentials
    score: float
    bonus: float = 0.0
    """What the score is raised by where trials are compared; it may be negative."""

    @property
    def rank(self) -> float:
        return self.score + self.bonus


def trials(
    bases: list[Candidate],
    coupling: CouplingChoice,
    edges: Edges,
    labels: Labels,
    half: NDArray[np.int64] | None,
    balances: bool,
) -> Iterator[Trial]:
    """The base models alone or with one coupling, with balanced couplings, and with a matrix where there are labels
    enough.

    Labels of one graph are asked for fold by fold, those of several graphs in two halves. `balances` says whether
    "auto" tries balanced couplings.
    """
    log_p, y, fold = pooled_answers(bases), torch.from_numpy(labels.y), torch.from_numpy(labels.fold)
    folds, of_node = Folds.of(log_p, y, fold), fold
    if half is not None:
        of_node = torch.from_numpy(half)
        folds = Folds.of_graphs(log_p, y, of_node)
    C = log_p.shape[-1]
    steps = learning_steps(edges, C)

    def trial(potentials: Potentials) -> Trial:
        return Trial(bases, potentials, trial_score(potentials, folds, edges, labels))

    if coupling == "none":
        yield trial(learn(folds, edges, "none", steps))
        return
    tries_balanced = coupling == "balanced" or (coupling == "auto" and balances)
    told = (told_by_labels if tries_balanced else direction)(y, of_node, C, edges)
    if tries_balanced:
        potentials = balanced(folds, folds if half is not None else halves(log_p, labels), edges, told)
        if coupling == "balanced" or potentials.J.abs() >= LEAST_COUPLING:
            yield replace(trial(potentials), bonus=CLOSE)  # with the marginals of no coupling, it learns from labels
    if coupling == "balanced":
        return
    one = learn(folds, edges, "one", steps)
    if coupling != "full":

        def at(J: float, steps: int) -> Trial:
            return trial(with_coupling(one, J, folds, edges, steps))

        size = folds.size + len(labels.validation)
        sign, listens = (1.0 if told >= 0 else -1.0), not tries_balanced
        J, best = expected_coupling(one.J.item(), sign, size, lambda J: at(J, steps // 5).score, listens)
        couples = abs(J) >= LEAST_COUPLING or coupling == "one"
        chosen = at(J, steps // 3) if couples else trial(learn(folds, edges, "none", steps))
        yield replace(chosen, score=max(best, chosen.score))  # what a matrix would have to beat
    if coupling == "full" or (coupling == "auto" and folds.size >= LABELS_A_COUPLING * C * (C + 1) / 2):
        matrix = trial(refine(one, "full", folds, edges, steps))
        yield replace(matrix, bonus=-CLOSE)  # which it may win by chance


def halves(log_p: Tensor, labels: Labels) -> Folds:
    """Labels that base models have not seen, each half of them given the other."""
    half = torch.from_numpy(np.random.default_rng(len(labels.y)).integers(2, size=len(labels.y)))
    outside = torch.zeros(len(labels.y), dtype=torch.bool)
    outside[torch.from_numpy(labels.validation)] = True
    return Folds.of_halves(log_p, torch.from_numpy(labels.y), torch.from_numpy(labels.fold), outside, half)


def balanced(folds: Folds, unseen: Folds, edges: Edges, told: float) -> Potentials:
    """The base models under the mean of balanced couplings, each weighted by how likely it makes unseen labels, the
    others of them being revealed. It is 0 without edges, and half of the strongest one where these labels do not tell.

    `told` is how much neighbours agree by labels alone, and no coupling is stronger: where features tell much of a
    label, less is left for its neighbours to tell. Beyond some strength a fixed point of propagation is lost, and
    beliefs leave the marginals although nothing was revealed.
    """
    alone = learn(folds, edges, "none", learning_steps(edges, folds.num_classes))
    iterations, strongest = asking_iterations(edges, folds.num_classes), told if len(edges) else 0.0
    while abs(strongest) >= LEAST_COUPLING:
        if straying(with_balanced(alone, strongest), folds, edges, iterations) <= MOST_STRAYING:
            break
        strongest *= WEAKER
    else:
        return with_balanced(alone, 0.0)
    J = torch.linspace(0, strongest, BALANCED, dtype=torch.float64)
    tried = (with_balanced(alone, strength) for strength in J.tolist())
    log_likelihood = [revealed_score(potentials, unseen, edges, iterations) for potentials in tried]
    log_weight = unseen.size * torch.tensor(log_likelihood, dtype=torch.float64)
    return with_balanced(alone, float(log_weight.softmax(dim=0) @ J))


@torch.no_grad()
def revealed_score(potentials: Potentials, unseen: Folds, edges: Edges, iterations: int) -> float:
    """Mean log-likelihood of labels, others being revealed. Each counts once, in however many folds it is asked for."""
    log_q = unseen.log_likelihood(unseen.beliefs(potentials, edges, iterations))
    return ((log_q / unseen.row.bincount()[unseen.row]).sum() / unseen.size).item()


@torch.no_grad()
def with_balanced(potentials: Potentials, J: float) -> Potentials:
    """The same unaries under a balanced coupling."""
    result = Potentials.like(potentials, "balanced").requires_grad_(False)
    result.J.fill_(J)
    result.gamma.fill_(BALANCED_GAMMA)
    return result


@torch.no_grad()
def straying(potentials: Potentials, folds: Folds, edges: Edges, iterations: int) -> float:
    """Mean total variation between base models' marginals and beliefs, where only labels are known that these models
    learned from and propagation does not begin with the messages that it should find."""
    propagation = Propagation(potentials, edges, edges.mean_log)
    beliefs = propagation.beliefs(propagation.unaries(folds.log_p, folds.seen).theta, folds.seen, iterations)
    change = beliefs.softmax(dim=-1) - potentials.unary(folds.log_p).softmax(dim=-1)
    unseen = torch.ones(change.shape[:2]) if folds.seen is None else 1 - folds.seen.sum(dim=-1)
    return float((change.abs().sum(dim=-1) * unseen).sum() / (2 * unseen.sum()))


def learning_steps(edges: Edges, num_classes: int) -> int:
    """Steps of learning; graphs with many edges take fewer."""
    return int(np.clip(WORK / (max(len(edges), 1) * num_classes), LEAST_STEPS, MOST_STEPS))


def expected_coupling(
    learned: float, sign: float, size: int, score: Callable[[float], float], listens: bool
) -> tuple[float, float]:
    """The mean of couplings, each weighted by how likely it makes the labels that were asked for, and the best score.

    Few labels do not tell a sure base model without a coupling from a less sure one with it, and the coupling that fits
    them best may be far too strong. `size` is the number of labels behind a score. With `listens`, a moderate coupling
    is preferred to a weaker one.
    """
    tried = [sign * strength for strength in STRENGTHS] + [factor * learned for factor in FACTORS if learned * sign > 0]
    scores = {J: score(J) for J in dict.fromkeys(tried)}
    J = torch.tensor(list(scores), dtype=torch.float64)
    log_weight = size * torch.tensor(list(scores.values()), dtype=torch.float64) + log_prior("J", J)
    mean, best = float(log_weight.softmax(dim=0) @ J), max(scores.values())
    moderate = (J for J in LISTENING if mean < J and scores.get(J, -inf) >= best - ITS_PRICE)
    return next(moderate, mean) if listens else mean, best


@torch.no_grad()
def trial_score(potentials: Potentials, folds: Folds, edges: Edges, labels: Labels) -> float:
    """Mean log-likelihood of training labels in their folds, less a nat a coupling, and of validation labels."""
    beliefs = folds.beliefs(potentials, edges, asking_iterations(edges, folds.num_classes))
    V = torch.from_numpy(labels.validation)
    outside = beliefs[V].log_softmax(dim=-1)[torch.arange(len(V)), :, folds.y[V]].mean(dim=1)
    total = folds.size * folds.log_likelihood(beliefs).mean() + outside.sum()
    C = potentials.num_classes
    couplings = {"none": 0, "one": 2, "balanced": 0, "full": 1 + C * (C + 1) // 2}[potentials.coupling]
    return ((total - couplings) / (folds.size + len(V))).item()


def pooled_answers(bases: list[Candidate]) -> Tensor:
    """Log-probabilities (bases, nodes, folds, classes)."""
    return torch.stack([log_probabilities(np.stack(base.answers, axis=1)) for base in bases])


def log_probabilities(p: NDArray[np.float64]) -> Tensor:
    """Logarithms of probabilities, none of which is ruled out."""
    return torch.from_numpy(np.log(np.maximum(p, LEAST))).float()


def describe(trials: list[Trial], scores: dict[str, float], chosen: Trial) -> list[dict[str, Any]]:
    """All that was compared, as JSON values: what was chosen, other couplings by rank, and single base models."""
    under = [
        {
            "base": " + ".join(base.name for base in trial.bases),
            "coupling": trial.potentials.coupling,
            "score": round(trial.score, 4),
        }
        for trial in sorted(trials, key=lambda trial: (trial is not chosen, -trial.rank))
    ]
    alone = sorted(scores.items(), key=lambda item: -item[1])
    return under + [{"base": base, "coupling": None, "score": round(score, 4)} for base, score in alone]
