"""Which known labels train a model and which are held back to choose among models."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.graph import Graph

Mask = NDArray[np.bool_]


def split_known(graph: Graph, validation: Any, seed: int) -> tuple[Mask, Mask]:
    """Masks of the training nodes and the validation nodes; together they are the nodes with a known label.

    Args:
        graph: The graph whose known labels are divided.
        validation: A share between 0 and 1, drawn class by class so that every class keeps a training node; or the
            ids of the validation nodes; or a mask, which is a sequence of N booleans; or None to train on every label.
        seed: Seed of the draw; the same seed gives the same split.

    Example:
        >>> graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "a", "b", None])
        >>> train, held_back = split_known(graph, [1], seed=0)
        >>> train.tolist(), held_back.tolist()
        ([True, False, True, False], [False, True, False, False])
    """
    if validation is None:
        held_back = np.zeros(graph.num_nodes, dtype=bool)
    elif isinstance(validation, (int, float, np.number)):
        held_back = _draw(graph, float(validation), np.random.default_rng(seed))
    else:
        held_back = _named(graph, validation)
    train = graph.known & ~held_back
    if not train.any():
        raise InputError("no known label is left to train on; hold fewer nodes back for validation or label more nodes")
    return train, held_back


def _draw(graph: Graph, share: float, rng: np.random.Generator) -> Mask:
    """A share of the known nodes in the proportions of the classes, by largest remainder."""
    if not 0 < share < 1:
        raise InputError(f"validation={share:g} is not a share; pass a number between 0 and 1, ids, a mask, or None")
    sizes = np.bincount(graph.y[graph.known], minlength=graph.num_classes)
    room = np.maximum(sizes - 1, 0)
    if not room.any():
        raise InputError(
            "no class has two known labels, so none can be held back; label more nodes or pass validation=None"
        )
    quota = np.minimum(np.floor(share * sizes).astype(np.int64), room)
    total = min(max(1, round(share * int(sizes.sum()))), int(room.sum()))
    while quota.sum() < total:
        quota[np.argmax(np.where(quota < room, share * sizes - quota, -np.inf))] += 1
    held_back = np.zeros(graph.num_nodes, dtype=bool)
    for k, number in enumerate(quota):
        held_back[rng.choice(np.flatnonzero(graph.y == k), size=number, replace=False)] = True
    return held_back


def _named(graph: Graph, validation: Any) -> Mask:
    given = validation if isinstance(validation, str) else np.asarray(validation)
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != (graph.num_nodes,):
            raise InputError(
                f"a validation mask has one entry per node, {graph.num_nodes}; this one has shape {given.shape}"
            )
        held_back = given.copy()
    else:
        held_back = np.zeros(graph.num_nodes, dtype=bool)
        held_back[graph.index(validation)] = True
    if not held_back.any():
        raise InputError("validation names no node; pass at least one, or None to train on every label")
    if (held_back & ~graph.known).any():
        name = graph.ids[np.argmax(held_back & ~graph.known)]
        raise InputError(f"validation node {name!s} has no known label to compare with; leave it out or label it")
    return held_back
