"""What runs and searches ask of an estimator; all in which estimators differ from each other is here.

What an estimator can do beyond the verbs of `Estimator` is seen by asking for the capability, never for the class, so
that one from outside can stand in a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from inspect import signature
from typing import Any, Literal, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpmsnc.data import InductiveTask, Task
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.model_folder import arguments
from dpmsnc.evidence.run.settings import Nested, merged
from dpmsnc.graph import Graph
from dpmsnc.nn.backbones import backbone_name
from dpmsnc.reasoning.scoring import StreamedTask

Kind = TypeVar("Kind", bound=Estimator)
Score = Literal["accuracy", "likelihood"]
"""Of validation nodes: the share that is right, or the geometric mean of the calibrated probabilities of their labels.
Where the nodes were drawn evenly by class, classes are weighed by their estimated shares."""
Progress = Callable[[Any], None]


def backbone_of(model: Any) -> str | None:
    """The graph network of an estimator; None where it has none."""
    return backbone_name(model.backbone) if hasattr(model, "backbone") else None


def with_settings(model: Kind, settings: Nested) -> Kind:
    """The same estimator, not fitted, with some settings changed."""
    if not settings:
        return model
    try:
        changed = type(model)(**arguments(type(model), merged(model.nested_params(), settings)))
        changed._check_settings()
        return changed
    except (TypeError, AttributeError) as error:
        raise InputError(f"{type(model).__name__} does not take the settings {dict(settings)} ({error})") from error


def has_groups(model: Any) -> bool:
    """Whether some arguments are groups of settings; these are written as nested values, in which infinity is "inf"."""
    return hasattr(model, "training")


def declared_types(kind: Any, group: str = "") -> dict[str, Any]:
    """The types of the arguments of an estimator's class by dotted name."""
    result: dict[str, Any] = {}
    for name, hint in get_type_hints(kind if is_dataclass(kind) else kind.__init__).items():
        if not name.endswith("_"):
            result |= declared_types(hint, f"{group}{name}.") if is_dataclass(hint) else {f"{group}{name}": hint}
    return result


def supports_progress(model: Any) -> bool:
    """Whether `fit` reports its progress and validation accuracy while it trains."""
    return "progress" in signature(model.fit).parameters


def fit(model: Any, graph: Graph, validation: NDArray[np.bool_], progress: Progress | None = None) -> None:
    """Fit, and report progress where the estimator can."""
    watched = {"progress": progress} if supports_progress(model) else {}
    model.fit(graph, validation=validation, **watched)


def fit_to_task(model: Any, task: Task | InductiveTask | StreamedTask, progress: Progress | None = None) -> None:
    """Fit to the graph of a task with its validation nodes, to training graphs with validation graphs, or to a stream,
    which has validation graphs of its own; an estimator that trains step by step reports its progress."""
    watched = {} if progress is None else {"progress": progress}
    if isinstance(task, StreamedTask):
        model.fit(task.stream, **watched)
        return
    graph, validation = (task.graph if isinstance(task, Task) else task.train), task.validation
    model.fit(graph, validation=validation, **watched)


def own_labels(model: Estimator, task: Task | InductiveTask) -> NDArray[Any]:
    """The model's own label of every node given the training labels, or of every node of the test graphs."""
    if isinstance(task, InductiveTask):
        return np.concatenate([task.target.encode(labels) for labels in model.predict(task.test)])
    return task.graph.encode(model.predict(condition_on="train", clamp_known=False))


def own_probabilities(model: Estimator, task: Task | InductiveTask | None = None) -> NDArray[np.float64]:
    """The model's own probabilities of the classes of every node given the training labels, or of test graphs."""
    if isinstance(task, InductiveTask):
        return np.concatenate(model.predict_proba(task.test))
    return model.predict_proba(condition_on="train", clamp_known=False)


def last_labels(model: Any, task: Task | InductiveTask) -> NDArray[np.int64] | None:
    """The same by the weights that training ended with; None where only the selected weights are kept."""
    if not hasattr(model, "using_last"):
        return None
    with model.using_last():
        return own_labels(model, task)


def initialiser_labels(model: Any, task: Task | InductiveTask) -> NDArray[np.int64] | None:
    """What the initialiser of a fitted estimator predicts, as class indices; None where there is none."""
    if isinstance(task, InductiveTask):
        return own_labels(model.initialiser_, task) if hasattr(model, "initialiser_") else None
    proba = getattr(model, "initialiser_proba_", None)
    return None if proba is None or task.graph.target.kind != "class" else proba.argmax(axis=1)


def conditions_on_labels(model: Any) -> bool:
    """Whether a network of the model reads known labels, so that those revealed after the fit change the answer."""
    return hasattr(model, "denoiser_")


def scored_by(model: Any) -> Score:
    """What a search scores an estimator by. Accuracy that is reported during training can end a trial early. The
    answers of other methods jump from epoch to epoch, and the likelihood says more about these."""
    return "accuracy" if supports_progress(model) else "likelihood"
