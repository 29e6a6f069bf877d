"""A table of predicted numbers, on nodes or on edges, against a table of true numbers.

Rows are matched by the text of their names. An edge that one table has as (a, b) and the other as (b, a) is the same,
unless edges have a direction. The predictions know that: by their column `directed`, or where they have none by some
pair of nodes in both orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.cli.answer_tables import DIRECTED, GRAPH
from dpmsnc.cli.evaluation import truths
from dpmsnc.errors import InputError
from dpmsnc.estimators.number_report import NumberReport
from dpmsnc.graph.cells import as_numbers
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.readers import column, id_column
from dpmsnc.graph.tables import places, read_table, with_unnamed

Name = tuple[str, ...]
"""What a row is called: the graph if there are several, then a node or the two ends of an edge."""
NAMES = {"node": ("id",), "edge": ("source", "target")}
FLAGS = {"node": ("--id", "--label"), "edge": ("--source and --target", "--target-column")}
"""Which flags name the columns of a truth table: those of the names of rows, and that of the numbers."""


@dataclass(frozen=True)
class Numbers:
    """A table with a number in every row."""

    names: list[Name]
    values: NDArray[np.float64]
    """NaN where a cell is blank."""
    table: Any

    @classmethod
    def read(cls, path: Path, kind: str, keys: Sequence[str | None], value: str | None, several: bool) -> Numbers:
        """From a file; `keys` are the columns with the names of rows, by default the first, and `value` that of the
        numbers, by default the only other one. Of several graphs there is a column `graph`, too."""
        of_graph = (GRAPH,) if several else ()
        table = read_table(path, kind, (*keys, *of_graph), len(keys), taken=[value] if value else [])
        rest = [name for name in table.columns if name not in (*of_graph, value)]
        found = [column(table, name, kind) for name in (*of_graph, *with_unnamed(keys, rest))]
        others = [name for name in table.columns if name not in found]
        if value is None and len(others) != 1:
            flag = FLAGS["edge" if len(keys) > 1 else "node"][1]
            raise InputError(
                f"the {kind} table {path} has the columns {short_list(table.columns)}; name the one with the numbers "
                f"({flag})"
            )
        cells = table[column(table, others[0] if value is None else value, kind)]
        names = list(zip(*([str(name) for name in id_column(table, key, kind).tolist()] for key in found)))
        if twice := next((name for name, count in Counter(names).items() if count > 1), None):
            raise InputError(f"the {kind} table {path} lists {_called(twice)} more than once; keep one row of it")
        return cls(names, as_numbers(cells, places(table, kind), sure=True), table)

    @property
    def by_name(self) -> dict[Name, float]:
        """The number of every row that has one."""
        return {name: value for name, value in zip(self.names, self.values.tolist()) if not np.isnan(value)}

    @property
    def directed(self) -> bool:
        """Whether the edges of a table of predictions have a direction."""
        if DIRECTED in self.table.columns:
            said = truths(self.table[DIRECTED], [_called(name) for name in self.names], DIRECTED, "edge")
            if said.any() and not said.all():
                raise InputError("the column directed says true of some edges and false of others; write one of both")
            return bool(said.any())
        names = set(self.names)
        return any(_reversed(name) in names and name[-1] != name[-2] for name in names)


def holds_numbers(path: Path) -> Literal["node", "edge"] | None:
    """What carries the numbers of a table of predictions; None where it has classes or tags."""
    columns = set(read_table(path, "prediction", ("id", "label"), 0).columns)
    if "value" not in columns or "label" in columns:
        return None
    return "edge" if columns >= set(NAMES["edge"]) else "node"


def compare_numbers(
    predictions: Path, truth: Path, on: Literal["node", "edge"], keys: Sequence[str | None], value: str | None
) -> tuple[NumberReport, int]:
    """The numbers that were not known to the model against true ones, and how many of them have no true one; `keys` and
    `value` name columns of the truth."""
    names = read_table(predictions, "prediction", NAMES[on], 0).columns
    several = GRAPH in names
    answers = Numbers.read(predictions, "prediction", NAMES[on], "value", several)
    true = Numbers.read(truth, "truth", keys, value, several)
    numbers = true.by_name
    if on == "edge" and not answers.directed:
        numbers = _either_way(numbers)
    y = np.array([numbers.get(name, np.nan) for name in answers.names], dtype=np.float64)
    known = np.zeros(len(y), dtype=bool)
    if "known" in names:
        known = truths(answers.table["known"], [_called(name) for name in answers.names], on=on)
    _check(y, known, answers, on)
    return NumberReport.of(answers.values, y, ~known, on), int((np.isnan(y) & ~known).sum())


def _either_way(numbers: dict[Name, float]) -> dict[Name, float]:
    """The numbers of edges without a direction, by both orders of their ends."""
    for name, number in numbers.items():
        back = _reversed(name)
        if (other := numbers.get(back, number)) != number:
            raise InputError(
                f"the truth table says {number} of the edge {_called(name)} and {other} of {_called(back)}, which "
                "are one edge to the predictions; keep the row that is right, or give the predictions a column "
                "directed that says true"
            )
    return {_reversed(name): number for name, number in numbers.items()} | numbers


def _check(y: NDArray[np.float64], known: NDArray[np.bool_], answers: Numbers, on: str) -> None:
    """Raise `InputError` where there is nothing to score, or nothing to score it with."""
    given = ~np.isnan(y)
    if not given.any():
        raise InputError(f"no {on} of the truth table is among the predictions; name its columns ({FLAGS[on][0]})")
    if not (asked := given & ~known).any():
        raise InputError(f"every {on} with a true number was known to the model; give the truth of other {on}s")
    if (blank := asked & np.isnan(answers.values)).any():
        name = _called(answers.names[int(np.argmax(blank))])
        raise InputError(f"the predictions have no value for {on} {name}; fill it in or drop the row")


def _reversed(name: Name) -> Name:
    return (*name[:-2], name[-1], name[-2])


def _called(name: Name) -> str:
    return ", ".join(name)
