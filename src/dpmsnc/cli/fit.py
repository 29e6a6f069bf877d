"""`dpmsnc fit`: a graph in, a model folder out.

The flags that describe the model are the arguments of `NodeClassifier` itself, with their types, defaults and
descriptions.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.presets import preset

if TYPE_CHECKING:
    from dpmsnc.evidence.run.store import Cost
    from dpmsnc.graph import Graph

InitialiserName = Literal["gnn", "pta", "grand", "g3nn", "gmnn", "gcn", "gat", "sage", "stack", "lp", "uniform"]
SettingName = Literal["synthetic", "homophilic", "heterophilic", "inductive", "reasoning"]


def model_flags() -> type[Any]:
    """A dataclass with the arguments of `NodeClassifier` as fields."""
    hints = typing.get_type_hints(NodeClassifier.__init__) | {"initialiser": InitialiserName}
    arguments = inspect.signature(NodeClassifier).parameters.values()
    fields = [(a.name, hints[a.name], a.default) for a in arguments]
    return make_dataclass("ModelFlags", fields, namespace={"__doc__": NodeClassifier.__doc__, "__module__": __name__})


ModelFlags = model_flags()


@dataclass(frozen=True)
class GraphFlags:
    """The graph: two tables (CSV, TSV or Parquet), or one .npz file (docs/data.md)."""

    edges: Path | None = None
    """Table with one row per edge."""
    nodes: Path | None = None
    """Table with one row per node; a blank label is unknown."""
    graph: Path | None = None
    """An .npz file instead of the tables."""
    id: str | None = None
    """Column of the node table with the node ids; by default the first."""
    label: str | None = None
    """Column of the node table with the labels."""
    source: str | None = None
    """Column of the edge table; by default the first."""
    target: str | None = None
    """Column of the edge table; by default the second."""
    features: tuple[str, ...] | None = None
    """Numeric columns of the node table; by default all that are left over."""

    def read(self) -> Graph:
        from dpmsnc.graph import Graph

        if (self.edges is None) == (self.graph is None):
            raise InputError("give the graph either as --edges (and --nodes) or as --graph")
        if self.graph is not None:
            return Graph.from_npz(self.graph)
        columns = {name: getattr(self, name) for name in ("id", "label", "source", "target", "features")}
        return Graph.from_tables(self.edges, self.nodes, **columns)


@dataclass(frozen=True)
class Fit:
    """Learn from the known labels of a graph and write a model folder."""

    out: Path
    """Folder for the model."""
    data: Annotated[GraphFlags, tyro.conf.arg(name="")] = field(default_factory=GraphFlags)
    validation: float | None = 0.2
    """Share of the known labels that is held back to choose the best weights; None trains on all to the end."""
    resume: bool = False
    """Go on after an interrupt or a kill; the result is the same as without it."""
    overwrite: bool = False
    """Replace the model that the folder holds."""
    preset: Literal["paper"] | None = None
    """Other defaults for the options below: those of the paper, for a setting."""
    setting: SettingName = "homophilic"
    """Which of the paper's settings."""
    config: Path | None = None
    """Other defaults for the options below: those of a configuration file that `tune` wrote."""
    model: Annotated[Any, tyro.conf.arg(name="", constructor=ModelFlags)] = field(default_factory=ModelFlags)

    def run(self) -> int:
        from dpmsnc.estimators.model_folder import CHECKPOINT, check_free, claimed, is_finished, save_model
        from dpmsnc.graph.readers import storable_names

        clf = self.classifier()
        check_free(self.out, self.resume, self.overwrite)
        graph = self.data.read()
        storable_names(graph)  # complains now rather than when training is over
        if self.resume and is_finished(self.out, clf, graph, self.validation):
            print(f"{self.out} holds the finished model; nothing to resume")
            return 0
        print(graph.summary(clf.hidden_channels, clf.num_layers, clf.training.time_draws), flush=True)
        with claimed(self.out):
            if not self.resume:
                (self.out / CHECKPOINT).unlink(missing_ok=True)
            cost = self._train(clf, graph)
            save_model(clf, self.out, self._document(clf, cost))
        return self._report(clf, cost)

    def _train(self, clf: NodeClassifier, graph: Graph) -> Cost:
        from tqdm import tqdm

        from dpmsnc.estimators.model_folder import CHECKPOINT
        from dpmsnc.evidence.run.store import Cost

        # silent where nobody watches (disable=None) and on work that ends at once
        with Cost() as cost, tqdm(total=clf.training.steps, unit="step", delay=2, disable=None, leave=False) as bar:

            def progress(running: Any) -> None:
                bar.update(running.step - bar.n)
                if running.history.validation_score:
                    bar.set_postfix(validation=f"{running.history.validation_score[-1]:.3f}", refresh=False)

            checkpoint = self.out / CHECKPOINT
            clf.fit(graph, self.validation, checkpoint=checkpoint, resume=self.resume, progress=progress)
        return cost

    def _document(self, clf: NodeClassifier, cost: Cost) -> dict[str, Any]:
        from dpmsnc.evidence.run.store import run_document

        history = clf.history_
        last = {"step": history.step[-1], "validation_accuracy": history.validation_score[-1]} if history.step else {}
        selected = {"step": clf.best_step_, "validation_accuracy": clf.best_score_} if history.step else {}
        return run_document(
            experiment="fit",
            dataset=(self.data.edges or self.data.graph or Path("graph")).stem,
            method="dpm-snc",
            model=clf,
            seed=clf.seed,
            cost=cost,
            metrics={"selected": selected, "last": last},
        )

    def classifier(self) -> NodeClassifier:
        """As the flags say; an initialiser that is the configuration's also has the settings that it has there."""
        model = dict(vars(self.model))
        match configured_model(self.config).get("initialiser"):
            case [name, _] as initialiser if name == model["initialiser"]:
                model["initialiser"] = initialiser
        return NodeClassifier(**model)

    def _report(self, clf: NodeClassifier, cost: Cost) -> int:
        steps, spent = clf.history_.step, f"{cost.wall_s:.1f} s"
        accuracy = f"validation accuracy {clf.best_score_:.4f} at step {clf.best_step_}"
        if self.validation is None:
            accuracy = "no validation"
        if clf.interrupted_:
            state = f"the best weights so far ({accuracy})" if steps else "its weights, not evaluated yet"
            print(f"interrupted after {spent}; {self.out} holds {state}; go on with --resume", file=sys.stderr)
            return 130
        print(f"{accuracy}, {steps[-1]} steps in {spent}; model in {self.out}")
        return 0


def fit_defaults(arguments: Sequence[str]) -> Fit:
    """A preset or a file changes the defaults of the model's flags, so it is looked for before they are parsed."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--preset", choices=["paper"])
    first.add_argument("--setting", choices=typing.get_args(SettingName), default="homophilic")
    first.add_argument("--config", type=Path)
    try:
        chosen, _ = first.parse_known_args(arguments)
    except argparse.ArgumentError:
        chosen = argparse.Namespace(preset=None, config=None)  # the full parser says what is wrong
    if chosen.preset and chosen.config:
        raise InputError("a configuration is a change to the defaults, not to a preset; give --config or --preset")
    model = preset(chosen.preset, chosen.setting) if chosen.preset else configured_model(chosen.config)
    match model.get("initialiser"):
        case [name, _]:  # flags know names alone
            model = model | {"initialiser": name}
    return Fit(out=tyro.MISSING, model=ModelFlags(**model))


def configured_model(path: Path | None) -> dict[str, Any]:
    """Arguments of the classifier from a configuration file."""
    from dpmsnc.evidence.search.config_files import overridden, read_config

    if path is None:
        return {}
    config = read_config(path, method="dpm-snc")
    return vars(overridden(NodeClassifier(), {"backbone": config.backbone, **config.settings}))
