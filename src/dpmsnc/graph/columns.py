"""Columns of a node table as features: decided once, on one table, kept with the graph, and applied to any other.

What a column is follows from its cells (`dpmsnc.graph.cells`) unless the user says it. How it is encoded is in
`dpmsnc.graph.encodings`. Identifiers, free text and columns that say nothing are left out by name, never silently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpmsnc.errors import InputError
from dpmsnc.graph.cells import KINDS, Found, Kind, Where, kind_of
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.encodings import ENCODINGS, Encoding, Matrix, from_state, state_of

if TYPE_CHECKING:
    import pandas as pd

LEFT_OUT: dict[Found, str] = {
    "identifier": "left out: an identifier, since hardly any value occurs twice",
    "text": "left out: free text",
    "empty": "left out: no cell has a value",
    "constant": "left out: all cells are the same",
    "row number": "left out: row numbers without a name",
    "drop": "left out: as asked for",
}
ASKED: dict[Found, Kind] = {"identifier": "category", "constant": "category"}
"""What a column that is usually left out is read as, where it is asked for by name."""


@dataclass(frozen=True, eq=False)
class Columns:
    """How the columns of a table are encoded."""

    encodings: tuple[Encoding, ...]
    report: tuple[tuple[str, str], ...]
    """Every column of the table that was fitted, and what was done to it."""

    @classmethod
    def fit(
        cls,
        table: pd.DataFrame,
        wanted: Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        where: Where = str,
    ) -> Columns:
        """The encoding of a table.

        Args:
            table: Columns that are neither ids nor labels.
            wanted: The columns to use; None for all that are neither identifiers nor free text.
            kinds: What columns are, where it does not follow from their cells.
            where: What a row is called in messages.
        """
        kinds = dict(kinds or {})
        _check_kinds(kinds, table, wanted)
        encodings, report = [], []
        for name in _order(table, wanted):
            if wanted is not None and name not in wanted and name not in kinds:
                report.append((name, "left out: not among the features asked for"))
                continue
            kind = kinds.get(name) or _automatic(table[name], wanted is not None and name in wanted, where)
            if kind in LEFT_OUT and (kind != "text" or name not in {*kinds, *(wanted or ())}):
                report.append((name, LEFT_OUT[kind]))
            else:
                encoding, words = ENCODINGS[cast(Kind, kind)].fit(table[name], kind, where)
                encodings.append(encoding)
                report.append((name, words))
        _check_names([name for encoding in encodings for name in encoding.names])
        return cls(tuple(encodings), tuple(report))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return tuple(name for encoding in self.encodings for name in encoding.names)

    @property
    def as_text(self) -> tuple[str, ...]:
        """Columns whose cells are to be read as they are written."""
        return tuple(encoding.column for encoding in self.encodings if encoding.code != "numbers")

    def encode(self, table: pd.DataFrame, where: Where = str) -> tuple[Matrix | None, list[str]]:
        """Features of a table that has these columns, in any order; and notes on others and on what is new."""
        columns = [encoding.column for encoding in self.encodings]
        if lacking := [name for name in columns if name not in table.columns]:
            raise InputError(
                f"the node table has no column {short_list(lacking)}, which the fitted one has; "
                f"its columns are {short_list(table.columns)}"
            )
        parts, notes = [], []
        for encoding in self.encodings:
            x, note = encoding.encode(table[encoding.column], where)
            parts.append(x)
            notes += [note] if note else []
        others = [name for name in table.columns if name not in columns]
        notes += [f"ignored node columns: {short_list(others)}"] if others else []
        return np.concatenate(parts, axis=1) if parts else None, notes

    @cached_property
    def key(self) -> str:
        """The same for encodings that give the same features, up to gaps that no fitted table had."""
        return hashlib.sha256(repr([encoding.key() for encoding in self.encodings]).encode()).hexdigest()[:16]

    def text(self) -> str:
        """All of it as JSON, which `from_text` reads."""
        return json.dumps({"encodings": [state_of(encoding) for encoding in self.encodings], "report": self.report})

    @classmethod
    def from_values(cls, values: Any) -> Columns:
        """What `text` gave, parsed; a `ValueError`, `TypeError` or `KeyError` where it is something else."""
        report = tuple((str(name), str(words)) for name, words in values["report"])
        return cls(tuple(from_state(dict(state)) for state in values["encodings"]), report)


def columns_of(like: Any) -> Columns | None:
    """Of a graph or a fitted estimator, or columns themselves."""
    found = like if isinstance(like, Columns) else getattr(getattr(like, "graph_", like), "columns", None)
    if (like is not None and found is None) or not isinstance(found, (Columns, type(None))):
        raise InputError("columns_like is a Graph that was read from tables, or a classifier that was fitted to one")
    return found


def same_coding(one: Columns | None, other: Columns | None) -> bool:
    """Whether two graphs, if both were read from tables, have features that mean the same."""
    return one is None or other is None or one.key == other.key


READ_ALIKE = "read both alike: Graph.from_tables(..., columns_like=the first graph, or the classifier)"


def _automatic(cells: pd.Series, asked: bool, where: Where) -> Found:
    kind = kind_of(cells, where)
    return ASKED.get(kind, "numeric" if kind == "row number" else kind) if asked else kind


def _order(table: pd.DataFrame, wanted: Sequence[str] | None) -> list[str]:
    """Columns in the order of the features: that of `wanted`, where it is given."""
    return [*(wanted or ()), *(name for name in table.columns if name not in (wanted or ()))]


def _check_kinds(kinds: Mapping[str, Any], table: pd.DataFrame, wanted: Sequence[str] | None) -> None:
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise InputError(f"column {name!r} cannot be {kind!r}; a column is one of {', '.join(KINDS)}")
    for name in (*kinds, *(wanted or ())):
        if name not in table.columns:
            raise InputError(f"the node table has no column {name!r}; its columns are {short_list(table.columns)}")


def _check_names(names: Sequence[str]) -> None:
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InputError(f"two features would be called {twice[0]!r}; rename one of the columns that they come from")
