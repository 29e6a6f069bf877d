"""Which source a diffusion model is trained from, and what it is made of.

Graphs (nearly) all of whose labels are known need no E-step (`training/full.py`). On others Algorithm 1 runs, with a
network that corrects its initialiser (`training/corrected.py`) or that begins at random (`training/partial.py`).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.base import check_probabilities
from dpmsnc.baselines.folds import assign_folds
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import only
from dpmsnc.graph import Graph
from dpmsnc.graph.clean import counted
from dpmsnc.metrics import Metric, selecting
from dpmsnc.targets import Tags
from dpmsnc.training.corrected import Corrected, Exam
from dpmsnc.training.corrected_tags import CorrectedTags
from dpmsnc.training.full import FullyLabelled, LabelledGraphs
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.partial import PartlyLabelled
from dpmsnc.training.trainer import Source

if TYPE_CHECKING:
    from dpmsnc.estimators.diffusion import DiffusionEstimator

NEARLY_ALL = 0.95
"""Share of known labels from which on several graphs count as fully labelled; the others are in no loss."""
Labels = tuple[NDArray[Any], NDArray[Any]]


def make_source(
    model: DiffusionEstimator,
    graph: Graph,
    labels: Labels,
    optimiser: Optimiser,
    objective: Objective,
    generator: torch.Generator,
    fit_initialiser: bool,
) -> Source:
    """The source of a fit to a graph; `labels` are those to train on and those to validate on."""
    check_metric(model, graph)
    check_batches(model, graph)
    if is_fully_labelled(model, graph):
        return full_source(model, graph, optimiser, objective, generator)
    y_train, y_validation = labels
    train, validation = (model.target_.known(y) for y in labels)
    parts: dict[str, Any] = {
        "labels": model._tensor(np.where(train.reshape(-1, *[1] * (y_train.ndim - 1)), y_train, y_validation)),
        "train": model._tensor(train),
        "validation": model._tensor(validation),
        "options": model.training,
        "sampling": model.sampling,
        "generator": generator,
        "member": None if (member := graph.row_member) is None else model._tensor(member),
    }
    if not model.corrects_initialiser:
        parts["initial"] = model._tensor(model._initial_probabilities(graph, fit_initialiser))
        return PartlyLabelled(optimiser, objective, model._tensors(graph), **parts)
    model.initialiser_ = model._fit_initialiser(graph, y_train, y_validation)
    q = model.initialiser_._marginals(graph, y_train)
    check_probabilities(q, model.target_, graph.num_nodes)
    parts |= {"initialiser": model.initialiser_.chains(y_train), "exam": exam(model, graph, y_train, y_validation)}
    parts["initial"] = model._tensor(model.target_.mean_field(q))
    kind = CorrectedTags if isinstance(model.target_, Tags) else Corrected
    return kind(optimiser, objective, model._tensors(graph), **parts)


def check_metric(model: DiffusionEstimator, graph: Graph) -> None:
    """Raise `InputError` where weights cannot be chosen by the metric that was asked for."""
    name = model.training.select_by
    if name is None:
        return
    metric = selecting(name, model.target_.kind, "labels", "member", "probabilities")
    if metric.needs == "probabilities" and model.parameterisation == "epsilon":
        raise InputError(f"select_by={name!r} needs marginals, which a model of noise has not; use 'label'")
    if metric.needs == "member" and graph.member is None:
        raise InputError(f"select_by={name!r} needs several graphs; fit a list of them")
    if model.validation_.any() and np.isnan(score_of_truth(metric, model, graph)):
        raise InputError(
            f"select_by={name!r} says nothing on the {counted(int(model.validation_.sum()), 'validation label')}, "
            "which are all equal or lack a class; hold back others (validation=), or choose weights by another metric"
        )


def score_of_truth(metric: Metric, model: DiffusionEstimator, graph: Graph) -> float:
    """What a metric that chooses weights says of answers that are right on all validation labels; nan where it says
    nothing of any answer."""
    asked, member = model.validation_, graph.row_member
    y = graph.y[asked]
    answers = model.target_.certain(y) if metric.needs == "probabilities" else y
    needed = [member[asked]] if metric.needs == "member" and member is not None else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sklearn's on classes that are missing
        return metric.gain(answers, y, np.ones(len(y), dtype=bool), *needed)


def check_batches(model: DiffusionEstimator, graph: Graph) -> None:
    """Raise `InputError` where graphs cannot be learned from in batches."""
    if model.training.batch_size is not None and not is_fully_labelled(model, graph):
        raise InputError('batch_size is for fully labelled graphs that are learned from with start="random"')


def is_fully_labelled(model: DiffusionEstimator, graph: Graph) -> bool:
    """Whether (nearly) all labels of what is trained on are known, so that there is no E-step."""
    if model.corrects_initialiser:
        return False
    if graph.member is None:
        return bool(model.train_.all())
    member = graph.row_member
    assert member is not None
    return bool(model.train_[np.isin(member, member[model.train_])].mean() >= NEARLY_ALL)


def full_source(
    model: DiffusionEstimator, graph: Graph, optimiser: Optimiser, objective: Objective, generator: torch.Generator
) -> FullyLabelled:
    """Training on fully labelled graphs, in batches of so many; validation graphs score."""

    def labelled(graphs: NDArray[np.int64], known: NDArray[np.bool_]) -> LabelledGraphs:
        """These graphs with these labels and no others."""
        part = graph.with_labels(only(graph, known)).subgraph(np.isin(of_node, graphs))
        return LabelledGraphs.of_union(part, model._tensors(part))

    train, validation = model.train_, model.validation_
    of_node = np.zeros(graph.num_nodes, dtype=np.int64) if graph.member is None else graph.member
    of_row = np.zeros(len(graph.y), dtype=np.int64) if graph.row_member is None else graph.row_member
    trained = np.unique(of_row[train])
    batches = np.split(trained, np.arange(0, len(trained), model.training.batch_size or len(trained))[1:])
    unions = [labelled(batch, train) for batch in batches]
    scored = labelled(np.unique(of_row[validation]), validation) if validation.any() else None
    return FullyLabelled(optimiser, objective, unions, model.training, generator, scored, model.sampling)


def exam(model: DiffusionEstimator, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any]) -> Exam:
    """How validation labels are asked for: the initialiser is asked once, since it does not change."""
    half = assign_folds(y_validation, model.seed, num_folds=2)
    of_row = half.reshape(-1, *[1] * (y_train.ndim - 1))
    given = (np.where(of_row == k, y_validation, y_train) for k in (None, 0, 1))
    denoiser = model.initialiser_.denoiser(graph, *given)

    def initial(known: Known) -> Tensor:
        return denoiser.given(known)(torch.zeros_like(known.y))

    y = np.where(of_row >= 0, y_validation, y_train)
    masks = model._tensor(model.target_.known(y_train)), model._tensor(half)
    given_training = model.initialiser_.denoiser(graph, y_train)
    return Exam.of(model._tensor(y), *masks, initial, model.target_, given_training)
