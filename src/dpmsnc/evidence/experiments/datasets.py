"""`dpmsnc table datasets`: the sizes of the data sets beside those that the paper prints, with its slips marked.

Sizes of the inductive sets, which have many graphs, are averages over training, validation and test graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dpmsnc.data import BENCHMARKS, INDUCTIVE, InductiveTask, Task, load
from dpmsnc.data.catalogue import missing_files
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
SIZES = ("nodes", "edges", "features", "classes", "split")
"""What the paper prints; beside it we print the number of graphs."""
COMPONENTS = ("amazon_photo", "amazon_computers")
"""Sets of which the paper prints the largest component."""
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
    "their largest component. A split counts training/validation/test nodes, or graphs where a set has many. Nodes and",
    "edges of many graphs are averages in each part. _ego: graphs made of a node's neighbourhood.",
)

Sizes = dict[str, str]


def table() -> Table:
    """A line per data set that the paper has, or whose files are there."""
    lines = list(_lines())
    header = ["data set", "graphs", *(column for size in SIZES for column in (size, "paper"))]
    rows = [
        [
            name,
            ours.get("graphs", MISSING),
            *(cell for size in SIZES for cell in (ours.get(size, MISSING), _printed(key, theirs, size))),
        ]
        for name, key, ours, theirs in lines
    ]
    slips = ["Paper: " + "; ".join(f"({letter}) {words}" for letter, words in SLIPS.items()) + "."]
    missing = [name for name in _names() if missing_files(name)]
    where = [f"No file here for {', '.join(missing)}; DPMSNC_DATA names the folder of files."] if missing else []
    return Table("Data sets", header, rows, [*NOTES, *slips, *where], records=[_record(*line) for line in lines])


def _names() -> list[str]:
    return list(dict.fromkeys([*PAPER, *BENCHMARKS, *INDUCTIVE]))


def _lines() -> Iterator[tuple[str, str, Sizes, Statistics | None]]:
    """Name of the line, key of the paper's marks, our sizes, the paper's."""
    for name in _names():
        there = not missing_files(name)
        if name in COMPONENTS:
            if there:
                yield name, name, sizes(load(name)), None
            ours = sizes(load(name, largest_component=True)) if there else {}
            yield f"{name}, largest component", name, ours, PAPER[name]
        elif there or name in PAPER:
            yield name, name, sizes(load(name)) if there else {}, PAPER.get(name)


def sizes(task: Task | InductiveTask) -> Sizes:
    """What we print of a data set."""
    if isinstance(task, Task):
        graph, parts = task.graph, [int(mask.sum()) for mask in (task.train, task.validation, task.test)]
        counts = {"graphs": "1", "nodes": str(graph.num_nodes), "edges": str(graph.num_edges)}
    else:
        graph, graphs = task.train[0], (task.train, task.validation, task.test)
        parts = [len(part) for part in graphs]
        counts = {
            "graphs": str(sum(parts)),
            "nodes": _averages([graph.num_nodes for graph in part] for part in graphs),
            "edges": _averages([graph.num_edges for graph in part] for part in graphs),
        }
    split = "/".join(map(str, parts))
    return counts | {"features": str(graph.num_features), "classes": str(graph.num_classes), "split": split}


def _averages(parts: Iterable[list[int]]) -> str:
    # a half is rounded up, as the paper does, although 5.95 is a little less than that in binary
    return "/".join(f"{np.mean(part) + 1e-6:.1f}" for part in parts)


def _printed(key: str, theirs: Statistics | None, size: str) -> str:
    if theirs is None:
        return MISSING
    mark = MARKS.get((key, size))
    return getattr(theirs, size) + (f" ({mark})" if mark else "")


def _record(name: str, key: str, ours: Sizes, theirs: Statistics | None) -> dict[str, str | int | None]:
    """Sizes as numbers, averages as they are printed."""
    paper = {f"paper_{size}": getattr(theirs, size, None) for size in SIZES}
    values = {size: ours.get(size) for size in ("graphs", *SIZES)} | paper
    return {"dataset": name} | {size: int(v) if v and v.isdigit() else v for size, v in values.items()}
