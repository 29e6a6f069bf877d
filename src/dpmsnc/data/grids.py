r"""Cyclic grids without features, whose labels follow a local rule (section 6.1 and appendix "Synthetic data").

A 2 x n cyclic grid has the nodes (row, column), a ring along the columns in each row, and a rung between the two rows
in each column: all nodes have as many neighbours, and without labels no node can be told from another. All that can be
learnt is how labels depend on each other, and the rule decides how far one has to look:

    alternating   y = (row + column) mod 2: neighbours differ, so one neighbour's label decides (n even);
    three         y = (row + 2 column) mod 3 on a grid with one diagonal in every cell, joining (1, c) to (0, c + 1):
                  neighbours carry the two other classes, so one label leaves two classes open and it takes two
                  neighbours that differ to decide (n = 3 k).

A lattice, which the demo draws, has as many rows as columns or others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.data.task import Task
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import OneClass

Rule = Literal["alternating", "three"]

# number of classes, which the number of columns must be a multiple of, and the label
RULES: dict[str, tuple[int, Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]]] = {
    "alternating": (2, lambda row, column: (row + column) % 2),
    "three": (3, lambda row, column: (row + 2 * column) % 3),
}
TRAIN_SHARE, VALIDATION_SHARE = 0.3, 0.3


def cyclic_grid(columns: int, rule: Rule = "alternating") -> Graph:
    """The fully labelled 2 x `columns` cyclic grid; node row * columns + column is called "r<row>c<column>"."""
    if rule not in RULES:
        raise InputError(f"unknown rule {rule!r}; choose one of {', '.join(RULES)}")
    num_classes, label = RULES[rule]
    if columns < 3 or columns % num_classes:
        raise InputError(f"the rule {rule!r} needs a multiple of {num_classes} columns, at least 3, not {columns}")
    row, column = np.divmod(np.arange(2 * columns), columns)
    ring = np.stack([row * columns + column, row * columns + (column + 1) % columns])
    across = np.arange(columns)
    edges = [ring, np.stack([across, across + columns])]
    if rule == "three":
        edges.append(np.stack([across + columns, (across + 1) % columns]))
    return Graph(
        num_nodes=2 * columns,
        edge_index=np.sort(np.concatenate(edges, axis=1), axis=0),
        x=None,
        y=label(row, column),
        target=OneClass(tuple(range(num_classes))),
        ids=np.array([f"r{r}c{c}" for r, c in zip(row, column)]),
    )


def grid_scattered(columns: int = 1000, seed: int = 0, rule: Rule = "alternating", extra_grid: bool = False) -> Task:
    """Training nodes scattered over the grid: 30 % training, 30 % validation, 40 % test, at random.

    `extra_grid` appends a second grid of 20 columns (21 for three classes), of which eight random nodes are training
    nodes and the rest are in no split, as in the paper's first figure. It leaves the split of the first grid as it is.
    """
    graph = cyclic_grid(columns, rule)
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.num_nodes)
    sizes = [round(share * graph.num_nodes) for share in (TRAIN_SHARE, TRAIN_SHARE + VALIDATION_SHARE)]
    train, validation, test = np.split(order, sizes)
    if extra_grid:
        small = cyclic_grid(-(-20 // graph.num_classes) * graph.num_classes, rule)
        train = np.concatenate([train, graph.num_nodes + rng.choice(small.num_nodes, 8, replace=False)])
        graph = side_by_side(graph, small)
    return _task("grid_scattered", graph, train, validation, test)


def grid_localized(columns: int = 100, seed: int = 0, rule: Rule = "alternating") -> Task:
    """Training nodes in one region, the first 30 % of the columns; the others at random validation and test, 3 : 4."""
    graph = cyclic_grid(columns, rule)
    inside = np.arange(graph.num_nodes) % columns < round(TRAIN_SHARE * columns)
    rest = np.random.default_rng(seed).permutation(np.flatnonzero(~inside))
    size = round(len(rest) * VALIDATION_SHARE / (1 - TRAIN_SHARE))
    return _task("grid_localized", graph, np.flatnonzero(inside), rest[:size], rest[size:])


def grid_positions(columns: int) -> NDArray[np.float64]:
    """Where to draw the nodes of a grid: the two rows on concentric circles, rungs between them."""
    row, column = np.divmod(np.arange(2 * columns), columns)
    # a rung is drawn as long as a step along the ring, but short enough not to fold the inner circle
    radius = 1 - row * min(0.4, 2 * np.pi / columns)
    angle = np.pi / 2 - 2 * np.pi * column / columns
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def lattice(rows: int, columns: int, cyclic: bool = False) -> Graph:
    """The fully labelled lattice of `rows` x `columns` nodes, coloured as a chequerboard; `cyclic` joins opposite
    borders, of which there must be an even number of nodes then."""
    if cyclic and (rows % 2 or columns % 2):
        raise InputError(f"a cyclic lattice of {rows} x {columns} has no two-colouring; pass even numbers")
    nodes = np.arange(rows * columns).reshape(rows, columns)
    end = None if cyclic else -1
    across = np.stack([nodes[:, :end].ravel(), np.roll(nodes, -1, axis=1)[:, :end].ravel()])
    down = np.stack([nodes[:end].ravel(), np.roll(nodes, -1, axis=0)[:end].ravel()])
    row, column = np.divmod(nodes.ravel(), columns)
    return Graph(
        num_nodes=rows * columns,
        edge_index=np.sort(np.concatenate([across, down], axis=1), axis=0),
        x=None,
        y=(row + column) % 2,
        target=OneClass((0, 1)),
        ids=np.array([f"r{r}c{c}" for r, c in zip(row, column)]),
    )


def lattice_positions(rows: int, columns: int) -> NDArray[np.float64]:
    """Where to draw the nodes of a lattice: in rows, the first one on top, centred on 0."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    return np.stack([column - (columns - 1) / 2, -row], axis=1).astype(np.float64)


def side_by_side(graph: Graph, other: Graph) -> Graph:
    """Two graphs without features as one; ids of the second begin with "extra-"."""
    return Graph(
        num_nodes=graph.num_nodes + other.num_nodes,
        edge_index=np.concatenate([graph.edge_index, graph.num_nodes + other.edge_index], axis=1),
        x=None,
        y=np.concatenate([graph.y, other.y]),
        target=graph.target,
        ids=np.concatenate([graph.ids, np.char.add("extra-", other.ids)]),
    )


def _task(name: str, graph: Graph, *parts: NDArray[np.int64]) -> Task:
    nodes = np.arange(graph.num_nodes)
    train, validation, test = (np.isin(nodes, part) for part in parts)
    return Task.hiding(name, graph, train, validation, test)
