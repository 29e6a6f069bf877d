"""Which couplings suit base models, by the likelihood of labels that none of them has seen.

Scores are means of log-probabilities over training labels, each asked of a fit without it, and over the declared
validation labels, which no fit sees. Couplings learned from the scored labels are charged one nat a parameter.
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
from dpmsnc.pairwise.learning import Folds, asking_iterations, direction, learn, log_prior, refine, with_coupling
from dpmsnc.pairwise.potentials import LEAST, Potentials

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
a coupling, a label that is revealed later changes no neighbour."""
LEAST_COUPLING = 0.02
"""Couplings below are none."""
CouplingChoice = Literal["auto", "none", "one", "full"]


@dataclass
class Trial:
    """Base models under one kind of coupling."""

    bases: list[Candidate]
    potentials: Potentials
    score: float


def trials(
    bases: list[Candidate], coupling: CouplingChoice, edges: Edges, labels: Labels, half: NDArray[np.int64] | None
) -> Iterator[Trial]:
    """The base models alone, with one coupling, and with a matrix of them where there are labels enough.

    Labels of one graph are asked for fold by fold, those of several graphs in two halves.
    """
    log_p, y, fold = pooled_answers(bases), torch.from_numpy(labels.y), torch.from_numpy(labels.fold)
    folds, of_node = Folds.of(log_p, y, fold), fold
    if half is not None:
        of_node = torch.from_numpy(half)
        folds = Folds.of_graphs(log_p, y, of_node)
    labels_alone = Folds.of(torch.zeros(1, len(y), int(of_node.max()) + 1, log_p.shape[-1]), y, of_node)
    C = log_p.shape[-1]
    steps = learning_steps(edges, C)

    def trial(potentials: Potentials) -> Trial:
        return Trial(bases, potentials, trial_score(potentials, folds, edges, labels))

    if coupling == "none":
        yield trial(learn(folds, edges, "none", steps))
        return
    one = learn(folds, edges, "one", steps)
    if coupling != "full":

        def at(J: float, steps: int) -> Trial:
            return trial(with_coupling(one, J, folds, edges, steps))

        size = folds.size + len(labels.validation)
        sign = direction(labels_alone, edges)
        J, best = expected_coupling(one.J.item(), sign, size, lambda J: at(J, steps // 5).score)
        couples = abs(J) >= LEAST_COUPLING or coupling == "one"
        chosen = at(J, steps // 3) if couples else trial(learn(folds, edges, "none", steps))
        yield replace(chosen, score=max(best, chosen.score))  # what a matrix would have to beat
    if coupling == "full" or (coupling == "auto" and folds.size >= LABELS_A_COUPLING * C * (C + 1) / 2):
        matrix = trial(refine(one, "full", folds, edges, steps))
        yield replace(matrix, score=matrix.score - CLOSE)  # which it may win by chance


def learning_steps(edges: Edges, num_classes: int) -> int:
    """Steps of learning; graphs with many edges take fewer."""
    return int(np.clip(WORK / (max(len(edges), 1) * num_classes), LEAST_STEPS, MOST_STEPS))


def expected_coupling(learned: float, sign: float, size: int, score: Callable[[float], float]) -> tuple[float, float]:
    """The mean of couplings, each weighted by how likely it makes the labels that were asked for, and the best score.

    Few labels do not tell a sure base model without a coupling from a less sure one with it, and the coupling that fits
    them best may be far too strong. `size` is the number of labels behind a score.
    """
    tried = [sign * strength for strength in STRENGTHS] + [factor * learned for factor in FACTORS if learned * sign > 0]
    scores = {J: score(J) for J in dict.fromkeys(tried)}
    J = torch.tensor(list(scores), dtype=torch.float64)
    log_weight = size * torch.tensor(list(scores.values()), dtype=torch.float64) + log_prior("J", J)
    mean, best = float(log_weight.softmax(dim=0) @ J), max(scores.values())
    return next((J for J in LISTENING if mean < J and scores.get(J, -inf) >= best - ITS_PRICE), mean), best


@torch.no_grad()
def trial_score(potentials: Potentials, folds: Folds, edges: Edges, labels: Labels) -> float:
    """Mean log-likelihood of training labels in their folds, less a nat a coupling, and of validation labels."""
    beliefs = folds.beliefs(potentials, edges, asking_iterations(edges, folds.num_classes))
    V = torch.from_numpy(labels.validation)
    outside = beliefs[V].log_softmax(dim=-1)[torch.arange(len(V)), :, folds.y[V]].mean(dim=1)
    total = folds.size * folds.log_likelihood(beliefs).mean() + outside.sum()
    C = potentials.num_classes
    couplings = {"none": 0, "one": 2, "full": 1 + C * (C + 1) // 2}[potentials.coupling]
    return ((total - couplings) / (folds.size + len(V))).item()


def pooled_answers(bases: list[Candidate]) -> Tensor:
    """Log-probabilities (bases, nodes, folds, classes)."""
    return torch.stack([log_probabilities(np.stack(base.answers, axis=1)) for base in bases])


def log_probabilities(p: NDArray[np.float64]) -> Tensor:
    """Logarithms of probabilities, none of which is ruled out."""
    return torch.from_numpy(np.log(np.maximum(p, LEAST))).float()


def describe(trials: list[Trial], scores: dict[str, float], chosen: Trial) -> list[dict[str, Any]]:
    """All that was compared, as JSON values: what was chosen, other couplings by score, and single base models."""
    under = [
        {
            "base": " + ".join(base.name for base in trial.bases),
            "coupling": trial.potentials.coupling,
            "score": round(trial.score, 4),
        }
        for trial in sorted(trials, key=lambda trial: (trial is not chosen, -trial.score))
    ]
    alone = sorted(scores.items(), key=lambda item: -item[1])
    return under + [{"base": base, "coupling": None, "score": round(score, 4)} for base, score in alone]
