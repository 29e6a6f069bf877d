"""Answers of a base model to labels that it has not seen: training labels in folds, one fit without each of them.

What is learned on top of a base model, be it how sure to be of it or how neighbours depend on each other, must be
learned from such answers. Those of a fit that saw a label give the label away, also at nodes around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.deadline import check_time
from dpmsnc.graph import UNKNOWN, Graph

NUM_FOLDS = 4
NO_FOLD = -1


def assign_folds(
    y_train: NDArray[np.int64], seed: int, num_folds: int = NUM_FOLDS, member: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The fold of every training label, -1 elsewhere; each class is spread over the folds as evenly as can be.

    Where `member` tells several labelled graphs apart, whole graphs are: labels of a new graph are not known in part.
    """
    if y_train.ndim > 1:  # tags, which are in no class
        y_train = np.where((y_train == UNKNOWN).any(axis=1), UNKNOWN, 0)
    if member is not None and in_several_graphs(y_train, member):
        of_graph = np.full(member.max() + 1, NO_FOLD)
        order = np.random.default_rng(seed).permutation(np.unique(member[y_train != UNKNOWN]))
        of_graph[order] = np.arange(len(order)) % min(num_folds, len(order))
        return np.where(y_train != UNKNOWN, of_graph[member], NO_FOLD)
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(np.flatnonzero(y_train != UNKNOWN))
    by_class = nodes[np.argsort(y_train[nodes], kind="stable")]
    fold = np.full(len(y_train), NO_FOLD)
    fold[by_class] = np.arange(len(by_class)) % min(num_folds, max(len(by_class), 1))
    return fold


def in_several_graphs(y: NDArray[np.int64], member: NDArray[np.int64] | None) -> bool:
    """Whether more than one of several graphs has labels."""
    return member is not None and len(np.unique(member[y != UNKNOWN])) > 1


def in_labelled_graphs(y: NDArray[np.int64], member: NDArray[np.int64] | None) -> NDArray[np.bool_]:
    """The nodes of those graphs that have a label; of one graph alone, all of its nodes."""
    if member is None:
        return np.ones(len(y), dtype=bool)
    return np.isin(member, member[y != UNKNOWN])


def answers(
    build: Callable[[], Baseline], graph: Graph, y_train: NDArray[np.int64], fold: NDArray[np.int64]
) -> Iterator[NDArray[np.float64]]:
    """For each fold, the probabilities (nodes, classes) of a fit without its labels, given the labels of the others."""
    for k in range(fold.max(initial=0) + 1):
        shown = y_train.copy()
        shown[fold == k] = UNKNOWN
        if (shown == UNKNOWN).all():  # the only label there is
            yield graph.target.ignorance(graph.num_nodes)
            continue
        check_time()
        yield fitted(build(), graph, shown)._marginals(graph, shown)


def fitted(model: Any, graph: Graph, y_train: NDArray[np.int64]) -> Any:
    """A model that learned from these labels alone."""
    model._learn(graph, y_train, np.full_like(y_train, UNKNOWN))
    return model
