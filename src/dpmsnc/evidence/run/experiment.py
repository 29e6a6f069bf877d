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
from tqdm import tqdm

from dpmsnc.data import Task, load
from dpmsnc.data.benchmarks import split_version
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.run.methods import Method, method
from dpmsnc.evidence.run.store import Cost, Document, Key, configuration, run_document
from dpmsnc.evidence.search.config_files import overridden
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy, scores, subgraph_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """A line of a table: a method, and the settings in which it differs from the method's defaults."""

    method: str
    """A key of `METHODS`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings over these for single data sets, as nested plain values: what a search found (`configs.py`)."""


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
    measure: Callable[[Any, Task, int], dict[str, Any]] | None = None
    """More metrics of a fitted model, by name: called with the model, the task and the seed."""
    load: Callable[..., Task] = load
    stored_as: str = ""
    """The name its runs are stored under, by default its own: experiments that show the same runs share it, and then
    also `measure` and `load`."""


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
    def method(self) -> Method:
        return method(self.experiment.rows[self.row].method)

    @property
    def stored_as(self) -> str:
        return self.experiment.stored_as or self.experiment.name

    def build(self) -> Any:
        """The estimator, not yet fitted."""
        row = self.experiment.rows[self.row]
        return overridden(self.method.build(self.seed, **row.settings), row.by_dataset.get(self.dataset, {}))

    @property
    def key(self) -> Key:
        name, config = self.experiment.rows[self.row].method, configuration(self.build())
        return Key(
            self.stored_as, self.dataset, name, config, self.seed, self.method.version, split_version(self.dataset)
        )

    def execute(self) -> Document:
        """Fit, predict, score; the cost is that of fitting and of one prediction."""
        torch.set_num_threads(1)
        task = self.experiment.load(self.dataset, seed=self.seed)
        model = self.build()
        with Cost() as cost:
            self._fit(model, task)
            selected = own_labels(model, task)
        metrics: dict[str, Any] = {"selected": score(selected, task), "last": last_score(model, task)}
        if isinstance(model, NodeClassifier):
            metrics["initialiser"] = score(model.initialiser_proba_.argmax(axis=1), task)
        if self.experiment.measure is not None:
            metrics |= self.experiment.measure(model, task, self.seed)
        return run_document(
            experiment=self.stored_as,
            dataset=self.dataset,
            method=self.experiment.rows[self.row].method,
            model=model,
            seed=self.seed,
            cost=cost,
            method_version=self.method.version,
            split_version=split_version(self.dataset),
            metrics=metrics,
        )

    def _fit(self, model: Any, task: Task) -> None:
        if not isinstance(model, NodeClassifier):
            model.fit(task.graph, validation=task.validation)
            return
        # shown on a terminal only (None), for readable logs; bars of several workers would overwrite each other
        hidden = None if parent_process() is None else True
        with tqdm(total=model.training.steps, desc=str(self), unit="step", leave=False, disable=hidden) as bar:
            model.fit(task.graph, validation=task.validation, progress=lambda training: bar.update())
        if model.interrupted_:  # `fit` turns Ctrl-C into an early end; a run cut short must not be stored
            raise KeyboardInterrupt


def own_labels(model: Any, task: Task) -> NDArray[np.int64]:
    """The model's own label of every node given the training labels, as class indices."""
    if isinstance(model, NodeClassifier):
        return task.graph.encode(model.predict(condition_on="train", clamp_known=False))
    return task.graph.encode(model.predict())


def last_score(model: Any, task: Task) -> dict[str, float] | None:
    """The score of the weights that training ended with; None for methods that keep only the selected ones."""
    if not isinstance(model, NodeClassifier):
        return None
    with model.using_last():
        return score(own_labels(model, task), task)


def score(own: NDArray[np.int64], task: Task) -> dict[str, float]:
    """Test metrics of a labelling, and its validation accuracy.

    Subgraph accuracy counts the neighbours' labels too, so it stands twice: by the model's own label on training nodes,
    and with training labels returned unchanged.
    """
    kept = np.where(task.train, task.truth, own)
    result = scores(own, task.truth, task.test, task.graph)
    result["subgraph_accuracy_known"] = subgraph_accuracy(kept, task.truth, task.test, task.graph)
    result["validation_accuracy"] = accuracy(own, task.truth, task.validation)
    return {name: round(value, 6) for name, value in result.items()}
