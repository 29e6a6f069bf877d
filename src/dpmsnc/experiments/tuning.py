"""`dpmsnc tune`: a search for the settings of a method on a data set, by validation accuracy alone.

Every trial is scored on the same seeds, which no table reports (100 and up), by the validation accuracy of the weights
that each fit keeps; of equals the cheaper one wins. Test labels of these splits are out of reach: the task is dropped
as soon as its graph, which does not hold them, and its validation nodes are taken out of it. Where splits are drawn on
one graph, what the search trains on or validates with may be test labels of a reported split.

The first trial is the method's defaults, from the start that all trials have: a search cannot end below them. Then come
the settings that earlier searches found for the method with other backbones or on other data sets, and a few that are
worth a trial (`SUGGESTIONS`), of which a short search learns most. Each further trial is drawn by TPE from the finished
ones, with a seed of its own: a search that was stopped goes on as if it had not been. Trials live in a sqlite file of
numbers and JSON (optuna's RDBStorage; nothing is pickled), and a trial counts once it is finished or pruned.

Who fills the first buffer is not searched for: models end close to their start, and a few hundred validation nodes do
not tell starts apart by accuracy. All trials have the same start, fitted once unless it is the model's own network.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.baselines.start import make_start
from dpmsnc.classifier import NodeClassifier
from dpmsnc.data import Task, load
from dpmsnc.errors import InputError
from dpmsnc.experiments.configs import Config, Nested, config_path, flat, nested, overridden
from dpmsnc.experiments.methods import method
from dpmsnc.experiments.spaces import SUGGESTIONS, Space, space
from dpmsnc.experiments.store import Cost, configuration, versions
from dpmsnc.graph import Graph
from dpmsnc.metrics import accuracy
from dpmsnc.report import make_folder

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

    from dpmsnc.training.partial import PartialTraining

FIRST_SEED = 100
WARM_UP = 300
"""Training steps before which no trial is pruned."""
TRIES = 1000
"""Random draws in search of a trial that was not run yet; where a space is used up, one is run twice."""


@dataclass(frozen=True)
class Visible:
    """What a search sees of a task: the graph without test labels, and the validation nodes."""

    graph: Graph
    validation: NDArray[np.bool_]
    starts: dict[str, FittedStart] = field(default_factory=dict)
    """Fitted for the first trial that asked for them, and remembered for the others."""

    def start(self, model: NodeClassifier) -> Any:
        """The start of a classifier; fitted already, unless it depends on the classifier's other settings."""
        if "gnn" in (model.start, model.start[0]):
            return model.start
        name = json.dumps(model.start)
        if name not in self.starts:
            start = make_start(model).fit(self.graph, validation=self.validation)
            self.starts[name] = FittedStart(start.predict_proba())
        return self.starts[name]


@dataclass(frozen=True, eq=False)
class FittedStart:
    """A start that has its answer."""

    proba: NDArray[np.float64]

    def fit(self, graph: Graph, validation: Any = None) -> Self:
        return self

    def predict_proba(self) -> NDArray[np.float64]:
        return self.proba


