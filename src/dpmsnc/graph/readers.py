"""From tables to a `Graph`.

pandas is not imported before a function needs it, and nothing is unpickled.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import Array, is_missing, label_values, noted, plain_array, short, short_list
from dpmsnc.graph.graph import Graph
from dpmsnc.graph.tag_text import split_tags, tag_columns

WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")
"""A whole number in a text file, which pandas writes as 1.0 where others in its column are missing."""
GAPS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
"""What stands for a missing number in a text file."""


def read_tables(
    edges: Any,
    nodes: Any,
    *,
    id: str | None,
    label: str | Sequence[str] | None,
    source: str | None,
    target: str | None,
    features: Sequence[str] | None,
    edge_features: Sequence[str],
    edge_label: str | None,
    directed: bool,
    kind: str,
    tag_separator: str,
) -> Graph:
    """`Graph.from_tables`."""
    edge_table, source, target = edge_columns(edges, source, target)
    ends = [id_column(edge_table, name, "edge") for name in (source, target)]
    of_edge = [] if edge_label is None else [column(edge_table, edge_label, "edge")]
    edge_y = _without_gaps(edge_table[of_edge[0]]) if of_edge else None
    edge_numbers, ignored = _numeric(edge_table.drop(columns=[source, target, *of_edge]), edge_features, "edge")
    if nodes is None:
        if id is not None or label is not None or features is not None:
            raise InputError("id, label and features are columns of the node table; pass it as the second argument")
        parts: dict[str, Any] = {"ids": plain_array(dict.fromkeys(np.stack(ends, axis=1).ravel().tolist()))}
        notes = [ignored]
    else:
        parts, note = _node_parts(nodes, id, label, features, kind, tag_separator)
        notes, ends = [ignored, note], _same_type(ends, parts["ids"])
    if not hasattr(edges, "columns") and {source, target} <= {str(name) for name in parts["ids"].tolist()}:
        raise InputError(
            f"the edge table seems to lack a header: its first line, {source} and {target}, names nodes; "
            "add a line with column names above it"
        )
    edge_attr = edge_numbers.to_numpy(dtype=np.float32) if len(edge_numbers.columns) else None
    how: dict[str, Any] = {"edge_attr": edge_attr, "edge_y": edge_y, "directed": directed}
    graph = Graph.build(np.stack(ends), **parts, kind=kind, **how)
    if label is None and edge_y is None:
        notes.append("no label column was named (label=): every label is unknown")
    return noted(graph, *notes)


def edge_columns(edges: Any, source: str | None, target: str | None) -> tuple[Any, str, str]:
    """An edge table, and the names of its columns with the two ends."""
    table = read_table(edges, "edge", (source, target), 2)
    first, second = (column(table, name, "edge") for name in with_unnamed((source, target), table.columns))
    if first == second:
        raise InputError(f"source and target are both the column {first!r}; name one column for each end")
    return table, first, second


def _node_parts(
    nodes: Any,
    id: str | None,
    label: str | Sequence[str] | None,
    features: Sequence[str] | None,
    kind: str,
    tag_separator: str,
) -> tuple[dict[str, Any], str | None]:
    """What a table of nodes says, as arguments of `Graph.build`, and a note."""
    one = label if isinstance(label, str) else None
    table = read_table(nodes, "node", (id, one), 1)
    if not len(table):
        raise InputError("the graph is empty: the node table has no row; give it one per node, or leave the table out")
    id = column(table, unnamed_id(table, one) if id is None else id, "node")
    ids = id_column(table, id, "node")
    labels = [column(table, name, "node") for name in ([one] if one else label or ())]
    y, classes = _label_columns(table[labels], nodes, one, kind, tag_separator) if labels else (None, None)
    x, ignored = _numeric(table.drop(columns=list({id, *labels})), features, "node", ids)
    names = list(x.columns)
    parts = {"ids": ids, "y": y, "classes": classes, "x": x.to_numpy(dtype=np.float32) if names else None}
    return parts | {"feature_names": names or None}, ignored


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


def read_table(table: Any, kind: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
    """A DataFrame; in a text file `text_columns` stay as written, unnamed ones being the first `num_first` columns."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        if not table.columns.is_unique:
            twice = short_list(table.columns[table.columns.duplicated()])
            raise InputError(f"the {kind} table has more than one column called {twice}; rename or drop them")
        # A named index is a column to its owner.
        return table.reset_index() if table.index.name is not None else table
    if not isinstance(table, (str, os.PathLike)):
        raise InputError(f"the {kind} table is of type {type(table).__name__}; pass the path of a file or a DataFrame")
    path = Path(table)
    if not path.is_file():
        raise InputError(f"there is no {kind} table {path}; check the path")
    name = path.name.lower().removesuffix(".gz")
    if not name.endswith((".csv", ".tsv", ".parquet", ".pq")):
        raise InputError(f"cannot tell what kind of table {path} is; use .csv, .tsv or .parquet")
    try:
        if name.endswith((".csv", ".tsv")):
            return _text_table(path, "\t" if name.endswith(".tsv") else ",", text_columns, num_first)
        frame = pd.read_parquet(path)
    except ImportError as error:
        raise InputError('Parquet files need pyarrow: pip install "dpmsnc[parquet]"') from error
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read the {kind} table {path}: {error}; check that the file is whole") from error
    return frame.reset_index() if frame.index.name is not None else frame


