"""`dpmsnc fit`: a graph or a folder of graphs in, a model folder out.

The flags that describe the model are the arguments of `NodeClassifier` itself, with their types, defaults and
descriptions.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import typing
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from dpmsnc.cli.graph_files import GraphFlags, union_of
from dpmsnc.cli.words import check_label
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.diffusion import DiffusionEstimator
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.estimators.params import RUN_TIME
from dpmsnc.presets import preset

if TYPE_CHECKING:
    from dpmsnc.estimators.base import Estimator
    from dpmsnc.evidence.run.document import Cost
    from dpmsnc.graph import Graph

SettingName = Literal["synthetic", "homophilic", "heterophilic", "inductive", "inductive-huge"]


def model_flags() -> type[Any]:
    """A dataclass with the arguments of `NodeClassifier` as fields, those of every day first."""
    hints = typing.get_type_hints(NodeClassifier.__init__) | {"initialiser": str, "backbone": str}
    arguments = sorted(inspect.signature(NodeClassifier).parameters.values(), key=lambda a: a.name not in RUN_TIME)
    fields = [(a.name, _flag(hints[a.name]), a.default) for a in arguments]
    return make_dataclass("ModelFlags", fields, namespace={"__doc__": NodeClassifier.__doc__, "__module__": __name__})


def _flag(hint: Any) -> Any:
    """A flag without the name of the box that help shows it in; a group of settings has a name and box of its own."""
    if is_dataclass(hint):
        return Annotated[hint, tyro.conf.arg(prefix_name=False)]
    return Annotated[hint, tyro.conf.OmitArgPrefixes]


ModelFlags = model_flags()


@dataclass(frozen=True)
class Fit:
    """Learn from the known labels of a graph, or of several, and write a model folder."""

    out: Path
    """Folder for the model."""
    data: Annotated[GraphFlags, tyro.conf.arg(name="graph"), tyro.conf.OmitArgPrefixes] = field(
        default_factory=GraphFlags
    )
    """The graph to learn from, and which columns of its tables mean what."""
    validation: float | None = 0.2
    """Share of the known labels that is held back to choose the best weights; None trains on all to the end."""
    validation_graphs: Path | None = None
    """A folder of graphs whose labels choose the best weights instead, as --graphs has them; none is learned from."""
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
    method: str = "dpm-snc"
    """The method, for example dpm-snc, masked-labels, gcn or lp; the options below are those of dpm-snc."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting of another method than dpm-snc, or of numbers on edges, as name=value."""
    model: Annotated[Any, tyro.conf.arg(name="model", constructor=ModelFlags)] = field(default_factory=ModelFlags)
    """How and where it runs, then the network of dpm-snc; the paper's settings of diffusion are below."""

    def run(self) -> int:
        from dpmsnc.estimators.model_folder import CHECKPOINT, check_free, claimed, is_finished, save_model
        from dpmsnc.graph.npz import storable_names

        check_label(self.data)
        estimator = self.estimator()
        check_free(self.out, self.resume, self.overwrite)
        graph, validation = self._read()
        union = union_of(graph)
        storable_names(union)  # complains now rather than when training is over
        if self.resume and is_finished(self.out, estimator, graph, validation):
            print(f"{self.out} holds the finished model; nothing to resume")
            return 0
        print(union.summary(), flush=True)
        with claimed(self.out):
            if not self.resume:
                (self.out / CHECKPOINT).unlink(missing_ok=True)
            cost = self._train(estimator, graph, validation)
            save_model(estimator, self.out, self._document(estimator, cost))
        return self._report(estimator, cost)

    def _read(self) -> tuple[Graph | list[Graph], Any]:
        """The graph or graphs to learn from, and what is held back: a share of their labels, or graphs."""
        if self.validation_graphs is not None and self.validation != Fit.validation:
            raise InputError("--validation is a share of the labels of --graphs; give it or --validation-graphs")
        graph = self.data.read()
        if self.validation_graphs is None:
            return graph, self.validation
        first = graph[0] if isinstance(graph, list) else graph
        return graph, self.data.read_folder(self.validation_graphs, first)

    def _train(self, estimator: Estimator, graph: Graph | list[Graph], validation: Any) -> Cost:
        from dpmsnc.estimators.model_folder import CHECKPOINT
        from dpmsnc.evidence.run.document import Cost

        options: dict[str, Any] = {}
        if isinstance(estimator, DiffusionEstimator):
            options = {"checkpoint": self.out / CHECKPOINT, "resume": self.resume}
        with Cost() as cost, warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always", FitWarning)
            try:
                estimator.fit(graph, validation, **options)
            except KeyboardInterrupt:
                if not getattr(estimator, "interrupted_", False):  # there is nothing to keep
                    raise
        printed = getattr(getattr(estimator, "report_", None), "warnings", [])
        for warning in given:
            if (text := str(warning.message)) not in printed:
                print(f"warning: {text}", file=sys.stderr)
        return cost

    def _document(self, estimator: Estimator, cost: Cost) -> dict[str, Any]:
        from dpmsnc.evidence.run.document import run_document
        from dpmsnc.evidence.run.store import Key

        metrics: dict[str, Any] = {}
        history = getattr(estimator, "history_", None)
        if isinstance(estimator, DiffusionEstimator) and history and history.step:
            metrics["selected"] = {"step": estimator.best_step_, "validation_score": estimator.best_score_}
            metrics["last"] = {"step": history.step[-1], "validation_score": history.validation_score[-1]}
        key = Key("fit", self.data.name, self.method, estimator.configuration(), estimator.seed)
        return run_document(key, estimator, cost, metrics)

    def estimator(self) -> Estimator:
        """As the flags say."""
        if self.data.target_column is not None:
            return self.of_edges()
        if self.method == "dpm-snc":
            if self.set:
                raise InputError("dpm-snc has a flag for every setting; --set is for other methods")
            return self.classifier()
        from dpmsnc.baselines import METHODS

        return self._with_set(METHODS.find(self.method).build(self.model.seed), self.method)

    def of_edges(self) -> Estimator:
        """The estimator of numbers on edges, or a method of table 5 that is one."""
        from dpmsnc.estimators.edge_regressor import EdgeRegressor
        from dpmsnc.reasoning.methods import METHODS

        words = "a regressor of edges"
        if self.method == "dpm-snc":
            return self._with_set(EdgeRegressor(seed=self.model.seed, verbose=True), words)
        found = METHODS.find(self.method)
        if found.on != "edge":
            raise InputError(f"{self.method} predicts labels of nodes; leave --method or --target-column out")
        return self._with_set(found.build(self.model.seed), words)

    def _with_set(self, estimator: Any, name: str) -> Any:
        """An estimator with the settings of --set, which has no flags of its own."""
        from dpmsnc.cli.reproduce import parse_settings
        from dpmsnc.evidence.run.estimators import with_settings

        default = vars(ModelFlags(seed=self.model.seed))
        if changed := [name for name, value in vars(self.model).items() if value != default[name]]:
            raise InputError(f"--{changed[0]} is a flag of dpm-snc; {name} takes --set name=value")
        return with_settings(estimator, parse_settings(self.set, "--set"))

    def classifier(self) -> NodeClassifier:
        """As the flags say; an initialiser that is the configuration's also has the settings that it has there."""
        model = dict(vars(self.model))
        configured = configured_model(self.config)
        for name in ("initialiser", "backbone"):
            match configured.get(name):
                case [word, _] as whole if word == model[name]:
                    model[name] = whole
        return NodeClassifier(**model | {"verbose": True})

    def _report(self, estimator: Estimator, cost: Cost) -> int:
        spent = f"{cost.wall_s:.1f} s"
        if not isinstance(estimator, DiffusionEstimator):
            print(f"{self.method} fitted in {spent}; model in {self.out}")
            return 0
        steps = estimator.history_.step
        score = f"{best_validation(estimator)} at step {estimator.best_step_}"
        if self.validation is None and self.validation_graphs is None:
            score = "no validation"
        if estimator.interrupted_:
            state = f"the best weights so far ({score})" if steps else "its weights, not evaluated yet"
            print(f"interrupted after {spent}; {self.out} holds {state}; go on with --resume", file=sys.stderr)
            return 130
        if hasattr(estimator, "report_") and not estimator.verbose:  # which printed it already
            print(estimator.report_)
        print(f"{score}, {steps[-1]} steps in {spent}; model in {self.out}")
        return 0


def best_validation(estimator: DiffusionEstimator) -> str:
    """The metric that chose the weights, and its value: `best_score_`, which of an error is less that error."""
    from dpmsnc.metrics import METRICS

    likelihood = estimator.corrects_initialiser and estimator.training.select_by is None
    name = "likelihood" if likelihood else estimator.training.select_by or estimator.target_.metric
    falls = name in METRICS and not METRICS[name].higher_is_better
    return f"validation {name} {-estimator.best_score_ if falls else estimator.best_score_:.4f}"


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
    if path is None:
        return {}
    from dpmsnc.evidence.run.estimators import with_settings
    from dpmsnc.evidence.search.config_files import read_config

    config = read_config(path, method="dpm-snc")
    return dict(
        with_settings(NodeClassifier(), {"backbone": config.backbone, **config.settings}).get_params(deep=False)
    )