@dataclass(frozen=True)
class Search:
    """What is searched for, and on which seeds."""

    method: str
    dataset: str
    backbone: str | None = None
    """By default the method's own."""
    seeds: tuple[int, ...] = (FIRST_SEED,)
    """Seeds of the fits and of the splits."""
    seed: int = 0
    """Seed of the search itself."""
    start: tuple[str, Nested] | None = None
    """Who fills the first buffer in all trials, with settings; by default the method's own."""
    earlier: tuple[Nested, ...] = ()
    """Settings that earlier searches found for the method elsewhere."""

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < FIRST_SEED:
            raise InputError(f"seeds below {FIRST_SEED} are reported in tables; tune on {FIRST_SEED} and up")
        if self.start is not None and not isinstance(self.default(0), NodeClassifier):
            raise InputError(f"{self.method} has no start; only dpm-snc and masked-labels do")

    def default(self, seed: int) -> Any:
        """The estimator with the method's defaults."""
        model = method(self.method).build(seed)
        if self.backbone in (None, getattr(model, "backbone", None)):
            return model
        try:
            return method(self.method).build(seed, backbone=self.backbone)
        except TypeError as error:
            raise InputError(f"{self.method} does not take another backbone") from error

    @property
    def path(self) -> Path:
        """Of its result, relative to the folder of configurations."""
        return config_path(self.dataset, self.method, getattr(self.default(0), "backbone", None))

    @cached_property
    def space(self) -> Space:
        return space(self.method, self.dataset, self.default(0))

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of everything that is varied."""
        values = flat(configuration(self.default(0)))
        return {name: values[name] for name in self.space}

    @property
    def first(self) -> list[dict[str, Any]]:
        """The trials that are not drawn."""
        first: list[dict[str, Any]] = []
        for trial in (self.defaults, *map(self.chosen, (*self.earlier, *SUGGESTIONS.get(self.method, ())))):
            if trial not in first:
                first.append(trial)
        return first

    def chosen(self, settings: Nested) -> dict[str, Any]:
        """What to choose for settings that another search found, as far as it can be chosen here."""
        possible = {name: value for name, value in flat(settings).items() if value in self.space.get(name, ())}
        return self.defaults | possible

    def changed(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """What was chosen otherwise than by default."""
        return {name: value for name, value in chosen.items() if value != self.defaults[name]}

    def settings(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """What was chosen otherwise than by default, in groups, and the start."""
        return nested(self.changed(chosen)) | self._start

    @property
    def _start(self) -> dict[str, Any]:
        """The start as a setting, where it is not the method's own."""
        match self.start:
            case None:
                return {}
            case name, settings if settings:
                return {"start": [name, settings]}
            case name, _:
                return {} if name == self.default(0).start else {"start": name}

    @property
    def name(self) -> str:
        """The name of its study: scores can be compared as long as none of what it is made of changes."""
        version = method(self.method).version
        parts = [self.space, configuration(self.default(0)), version, self.seeds, self.seed]
        parts += self._start.values()
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.path.with_suffix('')}-{digest}"


def tune(
    search: Search,
    trials: int = 20,
    results: Path = Path("results"),
    out: Path = Path("configs"),
    load: Callable[..., Task] = load,
) -> Path:
    """Run the trials that are missing, and write the best configuration of the first `trials` that finished.

    Args:
        results: Folder of the store; the study lies in it under `tune`.
        out: Folder of configurations.
        load: Gives the task of a data set and a seed.
    """
    if trials < 1:
        raise InputError(f"a search of {trials} trials finds nothing; ask for at least 1")
    import_optuna()
    space_size = len(search.space)
    visible = {seed: what_is_seen(load(search.dataset, seed=seed)) for seed in search.seeds}
    study = open_study(search, results / "tune" / search.path.with_suffix(".sqlite"))
    done = len(finished(study))
    print(f"{search.path.with_suffix('')}: {min(done, trials)} of {trials} trials finished, {space_size} settings vary")
    try:
        while done < trials:
            number = next_trial(search, study, visible)
            done = len(finished(study))
            print(f"[{done}/{trials}] {outcome(search, study.trials[number])}", flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted: {done} of {trials} trials are finished; the same command goes on from here")
        raise
    config = result(search, finished(study)[:trials])
    path = config.write(out)
    gain = 100 * (config.validation_accuracy - config.default_validation_accuracy)
    print(f"best: validation {100 * config.validation_accuracy:.2f} %, {gain:+.2f} points over the defaults, in {path}")
    return path


def open_study(search: Search, path: Path) -> Study:
    """The study of a search in a sqlite file, made where it is missing."""
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    make_folder(path.parent)
    try:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=WARM_UP)
        return optuna.create_study(
            storage=storage, study_name=search.name, direction="maximize", pruner=pruner, load_if_exists=True
        )
    except SQLAlchemyError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} cannot hold the trials ({reason}); remove it or name another folder") from error


