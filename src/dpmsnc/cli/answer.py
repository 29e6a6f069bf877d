"""The commands `predict` and `sample`: a model folder in, a table out.

They answer for the fitted graph, for other graphs, or for the fitted graph with nodes that arrived since.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator, Which

if TYPE_CHECKING:
    from dpmsnc.cli.new_graphs import Question


@dataclass(frozen=True)
class AnswerFlags:
    model: tyro.conf.Positional[Path]
    """Model folder that `fit` wrote."""
    out: Path | None = None
    """Table to write (.csv, .tsv or .parquet); by default CSV on standard output."""
    edges: Path | None = None
    """Edge table of a graph that was not fitted, to answer for that one."""
    nodes: Path | None = None
    """Node table of that graph, with the features of the fit in columns of the same names."""
    graph: Path | None = None
    """An .npz file instead of these tables."""
    graphs: Path | None = None
    """A folder of such graphs; the table then begins with a column graph."""
    grow: bool = False
    """Whether --nodes has nodes that joined the fitted graph since, and --edges the edges that came with them."""
    known: Path | None = None
    """Table of labels learned since: conditioned on at once, without a new fit."""
    id: str | None = None
    """Column of --nodes, or else of --known, with the node ids; by default the first."""
    label: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Column of --nodes, or else of --known, with known labels; for tags also several of 0 and 1, one --label each."""
    source: str | None = None
    """Column of the edge table; by default the first that no flag names."""
    target: str | None = None
    """Column of the edge table; by default the second of those."""
    edge_features: tuple[str, ...] = ()
    """Columns of --edges with the features that the model was fitted with, where it predicts edges."""
    target_column: str | None = None
    """Column of --edges with the numbers that are known, where the model predicts edges; blank where unknown."""
    weight: str | None = None
    """Column of the edge table with weights, if the model was fitted with some."""
    tag_separator: str = ";"
    """Stands between the tags of a node in tables."""
    condition_on: Which = "known"
    """Every label the graph has, or only those trained on."""
    seed: int | None = None
    """Seed of the samples; by default the model's."""

    def load(self, num_samples: int) -> tuple[Estimator, Question]:
        """The model, and what it is asked about."""
        from dpmsnc.cli.answer_tables import check_writable_as_table
        from dpmsnc.cli.new_graphs import check_flags, read_question

        if num_samples < 1:
            raise InputError(f"--num-samples is {num_samples}; draw at least 1")
        check_writable_as_table(self.out)
        check_flags(self)
        clf = Estimator.load(self.model)
        return clf, read_question(self, clf)


@dataclass(frozen=True)
class Predict(AnswerFlags):
    """Predict the label of every node: a table with id, label, probability, entropy (nats) and known; for tags, label,
    a column of 0 and 1 and one of probabilities for each, and known; for edges source, target, value, known, and
    directed where they have a direction."""

    num_samples: int = 32
    """Joint samples behind the probabilities."""

    def run(self) -> int:
        from dpmsnc.cli.answer_tables import prediction_table, write_table

        clf, question = self.load(self.num_samples)
        how = (self.condition_on, self.num_samples, self.seed, self.tag_separator)
        write_table(prediction_table(clf, question, *how), self.out)
        return 0


@dataclass(frozen=True)
class Sample(AnswerFlags):
    """Draw joint labellings: a table with id (of edges source and target), sample_0, sample_1, ..."""

    num_samples: int = 8
    """Joint labellings to draw."""
    temperature: float = 1.0
    """Scales the noise; 0 makes all samples the same."""

    def run(self) -> int:
        from dpmsnc.cli.answer_tables import sample_table, write_table

        clf, question = self.load(self.num_samples)
        how = (self.condition_on, self.num_samples, self.temperature, self.seed, self.tag_separator)
        write_table(sample_table(clf, question, *how), self.out)
        return 0
