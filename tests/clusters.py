"""A small homophilous task that any semi-supervised method should solve, for tests of baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from dpmsnc.baselines import Baseline
from dpmsnc.data import Task, benchmarks
from dpmsnc.graph import Graph
from dpmsnc.targets import OneClass

OWN: dict[str, Any] = {"condition_on": "train", "clamp_known": False}
"""A method's own answers given its training labels, as in the tables."""


def clusters(num_classes: int = 3, size: int = 40, seed: int = 0, features: str = "sparse") -> Task:
    """Densely linked groups with noisy features that lean towards the group; 5 training labels a class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(num_classes), size)
    i, j = np.triu_indices(len(y), 1)
    chosen = rng.random(len(i)) < np.where(y[i] == y[j], 0.12, 0.01)
    lean = np.where(np.arange(24) % num_classes == y[:, None], 0.3, 0.1)
    x = (rng.random((len(y), 24)) < lean).astype(np.float32)
    graph = Graph(
        num_nodes=len(y),
        edge_index=np.stack([i[chosen], j[chosen]]),
        x=sp.csr_array(x) if features == "sparse" else x + np.float32(0.1),  # few zeros, or `compact` makes it sparse
        y=y,
        target=OneClass(tuple("abcdefgh"[:num_classes])),
        ids=np.arange(len(y)),
    )
    return Task.hiding("clusters", graph, *benchmarks.per_class(5, 10)(y, {}, seed=0))


def seeded_answers(fitted: Callable[..., Baseline], **settings: Any) -> list[NDArray[np.float64]]:
    """Probabilities by a seed; by the same one with other test labels and torch in another state; by another seed."""
    task = clusters()
    answers = []
    for state, seed, seen in [(1, 0, task), (2, 0, poisoned(task)), (1, 1, task)]:
        torch.manual_seed(state)
        answers.append(fitted(seen, seed=seed, **settings).predict_proba(**OWN))
    return answers


def poisoned(task: Task) -> Task:
    """The same task with every test label wrong."""
    wrong = np.where(task.test, (task.truth + 1) % task.graph.num_classes, task.truth)
    return Task.hiding("poisoned", task.graph.with_labels(wrong), task.train, task.validation, task.test)
