r"""What is used most in practice: features of the neighbourhood in a table, and a classifier for tables.

With S = D^-1 A, which takes the mean over the neighbours, the columns of the table are

    [X, S X, ..., S^K X, log(1 + degree)],

where X are the features, scaled, or columns made of the structure if the graph has none (`dpmsnc.graph.structure`). On
the rows that have a training label, two classifiers are tried,

    linear   p = softmax(x W + b), with |W|^2 / 2C added to the loss; every block S^k X is scaled to rows of mean
             squared length 1/(K + 1), so that C means the same on every graph, and log degree to the size of a column,
    trees    gradient boosted trees, where the table is narrow and labels are many,

and the one with the smaller cross-validated log-loss within the training labels is kept; so are C and the number of
trees. Validation labels are not used.

The linear answer is x W = X W_0 + S (X W_1 + S (X W_2 + ...)), which never makes the table. Neither does its fit where
training nodes are few: their rows are (S_L) X, (S_L S) X, ... with L the training nodes. There, too, W lies in the span
of the n rows Z, so that with Z Z^T = U diag(l) U^T the same problem is solved on the n x n table U diag(l)^1/2.

References: Wu et al., "Simplifying Graph Convolutional Networks", ICML 2019; Ke et al., "LightGBM", NIPS 2017.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.trees import Trees, boosted, staged, within
from dpmsnc.config import ScalingName, check_number
from dpmsnc.deadline import check_time
from dpmsnc.errors import ModelFileError
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import mean_normalised

STRENGTHS = (1.0, 10.0, 100.0, 1000.0)
"""Choices of C."""
DEFAULT_STRENGTH = 100.0
FOLDS = 3
LABELS_A_CLASS = 5
"""On average: from so many on, settings are chosen by cross-validation."""
LABELS_FOR_TREES = 100
COLUMNS_FOR_TREES = 200
MOST_LABELS = 5000
"""So many labels suffice to choose settings by."""
MOST_ROWS = 2000
"""So many rows have a table of their own size made."""
FLOOR = 1e-9
"""Probabilities below count as this."""
ITERATIONS = 300

Staged = Callable[[Any, NDArray[np.int64], Any], Iterable[NDArray[np.float64]]]
"""From rows, their classes and other rows to the probabilities of the latter, under one setting after another."""


@dataclass(eq=False, repr=False)
class NeighbourhoodFeatures(Baseline):
    """Logistic regression or boosted trees on features averaged over neighbourhoods. Validation labels are not used.

    Args:
        model: "auto" takes trees where the table has at most 200 columns, there are at least 100 labels, and their
            cross-validated log-loss is the smaller one.
        num_hops: How far neighbourhoods reach.
        strength: C, the inverse of the penalty on weights; "auto" chooses by cross-validation.
        num_trees: Largest number of trees of every class; cross-validation may choose fewer.

    Example:
        >>> path = Graph.build([(0, 1), (1, 2)], x=[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], y=["a", None, "b"])
        >>> NeighbourhoodFeatures(num_hops=1).fit(path).predict().tolist()
        ['a', 'a', 'b']
    """

    model: Literal["auto", "linear", "trees"] = "auto"
    num_hops: int = 2
    strength: float | Literal["auto"] = "auto"
    num_trees: int = 100
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {"num_hops": (0, 10), "num_trees": (1, 10_000)}

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.strength != "auto":
            check_number("strength", self.strength, FLOOR, inf)

    def _fit_features(self, graph: Graph) -> Features:
        return Features.fit(graph, self.scaling, structure=True)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        nodes = np.flatnonzero(y_train != UNKNOWN)
        self.present_, y = np.unique(y_train[nodes], return_inverse=True)
        self.num_labels_ = len(nodes)
        table = self._table(graph, nodes)
        linear = LinearTable.of(table, self.num_hops + 1)
        strength, rounds = self._choose(linear, table, y)
        if self.chosen_ == "trees":
            self.learned_ = dict(vars(Trees.of(boosted(rounds, self.seed, dense(table), y))))
        else:
            weight, bias = logistic(linear.rows, y, strength)
            self.learned_ = {"weight": linear.unscaled(weight), "bias": bias}

    def _choose(self, linear: LinearTable, table: Any, y: NDArray[np.int64]) -> tuple[float, int]:
        """C and the number of trees by cross-validation, and whether `chosen_` is the linear model or trees."""
        strengths = STRENGTHS if self.strength == "auto" else (self.strength,)
        strength = DEFAULT_STRENGTH if self.strength == "auto" else self.strength
        rounds, tries = self.num_trees, self._candidates(table, y)
        self.losses_: dict[str, float] = {}
        self.chosen_ = tries[0]
        if len(y) < LABELS_A_CLASS * len(self.present_):
            return strength, rounds
        part, fold = folds(y, self.seed)
        if "linear" in tries:
            losses = cross_validated(partial(by_strength, strengths), linear.rows[part], y[part], fold)
            strength, self.losses_["linear"] = strengths[losses.argmin()], float(losses.min())
        if "trees" in tries:
            grow = partial(staged, self.num_trees, self.seed)
            losses = cross_validated(grow, dense(table[part]), y[part], fold)
            rounds, self.losses_["trees"] = int(losses.argmin()) + 1, float(losses.min())
        self.chosen_ = min(self.losses_, key=self.losses_.__getitem__)
        return strength, rounds

    def _candidates(self, table: Any, y: NDArray[np.int64]) -> list[str]:
        several = len(self.present_) > 1
        if self.model == "auto":
            many = len(y) >= LABELS_FOR_TREES and table.shape[1] - 1 <= COLUMNS_FOR_TREES
            return ["linear", "trees"] if many and several else ["linear"]
        return [self.model] if several else ["linear"]

    def _table(self, graph: Graph, nodes: NDArray[np.int64]) -> Any:
        """Rows of the table, sparse where features are."""
        S, x = neighbour_mean(graph), self.features_.transform(graph)
        blocks = [*spread(S, x, self.num_hops, nodes), log_degree(graph)[nodes, None]]
        if sp.issparse(x):
            return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        return np.concatenate(blocks, axis=1, dtype=np.float32, casting="same_kind")

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.chosen_ == "trees":
            q = Trees(**self.learned_).probabilities(dense(self._table(graph, np.arange(graph.num_nodes))))
        else:
            q = softmax(self._logits(graph), axis=1)
        return completed(q, self.present_, len(self.classes_), self.num_labels_)

    def _logits(self, graph: Graph) -> NDArray[np.float64]:
        """x W + b of the linear model, from the farthest neighbours inwards."""
        S, x = neighbour_mean(graph), self.features_.transform(graph)
        *blocks, of_degree = np.split(self.learned_["weight"], self.features_.width * np.arange(1, self.num_hops + 2))
        z = x @ blocks[-1]
        for weight in reversed(blocks[:-1]):
            z = x @ weight + S @ z
        return z + log_degree(graph)[:, None] * of_degree + self.learned_["bias"]

    def _check_state(self) -> None:
        super()._check_state()
        columns, channels = (self.num_hops + 1) * self.features_.width + 1, len(self.present_)
        if self.chosen_ == "trees":
            sound = Trees(**self.learned_).fits(columns, channels)
        else:
            shapes = {name: array.shape for name, array in self.learned_.items()}
            sound = shapes == {"weight": (columns, channels), "bias": (channels,)}
        ordered = within(self.present_, len(self.classes_)) and bool((np.diff(self.present_) > 0).all())
        if not sound or not ordered:
            raise ModelFileError("what the model learned does not fit its settings; fit again")


@dataclass(frozen=True, eq=False)
class LinearTable:
    """Rows of the table as logistic regression takes them: `rows` = table diag(scale), maybe turned by `basis`."""

    rows: Any
    scale: NDArray[np.float64]
    basis: NDArray[np.float64] | None

    @classmethod
    def of(cls, table: Any, num_blocks: int) -> LinearTable:
        """Blocks scaled alike, and no wider than long."""
        scale = column_scale(table, num_blocks)
        scaled = sp.csr_array(table @ sp.diags_array(scale)) if sp.issparse(table) else table * scale
        if not len(scale) > table.shape[0] <= MOST_ROWS:
            return cls(scaled, scale, None)
        gram = scaled @ scaled.T
        size, U = np.linalg.eigh(gram.toarray() if sp.issparse(gram) else gram)
        if not size[-1] > 0:  # without edges and features there is nothing in the table
            return cls(scaled, scale, None)
        kept = size > 1e-10 * max(size[-1], FLOOR)
        root = np.sqrt(size[kept])
        return cls(U[:, kept] * root, scale, scaled.T @ (U[:, kept] / root))

    def unscaled(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights for the table itself, from those for `rows`."""
        return self.scale[:, None] * (weight if self.basis is None else self.basis @ weight)


