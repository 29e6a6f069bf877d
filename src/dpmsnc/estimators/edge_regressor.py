"""The estimator of numbers on edges: the same diffusion model, trainer and verbs as on nodes, with edges as rows.

It learns from graphs of the user, of whose edges some or all have a number (`Graph.build(..., edge_y=...)`), or from a
stream of complete graphs that are drawn anew in every step, as algorithmic reasoning has them. Complete graphs are
asked about as an array of edge attributes (graphs, n, n), and answered as an array of that shape.

A network is one of `EDGE_DENOISERS`. A method that is trained or asked in another way is a subclass with another
`_source` or `_answer`; `DirectEdgeRegressor` is the same without diffusion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import (
    LARGEST_SEED,
    LIMITS,
    ConditioningName,
    ParameterisationName,
    ProcessName,
    Sampling,
    ScalingName,
    StartName,
    Training,
    check_choices,
    check_number,
    check_range,
)
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Which
from dpmsnc.estimators.diffusion import DiffusionEstimator
from dpmsnc.estimators.value_report import ValueReport
from dpmsnc.graph import Graph
from dpmsnc.graph.features import check_same_names

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from dpmsnc.diffusion.sampler import Callback
    from dpmsnc.training.fresh import GraphStream
    from dpmsnc.training.trainer import Trainer

ROWS_AT_A_TIME = 2**14
"""Edges of complete graphs that are answered together."""
DRAWN_FOR_RANGE = 1024
"""Graphs of a stream that the range of labels is taken from."""
SAMPLING = Sampling(method="ddim", steps=10, temperature=1.0, progressive=0.0)
TRAINING = Training(
    steps=5000, learning_rate=0.002, weight_decay=0.0, time_draws=1, time_power=1.0, hide_features=0.0, averaging=0.999
)


@dataclass(frozen=True)
class CompleteGraphs:
    """Complete directed graphs of one size that are asked about: attributes (graphs, n, n), and labels."""

    attributes: NDArray[np.float32]
    y: NDArray[np.float64]
    """One for every edge (graphs x n x n,); NaN where it is unknown."""

    @property
    def known(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.y)


class EdgeRegressor(DiffusionEstimator):
    """Learns p(y_U | G, y_L) of numbers on edges with a diffusion model, and answers with the mean of joint samples.

    On users' own graphs a Gaussian model comes first, linear in features plus what is particular to the ends of an
    edge, and diffusion models what it leaves; after the fit `report_` says how good both are.

    Args:
        network: "triples" (ours: edges learn from the two edges that lead around by a third node) or "gine" (the
            paper's), or one that was registered in `EDGE_DENOISERS`.
        hidden_channels: Width of a hidden state; None takes the network's own.
        num_layers: Layers, or the least number of rounds; None takes the network's own.
        conditioning: How known labels enter, as in `NodeClassifier`.
        parameterisation: What the network predicts, as in `NodeClassifier`.
        num_averaged: Joint samples of which `predict` is the mean; at temperature 0 one is enough.
        clip: Whether predictions are kept within the range of the labels that were learned from.
        scaling: How node features are scaled, as in `NodeClassifier`. Edge features of the user's graphs are
            standardised; those of a stream are left alone.

    Example:
        >>> from dpmsnc.reasoning.tasks import TaskStream
        >>> model = EdgeRegressor(training=Training(steps=2, hide_features=0.0)).fit(TaskStream("edge_copy"))
        >>> model.predict(np.zeros((5, 3, 3))).shape
        (5, 3, 3)
    """

    on: ClassVar[Literal["node", "edge"]] = "edge"
    added_later: ClassVar[dict[str, Any]] = {}
    start: StartName = "random"
    initialiser: Any = "uniform"
    range_: tuple[float, float]
    """Smallest and largest label that was learned from."""

    def __init__(
        self,
        network: str = "triples",
        hidden_channels: int | None = None,
        num_layers: int | None = None,
        conditioning: ConditioningName = "amortised",
        parameterisation: ParameterisationName = "label",
        num_averaged: int = 16,
        clip: bool = True,
        scaling: ScalingName = "unit",
        seed: int = 0,
        device: str = "auto",
        threads: int = 1,
        verbose: bool = False,
        schedule: Schedule = Schedule(),  # noqa: B008 (frozen)
        sampling: Sampling = SAMPLING,
        training: Training = TRAINING,
    ) -> None:
        self.network = network
        self.hidden_channels = hidden_channels  # type: ignore[assignment]
        self.num_layers = num_layers  # type: ignore[assignment]
        self.conditioning: ConditioningName = conditioning
        self.parameterisation: ParameterisationName = parameterisation
        self.num_averaged = num_averaged
        self.clip = clip
        self.scaling: ScalingName = scaling
        self.seed = seed
        self.device = device
        self.threads = threads
        self.verbose = verbose
        self.schedule = schedule
        self.sampling = sampling
        self.training = training

    def fit(
        self,
        graph: Graph | Sequence[Graph] | GraphStream,
        validation: Any = 0.2,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: Callable[[Trainer], None] | None = None,
    ) -> Self:
        """Learn from the known labels of edges, or from a stream of complete graphs.

        Args:
            graph: The graph, several, or a stream such as `TaskStream`, which has validation graphs of its own.
            validation: A share of the known labels, a mask of edges, graphs, or None, as in `NodeClassifier.fit`.
            checkpoint: As in `NodeClassifier.fit`, as are `resume` and `progress`.
        """
        options = {"checkpoint": None if checkpoint is None else Path(checkpoint), "resume": resume}
        if isinstance(graph, Graph) or not hasattr(graph, "draw"):
            self._fit_split(graph, validation, **options, progress=progress)
            self._tell(ValueReport.of(self))
            return self
        self._check_settings()
        self._stream: Any = graph
        nothing = np.zeros(0, dtype=bool)
        try:
            return self._fit_divided(nowhere(), nothing, nothing, **options, progress=progress)
        finally:
            del self._stream

    def predict(
        self,
        graph: Any = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> Any:
        """The number of every edge, in the order of `graph.edge_index`; of several graphs, a list of arrays.

        Args:
            graph: The graph to answer for, several, or attributes (graphs, n, n) of complete graphs, which are answered
                in that shape; by default what was fitted.
            known: Numbers that are known: a mapping from pairs of node ids, or one per edge; of complete graphs an
                array (graphs, n, n) with NaN elsewhere.
            condition_on: As in `NodeClassifier.predict`, as are `clamp_known` and `callback`.
        """
        if (parts := self._complete(graph, known)) is not None:
            generator = self._generator()  # one for all parts, whose noise must differ
            answers = (self._answer(part, clamp_known, callback, generator) for part in parts)
            return np.concatenate([y.reshape(part.attributes.shape[:3]) for y, part in zip(answers, parts)])
        asked = self._asked(graph, known, condition_on)
        return self._as_asked(graph, asked, self._answer(asked, clamp_known, callback))

    def sample(
        self,
        num_samples: int = 1,
        graph: Any = None,
        known: Any = None,
        *,
        temperature: float = 1.0,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> Any:
        """Joint samples (num_samples, edges), of complete graphs (num_samples, graphs, n, n)."""
        if (parts := self._complete(graph, known)) is not None:
            generator = self._generator(seed)
            drawn = [self._draw(part, num_samples, temperature, generator) for part in parts]  # type: ignore[arg-type]
            shaped = [y.reshape(num_samples, *part.attributes.shape[:3]) for y, part in zip(drawn, parts)]
            return np.concatenate(shaped, axis=1)
        asked = self._asked(graph, known, condition_on)
        return self._as_asked(graph, asked, self._draw(asked, num_samples, temperature, seed), axis=1)

    def score(
        self,
        truth: Any,
        graph: Any = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        metric: str | None = None,
    ) -> float:
        """Less the mean squared error on edges whose label was not given."""
        if not isinstance(graph, Graph) and hasattr(graph, "shape"):
            if metric not in (None, "mse"):
                raise InputError(f"complete graphs are scored by their mean squared error, not by {metric!r}")
            error = np.square(self.predict(graph, known) - np.asarray(truth))
            return -float(np.mean(error if known is None else error[np.isnan(np.asarray(known))]))
        return super().score(truth, graph, known, condition_on=condition_on, metric=metric)

    def _marginals(self, graph: Graph, y: NDArray[Any]) -> NDArray[np.float64]:
        return self._answer(graph.with_labels(y), clamp_known=False)[:, None]

    def _answer(
        self,
        asked: Any,
        clamp_known: bool = True,
        callback: Callback | None = None,
        seed: int | torch.Generator | None = None,
    ) -> NDArray[Any]:
        """The mean of joint samples, within the range that was learned from; known labels as they are."""
        if not len(asked.y):
            return np.empty(0)
        count = self.num_averaged if self.sampling.temperature > 0 and self.process == "gaussian" else 1
        answer = self._draw(asked, count, self.sampling.temperature, seed, False, callback).mean(axis=0)
        if self.clip:
            answer = answer.clip(*self.range_)
        if clamp_known:
            answer[asked.known] = asked.y[asked.known]
        return answer

    def _said(self, graph: Any) -> Any:
        """Of complete graphs the linear part alone."""
        if self.numbers_ is None or not isinstance(graph, CompleteGraphs):
            return super()._said(graph)
        count, n = graph.attributes.shape[:2]
        linear = self.numbers_.linear
        own = graph.attributes.reshape(count * n * n, -1)[
            :, : len(linear.weight) - 2
        ]  # none where edges have no features
        return linear.of_rows(np.concatenate([own, np.full((len(own), 2), np.log(n))], axis=1))

    def _complete(self, graph: Any, known: Any) -> list[CompleteGraphs] | None:
        """Complete graphs in parts that are answered together; None where these are no attributes of such."""
        if graph is None or isinstance(graph, (Graph, list, tuple)):
            if graph is None and hasattr(self, "graph_") and not self.graph_.num_edges:
                raise InputError("the model was fitted to a stream; pass the graphs that it is asked about")
            return None
        self._check_fitted()
        attributes = np.asarray(graph, dtype=np.float32)
        if attributes.ndim not in (3, 4) or attributes.shape[1] != attributes.shape[2]:
            raise InputError(f"complete graphs are an array (graphs, n, n) of edge attributes, not {attributes.shape}")
        y = np.full(attributes.shape[:3], np.nan) if known is None else np.asarray(known, dtype=np.float64)
        if y.shape != attributes.shape[:3]:
            raise InputError(f"known labels of shape {y.shape} for edges {attributes.shape[:3]}; put NaN where unknown")
        self._check_complete(attributes)
        step = max(1, ROWS_AT_A_TIME // max(1, attributes.shape[1] ** 2))
        return list(_pieces(attributes, y, step))

    def _check_complete(self, attributes: NDArray[np.float32]) -> None:
        """Raise `InputError` unless the model answers for complete graphs with these attributes."""
        if self.numbers_ is not None and self.numbers_.field is not None:
            raise InputError("the model learned from known numbers of other edges; pass Graphs, not an array")
        shift: Any = self.denoiser_.shift
        width, fitted = attributes.shape[3] if attributes.ndim == 4 else 1, len(shift)
        if self.graph_.num_features or not self.graph_.directed:
            raise InputError("the fitted graph has node features or edges without direction; pass a Graph like it")
        if not attributes.size or not np.isfinite(attributes).all():
            raise InputError("complete graphs need at least one edge, and attributes that are finite numbers")
        if width != fitted:
            raise InputError(f"edges have {width} attributes and had {fitted} at the fit; give the same")

    def _learn(self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any], **options: Any) -> None:
        if graph.edge_weight is not None:
            raise InputError("EdgeRegressor reads features of edges and no weights; pass the weights as edge features")
        labels = y_train[~np.isnan(y_train)]
        if self._is_stream:
            drawn = self._stream.draw(DRAWN_FOR_RANGE, self._stream.generator())
            labels = np.concatenate([y.flatten().numpy() for _, y in drawn])
        self.range_ = float(labels.min()), float(labels.max())
        super()._learn(graph, y_train, y_validation, **options)

    @property
    def _is_stream(self) -> bool:
        return getattr(self, "_stream", None) is not None

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | ({"stream": repr(self._stream)} if self._is_stream else {})

    def _source(self, *parts: Any) -> Any:
        """Where training data come from: a stream, or graphs."""
        graph, _, optimiser, objective, generator, _ = parts
        from dpmsnc.estimators.sources import check_metric

        check_metric(self, graph)
        if self._is_stream:
            from dpmsnc.training.fresh import FreshGraphs

            how = (self.training, generator, self.sampling, self._device())
            return FreshGraphs(optimiser, objective, self._stream, *how)
        self._standardise(optimiser, graph)
        return super()._source(*parts)

    def _standardise(self, optimiser: Any, graph: Graph) -> None:
        """Let the network subtract the mean of edge features and divide by their deviation."""
        if graph.edge_attr is not None:
            for network in (optimiser.module, optimiser.averaged):
                network.standardise(self._tensor(graph.edge_attr))

    def _initial_probabilities(self, graph: Graph, fit_initialiser: bool = True) -> NDArray[np.float32]:
        return self._modelled.mean_field(self._modelled.ignorance(len(graph.y)))

    def _adapted(self, graph: Graph) -> Graph:
        if graph.labels_on == "node" and not graph.known.any():
            graph = graph.with_labels(self.target_.unknown(graph.num_edges), self.target_)
        check_same_names(self.graph_.edge_feature_names, graph.edge_feature_names, what="edge features")
        widths = [1 if one.edge_attr is None else one.edge_attr.shape[1] for one in (graph, self.graph_)]
        if widths[0] != widths[1] or (graph.edge_attr is None) != (self.graph_.edge_attr is None):
            raise InputError("the graph has other edge features than the fitted one; give the same, in their order")
        if graph.directed != self.graph_.directed:
            raise InputError("one of the graph and the fitted graph has directed edges, the other has not")
        return super()._adapted(graph)

    def _denoiser(self) -> Any:
        from dpmsnc.nn.edges import EDGE_DENOISERS

        edge_channels = 1 if self.graph_.edge_attr is None else self.graph_.edge_attr.shape[1]
        sizes = {"hidden_channels": self.hidden_channels, "num_layers": self.num_layers}
        options: dict[str, Any] = {name: value for name, value in sizes.items() if value is not None}
        options["shows_known"] = self.conditioning == "amortised"
        network: Any = EDGE_DENOISERS.find(self.network)
        return network(self.graph_.num_features, edge_channels, self.target_.channels, **options)

    def _tensors(self, graph: Any) -> Any:
        import torch

        from dpmsnc.nn.edges import EdgeTensors

        if isinstance(graph, CompleteGraphs):
            return EdgeTensors.complete([torch.from_numpy(graph.attributes).to(self._device())])
        return EdgeTensors.of(graph, self.features_, self._device())

    def _check_settings(self) -> None:
        from dpmsnc.nn.edges import EDGE_DENOISERS

        check_choices(self, type(self).__init__)
        check_range(
            self, seed=(0, LARGEST_SEED), num_averaged=(1, LIMITS["num_samples"]), threads=(1, LIMITS["threads"])
        )
        for name in ("hidden_channels", "num_layers"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, LIMITS[name], whole=True)
        EDGE_DENOISERS.find(self.network)
        self._check_groups()
        if self.training.hide_features or self.training.parts > 1:
            raise InputError("edges have no features to hide and are not learned from in parts; set hide_features=0")

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = super()._state()
        return tensors, values | {"range": list(self.range_)}

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        model = super()._from_state(params, tensors, values, graph)
        low, high = values["range"]
        check_number("range", low, -np.inf, high)
        model.range_ = float(low), float(high)
        return model

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        numbers = {"estimator_type": "regressor", "classifier_tags": None, "regressor_tags": RegressorTags()}
        return replace(super().__sklearn_tags__(), **numbers)


class DirectEdgeRegressor(EdgeRegressor):
    """The same network and training without diffusion: one evaluation, which regresses labels directly."""

    process: ClassVar[ProcessName] = "blank"


def nowhere() -> Graph:
    """What stands for the fitted graph of a model that was fitted to a stream: a node, with no edge and no label."""
    from dpmsnc.targets import RealValue

    nothing = np.zeros((0, 1), dtype=np.float32)
    return Graph.build([], num_nodes=1, directed=True, edge_attr=nothing).with_labels(np.empty(0), RealValue(on="edge"))


def _pieces(attributes: NDArray[np.float32], y: NDArray[np.float64], step: int) -> Iterator[CompleteGraphs]:
    for first in range(0, len(attributes), step):
        piece = slice(first, first + step)
        yield CompleteGraphs(attributes[piece], y[piece].reshape(-1))