def _text_table(path: Path, separator: str, text_columns: tuple[str | None, ...], num_first: int) -> Any:
    import pandas as pd

    # utf-8-sig: spreadsheet programs put a byte order mark before the first column's name.
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "index_col": False}
    columns = pd.read_csv(path, nrows=0, **options).columns
    others = [c for c in columns if c not in text_columns[num_first:]]
    text = {*filter(None, (*with_unnamed(text_columns[:num_first], others), *text_columns))}
    # A class or a node may be called "NA" or "None"; only in feature columns do such words mean a gap.
    gaps = {c: GAPS for c in columns if c not in text}
    return pd.read_csv(path, dtype=dict.fromkeys(text, str), keep_default_na=False, na_values=gaps, **options)


def with_unnamed(names: Sequence[str | None], columns: Iterable[str]) -> list[str | None]:
    """The names, with the first columns that are not named in place of None; None where there is no column left."""
    unnamed = (c for c in columns if c not in names)
    return [next(unnamed, None) if name is None else name for name in names]


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
            raise InputError(f"row {row} of the {kind} table has no {name!r}; fill it in or drop the row")
    return plain_array(values)


def _same_type(ends: list[Array], ids: Array) -> list[Array]:
    """Text files know no numbers: an id that is text in one table and a number in the other is the same id."""
    if all(end.dtype == ids.dtype for end in ends):
        return ends
    by_text = {str(name): name for name in ids.tolist()}
    return [np.array([by_text.get(str(v), str(v)) for v in end.tolist()], dtype=object) for end in ends]


def table_labels(column: Any, table: Any) -> list[Any]:
    """Labels of a table of nodes; where all are whole numbers in a text file, they are numbers: they sort, and -1 and
    words for a gap are unknown."""
    values = label_values(column)
    text = [v for v in values if v is not None and v not in GAPS]
    if not hasattr(table, "columns") and text and all(isinstance(v, str) and WHOLE.fullmatch(v) for v in text):
        return label_values([None if v is None or v in GAPS else int(v.partition(".")[0]) for v in values])
    return values


def _numeric(
    table: Any, wanted: str | Sequence[str] | None, kind: str, ids: Array | None = None
) -> tuple[Any, str | None]:
    """The wanted columns, which must be numeric and whole, and a note on the others; None wants all numeric ones."""
    from pandas.api.types import is_numeric_dtype

    # "Unnamed: 0" is a row number that pandas wrote into the file, not a property of the node.
    wanted = [wanted] if isinstance(wanted, str) else wanted
    usable = [c for c in table.columns if is_numeric_dtype(table[c]) and not str(c).startswith("Unnamed:")]
    chosen = usable if wanted is None else [column(table, c, kind) for c in wanted]
    for name in chosen:
        if name not in usable:
            raise InputError(f"column {name!r} is not numeric; encode it first, for example with pandas.get_dummies")
        if table[name].isna().any():
            row = int(np.argmax(table[name].isna()))
            at = row if ids is None else short(ids[row])
            raise InputError(f"feature {name!r} of {kind} {at} is missing; fill it in or leave the column out")
    others = list(table.columns.drop(chosen))
    return table[chosen], f"ignored {kind} columns: {short_list(others)}" if others else None
