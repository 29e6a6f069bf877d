"""Known labels divided again and again into those that methods see and those that they are asked for.

Labels are dealt out to as many folds as there are splits, class by class, so that every label is asked for once. A
label that is the only one of its class is always seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.crf import CRF
from dpmsnc.baselines.folds import assign_folds
from dpmsnc.comparison.contestants import VALIDATION
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.split import split_known

FEWEST = 2
"""Labels of a class from which on one of them can be asked for."""


@dataclass
class Split:
    """A graph that does not show the labels that are asked for."""

    graph: Graph
    asked: NDArray[np.bool_]
    seed: int
    initialiser_cpu_s: float = field(default=0.0, init=False)

    @cached_property
    def validation(self) -> NDArray[np.bool_]:
        """Of the labels that are seen, those that choose among weights."""
        return split_known(self.graph, VALIDATION, self.seed)[1]

    @cached_property
    def initialiser(self) -> CRF:
        """The pairwise model of the split, fitted once for all that begin with it."""
        started = time.process_time()
        fitted = CRF(seed=self.seed).fit(self.graph, validation=self.validation)
        self.initialiser_cpu_s = time.process_time() - started
        return fitted


def draw_splits(graph: Graph, count: int, seed: int) -> list[Split]:
    """As many splits; the same seed gives the same."""
    of_class = np.bincount(graph.y[graph.known], minlength=graph.num_classes)
    enough = of_class >= FEWEST
    if enough.sum() < 2:
        raise InputError(
            "methods are compared by labels that are hidden from them; give two labels of two classes each"
        )
    y = np.where(graph.known & enough[graph.y], graph.y, UNKNOWN)
    most = int((y != UNKNOWN).sum())
    if not 2 <= count <= most // 2:
        raise InputError(f"splits={count} must be at least 2 and, with {most} labels to ask for, at most {most // 2}")
    fold = assign_folds(y, seed, num_folds=count)
    return [Split(graph.hide(fold == k), fold == k, seed + k) for k in range(count)]
