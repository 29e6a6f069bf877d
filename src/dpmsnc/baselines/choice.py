"""Which base model suits a graph, by the likelihood of labels that it has not seen.

Candidates are fitted fold by fold (`dpmsnc.baselines.folds`), cheap ones first. Each answer is scored on the labels of
its fold and on the validation labels, after one temperature was fitted. A candidate that is far behind the best one,
and by more than chance, is not fitted again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.folds import answers
from dpmsnc.baselines.stack import calibrated
from dpmsnc.graph import UNKNOWN, Graph

CHANCE = 2.0
"""Standard errors of the difference beyond which a candidate is behind by more than chance."""
FEW = 8
"""Labels below which nothing can be told of chance."""
REACH = 0.1
"""Nats a label behind the best one within which a candidate may add to a pool what the best one does not know."""
CLOSE = 0.015
"""Nats a label within which candidates are equally good."""

LOGGER = logging.getLogger(__name__)
Builders = Mapping[str, Callable[[], Baseline]]


@dataclass
class Candidate:
    """A base model, its answers so far, and the log-likelihood of every label that it was asked for."""

    name: str
    runs: Iterator[NDArray[np.float64]]
    answers: list[NDArray[np.float64]] = field(default_factory=list)

    def log_likelihood(self, labels: Labels) -> NDArray[np.float64]:
        """Of the labels of all folds so far and, as a mean over the fits, of the validation labels."""
        asked = [labels.of_fold(k) for k in range(len(self.answers))]
        nodes, rows = np.concatenate(asked), np.repeat(np.arange(len(asked)), [len(part) for part in asked])
        p = np.stack(self.answers)
        V = labels.validation
        pooled = np.concatenate([p[rows, nodes], p[:, V].reshape(-1, p.shape[-1])])
        y = np.concatenate([labels.y[nodes], np.tile(labels.y[V], len(p))])
        weight = np.concatenate([np.ones(len(nodes)), np.full(len(V) * len(p), 1 / len(p))])
        positions = np.arange(len(y))
        log_q = np.log(np.maximum(calibrated(pooled, positions, y, weight)[positions, y], 1e-12))
        return np.concatenate([log_q[: len(nodes)], log_q[len(nodes) :].reshape(len(p), -1).mean(axis=0)])

    def unseen(self, labels: Labels, member: NDArray[np.int64]) -> Candidate:
        """With one answer for all graphs, each from the fit that did not see its labels: no edge joins two graphs."""
        of_graph = np.zeros(member.max() + 1, dtype=np.int64)
        of_graph[member[labels.fold >= 0]] = labels.fold[labels.fold >= 0]
        p = np.stack(self.answers)
        return Candidate(self.name, iter(()), [p[of_graph[member], np.arange(len(member))]])


@dataclass(frozen=True)
class Labels:
    """Training labels in folds, and validation labels."""

    y: NDArray[np.int64]
    fold: NDArray[np.int64]
    validation: NDArray[np.int64]
    """Nodes."""

    @classmethod
    def of(cls, y_train: NDArray[np.int64], y_validation: NDArray[np.int64], fold: NDArray[np.int64]) -> Labels:
        y = np.where(y_train != UNKNOWN, y_train, y_validation)
        return cls(y, fold, np.flatnonzero(y_validation != UNKNOWN))

    @property
    def num_folds(self) -> int:
        return int(self.fold.max(initial=0)) + 1

    def of_fold(self, k: int) -> NDArray[np.int64]:
        """Nodes of a fold."""
        return np.flatnonzero(self.fold == k)


def compare(
    builders: Builders, graph: Graph, y_train: NDArray[np.int64], labels: Labels
) -> tuple[list[Candidate], dict[str, float]]:
    """Candidates with answers for all folds, the best first, and the score of every one when it was last asked."""
    left = [Candidate(name, answers(build, graph, y_train, labels.fold)) for name, build in builders.items()]
    scores: dict[str, float] = {}
    for k in range(labels.num_folds):
        LOGGER.info("choosing: fold %d of %d, %s", k + 1, labels.num_folds, ", ".join(c.name for c in left))
        for candidate in left:
            candidate.answers.append(next(candidate.runs))
        found = {candidate.name: candidate.log_likelihood(labels) for candidate in left}
        # a candidate that diverged is the last one, and out of reach
        scores |= {name: float(np.nan_to_num(values.mean(), nan=-np.inf)) for name, values in found.items()}
        left.sort(key=lambda candidate: -scores[candidate.name])
        left = [candidate for candidate in left if in_reach(found[candidate.name], found[left[0].name])]
    return left, scores


def in_reach(values: NDArray[np.float64], best: NDArray[np.float64]) -> bool:
    """Whether a candidate may be as good as the best one, label by label."""
    if len(values) < FEW:
        return bool(np.isfinite(values).all())
    difference = best - values
    error = difference.std() / max(len(difference), 1) ** 0.5
    return bool(difference.mean() <= max(REACH, CHANCE * error))