def import_optuna() -> ModuleType:
    """optuna, quiet."""
    try:
        import optuna
    except ImportError as error:
        raise InputError('tune needs optuna: pip install "dpmsnc[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def finished(study: Study) -> list[FrozenTrial]:
    """Trials that have a score or were pruned, in the order of their start; one that was killed is neither."""
    return [trial for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def what_is_seen(task: Task) -> Visible:
    """All that a search gets of a task."""
    if not task.validation.any():
        raise InputError(f"{task.name} has no validation nodes, so there is nothing to choose by")
    return Visible(task.graph, task.validation)


def next_trial(search: Search, study: Study, visible: dict[int, Visible]) -> int:
    """Run one more trial to its end; its number."""
    optuna = import_optuna()
    waiting = any(trial.state.name == "WAITING" for trial in study.trials)
    tried = [trial.params for trial in finished(study)]
    first = [chosen for chosen in search.first if chosen not in tried]
    if first and not waiting:
        study.enqueue_trial(first[0])
    trial, chosen = draw(search, study)
    try:
        models = [prepared(search, seed, chosen, seen) for seed, seen in visible.items()]
        with Cost() as cost:
            score = mean_score(models, list(visible.values()), trial)
    except optuna.TrialPruned:
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    except BaseException:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        raise
    else:
        trial.set_user_attr("cpu_s", round(cost.cpu_s, 2))
        study.tell(trial, score)
    return trial.number


def draw(search: Search, study: Study) -> tuple[Trial, dict[str, Any]]:
    """The next trial and its settings: TPE's proposal, or where that was tried before, a random one that was not.

    Seeded by what is finished, and blind to trials that were killed, so that these are drawn again.
    """
    optuna = import_optuna()
    done = finished(study)
    rng = np.random.default_rng([search.seed, len(done)])
    study.sampler = optuna.samplers.TPESampler(seed=int(rng.integers(2**32)), constant_liar=False)
    trial = study.ask()
    chosen = {name: trial.suggest_categorical(name, choices) for name, choices in search.space.items()}
    tried = [trial.params for trial in done]
    for _ in range(TRIES):
        if chosen not in tried:
            break
        chosen = {name: choices[rng.integers(len(choices))] for name, choices in search.space.items()}
    if chosen != trial.params:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)  # not counted
        study.enqueue_trial(chosen)
        trial = study.ask()
        for name, choices in search.space.items():
            trial.suggest_categorical(name, choices)
    return trial, chosen


def prepared(search: Search, seed: int, chosen: dict[str, Any], seen: Visible) -> Any:
    """The estimator of a trial; its start is fitted, so that no trial pays for what others share."""
    torch.set_num_threads(1)
    model = overridden(search.default(seed), search.settings(chosen))
    if isinstance(model, NodeClassifier):
        model.start = seen.start(model)
    return model


def mean_score(models: Sequence[Any], visible: Sequence[Visible], trial: Trial) -> float:
    """Validation accuracy over the seeds."""
    scores: list[float] = []
    for model, seen in zip(models, visible, strict=True):
        scores.append(validation_score(model, seen.graph, seen.validation, watch(trial, scores)))
    return statistics.fmean(scores)


def validation_score(
    model: Any, graph: Graph, validation: NDArray[np.bool_], progress: Callable[[PartialTraining], None]
) -> float:
    """Fit, and the validation accuracy of the weights that the fit kept."""
    if not isinstance(model, NodeClassifier):
        model.fit(graph, validation=validation)
        return accuracy(graph.encode(model.predict()), graph.y, validation)
    model.fit(graph, validation=validation, progress=progress)
    if model.interrupted_:  # `fit` turns Ctrl-C into an early end
        raise KeyboardInterrupt
    return model.best_accuracy_


def watch(trial: Trial, before: Sequence[float]) -> Callable[[PartialTraining], None]:
    """Reports the mean over the seeds so far at every evaluation, and ends a trial that falls behind the others.

    Seeds follow each other on one axis of steps, so that trials are compared where they have seen the same.
    """
    optuna = import_optuna()
    known = list(before)

    def report(running: PartialTraining) -> None:
        if not running.history.step or running.history.step[-1] != running.step:
            return
        step = len(known) * running.options.steps + running.step
        trial.report(statistics.fmean([*known, running.best_accuracy]), step)
        if trial.should_prune():
            raise optuna.TrialPruned

    return report


def result(search: Search, trials: Sequence[FrozenTrial]) -> Config:
    """The best of the trials, of which the first is the default; of equals the cheaper one."""
    complete = [trial for trial in trials if trial.value is not None and trial.state.name == "COMPLETE"]
    best = max(complete, key=lambda trial: (trial.value, -trial.user_attrs["cpu_s"]))
    assert best.value is not None and complete[0].value is not None and complete[0].params == search.defaults
    return Config(
        method=search.method,
        backbone=getattr(search.default(0), "backbone", None),
        dataset=search.dataset,
        settings=search.settings(best.params),
        validation_accuracy=round(best.value, 6),
        default_validation_accuracy=round(complete[0].value, 6),
        trials=len(trials),
        seeds=list(search.seeds),
        versions=versions(),
    )


def outcome(search: Search, trial: FrozenTrial) -> str:
    """A finished trial in a line."""
    settings = ", ".join(f"{name}={value}" for name, value in search.changed(trial.params).items())
    if trial.state.name == "PRUNED":
        return f"pruned at step {trial.last_step}: {settings}"
    score, cost = 100 * (trial.value or 0.0), trial.user_attrs["cpu_s"]
    return f"validation {score:.2f} %, {cost:.0f} CPU-seconds: {settings or 'defaults'}"
