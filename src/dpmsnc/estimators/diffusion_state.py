"""The state of a fitted diffusion model: what a model folder keeps of it beside settings and graph, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import check_number
from dpmsnc.errors import InputError
from dpmsnc.files import group, with_nan
from dpmsnc.graph import Graph
from dpmsnc.targets import RealValue

if TYPE_CHECKING:
    from torch import Tensor

    from dpmsnc.estimators.diffusion import DiffusionEstimator
    from dpmsnc.estimators.report import FitReport
    from dpmsnc.estimators.tag_report import TagReport
    from dpmsnc.estimators.value_report import ValueReport

Kind = TypeVar("Kind", bound="DiffusionEstimator")


def state_of(model: DiffusionEstimator) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, and values that JSON can hold."""
    import torch

    from dpmsnc.estimators.state import pack

    weights = model.denoiser_.state_dict()
    with torch.device("meta"):
        expected = model._denoiser().state_dict()
    if [(n, v.shape) for n, v in weights.items()] != [(n, v.shape) for n, v in expected.items()]:
        raise InputError("settings of the network were changed after the fit; set them back, or fit again")
    tensors = {f"denoiser/{name}": value for name, value in weights.items()}
    tensors |= {"train": model._tensor(model.train_), "validation": model._tensor(model.validation_)}
    features, scaling = model.features_.state()
    tensors |= {f"features/{name}": model._tensor(value) for name, value in scaling.items()}
    values = {
        "features": features,
        "progressive": model.progressive_,
        "sharpness": model.sharpness_,
        "best_step": model.best_step_,
        "best_score": model.best_score_,
        "interrupted": model.interrupted_,
        "history": asdict(model.history_),
    }
    if model.numbers_ is not None:
        arrays, values["numbers"] = model.numbers_.state()
        tensors |= {f"numbers/{name}": torch.from_numpy(array) for name, array in arrays.items()}
    if hasattr(model, "threshold_"):
        values["threshold"] = model.threshold_
    if hasattr(model, "decision_weights_"):
        values["decision_weights"] = model.decision_weights_.tolist()
    if hasattr(model, "report_"):
        values["report"] = asdict(model.report_)
    if model.corrects_initialiser:
        values["initialiser"] = pack(model.initialiser_, "initialiser", tensors)
    return tensors | {"buffer": model.buffer_}, values


def model_from(
    kind: type[Kind], params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
) -> Kind:
    """The fitted model again; no network is allocated beyond the weights that there are."""
    import torch

    from dpmsnc.estimators.number_model import NumberModel
    from dpmsnc.estimators.state import unpack
    from dpmsnc.graph.features import Features
    from dpmsnc.training.trainer import History

    if "initialiser" in params and params["initialiser"] is None:
        params = params | {"initialiser": "uniform"}  # only `fit` needs the object again
    model = kind(**params)
    model._check_settings()
    train, validation, model.buffer_ = (tensors.pop(name) for name in ("train", "validation", "buffer"))
    if not train.shape == validation.shape == model.buffer_.shape[1:2] == (len(graph.y),):
        raise ValueError("it is not the graph that the model was fitted on")
    model.train_, model.validation_ = train.bool().numpy(), validation.bool().numpy()
    scaling = {name: tensor.numpy() for name, tensor in group(tensors, "features/").items()}
    model._take(graph, Features.from_state(values["features"], scaling))
    if "numbers" in values and isinstance(model.target_, RealValue):
        arrays = {name: tensor.numpy() for name, tensor in group(tensors, "numbers/").items()}
        model.numbers_ = NumberModel.from_state(arrays, values["numbers"], graph, model.features_)
    if model.corrects_initialiser:
        model.initialiser_ = unpack(model, values["initialiser"], tensors)
        if not hasattr(model.initialiser_, "chains"):
            raise ValueError("its initialiser is none that a network could correct")
    with torch.device("meta"):
        model.denoiser_ = model._denoiser()
    weights = {name: v.float() if v.is_floating_point() else v for name, v in group(tensors, "denoiser/").items()}
    model.denoiser_.load_state_dict(weights, assign=True)
    model.denoiser_.to(model._device()).requires_grad_(False)
    history = values["history"]
    losses, scores = (with_nan(history[name]) for name in ("loss", "validation_score"))
    choices = [dict(choice) for choice in history["choices"]]
    model.history_ = History(list(history["step"]), losses, scores, choices)
    if "report" in values:
        model.report_ = report_from(values["report"])
    model.progressive_, model.best_step_, model.interrupted_ = (
        values[name] for name in ("progressive", "best_step", "interrupted")
    )
    check_number("progressive", model.progressive_, 0, 1)
    model.sharpness_ = values["sharpness"]
    check_number("sharpness", model.sharpness_, 1e-3, 1e3)
    if "threshold" in values:
        model.threshold_ = values["threshold"]
        check_number("threshold", model.threshold_, 0, 1)
    if "decision_weights" in values:
        model.decision_weights_ = _decision_weights(values["decision_weights"], len(model.classes_))
    (model.best_score_,) = with_nan([values["best_score"]])
    return model


def report_from(values: dict[str, Any]) -> FitReport | TagReport | ValueReport:
    """The report of a saved model, by what is in it."""
    from dpmsnc.estimators.report import FitReport
    from dpmsnc.estimators.tag_report import TagReport
    from dpmsnc.estimators.value_report import ValueReport

    kind: Any = TagReport if "threshold" in values else ValueReport if "r2" in values else FitReport
    return kind.from_state(values)


def _decision_weights(values: list[float], num_classes: int) -> NDArray[np.float64]:
    for value in values:
        check_number("decision_weights", value, 0)
    if len(values) != num_classes:
        raise ValueError("its decision weights are not one for every class")
    return np.array(values, dtype=np.float64)
