"""The command line: the verbs of `NodeClassifier` on files, the demo, the tables of the paper, and its theorem.

Each command is a dataclass whose fields are its flags and whose `run` does the work. Nothing heavy is imported before a
command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tyro

from dpmsnc import __version__
from dpmsnc.cli.answer import Predict, Sample
from dpmsnc.cli.compare import Compare
from dpmsnc.cli.expressiveness import Expressiveness
from dpmsnc.cli.fit import Fit, fit_defaults
from dpmsnc.cli.reproduce import Reproduce
from dpmsnc.cli.table import Report, Table
from dpmsnc.cli.tune import Tune
from dpmsnc.cli.words import as_flags
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.nn.process import keep_freed_memory
from dpmsnc.registry import load_plugins


class Command(Protocol):
    def run(self) -> int:
        """Do the work; the exit code."""


FITTING = {
    "classes": ("id", "label", "picture", "model", "edges", "source", "target"),
    "tags": ("id", "label", "tag_separator"),
    "numbers on nodes": ("id", "label"),
    "numbers on edges": ("label", "target_column", "source", "target"),
}
"""The flags of `evaluate` beside --truth that say something of predictions that are classes, tags or numbers."""


@dataclass(frozen=True)
class Evaluate:
    """Score a table of predictions against true labels, all classes together and each of them, or numbers on nodes or
    edges; what was known to the model does not count."""

    predictions: tyro.conf.Positional[Path]
    """Table that `predict` wrote."""
    truth: Path
    """Table of true labels; a blank one is not scored."""
    id: str | None = None
    """Column of the truth table with the node ids; by default the first."""
    label: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Column of the truth table with the labels; for tags also several of 0 and 1, one --label each."""
    target_column: str | None = None
    """Column of the truth table with the numbers, where the predictions are those of edges."""
    tag_separator: str = ";"
    """Stands between the tags of a node in both tables."""
    picture: Path | None = None
    """File for the confusion matrix as a picture (.svg, .png or .pdf)."""
    model: Path | None = None
    """Model folder, for the subgraph accuracy: by the model's own labels, and with known labels as given."""
    edges: Path | None = None
    """Edge table, for the subgraph accuracy with known labels as given."""
    source: str | None = None
    """Column of the edge table, or of the truth table where that is one of edges; by default the first unnamed one."""
    target: str | None = None
    """Column of the same table; by default the second."""

    def run(self) -> int:
        from dpmsnc.cli.answer_tables import read_labels
        from dpmsnc.cli.evaluation import Comparison, Predictions, TagComparison
        from dpmsnc.plots.files import check_picture, write_picture

        if self.picture is not None:
            check_picture(self.picture)

        if (report := self._of_numbers()) is not None:
            print(report)
            return 0
        predictions = Predictions.read(self.predictions)
        of_tags = predictions.tags or len(self.label) > 1
        self._check_flags("tags" if of_tags else "classes")
        if predictions.several and (self.model is not None or self.edges is not None):
            raise InputError("the subgraph accuracy is that of one graph; leave --model and --edges out")
        truth = read_labels(self.truth, "truth", self.id, self.label, self.tag_separator, predictions.several)
        if of_tags:
            tags = TagComparison.of(predictions, truth, self.tag_separator)
            self._print(int(tags.asked.sum()), tags.scores())
            return 0
        comparison = Comparison.of(predictions, truth)
        report = comparison.report()
        self._print(len(report.truth), dict(report.scores) | self._with_neighbours(comparison))
        print(report.details())
        if self.picture is not None:
            write_picture(report.plot(), self.picture)
        return 0

    def _of_numbers(self) -> Any:
        """The report of a table of numbers; None where it is one of classes or tags."""
        from dpmsnc.cli.number_evaluation import compare_numbers, holds_numbers
        from dpmsnc.graph.clean import counted

        if (on := holds_numbers(self.predictions)) is None:
            return None
        self._check_flags(f"numbers on {on}s")
        named = [*([self.target_column] if self.target_column else []), *self.label]
        if len(named) > 1:
            raise InputError("numbers are in one column of the truth table; name it once, on edges by --target-column")
        keys = [self.id] if on == "node" else [self.source, self.target]
        report, unscored = compare_numbers(self.predictions, self.truth, on, keys, named[0] if named else None)
        if unscored:
            print(f"note: not scored for lack of a true number: {counted(unscored, on)}", file=sys.stderr)
        return report

    def _check_flags(self, kind: str) -> None:
        """Raise `InputError` where flags say nothing of predictions of this kind."""
        flags = dict.fromkeys(name for names in FITTING.values() for name in names)
        given = [name for name in flags if getattr(self, name) != getattr(Evaluate, name)]
        if other := [name for name in given if name not in FITTING[kind]]:
            named, one = ", ".join(f"--{name.replace('_', '-')}" for name in other), len(other) == 1
            advice = "says nothing; leave it out" if one else "say nothing; leave them out"
            raise InputError(f"the predictions are {kind}, of which {named} {advice}")
        if kind == "classes" and self.edges is None and (self.source or self.target):
            raise InputError("--source and --target are columns of --edges; give that table, or leave them out")
        if self.edges is not None and self.model is not None:
            raise InputError("--model has the edges of its graph; leave --edges out, or --model")

    def _print(self, size: int, scores: dict[str, float]) -> None:
        print(f"{'nodes':<26}{size}")
        for name, value in scores.items():
            print(f"{name:<26}{value:.4f}")

    def _with_neighbours(self, comparison: Any) -> dict[str, float]:
        from dpmsnc.cli.answer_tables import in_graph, spelled
        from dpmsnc.graph import Graph

        if self.model is not None:
            clf = Estimator.load(self.model)
            if clf.graph_.member is not None:
                raise InputError("--model was fitted on several graphs; give the --edges of the predicted one instead")
            known = in_graph(comparison.predictions.given(), clf.graph_)
            labels = clf.predict(known=known, condition_on="train", clamp_known=False)
            own = {str(name): spelled(label) for name, label in zip(clf.graph_.ids.tolist(), labels)}
            return {
                "subgraph_accuracy": comparison.subgraph_accuracy(clf.graph_, own),
                "subgraph_accuracy_known": comparison.subgraph_accuracy(clf.graph_),
            }
        if self.edges is not None:
            columns: dict[str, Any] = {"source": self.source, "target": self.target}
            graph = Graph.from_tables(self.edges, self.predictions, id="id", features=(), **columns)
            return {"subgraph_accuracy_known": comparison.subgraph_accuracy(graph)}
        return {}


