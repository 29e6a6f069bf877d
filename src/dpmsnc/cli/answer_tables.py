"""Tables of answers: labels in, predictions and samples out.

Nodes and classes are matched by their text, since a text file cannot tell the number 7 from the word "7".
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmsnc.errors import InputError
from dpmsnc.estimators.decision import most_probable
from dpmsnc.estimators.diffusion import DiffusionEstimator
from dpmsnc.files import write_whole
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.cells import GAPS, WHOLE
from dpmsnc.graph.clean import check_unique, is_missing, short_list
from dpmsnc.graph.readers import column, id_column, unnamed_id
from dpmsnc.graph.tables import read_table
from dpmsnc.graph.tag_text import SEPARATOR, join_tags, split_tags, tag_columns
from dpmsnc.targets import Tags

if TYPE_CHECKING:
    import pandas as pd

    from dpmsnc.cli.new_graphs import Question
    from dpmsnc.estimators.base import Estimator, Which

WRITABLE = (".csv", ".tsv", ".parquet")
Labels = dict[str, str]
GRAPH = "graph"
"""The column that says which of several graphs a node belongs to."""
DIRECTED = "directed"
"""The column that says whether edges lead from source to target alone."""


def read_labels(
    path: Path,
    kind: str,
    id: str | None = None,
    label: str | Sequence[str] = (),
    separator: str = SEPARATOR,
    several: bool = False,
) -> Labels:
    """Labels by node id, both as text, of the nodes that have one.

    Args:
        path: A CSV, TSV or Parquet file with one row per node.
        kind: What the table is, for messages.
        id: Column of the node ids, by default the first.
        label: Column of the labels; may be left out where there is only one column besides the ids. Several columns
            hold 0 and 1, one for every tag.
        separator: Stands between tags.
        several: Whether a column `graph` says which of several graphs a node belongs to.
    """
    labels = [label] if isinstance(label, str) else list(label)
    one = labels[0] if len(labels) == 1 else None
    table = read_table(path, kind, (id, one, *([GRAPH] if several else [])), 1)
    named = table.drop(columns=column(table, GRAPH, kind)) if several else table
    id = column(table, unnamed_id(named, one) if id is None else id, kind)
    if not labels:
        others = [name for name in named.columns if name != id]
        if len(others) != 1:
            raise InputError(
                f"the {kind} table {path} has the columns {short_list(table.columns)}; name the one with "
                "the labels (--label)"
            )
        return read_labels(path, kind, id, others, separator, several)
    ids = row_ids(table, id, kind, several)
    columns = [column(table, name, kind) for name in labels]
    values = spelled_labels(table[one]) if one else _joined_columns(table[columns], separator)
    return {name: value for name, value in zip(ids, values) if value is not None}


def row_ids(table: Any, id: str, kind: str, several: bool) -> list[str]:
    """What the node of every row is called, as text; of several graphs, the names of both."""
    ids = id_column(table, id, kind)
    if several:
        graphs = id_column(table, GRAPH, kind).tolist()
        ids = np.array([f"{graph}/{name}" for graph, name in zip(graphs, ids.tolist())], dtype=object)
    check_unique(ids)
    return [str(name) for name in ids.tolist()]


def _joined_columns(table: Any, separator: str) -> list[str | None]:
    """Columns of 0 and 1 as one: "a;b"."""
    names = list(table.columns)
    rows = Tags(tuple(names)).encode(tag_columns(table))
    return [None if row[0] == UNKNOWN else join_tags(np.array(names)[row == 1], separator) for row in rows]


def spelled_labels(column: Any) -> list[str | None]:
    """The labels in a column as text, None where there is none: a word for a gap is one among whole numbers."""
    labels = [None if is_missing(value) else spelled(value) for value in column.tolist()]
    present = [label for label in labels if label is not None and label not in GAPS]
    numbers = bool(present) and all(WHOLE.fullmatch(label) for label in present)
    return [None if numbers and label in GAPS else label for label in labels]


def spelled(label: Any) -> str:
    """A label as text; whole numbers are spelled alike, however a table or a graph has them.

    Example:
        >>> spelled(1), spelled("1.0"), spelled(1.5), spelled("01")
        ('1', '1', '1.5', '01')
    """
    text = str(label)
    return text.partition(".")[0] if WHOLE.fullmatch(text) else text


def without_unknown(labels: Labels, classes: Collection[str]) -> Labels:
    """The same without -1, unless that is one of the classes."""
    return {name: label for name, label in labels.items() if label != str(UNKNOWN) or label in classes}


def in_graph(labels: Labels, graph: Graph, separator: str = SEPARATOR) -> dict[Any, Any]:
    """The same labels with the graph's own node ids and classes, for `predict(known=...)`."""
    ids = {str(name): name for name in graph.ids.tolist()}
    classes = {spelled(name): name for name in graph.classes}
    if isinstance(graph.target, Tags):
        cells = {ids.get(name, name): split_tags(text, separator) for name, text in labels.items()}
        return {name: [classes.get(spelled(tag), tag) for tag in tags] for name, tags in cells.items()}
    if not graph.classes:
        return {ids.get(name, name): text for name, text in labels.items() if text not in GAPS}
    known = without_unknown(labels, classes)
    return {ids.get(name, name): classes.get(label, label) for name, label in known.items()}


