"""`dpmsnc expressiveness`: which graphs 1-WL and AGG-WL tell apart, as a table and as the pictures of the appendix."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpmsnc.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpmsnc.graph import Graph
    from dpmsnc.plots.colourings import Colouring
    from dpmsnc.theory.families import Counts, Family, Pair

LISTED = 20
"""Pairs of the user's own that are printed one by one."""
FOLDER = "expressiveness"
"""Of the graph6 files, in the data folder."""
TWO_TRIANGLES = np.array([[-1.0, 0.7], [-1.0, -0.7], [-0.4, 0.0], [0.4, 0.0], [1.0, 0.7], [1.0, -0.7]])
"""Where graph A is drawn: a triangle on either side, and the edge between their tips."""


@dataclass(frozen=True)
class Expressiveness:
    """Count which graphs 1-WL and AGG-WL tell apart: known families, or pairs from a graph6 file."""

    graphs: Path | None = None
    """File with one graph6 string a line; instead of the known families, its graphs are compared."""
    pairs: Literal["all", "consecutive"] = "all"
    """Whether each graph of the file is compared with each other, or lines 1 and 2, 3 and 4, ..."""
    marked: int = 1
    """On how many nodes AGG-WL puts a mark, for the graphs of the file."""
    out: Path | None = None
    """Folder for the pictures of the paper's appendix; by default none are drawn."""

    def run(self) -> int:
        from dpmsnc.files import make_folder
        from dpmsnc.theory.families import Family
        from dpmsnc.theory.graph6 import read_graph6

        if self.out is not None:
            make_folder(self.out)
        if self.graphs is None:
            if self.marked != 1 or self.pairs != "all":
                raise InputError("--marked and --pairs go with a file of graphs; name it with --graphs")
            print_known_families()
        else:
            family = Family(str(self.graphs), read_graph6(self.graphs), self.pairs, (self.marked,))
            print_family(family)
        if self.out is not None:
            write_pictures(self.out)
        return 0


def print_known_families() -> None:
    """A row for every family and number of marked nodes, the sum over BREC, and what is missing."""
    from dpmsnc.data.benchmarks import data_folder
    from dpmsnc.theory.families import built_in, stored

    folder = data_folder() / FOLDER
    found, missing = stored(folder)
    counts = print_counts([*built_in(), *found])
    brec = [counted for (name, marked), counted in counts.items() if name.startswith("BREC") and marked == 1]
    pairs = sum(counted.pairs for counted in brec)
    if pairs:
        wl, agg_wl = (pairs - sum(getattr(c, name) for c in brec) for name in ("wl_equal", "agg_wl_equal"))
        print(f"\nBREC, one marked node: 1-WL separates {wl} of {pairs} pairs, AGG-WL {agg_wl}.")
    if missing:
        print(f"\nNot in {folder}: {', '.join(missing)}. DPMSNC_DATA names the folder above it.")


def print_family(family: Family) -> None:
    """The counts of one family, and its pairs; those that AGG-WL leaves equal come first."""
    from dpmsnc.plots.html import text_table
    from dpmsnc.theory.wl import agg_wl_round, subset_marks, wl_round

    print_counts([family])
    marks, rows = subset_marks(family.marked[0]), []
    for i, j in islice(_by_interest(family), LISTED):
        pair = family.graphs[i], family.graphs[j]
        sizes = (_sizes([graph.num_nodes for graph in pair]), _sizes([graph.num_edges for graph in pair]))
        rows.append((f"{i + 1}, {j + 1}", *sizes, _verdict(wl_round(*pair)), _verdict(agg_wl_round(*pair, marks))))
    print("\n" + text_table(("graphs", "nodes", "edges", "1-WL", "AGG-WL"), rows))
    others = _number_of_pairs(family) - len(rows)
    if others:
        print(f"and {others:,} other pairs")


def print_counts(families: Sequence[Family]) -> dict[tuple[str, int], Counts]:
    """Print a row for every family and number of marked nodes; the counts by these two."""
    from dpmsnc.plots.html import text_table
    from dpmsnc.theory.wl import subset_marks

    header = ("family", "graphs", "largest", "pairs", "1-WL equal", "separated", "marked nodes", "AGG-WL equal")
    rows, found = [], {}
    for family in families:
        for marked in family.marked:
            began = time.process_time()
            counts = found[family.name, marked] = family.count(subset_marks(marked))
            seconds = f"{time.process_time() - began:.2f}"
            wl = (f"{counts.wl_equal:,}", f"{counts.pairs - counts.wl_equal:,}")
            agg_wl = (f"{counts.agg_wl_equal:,}", f"{counts.pairs - counts.agg_wl_equal:,}")
            size = (f"{len(family.graphs):,}", str(family.largest), f"{counts.pairs:,}")
            rows.append((family.name, *size, *wl, str(marked), *agg_wl, seconds))
    print(text_table((*header, "separated", "CPU s"), rows))
    return found


