"""`dpmsnc table datasets`: the sizes of the data sets beside those that the paper prints, with its slips marked.

The inductive sets are made of the citation graphs: one graph per node of the public split, that node with its
neighbours and all edges among them; their sizes are averages over training, validation and test graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpmsnc.data.benchmarks import BENCHMARKS, data_folder, load
from dpmsnc.data.task import Task
from dpmsnc.evidence.show.summary import MISSING
from dpmsnc.evidence.show.table import Table


class Statistics(NamedTuple):
    """A line of the paper's tables of data sets (tables 6 and 7 of its appendix), as printed."""

    nodes: str
    edges: str
    features: str
    classes: str
    split: str
    """Nodes to train, validate and test on; graphs of the inductive sets."""


PAPER: dict[str, Statistics] = {
    "pubmed": Statistics("19717", "44338", "500", "3", "60/500/1000"),
    "cora": Statistics("2708", "5429", "1433", "7", "140/500/1000"),
    "citeseer": Statistics("3327", "4732", "3703", "6", "120/500/1000"),
    "amazon_photo": Statistics("7487", "119043", "745", "8", "160/240/7087"),
    "amazon_computers": Statistics("13381", "34493", "767", "10", "200/300/12881"),
    "roman_empire": Statistics("22662", "32927", "300", "18", "11331/5665/5666"),
    "amazon_ratings": Statistics("24492", "93050", "300", "5", "12246/6123/6123"),
    "pubmed_ego": Statistics("6.0/5.4/5.6", "6.7/5.8/6.7", "500", "3", "60/500/1000"),
    "cora_ego": Statistics("5.6/4.9/4.7", "7.0/5.8/5.3", "1433", "7", "140/500/1000"),
    "citeseer_ego": Statistics("4.0/3.8/3.8", "4.3/4.0,3/8", "3703", "6", "120/500/1000"),
    "ppi": Statistics("2245.3/3257.0/2762.0", "61318.4/99460.0/80988.0", "500", "3", "20/2/2"),
}
"""Averages per graph, training/validation/test, in the inductive sets."""
SIZES = ("nodes", "edges", "features", "classes")
COMPONENTS = ("amazon_photo", "amazon_computers")
"""Sets of which the paper prints the largest component."""
EGO = "_ego"
SLIPS = {
    "a": "counts the entries of Planetoid's lists, where some links stand twice or lead back to their node",
    "b": "a slip: the largest component has 245778 edges",
    "c": "a slip: PPI has 50 features and 121 labels",
    "d": "a misprint of 4.3/4.0/3.8",
    "e": "counts both directions of an edge, unlike the other lines",
}
MARKS = {
    ("cora", "edges"): "a",
    ("citeseer", "edges"): "a",
    ("pubmed", "edges"): "a",
    ("amazon_computers", "edges"): "b",
    ("ppi", "features"): "c",
    ("ppi", "classes"): "c",
    ("citeseer_ego", "edges"): "d",
    ("ppi", "edges"): "e",
}
NOTES = (
    "Ours: undirected edges counted once, no self-loops. The Amazon sets are used whole; the paper prints the sizes of",
    "their largest component. _ego: graphs made of a node's neighbourhood, training/validation/test averages.",
)

Sizes = dict[str, str]


def table() -> Table:
    """A line per data set that the paper has, or whose file is there."""
    lines = list(_lines())
    header = ["data set", *(column for size in SIZES for column in (size, "paper"))]
    rows = [
        [name, *(cell for size in SIZES for cell in (ours.get(size, MISSING), _printed(key, theirs, size)))]
        for name, key, ours, theirs in lines
    ]
    slips = ["Paper: " + "; ".join(f"({letter}) {words}" for letter, words in SLIPS.items()) + "."]
    missing = [name for name, _, ours, _ in lines if not ours]
    where = [f"No file here for {', '.join(missing)}; DPMSNC_DATA names the folder of files."] if missing else []
    return Table("Data sets", header, rows, [*NOTES, *slips, *where], records=[_record(*line) for line in lines])


def _lines() -> Iterator[tuple[str, str, Sizes, Statistics | None]]:
    """Name of the line, key of the paper's marks, our sizes, the paper's."""
    for name in dict.fromkeys([*PAPER, *BENCHMARKS]):
        source = name.removesuffix(EGO)
        there = source in BENCHMARKS and (data_folder() / f"{source}.npz").is_file()
        if name in COMPONENTS:
            if there:
                yield name, name, whole(load(name)), None
            ours = whole(load(name, largest_component=True)) if there else {}
            yield f"{name}, largest component", name, ours, PAPER[name]
        elif there or name in PAPER:
            measure = neighbourhoods if name.endswith(EGO) else whole
            yield name, name, measure(load(source)) if there else {}, PAPER.get(name)


def whole(task: Task) -> Sizes:
    """The sizes of one graph."""
    graph = task.graph
    return dict(zip(SIZES, map(str, (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes))))


def neighbourhoods(task: Task) -> Sizes:
    """Average sizes of the neighbourhoods of training, validation and test nodes.

    A neighbourhood has the edges to the neighbours, and one for every triangle that the node is in.
    """
    adjacency = task.graph.adjacency
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    triangles = np.asarray((adjacency @ adjacency).multiply(adjacency).sum(axis=1)).ravel() / 2
    averages = {"nodes": 1 + degree, "edges": degree + triangles}
    splits = (task.train, task.validation, task.test)
    # a half is rounded up, as the paper does, although 5.95 is a little less than that in binary
    return whole(task) | {
        size: "/".join(f"{values[mask].mean() + 1e-6:.1f}" for mask in splits) for size, values in averages.items()
    }


def _printed(key: str, theirs: Statistics | None, size: str) -> str:
    if theirs is None:
        return MISSING
    mark = MARKS.get((key, size))
    return getattr(theirs, size) + (f" ({mark})" if mark else "")


def _record(name: str, key: str, ours: Sizes, theirs: Statistics | None) -> dict[str, str | int | None]:
    """Sizes as numbers, averages as they are printed."""
    paper = {f"paper_{size}": getattr(theirs, size, None) for size in SIZES}
    values = {size: ours.get(size) for size in SIZES} | paper
    return {"dataset": name} | {size: int(v) if v and v.isdigit() else v for size, v in values.items()}
