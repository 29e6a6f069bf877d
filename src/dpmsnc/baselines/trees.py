r"""Gradient boosted trees as plain arrays: scikit-learn fits them, numpy asks them, and no pickle keeps them.

With T rounds of one tree per channel, where tree f_tc gives node i the value of the leaf it falls into,

    z_ic = z_0c + sum_t f_tc(x_i),       p_i = softmax(z_i),  or softmax(0, z_i) of two classes and one channel.

All trees stand in one list of nodes. A node sends x to its left child if x[feature] <= threshold, else to its right
one; a leaf has itself as either, so that all descents can take the same number of steps. Features of a graph are
finite, so where scikit-learn would send missing ones is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpmsnc.deadline import check_time

CHUNK = 2**20
"""Descents that are made at a time."""
LEARNING_RATE = 0.1
LEAVES = 15
LEAST_IN_LEAF = 10


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees that were fitted."""

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    root: NDArray[np.int64]
    """Of every tree (rounds, channels)."""
    first: NDArray[np.float64]
    """z_0, of every channel."""

    @classmethod
    def of(cls, model: Any) -> Trees:
        """The trees of a fitted `HistGradientBoostingClassifier`."""
        grown = [[tree.nodes for tree in trees] for trees in model._predictors]
        nodes = np.concatenate([tree for trees in grown for tree in trees])
        sizes = np.array([[len(tree) for tree in trees] for trees in grown])
        root = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        start, own, leaf = np.repeat(root.ravel(), sizes.ravel()), np.arange(len(nodes)), nodes["is_leaf"] == 1
        return cls(
            feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
            threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
            left=np.where(leaf, own, nodes["left"] + start).astype(np.int64),
            right=np.where(leaf, own, nodes["right"] + start).astype(np.int64),
            value=nodes["value"].astype(np.float64),
            root=root.astype(np.int64),
            first=np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        )

    def probabilities(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """p of every row."""
        size = max(CHUNK // max(self.root.size, 1), 1)
        parts = [self._scores(x[start : start + size]) for start in range(0, len(x), size)]
        z = np.concatenate([np.empty((0, len(self.first))), *parts])
        return softmax(z if z.shape[1] > 1 else np.concatenate([np.zeros_like(z), z], axis=1), axis=1)

    def _scores(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        at = np.broadcast_to(self.root.ravel(), (len(x), self.root.size))
        rows = np.arange(len(x))[:, None]
        while True:
            to = np.where(x[rows, self.feature[at]] <= self.threshold[at], self.left[at], self.right[at])
            if np.array_equal(to, at):
                return self.first + self.value[at].reshape(len(x), *self.root.shape).sum(axis=1)
            at = to

    def fits(self, num_columns: int, num_classes: int) -> bool:
        """Whether the arrays make up trees over so many columns for so many classes; a file may hold anything."""
        size = len(self.feature)
        own, children = np.arange(size), (self.left, self.right)
        alike = all(array.shape == (size,) for array in (self.threshold, self.value, *children))
        channels = num_classes if num_classes > 2 else 1
        return (
            alike
            and self.root.ndim == 2
            and self.root.shape[1:] == self.first.shape == (channels,)
            and within(self.root, size)
            and within(self.feature, num_columns)
            and all(within(child, size) and bool((child >= own).all()) for child in children)
        )


def within(indices: NDArray[np.int64], size: int) -> bool:
    """Whether all indices are whole numbers from 0 to size - 1."""
    return indices.dtype.kind == "i" and bool(((indices >= 0) & (indices < size)).all())


def boosted(rounds: int, seed: int, x: NDArray[np.float32], y: NDArray[np.int64]) -> Any:
    """A `HistGradientBoostingClassifier` fitted to at least two classes, all rounds of it."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    check_time()
    model = HistGradientBoostingClassifier(
        learning_rate=LEARNING_RATE,
        max_iter=rounds,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAST_IN_LEAF,
        early_stopping=False,
        random_state=seed % 2**32,
    )
    return model.fit(x, y)


def staged(
    rounds: int, seed: int, x: NDArray[np.float32], y: NDArray[np.int64], asked: NDArray[np.float32]
) -> Iterator[NDArray[np.float64]]:
    """The probabilities of other rows after each round."""
    if y.any():
        yield from boosted(rounds, seed, x, y).staged_predict_proba(asked)
    else:
        yield from [np.ones((len(asked), 1))] * rounds
