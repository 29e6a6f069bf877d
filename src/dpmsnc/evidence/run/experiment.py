"""One run of an experiment: a method is fitted to a task, scored, and described by a document.

The task depends on the data set and the seed and on nothing else, so all methods face the same split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.baselines import METHODS
from dpmsnc.data import InductiveTask, Task, load
from dpmsnc.data.benchmarks import split_version
from dpmsnc.evidence.run import estimators
from dpmsnc.evidence.run.document import Cost, run_document
from dpmsnc.evidence.run.store import Document, Key
from dpmsnc.metrics import METRICS, scores, subgraph_accuracy
from dpmsnc.reasoning.scoring import StreamedTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpmsnc.evidence.show.paper import Printed
    from dpmsnc.evidence.show.table import Table

AnyTask = Task | InductiveTask | StreamedTask


@dataclass(frozen=True)
class Row:
    """A line of a table: a method, and the settings in which it differs from the method's defaults."""

    method: str
    """A key of `METHODS`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings over these for single data sets, as nested plain values: what a search found."""

    def build(self, seed: int = 0, dataset: str = "") -> Any:
        """The estimator, not yet fitted."""
        model = METHODS.find(self.method).build(seed, **self.settings)
        return estimators.with_settings(model, self.by_dataset.get(dataset, {}))

    @property
    def backbone(self) -> str | None:
        """The network of a row; None for methods without one."""
        return estimators.backbone_of(self.build())


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table or figure of the paper: which rows on which data sets, and how the runs are shown."""

    name: str
    datasets: tuple[str, ...]
    rows: Mapping[str, Row]
    """By label, in the order in which they are shown."""
    seeds: tuple[int, ...]
    table: Callable[[list[Document]], Table]
    """Given the documents of its runs, each with the label of its row under "row"."""
    figure: Callable[[list[Document]], Figure] | None = None
    """A picture of the same documents."""
    measure: Callable[[Any, Any, int], dict[str, Any]] | None = None
    """More metrics of a fitted model, by name: called with the model, the task and the seed."""
    watch: Callable[[Any], dict[str, float]] | None = None
    """What to note of the trainer of a diffusion model at every evaluation; the metrics have it under "training"."""
    load: Callable[..., AnyTask] = load
    stored_as: str = ""
    """The name its runs are stored under, by default its own: experiments that show the same runs share it, and then
    also `measure` and `load`."""
    paper: Printed | None = None
    """The table of the paper that it reproduces, which its rows are held to."""
    fast: tuple[str, ...] = ()
    """Data sets of its fast variant, which has the first seed alone; none where there is no such variant."""


@dataclass(frozen=True)
class Run:
    """One cell of an experiment for one seed."""

    experiment: Experiment
    dataset: str
    row: str
    seed: int

    def __str__(self) -> str:
        return f"{self.row} on {self.dataset}, seed {self.seed}"

    @property
    def method(self) -> str:
        return self.experiment.rows[self.row].method

    @property
    def stored_as(self) -> str:
        return self.experiment.stored_as or self.experiment.name

    def build(self) -> Any:
        """The estimator, not yet fitted."""
        return self.experiment.rows[self.row].build(self.seed, self.dataset)

    def load(self) -> Any:
        return self.experiment.load(self.dataset, seed=self.seed)

    @property
    def key(self) -> Key:
        versions = METHODS.find(self.method).version, split_version(self.dataset)
        config = self.build().configuration()
        return Key(self.stored_as, self.dataset, self.method, config, self.seed, *versions)

    def execute(self) -> Document:
        """Fit, predict, score; the cost is that of fitting and of one prediction."""
        torch.set_num_threads(1)
        task, model = self.load(), self.build()
        if isinstance(task, StreamedTask):
            return self._execute_on_stream(model, task)
        with Cost() as cost:
            noted = self._fit(model, task)
            selected = estimators.own_labels(model, task)
        metrics: dict[str, Any] = {"selected": score(selected, task), "last": None}
        if self.experiment.watch is not None:
            metrics["training"] = noted
        if (last := estimators.last_labels(model, task)) is not None:
            metrics["last"] = score(last, task)
        if (first := estimators.initialiser_labels(model, task)) is not None:
            metrics["initialiser"] = score(first, task)
        if self.experiment.measure is not None:
            metrics |= self.experiment.measure(model, task, self.seed)
        return run_document(self.key, model, cost, metrics)

    def _execute_on_stream(self, model: Any, task: StreamedTask) -> Document:
        """The same where graphs come from a stream; the cost is that of fitting."""
        with Cost() as cost:
            self._fit(model, task)
        metrics: dict[str, Any] = {"selected": task.scores(model), "last": None}
        if self.experiment.measure is not None:
            metrics |= self.experiment.measure(model, task, self.seed)
        return run_document(self.key, model, cost, metrics)

    def _fit(self, model: Any, task: AnyTask) -> list[dict[str, float]]:
        """Fit, and what was noted on the way."""
        if estimators.supports_progress(model) and parent_process() is None:
            model.verbose = True  # bars of several workers would overwrite each other
        watch, noted = self.experiment.watch, []

        def note(trainer: Any) -> None:
            if watch is not None and trainer.history.step[-1:] == [trainer.step]:
                noted.append({"step": trainer.step, **watch(trainer)})

        estimators.fit_to_task(model, task, note if watch is not None else None)
        return noted


def score(own: NDArray[Any], task: Task | InductiveTask) -> dict[str, float]:
    """Test metrics of a labelling, and the score of its validation labels; of other graphs, test metrics alone.

    Subgraph accuracy counts the neighbours' labels too, so it stands twice: by the model's own label on training nodes,
    and with training labels returned unchanged.
    """
    asked = task.tested if isinstance(task, InductiveTask) else task
    result = scores(own, asked.truth, asked.test, asked.graph)
    if isinstance(task, Task):
        metric = asked.graph.target.metric
        result[f"validation_{metric}"] = METRICS.find(metric).function(own, task.truth, task.validation)
        if "subgraph_accuracy" in result:
            kept = np.where(task.train, task.truth, own)
            result["subgraph_accuracy_known"] = subgraph_accuracy(kept, task.truth, task.test, task.graph)
    return {name: round(value, 6) for name, value in result.items()}
