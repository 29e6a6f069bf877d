r"""Is a node on a triangle? Graphs in which 1-WL cannot tell, for networks that go beyond it.

A graph is one of two kinds, with as many nodes on triangles as not:

    cycles     n triangles beside three cycles of length n > 3; every node has two neighbours,
    skips      CSL(n, 2) beside CSL(n, 3) for an even n, cycles with further edges from i to i + r; a node has four.
               1 + 1 = 2 makes a triangle at every node of the first; three odd steps never return in the second.

All nodes have the same feature. Nodes of one kind of graph look alike to 1-WL in every round, so that a network which
is bounded by it gives all of them one answer and is right at half of them. Test graphs are larger than those that are
trained on, so that sizes cannot be learned by heart.
"""

from __future__ import annotations

import numpy as np

from dpmsnc.data.task import InductiveTask
from dpmsnc.graph import Graph

NUM_GRAPHS = {"train": 80, "validation": 20, "test": 40}
CYCLES = {"train": (4, 5, 6, 7), "test": (8, 9, 10)}
SKIPS = {"train": (8, 10, 12), "test": (14, 16)}
"""Sizes n; validation graphs have those of training graphs."""
NO, YES = "no", "yes"


def triangles(seed: int = 0) -> InductiveTask:
    """The task, whose graphs are drawn by the seed.

    Example:
        >>> task = triangles()
        >>> len(task.train), {graph.num_features for graph in task.test}, float(np.concatenate(task.truth).mean())
        (80, {1}, 0.5)
    """
    rng = np.random.default_rng(seed)
    parts = [[_drawn(part, rng) for _ in range(count)] for part, count in NUM_GRAPHS.items()]
    return InductiveTask.hiding("triangles", *parts)


def _drawn(part: str, rng: np.random.Generator) -> Graph:
    sizes = "test" if part == "test" else "train"
    if rng.random() < 0.5:
        n = int(rng.choice(CYCLES[sizes]))
        return joined([(circulant(3, 1), YES)] * n + [(circulant(n, 1), NO)] * 3)
    n = int(rng.choice(SKIPS[sizes]))
    return joined([(circulant(n, 1, 2), YES), (circulant(n, 1, 3), NO)])


def circulant(n: int, *steps: int) -> np.ndarray:
    """Edges (2, edges) from every i to i + r modulo n for each of some r."""
    i = np.arange(n)
    return np.concatenate([np.stack([i, (i + r) % n]) for r in steps], axis=1)


def joined(parts: list[tuple[np.ndarray, str]]) -> Graph:
    """Graphs side by side, all nodes of each with one label and every node with the same feature."""
    sizes = [int(edges.max()) + 1 for edges, _ in parts]
    first = np.cumsum([0, *sizes])
    edges = np.concatenate([edges + shift for (edges, _), shift in zip(parts, first)], axis=1)
    labels = np.repeat([label for _, label in parts], sizes)
    return Graph.build(edges.T, x=np.ones((first[-1], 1)), y=labels.tolist(), classes=[NO, YES])