def column_scale(table: Any, num_blocks: int) -> NDArray[np.float64]:
    """Brings every block to rows of mean squared length 1 / blocks; log degree varies as much as a column of X does."""
    width = (table.shape[1] - 1) // num_blocks
    squares = np.asarray(
        (table.multiply(table) if sp.issparse(table) else table * table).mean(axis=0, dtype=np.float64)
    )
    lengths = squares[:-1].reshape(num_blocks, width).sum(axis=1)
    spread = float(np.std(dense(table[:, [-1]]), dtype=np.float64))
    sizes = num_blocks * np.array([*np.repeat(lengths, width), max(width, 1) * spread**2])
    return 1 / np.sqrt(np.where(sizes > 0, sizes, 1))


def spread(S: sp.csr_array, x: Any, num_hops: int, nodes: NDArray[np.int64]) -> list[Any]:
    """X, S X, ..., S^K X in the rows of some nodes: from these outwards where they reach few, else for all nodes."""
    blocks = [x[nodes]]
    if num_walks(S, num_hops)[nodes].sum() <= S.nnz:
        reach = sp.eye_array(S.shape[0], format="csr")[nodes]
        for _ in range(num_hops):
            reach = reach @ S
            blocks.append(reach @ x)
        return blocks
    for k in range(num_hops):
        blocks.append(S[nodes] @ x)
        x = S @ x if k < num_hops - 1 else x
    return blocks