def prediction_table(
    clf: Estimator,
    question: Question,
    condition_on: Which,
    num_samples: int,
    seed: int | None,
    separator: str = SEPARATOR,
) -> pd.DataFrame:
    """One row per node or edge: its name, what the target makes of the answer (of classes label, probability and
    entropy), known."""
    import pandas as pd

    asked = clf._asked(question.graph, question.known, condition_on)
    if clf.on == "edge":
        answer = {"value": clf._answer(asked), "known": asked.known}
        return pd.DataFrame(question.first_columns(clf) | answer | ({DIRECTED: True} if asked.directed else {}))
    options: dict[str, Any] = {"num_samples": num_samples, "seed": seed} if isinstance(clf, DiffusionEstimator) else {}
    proba = question.rows(clf.predict_proba(question.graph, question.known, condition_on=condition_on, **options))
    first = question.first_columns(clf)
    if isinstance(clf.target_, Tags):  # by the probabilities that stand beside them
        labels = most_probable(clf, proba)
        first["label"] = [join_tags(tags, separator) for tags in clf.target_.decode(labels)]
    else:
        labels = clf._answer(asked)
    return pd.DataFrame(first | clf.target_.columns(labels, proba) | {"known": asked.known})


def sample_table(
    clf: Estimator,
    question: Question,
    condition_on: Which,
    num_samples: int,
    temperature: float,
    seed: int | None,
    separator: str = SEPARATOR,
) -> pd.DataFrame:
    """One row per node, one column per joint labelling."""
    import pandas as pd

    options: dict[str, Any] = {"temperature": temperature} if isinstance(clf, DiffusionEstimator) else {}
    options |= {"seed": seed, "condition_on": condition_on}
    samples = question.rows(clf.sample(num_samples, question.graph, question.known, **options), axis=1)
    if isinstance(clf.target_, Tags):
        samples = np.array([[join_tags(tags, separator) for tags in sample] for sample in samples], dtype=object)
    columns = {f"sample_{k}": sample for k, sample in enumerate(samples)}
    return pd.DataFrame(question.first_columns(clf) | columns)


def check_writable_as_table(path: Path | None) -> None:
    """Complain about a file name before the work rather than after it."""
    if path is not None and path.suffix not in WRITABLE:
        raise InputError(f"cannot tell how to write {path}; end its name in {', '.join(WRITABLE)}")


def write_table(table: pd.DataFrame, path: Path | None) -> None:
    """Write a table to a file, all or nothing, or as CSV to standard output."""
    if path is None:
        table.to_csv(sys.stdout, index=False)
        return
    if path.suffix == ".parquet":
        try:
            write_whole(path, table.to_parquet(index=False))
        except ImportError as error:
            raise InputError('Parquet files need pyarrow: pip install "dpmsnc[parquet]"') from error
    else:
        write_whole(path, table.to_csv(index=False, sep="\t" if path.suffix == ".tsv" else ","))
