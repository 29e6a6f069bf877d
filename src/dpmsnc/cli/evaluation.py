"""A table of predictions against a table of true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc import metrics
from dpmsnc.cli.answer_tables import GRAPH, Labels, row_ids, spelled, spelled_labels, without_unknown
from dpmsnc.errors import InputError
from dpmsnc.estimators.class_report import ClassReport
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.readers import column
from dpmsnc.graph.tables import read_table
from dpmsnc.graph.tag_text import split_tags
from dpmsnc.targets import Tags

TRUE, FALSE = {"true", "t", "yes", "y", "1", "1.0"}, {"false", "f", "no", "n", "0", "0.0", "", "nan", "none", "<na>"}
"""How the columns `known` and `directed` may be spelled, whatever the case of letters; a blank cell says no."""
PROBABILITY_OF = "probability of "
"""How the name of a column begins that has the probabilities of one tag."""


@dataclass(frozen=True)
class Predictions:
    """A table written by `dpmsnc predict`, or by hand with at least the columns id and label."""

    ids: list[str]
    labels: list[str | None]
    known: NDArray[np.bool_]
    """Nodes whose label was given to the model; none where the table does not say."""
    probability: NDArray[np.float64] | None
    tags: bool = False
    """Whether labels are tags, of which each has a column of probabilities."""
    several: bool = False
    """Whether the nodes are those of several graphs, which a column `graph` tells apart."""

    @classmethod
    def read(cls, path: Path) -> Predictions:
        """From a CSV, TSV or Parquet file."""
        table = read_table(path, "prediction", ("id", "label", GRAPH), 0)
        several = GRAPH in table.columns
        ids = row_ids(table, column(table, "id", "prediction"), "prediction", several)
        labels = spelled_labels(table[column(table, "label", "prediction")])
        return cls(
            ids=ids,
            labels=labels,
            known=truths(table["known"], ids) if "known" in table.columns else np.zeros(len(ids), dtype=bool),
            probability=_numbers(table["probability"], path) if "probability" in table.columns else None,
            tags=any(str(name).startswith(PROBABILITY_OF) for name in table.columns),
            several=several,
        )

    def given(self) -> Labels:
        """The labels that were known to the model."""
        triples = zip(self.ids, self.labels, self.known)
        return {name: label for name, label, known in triples if known and label is not None}


@dataclass(frozen=True)
class Comparison:
    """Predictions and truth as class indices, in the order of the predictions."""

    predictions: Predictions
    predicted: NDArray[np.int64]
    truth: NDArray[np.int64]
    classes: dict[str, int]

    @classmethod
    def of(cls, predictions: Predictions, truth: Labels) -> Comparison:
        truth = without_unknown(truth, {label for label in predictions.labels if label is not None})
        true = [truth.get(name) for name in predictions.ids]
        names = {label for label in (*true, *predictions.labels) if label is not None}
        classes = {name: k for k, name in enumerate(sorted(names))}
        y, predicted = (
            np.array([UNKNOWN if label is None else classes[label] for label in labels], dtype=np.int64)
            for labels in (true, predictions.labels)
        )
        comparison = cls(predictions, predicted, y, classes)
        check_asked(y != UNKNOWN, comparison.asked)
        return comparison

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Nodes to score: the truth is there, and the model was not told it."""
        return (self.truth != UNKNOWN) & ~self.predictions.known

    def scores(self) -> dict[str, float]:
        """What needs no graph."""
        asked, confidence = self.asked, self.predictions.probability
        result = {
            "accuracy": metrics.accuracy(self.predicted, self.truth, asked),
            "macro_f1": metrics.macro_f1(self.predicted, self.truth, asked),
        }
        if confidence is not None:
            right = (self.predicted == self.truth)[asked]
            result["calibration_error"] = metrics.confidence_gap(confidence[asked], right)
        return result

    def report(self) -> ClassReport:
        """Class by class."""
        return ClassReport.of(self.predicted, self.truth, self.asked, list(self.classes), self.scores())

    def subgraph_accuracy(self, graph: Graph, own: Labels | None = None) -> float:
        """Subgraph accuracy where known nodes count as they came back, or by the model's `own` labels of them."""
        positions = {name: k for k, name in enumerate(self.predictions.ids)}
        if lacking := [name for name in map(str, graph.ids.tolist()) if name not in positions]:
            raise InputError(f"the graph has nodes without a prediction: {short_list(lacking)}; predict all of them")
        rows = np.array([positions[name] for name in map(str, graph.ids.tolist())])
        known = self.predictions.known
        predicted, truth = self.predicted, np.where(known & (self.truth == UNKNOWN), self.predicted, self.truth)
        if own is not None:
            opinion = [self.classes.get(own.get(name, ""), UNKNOWN) for name in self.predictions.ids]
            predicted = np.where(known, opinion, predicted)
        return metrics.subgraph_accuracy(predicted[rows], truth[rows], self.asked[rows], graph)


@dataclass(frozen=True)
class TagComparison:
    """Predicted and true tags as rows of 0 and 1, in the order of the predictions."""

    predicted: NDArray[np.int64]
    truth: NDArray[np.int64]
    asked: NDArray[np.bool_]
    """Nodes to score: the truth is there, and the model was not told it."""

    @classmethod
    def of(cls, predictions: Predictions, truth: Labels, separator: str) -> TagComparison:
        answers, true = (
            [None if text is None else [spelled(tag) for tag in split_tags(text, separator)] for text in texts]
            for texts in (predictions.labels, [truth.get(name) for name in predictions.ids])
        )
        target = Tags(tuple(sorted({tag for tags in (*answers, *true) for tag in tags or ()})))
        predicted, y = target.encode(answers), target.encode(true)
        given = np.array([tags is not None for tags in true])
        check_asked(given, asked := given & ~predictions.known)
        return cls(np.maximum(predicted, 0), y, asked)  # a node without an answer has no tag

    def scores(self) -> dict[str, float]:
        """What needs no graph."""
        named = {"micro_f1": metrics.micro_f1, "macro_f1": metrics.macro_f1}
        return {name: metric(self.predicted, self.truth, self.asked) for name, metric in named.items()}


def check_asked(given: NDArray[np.bool_], asked: NDArray[np.bool_]) -> None:
    """Raise `InputError` where there is nothing to score."""
    if not given.any():
        raise InputError("no node of the truth table is among the predictions; name its id column (--id)")
    if not asked.any():
        raise InputError("every node with a true label was known to the model; give the truth of other nodes")


def truths(column: Any, ids: Sequence[str], name: str = "known", on: str = "node") -> NDArray[np.bool_]:
    """A column of yes and no, called `name`, in any spelling of them; `ids` are those of nodes or of edges."""
    words = [str(value).strip().lower() for value in column]
    for row, word in zip(ids, words):
        if word not in TRUE | FALSE:
            raise InputError(f"the column {name} says {word!r} of {on} {row}; write true or false, or leave it out")
    return np.array([word in TRUE for word in words], dtype=bool)


def _numbers(column: Any, path: Path) -> NDArray[np.float64]:
    try:
        values = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"the column probability of {path} holds something else than numbers ({error})") from error
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"the column probability of {path} must hold numbers from 0 to 1; fill it in or leave it out")
    return values
