"""Small trees from a strongly coupled pairwise model, whose posterior is summed up exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.pairwise.edges import edges_of
from pairwise_models import labellings_and_energies, marginals_of, random_tree

H = torch.tensor([[1.5, 0.0, -1.0], [0.0, -1.5, 1.5], [-1.0, 1.5, -0.5]])
"""Which neighbours go together."""
WEAK = 0.3
"""What a unit of a feature says about a label, in nats."""


def tree_of(num_nodes: int, seed: int) -> Graph:
    """A tree whose features say little about its labels, which neighbours tell each other."""
    rng = np.random.default_rng(seed)
    shape = random_tree(num_nodes, seed)
    x = rng.normal(size=(num_nodes, 3)).astype(np.float32)
    tree = replace(shape, x=x)
    found, log_p = exact(tree, {})
    return tree.with_labels(found[rng.choice(len(found), p=np.exp(log_p))])


def exact(tree: Graph, labels: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges = edges_of(tree)
    theta, W = WEAK * torch.from_numpy(np.asarray(tree.x)), H.expand(tree.num_edges, 3, 3)
    return labellings_and_energies(edges, theta, W, labels)


@cache
def trees(count: int, first: int) -> list[Graph]:
    return [tree_of(4 + seed % 5, seed) for seed in range(first, first + count)]


def partly_known_trees() -> Iterator[tuple[Graph, Graph, NDArray[np.bool_], NDArray[np.float64]]]:
    """Fresh trees of up to ten nodes: with all labels, with every third one, which nodes those are, and the exact
    marginals given them."""
    for seed in range(2000, 2030):
        tree = tree_of(4 + seed % 7, seed)
        shown = np.arange(tree.num_nodes) % 3 == 0
        expected = marginals_of(*exact(tree, {int(i): int(tree.y[i]) for i in np.flatnonzero(shown)}), 3)
        yield tree, tree.with_labels(np.where(shown, tree.y, UNKNOWN)), shown, expected
