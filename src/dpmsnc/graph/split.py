"""Which known labels train a model and which are held back to choose among models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.graph import UNKNOWN, Graph

Mask = NDArray[np.bool_]


def split_known(graph: Graph, validation: Any, seed: int) -> tuple[Mask, Mask]:
    """Masks of the training nodes and the validation nodes; together they are the nodes with a known label.

    Args:
        graph: The graph whose known labels are divided.
        validation: A share between 0 and 1, drawn class by class so that every class keeps a training node; or the
            ids of the validation nodes, each once; or a mask, which is N booleans in a sequence, an array or a tensor
            (where edges have the labels, one for each edge); or None to train on every label.
        seed: Seed of the draw; the same seed gives the same split.

    Example:
        >>> graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "a", "b", None])
        >>> train, held_back = split_known(graph, [1], seed=0)
        >>> train.tolist(), held_back.tolist()
        ([True, False, True, False], [False, True, False, False])
    """
    validation = as_array(validation)
    if isinstance(validation, np.ndarray) and validation.ndim == 0:
        validation = validation.item()
    if validation is None:
        held_back = np.zeros(len(graph.y), dtype=bool)
    elif isinstance(validation, (int, float, np.number)):
        held_back = _draw(graph, float(validation), np.random.default_rng(seed))
    else:
        held_back = named(graph, validation)
        if not held_back.any():
            raise InputError("validation names no node; pass at least one, or None to train on every label")
    train = graph.known & ~held_back
    if not train.any():
        raise InputError("no known label is left to train on; hold fewer nodes back for validation or label more nodes")
    return train, held_back


def _draw(graph: Graph, share: float, rng: np.random.Generator) -> Mask:
    """A share of the known nodes in the proportions of the classes, by largest remainder."""
    if not 0 < share < 1:
        raise InputError(f"validation={share:g} is not a share; pass a number between 0 and 1, ids, a mask, or None")
    y = graph.y if graph.y.ndim == 1 and graph.classes else np.where(graph.known, 0, UNKNOWN)
    sizes = np.bincount(y[graph.known], minlength=graph.num_classes)
    room = np.maximum(sizes - 1, 0)
    if not room.any():
        raise InputError(
            "no class has two known labels, so none can be held back; label more nodes or pass validation=None"
        )
    quota = np.minimum(np.floor(share * sizes).astype(np.int64), room)
    total = min(max(1, round(share * int(sizes.sum()))), int(room.sum()))
    while quota.sum() < total:
        quota[np.argmax(np.where(quota < room, share * sizes - quota, -np.inf))] += 1
    held_back = np.zeros(len(y), dtype=bool)
    for k, number in enumerate(quota):
        held_back[rng.choice(np.flatnonzero(y == k), size=number, replace=False)] = True
    return held_back


def as_array(validation: Any) -> Any:
    """A tensor as an array, anything else as it is."""
    return validation.detach().cpu().numpy() if hasattr(validation, "detach") else validation


def named(graph: Graph, validation: Any) -> Mask:
    """The rows that a mask or ids name, each of which must have a known label."""
    try:
        given = validation if isinstance(validation, str) else np.asarray(validation)
    except ValueError as error:  # lists of different lengths
        raise InputError("validation is a list of lists; pass ids, or a mask with a boolean for each node") from error
    if isinstance(given, np.ndarray) and given.dtype == bool:
        if given.shape != graph.known.shape:
            raise InputError(
                f"a validation mask has one entry per {graph.labels_on}, {len(graph.y)}; this one has shape "
                f"{given.shape}"
            )
        held_back = given.copy()
    elif graph.labels_on == "edge":
        raise InputError("labels are those of edges, which have no ids; pass a mask with a boolean for each edge")
    else:
        held_back = np.zeros(graph.num_nodes, dtype=bool)
        held_back[_positions(graph, validation)] = True
    if (held_back & ~graph.known).any():
        row = int(np.argmax(held_back & ~graph.known))
        ends = graph.edge_index[:, row] if graph.labels_on == "edge" else [row]
        name = ", ".join(str(graph.ids[k]) for k in ends)
        raise InputError(
            f"validation {graph.labels_on} {name} has no known label to compare with; leave it out or label it"
        )
    return held_back


def _positions(graph: Graph, validation: Any) -> NDArray[np.int64]:
    """The nodes that are called so, of which none may be listed twice: then a mask may have been meant."""
    if not isinstance(validation, Iterable) or hasattr(validation, "columns"):
        kind = type(validation).__name__
        raise InputError(f"validation is of type {kind}; pass a share between 0 and 1, ids, a mask, or None")
    names = [validation] if isinstance(validation, str) else list(validation)
    ones = bool(names) and all(isinstance(v, (int, float, np.number)) and v in (0, 1) for v in names)
    if ones and (len(names) > 2 or (hasattr(validation, "dtype") and len(names) == graph.num_nodes)):
        raise InputError(
            "validation holds 0 and 1 alone: if it is a mask, pass booleans, validation.astype(bool); "
            "if it names the nodes 0 and 1, pass a list of distinct ids, such as [0, 1]"
        )
    positions = graph.index(names)
    counts = np.bincount(positions, minlength=graph.num_nodes)
    if counts.max(initial=0) > 1:
        name = graph.ids[int(np.argmax(counts))]
        raise InputError(f"validation lists node {name!s} {counts.max()} times; list every id once")
    return positions
