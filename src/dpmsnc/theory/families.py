r"""Pairs of graphs that 1-WL cannot tell apart, and how many of them a test separates.

    C6 against 2 C3           a hexagon and two triangles
    six nodes                 the paper's example: two triangles joined by an edge, a hexagon with a long chord
    CSL(n, r)                 circular skip links: i ~ i + 1 and i ~ i + r modulo n (Murphy et al. 2019)
    rook 4x4, Shrikhande      the two strongly regular graphs with parameters (16, 6, 2, 2)

Larger sets are graph6 files in a folder: all connected graphs with eight nodes (graph8c) and the strongly regular
graphs with parameters (25, 12, 5, 6) (SR25), both from Balcilar et al. (2021), and BREC (Wang and Zhang 2023).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.theory.graph6 import read_graph6
from dpmsnc.theory.wl import Colours, MarkSet, agg_wl_colours, agg_wl_round, single_marks, wl_colours, wl_round

Pair = tuple[int, int]
Pairing = Literal["all", "consecutive"]

CSL41_SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
"""One skip from every class of isomorphic graphs CSL(41, r)."""
FILES: dict[str, tuple[str, Pairing, tuple[int, ...]]] = {
    "graph8c.g6": ("graph8c", "all", (1,)),
    "sr25.g6": ("SR25", "all", (1, 2)),
    "brec_basic.g6": ("BREC basic", "consecutive", (1,)),
    "brec_regular.g6": ("BREC regular", "consecutive", (1,)),
    "brec_str.g6": ("BREC strongly regular", "consecutive", (1, 2)),
    "brec_extension.g6": ("BREC extension", "consecutive", (1,)),
    "brec_cfi.g6": ("BREC CFI", "consecutive", (1,)),
    "brec_4vtx.g6": ("BREC 4-vertex condition", "consecutive", (1, 2)),
    "brec_dr.g6": ("BREC distance regular", "consecutive", (1, 2)),
}
"""Name of a family by its file, which graphs are pairs, and on how many nodes marks are tried."""


def cycle(num_nodes: int) -> Graph:
    """C_n."""
    if num_nodes < 3:
        raise InputError(f"a cycle of {num_nodes} nodes is none; take at least 3")
    return Graph.build([(i, (i + 1) % num_nodes) for i in range(num_nodes)])


def two_triangles() -> Graph:
    """2 C3."""
    return Graph.build([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)])


def six_node_pair() -> tuple[Graph, Graph]:
    """A, two triangles joined by an edge, and B, a hexagon with a chord between opposite nodes (lemma 3).

    Nodes 2 and 3 of A, and nodes 0 and 3 of B, have three neighbours; all others have two.
    """
    triangles = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5)])
    hexagon = Graph.build([*((i, (i + 1) % 6) for i in range(6)), (0, 3)])
    return triangles, hexagon


def csl(num_nodes: int, skip: int) -> Graph:
    """CSL(n, r), a cycle with an edge between nodes that are r steps apart."""
    if not 1 < skip < num_nodes - 1:
        raise InputError(f"CSL({num_nodes}, {skip}) has no skip links of its own; the skip must be in [2, n - 2]")
    steps = [(i, (i + step) % num_nodes) for step in (1, skip) for i in range(num_nodes)]
    return Graph.build(steps)


def csl_pairs(num_nodes: int) -> list[tuple[Graph, Graph]]:
    """CSL(n, 2) beside CSL(n, r) for all r in [3, n/2 - 1] (lemma 4)."""
    return [(csl(num_nodes, 2), csl(num_nodes, skip)) for skip in range(3, num_nodes // 2)]


def rook_and_shrikhande() -> tuple[Graph, Graph]:
    """Cells of a 4 x 4 board: in one row or column; or, on the torus, one step along (1, 0), (0, 1) or (1, 1) apart."""
    row, column = np.divmod(np.arange(16), 4)
    rook = (row[:, None] == row) ^ (column[:, None] == column)
    steps = [((i + a) % 4 * 4 + (j + b) % 4) for a, b in ((1, 0), (0, 1), (1, 1)) for i, j in zip(row, column)]
    return Graph.build(np.stack(np.triu(rook).nonzero())), Graph.build(np.stack([np.tile(np.arange(16), 3), steps]))


@dataclass(frozen=True)
class Counts:
    """How many pairs there are, and how many of them each test leaves equal."""

    pairs: int
    wl_equal: int
    agg_wl_equal: int


@dataclass(frozen=True, eq=False)
class Family:
    """Graphs, and which of them are compared: each with each other, or every first with the one after it."""

    name: str
    graphs: Sequence[Graph]
    pairing: Pairing = "all"
    marked: tuple[int, ...] = (1,)
    """On how many nodes marks are tried."""

    def __post_init__(self) -> None:
        if self.pairing == "consecutive" and len(self.graphs) % 2:
            raise InputError(f"{self.name} has {len(self.graphs)} graphs; pairs of neighbours need an even number")
        if len(self.graphs) < 2:
            raise InputError(f"{self.name} has a single graph; give at least two to compare")

    @property
    def largest(self) -> int:
        """Nodes of its largest graph."""
        return max(graph.num_nodes for graph in self.graphs)

    def pairs(self) -> Iterator[Pair]:
        """Positions of the graphs that are compared."""
        if self.pairing == "all":
            yield from combinations(range(len(self.graphs)), 2)
        else:
            yield from zip(range(0, len(self.graphs), 2), range(1, len(self.graphs), 2))

    def count(self, marks: MarkSet = single_marks) -> Counts:
        """How many pairs are equal under 1-WL, and how many under AGG-WL."""
        if self.pairing == "consecutive":
            pairs = [(self.graphs[i], self.graphs[j]) for i, j in self.pairs()]
            left = [pair for pair in pairs if wl_round(*pair) is None]
            return Counts(len(pairs), len(left), sum(agg_wl_round(*pair, marks) is None for pair in left))
        wl, agg_wl = classes(self.graphs, marks)
        number = len(self.graphs)
        return Counts(number * (number - 1) // 2, equal_pairs(wl), equal_pairs(agg_wl))


def classes(graphs: Sequence[Graph], marks: MarkSet = single_marks) -> tuple[Colours, Colours]:
    """The colour of every graph under 1-WL and under AGG-WL.

    AGG-WL is asked only among graphs that 1-WL leaves equal, since it separates all others (lemma 2). That takes less
    memory than marking all graphs at once.
    """
    wl = wl_colours(graphs)
    agg_wl, named = np.empty_like(wl), 0
    for members in np.split(np.argsort(wl, kind="stable"), np.cumsum(np.bincount(wl))[:-1]):
        alike = [graphs[i] for i in members.tolist()]
        found = agg_wl_colours(alike, marks) if len(alike) > 1 else np.zeros(1, dtype=np.int64)
        agg_wl[members] = found + named
        named += int(found.max()) + 1
    return wl, agg_wl


def equal_pairs(colours: Colours) -> int:
    """How many pairs have the same colour."""
    sizes = np.bincount(colours)
    return int((sizes * (sizes - 1) // 2).sum())


def built_in() -> list[Family]:
    """The families that need no file."""
    lemma = [graph for n in range(8, 26) for pair in csl_pairs(n) for graph in pair]
    return [
        Family("C6 against 2 C3", (cycle(6), two_triangles())),
        Family("six nodes, A against B", six_node_pair()),
        Family("CSL(n, 2) against CSL(n, r), n = 8..25", lemma, "consecutive"),
        Family("CSL-41, ten skips", [csl(41, skip) for skip in CSL41_SKIPS]),
        Family("rook 4x4 against Shrikhande", rook_and_shrikhande(), marked=(1, 2)),
    ]


def stored(folder: Path) -> tuple[list[Family], list[str]]:
    """The families whose files are in a folder, and the names of the files that are not."""
    found = []
    for file, (name, pairing, marked) in FILES.items():
        if (folder / file).is_file():
            found.append(Family(name, read_graph6(folder / file), pairing, marked))
    return found, [file for file in FILES if not (folder / file).is_file()]
