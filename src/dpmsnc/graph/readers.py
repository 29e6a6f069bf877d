"""From tables to a `Graph`.

pandas is not imported before a function needs it, and nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.cells import GAPS, WHOLE, Kind, Where, as_numbers
from dpmsnc.graph.clean import Array, is_missing, label_values, noted, plain_array, short, short_list
from dpmsnc.graph.columns import Columns, columns_of
from dpmsnc.graph.edges import clean_edge_weights
from dpmsnc.graph.graph import Graph
from dpmsnc.graph.objects import read_scipy
from dpmsnc.graph.tables import places, read_table, with_unnamed
from dpmsnc.graph.tag_text import split_tags, tag_columns


@dataclass(frozen=True)
class NodeTable:
    """A table of nodes and how it is read; the names are those of the arguments of `Graph.from_tables`."""

    nodes: Any
    id: str | None = None
    label: str | Sequence[str] | None = None
    features: Sequence[str] | None = None
    columns: Mapping[str, Kind] | None = None
    columns_like: Any = None
    x: Any = None
    kind: str = "class"
    tag_separator: str = ";"

    def parts(self) -> tuple[dict[str, Any], Columns | None, list[str]]:
        """What the table says, as arguments of `Graph.build`; how its columns became features; and notes."""
        table, id, labels = self.opened()
        place = places(table, "node")
        ids = id_column(table, id, "node")
        check_listed_once(ids, place)
        one = labels[0] if isinstance(self.label, str) else None
        how = (self.nodes, one, self.kind, self.tag_separator)
        y, classes = _label_columns(table[labels], *how) if labels else (None, None)
        columns, x, notes = self._features(table.drop(columns=list({id, *labels})), lambda row: _at(place, ids, row))
        names = columns.names if columns is not None and self.x is None else None
        return {"ids": ids, "y": y, "classes": classes, "x": x, "feature_names": names or None}, columns, notes

    def opened(self) -> tuple[Any, str, list[str]]:
        """The table, and its columns with the ids and with the labels."""
        one = self.label if isinstance(self.label, str) else None
        table = read_table(self.nodes, "node", (self.id, one), 1, self._as_text())
        if not len(table):
            raise InputError(
                "the graph is empty: the node table has no row; give it one per node, or leave the table out"
            )
        id = column(table, unnamed_id(table, one) if self.id is None else self.id, "node")
        return table, id, [column(table, name, "node") for name in ([one] if one else self.label or ())]

    def _as_text(self) -> list[str]:
        like = columns_of(self.columns_like)
        named = [name for name, kind in (self.columns or {}).items() if kind in ("category", "text")]
        return [*named, *(like.as_text if like is not None else ())]

    def _features(self, table: Any, where: Where) -> tuple[Columns | None, Any, list[str]]:
        table = table.rename(columns=str)
        fitted = columns_of(self.columns_like)
        if self.x is not None:
            if fitted is not None or self.features or self.columns:
                raise InputError("x= holds the features in place of columns; leave features, columns and the like out")
            return None, self.x, [_ignored(table.columns)] if len(table.columns) else []
        if fitted is None:
            fitted = Columns.fit(table, _listed(self.features), self.columns, where)
        elif self.columns or self.features:
            raise InputError("columns_like says what the columns are; leave features= and columns= out")
        x, notes = fitted.encode(table, where)
        return fitted, x, notes


def common_columns(tables: Mapping[str, NodeTable], naming: Callable[[str], AbstractContextManager[None]]) -> Columns:
    """How the columns of several tables are encoded alike: as if they were one table. What is wrong with a table is
    said within `naming` of its name."""
    import pandas as pd

    parts: list[Any] = []
    for name, one in tables.items():
        with naming(name):
            table, id, labels = one.opened()
            parts.append(table.drop(columns=list({id, *labels})).rename(columns=str))
            if lacking := [column for column in parts[0].columns if column not in table.columns]:
                raise InputError(f"the node table lacks the column {lacking[0]!r} of {next(iter(tables))}; add it")
    starts, names = np.cumsum([0, *map(len, parts)]), list(tables)
    first = next(iter(tables.values()))

    def where(row: int) -> str:
        k = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{names[k]}, {places(parts[k], 'node')(row - int(starts[k]))}"

    whole = pd.concat([part[parts[0].columns] for part in parts], ignore_index=True)
    found = Columns.fit(whole, _listed(first.features), first.columns, where)
    if first.columns_like is None and set(found.as_text) - set(first._as_text()):
        # what is text in one table may have been read as numbers in another, without their zeros
        again = {name: replace(one, columns_like=found) for name, one in tables.items()}
        return common_columns(again, naming)
    return found


def read_tables(
    edges: Any,
    nodes: NodeTable,
    *,
    source: str | None,
    target: str | None,
    edge_weight: str | None,
    edge_features: Sequence[str],
    edge_label: str | None,
    directed: bool,
) -> Graph:
    """`Graph.from_tables`."""
    if sp.issparse(edges):
        if any((source, target, edge_weight, edge_features, edge_label)):
            raise InputError("a matrix has no columns; leave source, target and what is about edges out")
        return _from_matrix(edges, nodes, directed)
    of_edges = [*filter(None, (edge_weight, edge_label)), *(_listed(edge_features) or ())]
    table, source, target = edge_columns(edges, source, target, of_edges)
    ends = [id_column(table, name, "edge") for name in (source, target)]
    weight = None if edge_weight is None else weight_column(table, edge_weight)
    edge_y = None if edge_label is None else _without_gaps(table[column(table, edge_label, "edge")])
    rest = table.drop(columns=list({source, target, edge_weight or source, edge_label or source}))
    edge_numbers, ignored = _numeric(rest, edge_features)
    columns = None
    if nodes.nodes is None:
        if any(getattr(nodes, name) is not None for name in ("id", "label", "features", "columns", "x")):
            raise InputError(
                "id, label, features, columns and x are about the node table; pass it as the second argument"
            )
        parts: dict[str, Any] = {"ids": plain_array(dict.fromkeys(np.stack(ends, axis=1).ravel().tolist()))}
        notes = [ignored]
    else:
        parts, columns, of_nodes = nodes.parts()
        notes = [ignored, *of_nodes]
    if is_text(edges) and {source, target} <= {str(name) for name in parts["ids"].tolist()}:
        raise InputError(
            f"the edge table seems to lack a header: its first line, {source} and {target}, names nodes; "
            "add a line with column names above it"
        )
    if nodes.nodes is not None:
        ends = _same_type(ends, parts["ids"], (source, target), is_text(edges) or is_text(nodes.nodes))
        check_ends(ends, parts["ids"], places(table, "edge"))
    edge_attr = edge_numbers.to_numpy(dtype=np.float32) if len(edge_numbers.columns) else None
    rows: dict[str, Any] = {"edge_attr": edge_attr, "edge_weight": weight, "edge_y": edge_y, "directed": directed}
    names = None if edge_attr is None else list(edge_numbers.columns)
    graph = Graph.build(np.stack(ends), **parts, kind=nodes.kind, **rows, edge_feature_names=names)
    if nodes.label is None and edge_y is None:
        notes.append("no label column was named (label=): every label is unknown")
    return replace(noted(graph, *notes), columns=columns)


def _from_matrix(edges: Any, nodes: NodeTable, directed: bool) -> Graph:
    """A graph from a sparse matrix whose rows and columns are the rows of a node table."""
    if nodes.nodes is None:
        raise InputError("the rows of a matrix have no names; pass a node table, or use Graph.from_scipy")
    parts, columns, notes = nodes.parts()
    names = parts.pop("feature_names")
    graph = read_scipy(
        edges, parts.pop("x"), parts.pop("y"), **parts, kind=nodes.kind, directed=directed, weighted=True
    )
    return replace(noted(graph, *notes), columns=columns, feature_names=names or graph.feature_names)


def weight_column(table: Any, name: str) -> NDArray[np.float64]:
    """The weights in a column of an edge table: positive numbers."""
    place = places(table, "edge")
    cells = table[column(table, name, "edge")]
    return clean_edge_weights(as_numbers(cells, place, sure=True), len(cells), place)


def is_text(table: Any) -> bool:
    """Whether a table is a text file, which does not tell numbers from text."""
    return isinstance(table, (str, PathLike)) and not str(table).lower().endswith((".parquet", ".pq"))


def edge_columns(edges: Any, source: str | None, target: str | None, taken: Sequence[str] = ()) -> tuple[Any, str, str]:
    """An edge table, and the names of its columns with the two ends: those named, or else the first ones that are not
    `taken` by something else."""
    table = read_table(edges, "edge", (source, target), 2, taken=taken)
    free = [name for name in table.columns if name not in taken]
    first, second = (column(table, name, "edge") for name in with_unnamed((source, target), free))
    if first == second:
        raise InputError(f"source and target are both the column {first!r}; name one column for each end")
    return table, first, second


def _at(place: Where, ids: Array, row: int) -> str:
    return f"{place(row)} (node {short(ids[row])})"


def _listed(names: str | Sequence[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)


def _ignored(names: Sequence[str], kind: str = "node") -> str:
    return f"ignored {kind} columns: {short_list(names)}"


def _label_columns(
    labels: Any, table: Any, one: str | None, kind: str, tag_separator: str
) -> tuple[Any, list[str] | None]:
    """Labels for `Graph.build`, and the names of the tags where each has a column of its own."""
    if one is not None:
        values = labels[one]
        if kind == "tags":
            return [split_tags(cell, tag_separator) for cell in values.tolist()], None
        return (table_labels(values, table) if kind == "class" else _without_gaps(values)), None
    if kind != "tags":
        raise InputError("label names several columns, as only tags have them; pass kind='tags', or one column")
    return tag_columns(labels), list(labels.columns)


def _without_gaps(values: Any) -> list[Any]:
    return [None if is_missing(v) or (isinstance(v, str) and v in GAPS) else v for v in values.tolist()]


def unnamed_id(table: Any, label: str | None) -> str | None:
    """The first column that does not hold the labels, or the one that does where there is no other."""
    return next((c for c in table.columns if c != label), label)


def column(table: Any, name: str | None, kind: str) -> str:
    """The column `name`, which must be there."""
    if name is None:
        raise InputError(
            f"the {kind} table has {len(table.columns)} columns, too few; an edge needs a source and a target"
        )
    if name not in table.columns:
        raise InputError(f"the {kind} table has no column {name!r}; its columns are {short_list(table.columns)}")
    return name


def id_column(table: Any, name: str, kind: str) -> Array:
    """The node ids in a column; none may be missing."""
    values = table[name].tolist()
    for row, value in enumerate(values):
        if is_missing(value):
            raise InputError(f"{places(table, kind)(row)} has no {name!r}; fill it in or drop the row")
    return plain_array(values)


def check_listed_once(ids: Array, place: Where) -> None:
    """Raise `InputError` where two rows of a node table have the same id."""
    first: dict[Any, int] = {}
    for row, name in enumerate(ids.tolist()):
        if first.setdefault(name, row) != row:
            raise InputError(
                f"node id {short(name)} occurs more than once, in {place(first[name])} and in {place(row)}; "
                "keep one row per node"
            )


def _same_type(ends: list[Array], ids: Array, columns: tuple[str, str], text: bool) -> list[Array]:
    """Text files know no numbers: an id that is text in one table and a number in the other is the same id."""
    if all(end.dtype == ids.dtype for end in ends):
        return ends
    if not text:
        other = next(name for name, end in zip(columns, ends) if end.dtype != ids.dtype)
        kinds = ("text", "numbers") if ids.dtype == object else ("numbers", "text")
        raise InputError(
            f"the ids of the node table are {kinds[0]} and those in column {other!r} of the edge table are {kinds[1]}; "
            "make them one type, for example with astype(str)"
        )
    by_text = {str(name): name for name in ids.tolist()}
    return [np.array([by_text.get(str(v), str(v)) for v in end.tolist()], dtype=object) for end in ends]


def check_ends(ends: Sequence[Array], ids: Array, place: Where) -> None:
    """Raise `InputError` where an edge leads to a node that has no row, and say what the node may be called."""
    known = set(ids.tolist())
    if all(known.issuperset(end.tolist()) for end in ends):
        return
    for row, pair in enumerate(zip(*(end.tolist() for end in ends))):
        if unknown := [name for name in pair if name not in known]:
            spelled = {_plain(name): name for name in known}
            meant = spelled.get(_plain(unknown[0]))
            hint = "" if meant is None else f" (did you mean {short(meant)}? Ids are compared as they are written)"
            raise InputError(
                f"{place(row)}, the edge ({pair[0]!s}, {pair[1]!s}), names node {short(unknown[0])}, which is not "
                f"among the {len(ids)} rows of the node table{hint}; add a row for that node or drop the edge"
            )


def _plain(name: Any) -> str:
    """An id without what programs add to it: blanks, zeros in front, .0 behind, capitals."""
    return str(name).strip().removesuffix(".0").lstrip("0").lower()


def table_labels(column: Any, table: Any) -> list[Any]:
    """Labels of a table of nodes; where all are whole numbers in a text file, they are numbers: they sort, and -1 and
    words for a gap are unknown."""
    values = label_values(column)
    text = [v for v in values if v is not None and v not in GAPS]
    if not hasattr(table, "columns") and text and all(isinstance(v, str) and WHOLE.fullmatch(v) for v in text):
        return label_values([None if v is None or v in GAPS else int(v.partition(".")[0]) for v in values])
    return values


def _numeric(table: Any, wanted: str | Sequence[str]) -> tuple[Any, str | None]:
    """The wanted columns of an edge table, which must be numeric and whole, and a note on the others."""
    from pandas.api.types import is_numeric_dtype

    chosen = [column(table, name, "edge") for name in _listed(wanted) or ()]
    for name in chosen:
        if not is_numeric_dtype(table[name]):
            raise InputError(f"column {name!r} is not numeric; encode it first, for example with pandas.get_dummies")
        if table[name].isna().any():
            row = int(np.argmax(table[name].isna()))
            raise InputError(f"feature {name!r} of edge {row} is missing; fill it in or leave the column out")
    others = list(table.columns.drop(chosen))
    return table[chosen], _ignored(others, "edge") if others else None