def neighbour_mean(graph: Graph) -> sp.csr_array:
    """S in double precision, so that the order of nodes does not show in a table in single precision."""
    return mean_normalised(graph.adjacency.astype(np.float64))


def num_walks(S: sp.csr_array, length: int) -> NDArray[np.float64]:
    """How many walks of that length begin at each node."""
    A, count = S.astype(bool).astype(np.float64), np.ones(S.shape[0])
    for _ in range(length):
        count = A @ count
    return count


def log_degree(graph: Graph) -> NDArray[np.float32]:
    """log(1 + degree) of every node."""
    return np.log1p(graph.adjacency.sum(axis=1, dtype=np.float64)).astype(np.float32)


def logistic(
    x: Any, y: NDArray[np.int64], strength: float, class_weight: Literal["balanced"] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W and b of multinomial logistic regression, for classes 0, 1, ..., of which each has a label."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    check_time()
    num_classes = int(y.max()) + 1
    if num_classes == 1:
        return np.zeros((x.shape[1], 1)), np.zeros(1)
    if not x.shape[1]:  # all nodes are alike: without features, there are no edges either
        return np.zeros((0, num_classes)), np.log(np.bincount(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a penalised fit that is nearly there answers the same
        model = LogisticRegression(C=strength, max_iter=ITERATIONS, class_weight=class_weight).fit(x, y)
    weight, bias = model.coef_.T.astype(np.float64), model.intercept_.astype(np.float64)
    if num_classes == 2:  # scikit-learn has one column for the two
        return np.concatenate([np.zeros_like(weight), weight], axis=1), np.concatenate([[0.0], bias])
    return weight, bias


def by_strength(strengths: Iterable[float], x: Any, y: NDArray[np.int64], asked: Any) -> Iterable[NDArray[np.float64]]:
    """Answers of logistic regression with one C after another."""
    fits = (logistic(x, y, strength) for strength in strengths)
    return (softmax(asked @ weight + bias, axis=1) for weight, bias in fits)


def folds(y: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Labels to choose settings by, at most `MOST_LABELS`, and the fold of each; classes are dealt out evenly."""
    drawn = np.random.default_rng(seed).permutation(len(y))[:MOST_LABELS]
    part = drawn[np.argsort(y[drawn], kind="stable")]
    return part, np.arange(len(part)) % FOLDS


def cross_validated(fit: Staged, x: Any, y: NDArray[np.int64], fold: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean log-loss under every setting, of labels that were left out of the fit."""
    losses = []
    for inside in (fold != k for k in range(FOLDS)):
        present, codes = np.unique(y[inside], return_inverse=True)
        left_out = y[~inside]
        for_all = partial(completed, present=present, num_classes=int(y.max()) + 1, num_labels=len(codes))
        answers = (for_all(q) for q in fit(x[inside], codes, x[~inside]))
        likelihoods = [p[np.arange(len(left_out)), left_out] for p in answers]
        losses.append(-np.log(np.maximum(likelihoods, FLOOR)))
    return np.concatenate(losses, axis=1).mean(axis=1)


def completed(
    q: NDArray[np.float64], present: NDArray[np.int64], num_classes: int, num_labels: int
) -> NDArray[np.float64]:
    """Probabilities of all classes; those that no label has share what one label more than there are would have."""
    absent = np.setdiff1d(np.arange(num_classes), present)
    rest = 1 / (num_labels + 1) if len(absent) else 0.0
    p = np.full((len(q), num_classes), rest / max(len(absent), 1))
    p[:, present] = (1 - rest) * q
    return p


def dense(x: Any) -> Any:
    """A sparse or dense matrix as a dense one."""
    return x.toarray() if sp.issparse(x) else x


METHODS["neighbourhood"] = Method(partial(seeded, NeighbourhoodFeatures))