def _by_interest(family: Family) -> Iterator[Pair]:
    """Pairs that AGG-WL leaves equal, then those that only 1-WL does, then all others."""
    from dpmsnc.theory.families import classes
    from dpmsnc.theory.wl import subset_marks

    if family.pairing == "consecutive":
        return family.pairs()
    wl, agg_wl = classes(family.graphs, subset_marks(family.marked[0]))
    separated = ((i, j) for i, j in _alike(wl) if agg_wl[i] != agg_wl[j])
    others = ((i, j) for i, j in family.pairs() if wl[i] != wl[j])
    return chain(_alike(agg_wl), separated, others)


def _alike(colours: NDArray[np.int64]) -> Iterator[Pair]:
    """Pairs of equal colours, without a look at all others."""
    for members in np.split(np.argsort(colours, kind="stable"), np.cumsum(np.bincount(colours))[:-1]):
        yield from combinations(members.tolist(), 2)


def _number_of_pairs(family: Family) -> int:
    number = len(family.graphs)
    return number // 2 if family.pairing == "consecutive" else number * (number - 1) // 2


def _sizes(pair: Sequence[int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}, {pair[1]}"


def _verdict(rounds: int | None) -> str:
    if rounds is None:
        return "equal"
    return f"separated in round {rounds}" if rounds else "separated by size"


def write_pictures(out: Path) -> None:
    """`six-nodes.svg` and `csl-8.svg`, the two pictures of the appendix."""
    from dpmsnc.files import write_whole
    from dpmsnc.plots.colourings import colourings
    from dpmsnc.plots.figures import svg
    from dpmsnc.theory.families import csl, six_node_pair

    pictures = {
        "six-nodes.svg": (_six_node_panels(six_node_pair()), ("graph A", "graph B")),
        "csl-8.svg": (_csl_panels((csl(8, 2), csl(8, 3))), ("CSL(8, 2)", "CSL(8, 3)")),
    }
    for name, (rows, names) in pictures.items():
        write_whole(out / name, svg(colourings(rows, names)))
        print(f"wrote {out / name}")


def _six_node_panels(pair: tuple[Graph, Graph]) -> list[list[Colouring]]:
    """Both graphs without a mark and under each of their six marks, with stable colours; numbers are those of all."""
    from dpmsnc.plots.colourings import Colouring, circle
    from dpmsnc.theory.wl import Union, single_marks

    union = Union(pair, single_marks)
    *_, colours = union.rounds()
    graph_colours = np.split(union.copy_colours(colours), [union.copies[0]])
    rows = []
    for graph, named, found, xy in zip(pair, union.split(colours), graph_colours, (TWO_TRIANGLES, circle(6))):
        panels = []
        for mark, (of_nodes, letter) in enumerate(zip(named, found.tolist())):
            marked = np.arange(graph.num_nodes) == mark - 1
            title, note = f"mark on node {mark}" if mark else "no mark", f"graph colour {ascii_lowercase[letter]}"
            panels.append(Colouring(xy, graph.edge_index, of_nodes, title, note, marked))
        rows.append(panels)
    return rows


def _csl_panels(pair: tuple[Graph, Graph]) -> list[list[Colouring]]:
    """Both graphs without a mark, and with one after each round until they differ; numbers are those of a round."""
    from dpmsnc.plots.colourings import Colouring, circle
    from dpmsnc.theory.wl import Union, agg_wl_round, single_marks

    plain, union = Union(pair), Union(pair, single_marks)
    *_, stable = plain.rounds()
    nobody, first = np.zeros(pair[0].num_nodes, dtype=bool), np.arange(pair[0].num_nodes) == 0
    columns = [("1-WL, any round", nobody, [part[0] for part in plain.split(stable)])]
    for t, colours in enumerate(union.rounds(agg_wl_round(*pair))):
        columns.append((f"one mark, round {t}", first, [part[1] for part in union.split(colours)]))
    rows: list[list[Colouring]] = [[], []]
    for title, marked, of_graphs in columns:
        names = np.unique(of_graphs, return_inverse=True)[1].reshape(len(pair), -1)
        note = "equal" if np.array_equal(*np.sort(names, axis=1)) else "separated"
        for row, graph, colours in zip(rows, pair, names):
            row.append(Colouring(circle(graph.num_nodes), graph.edge_index, colours, title, note, marked))
    return rows
