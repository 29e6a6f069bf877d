"""Other graphs than the fitted one: which graph is another, and halves of the fitted one that stand for two graphs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.folds import assign_folds
from dpmsnc.estimators.several import same_features
from dpmsnc.graph import UNKNOWN, Graph

LEAST_HALVED = 8
"""Training labels from which on halves can learn from each other."""


def continues(graph: Graph, fitted: Graph) -> bool:
    """Whether it is the fitted graph with changes: it has all of its nodes, by id, with the same features, and at least
    half of its edges."""
    where = by_id(fitted, graph)
    if (where < 0).any() or not same_features(None if graph.x is None else graph.x[where], fitted.x):
        return False
    ends, own = np.sort(where[fitted.edge_index], axis=0), np.sort(graph.edge_index, axis=0)
    kept = np.isin(ends[0] * graph.num_nodes + ends[1], own[0] * graph.num_nodes + own[1])
    return bool(kept.mean() >= 0.5) if len(kept) else True


def by_id(fitted: Graph, graph: Graph) -> NDArray[np.int64]:
    """Where the nodes of the fitted graph are in another one; -1 where it has none of that id."""
    index = {name: k for k, name in enumerate(graph.ids.tolist())}
    return np.array([index.get(name, -1) for name in fitted.ids.tolist()], dtype=np.int64)


def places(fitted: Graph, graph: Graph) -> NDArray[np.int64]:
    """Where the nodes of the fitted graph are in another one, with the same id and features; -1 where they are not.

    Without features a graph of the same ids may be any other, so it has to continue the fitted one.
    """
    where = by_id(fitted, graph)
    if graph.x is None or fitted.x is None:
        return where if continues(graph, fitted) else np.full_like(where, -1)
    there = np.flatnonzero(where >= 0)
    differs = np.asarray((graph.x[where[there]] != fitted.x[there]).sum(axis=1)).ravel() > 0
    where[there[differs]] = -1
    return where


def two_halves(graph: Graph, y_train: NDArray[np.int64], seed: int) -> list[NDArray[np.bool_]] | None:
    """Nodes of two halves at random, with as many training labels of each class; None where labels are too few.

    Halves that no edge would join are far apart in the graph, and where neighbours are alike they have other classes.
    """
    labelled = y_train != UNKNOWN
    if labelled.sum() < LEAST_HALVED:
        return None
    half = np.where(labelled, assign_folds(y_train, seed, num_folds=2), 0)
    half[~labelled] = np.random.default_rng(seed).integers(2, size=int((~labelled).sum()))
    return [half == 0, half == 1]