@dataclass(frozen=True)
class Demo:
    """Show what a joint model of labels is for: a graph that a graph network cannot solve, as a report to look at."""

    out: Path = Path("runs/demo")
    """Folder for report.html and its pictures."""
    columns: int = 20
    """Columns of the grid, an even number."""
    seed: int = 0

    def run(self) -> int:
        from dpmsnc.cli.demo import run

        if self.seed < 0:
            raise InputError(f"--seed is {self.seed}; it must be at least 0")
        run(self.out, columns=self.columns, seed=self.seed)
        return 0


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": Demo,
    "fit": Fit,
    "predict": Predict,
    "sample": Sample,
    "evaluate": Evaluate,
    "compare": Compare,
    "reproduce": Reproduce,
    "table": Table,
    "report": Report,
    "tune": Tune,
    "expressiveness": Expressiveness,
}


def parse(arguments: Sequence[str]) -> Command:
    """The command that the arguments describe; prints help or complains, and exits, where they describe none."""
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS:
        about = (
            "Joint label prediction on partly labelled graphs. `dpmsnc COMMAND --help` lists the flags of a command."
        )
        return tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="dpmsnc", description=about, args=[name])
    default: Any = fit_defaults(arguments) if name == "fit" else tyro.MISSING_NONPROP
    return tyro.cli(COMMANDS[name], prog=f"dpmsnc {name}", args=arguments[1:], default=default)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script `dpmsnc`."""
    arguments = sys.argv[1:] if argv is None else argv
    command: Command | None = None
    if list(arguments) == ["--version"]:
        print(f"dpmsnc {__version__}")
        return 0
    try:
        load_plugins()
        with keep_freed_memory():
            command = parse(arguments)
            return command.run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever read our output has seen enough; Python would complain when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (InputError, OSError) as error:
        print(f"error: {as_flags(str(error), command)}", file=sys.stderr)
        return 2
