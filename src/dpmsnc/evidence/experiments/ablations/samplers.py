"""A fitted model with another sampler, its joint samples, and what a call costs; the model itself stays as it is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.estimators.node_classifier import NodeClassifier

CHUNK = 64
# calls of a few milliseconds are timed again, as long as all of them together take less than this
TIMES, TIMING_S = 5, 2.0


def with_sampler(model: NodeClassifier, progressive: float = 0.0, **sampling: Any) -> NodeClassifier:
    """The same weights with another sampler: by default a single run, without progressive rounds."""
    other = copy(model)
    other.sampling, other.progressive_ = replace(model.sampling, **sampling), progressive
    return other


def joint_samples(model: NodeClassifier, num_samples: int, seed: int, temperature: float = 1.0) -> NDArray[np.int64]:
    """Joint labellings (samples, nodes) given the training labels, as class indices; drawn in chunks, for memory."""
    sizes = [min(CHUNK, num_samples - start) for start in range(0, num_samples, CHUNK)]
    # a seed for each chunk, far from those of other runs
    seeds = np.random.SeedSequence([seed, num_samples]).generate_state(len(sizes)).tolist()
    chunks = [
        model.graph_.encode(
            model.sample(size, temperature=temperature, seed=chunk_seed, condition_on="train").ravel()
        ).reshape(size, -1)
        for size, chunk_seed in zip(sizes, seeds)
    ]
    return np.concatenate(chunks)


def cpu_seconds(call: Callable[[], object]) -> float:
    """Median CPU seconds of a call, after a first one that fills caches."""
    call()
    spent: list[float] = []
    while not spent or (len(spent) < TIMES and sum(spent) < TIMING_S):
        started = time.process_time()
        call()
        spent.append(time.process_time() - started)
    return round(statistics.median(spent), 5)
