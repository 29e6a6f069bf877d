"""What all baselines share beyond the verbs of an estimator: ranges of settings, one network, and state to save."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpmsnc.config import LARGEST_SEED, check_choices, check_range
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.base import Estimator, described
from dpmsnc.estimators.state import is_network, pack, unpack
from dpmsnc.files import group
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.targets import TARGETS, Target

Ranges = Mapping[str, tuple[float, float]]
RANGES: Ranges = {
    **dict.fromkeys(("hidden_channels", "num_layers", "epochs", "patience", "evaluate_every"), (1, inf)),
    **dict.fromkeys(("lr", "weight_decay"), (0, inf)),
    **dict.fromkeys(("dropout", "input_dropout"), (0, 0.99)),
    "seed": (0, LARGEST_SEED),
}
"""Least and largest values of settings that many baselines have."""
SAVED_ELSEWHERE = ("graph_", "target_", "classes_", "n_features_in_", "features_")
"""Fitted attributes that follow from the graph, or are saved in a form of their own."""


NOT_PROBABILITIES = "the initialiser gave NaN, infinite or negative probabilities; lower its learning rate"


class Baseline(Estimator):
    """A method with a class for every node, on its own given what was learned.

    A baseline implements `_fit` and `_marginals`; one with a network also `_build`, and keeps the fitted one in
    `network_`.
    """

    kinds: ClassVar[tuple[str, ...]] = ("class",)
    """Kinds of targets that it answers for; none means any."""
    learns_answers: ClassVar[bool] = True
    """Whether it answers what it learned, whichever labels are known when it is asked."""
    ranges: ClassVar[Ranges] = {}
    """Ranges of settings that are particular to this method, over those of `RANGES`."""
    network_: nn.Module

    def _check_settings(self) -> None:
        check_choices(self)
        ranges = {**RANGES, **self.ranges}
        check_range(self, **{name: bounds for name, bounds in ranges.items() if hasattr(self, name)})

    def _learn(self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any], **options: Any) -> None:
        like = tuple(TARGETS.find(kind) for kind in self.kinds)  # kinds from outside may be like one of these
        if self.kinds and (not isinstance(graph.target, like) or graph.target.on != "node"):
            ours, what = " or the ".join(self.kinds), described(graph.target)
            raise InputError(
                f"{type(self).__name__} predicts the {ours} of a node, not the {what}; take NodeClassifier"
            )
        super()._learn(graph, y_train, y_validation, **options)

    def _build(self, in_channels: int, num_classes: int) -> nn.Module:
        """A network in its initial state, by torch's own random numbers."""
        raise NotImplementedError

    def _network(self) -> Any:
        """The network that training begins with, fixed by the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            return self._build(self.features_.width, self.target_.channels)

    def _fitted_network(self) -> nn.Module:
        """A network of the shape of `network_`, to load weights into."""
        return self._network()

    def _tensors(self, graph: Graph) -> GraphTensors:
        """A graph as the network sees it, with features scaled as fitted."""
        return GraphTensors.of(graph, self.features_)

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What was fitted, apart from the graph: tensors by name, and JSON values that refer to them."""
        tensors: dict[str, Tensor] = {}
        features, moments = self.features_.state()
        tensors |= {f"features/{name}": torch.from_numpy(array) for name, array in moments.items()}
        names = [name for name in vars(self) if name.endswith("_") and name not in SAVED_ELSEWHERE]
        return tensors, {"features": features, "learned": {n: pack(getattr(self, n), n, tensors) for n in names}}

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        """The fitted baseline, from its settings, what `_state` gave, and the graph that was fitted."""
        model = cls(**params)
        model._check_settings()
        moments = {name: tensor.numpy() for name, tensor in group(tensors, "features/").items()}
        features = Features.from_state(values["features"], moments)
        features.check(graph)
        model._take(graph, features)
        for name, packed in sorted(values["learned"].items(), key=is_network):  # which may need the others
            if not name.endswith("_") or name.startswith("_") or name in SAVED_ELSEWHERE:
                raise ModelFileError(f"{name!r} is nothing that a {cls.__name__} learns; fit again")
            setattr(model, name, unpack(model, packed, tensors))
        model._check_state()
        return model

    def _check_state(self) -> None:
        """Raise `ModelFileError` where what was saved belongs to another graph."""
        masks = (getattr(self, name, self.graph_.known) for name in ("train_", "validation_"))
        if any(mask.shape != (self.graph_.num_nodes,) for mask in masks):
            raise ModelFileError("the graph is not the one that the model was fitted on; fit again")


def check_probabilities(p: NDArray[Any], target: Target, num_nodes: int) -> None:
    """Raise `InputError` where an initialiser's answers are none that labels can be drawn from."""
    expected = target.ignorance(num_nodes).shape
    if p.shape != expected:
        raise InputError(f"the initialiser gave probabilities of shape {p.shape}, expected {expected}")
    if not np.isfinite(p).all() or (target.names and not (p >= 0).all()):
        raise InputError(NOT_PROBABILITIES)


def one_hot(y: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Y0: one-hot rows where there is a label, zero rows elsewhere."""
    return (y[:, None] == np.arange(num_classes)).astype(np.float64)


def label_field(y: NDArray[Any], target: Target) -> NDArray[np.float64]:
    """Y0 of whatever a label is: its field where there is one, zero rows elsewhere."""
    return target.certain(y) * target.known(y)[:, None]
