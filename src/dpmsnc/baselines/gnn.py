"""A plain GNN: every node is classified on its own, p(y | G) = prod_i p(y_i | G), by cross-entropy on known labels.

Tags and numbers are learned with the link and the loss of their target: the binary cross-entropy of every tag, squared
errors. It is the GCN, GAT, ... row of every table, and the mean-field initialiser of the paper's Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.descent import release, take_step, weights_of
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.errors import InputError
from dpmsnc.estimators import search_space
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import BINARY, CONVOLVING, OURS, SLOWLY, SearchSpace
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.features import Features
from dpmsnc.metrics import METRICS, best_threshold, selecting
from dpmsnc.nn.backbones import backbone_class, backbone_name
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.stages import check_target, parameter_groups, penalties, start_from, warming_up
from dpmsnc.targets import OneClass, Tags, Target


@dataclass(eq=False, repr=False)
class GNN(Baseline):
    """Any backbone as a plain classifier; the epoch with the best validation accuracy is kept.

    `select_by` names another metric of validation labels to choose by, such as "roc_auc" where two classes are
    unbalanced.
    Of tags it is the epoch with the best micro-F1 under its best threshold, of numbers that with the least error. Tags
    and numbers on a graph without features are found from its structure (`dpmsnc.graph.structure`).

    The GCN and GAT of their authors drop about half of the input features too (`input_dropout`), and they end in a
    convolution: with `head="convolution"` the last of the `num_layers` is the output, instead of a linear map after it.
    Their GAT also drops attention, which is the option `attention_dropout` of the backbone "gat".

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> GNN(epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0
    select_by: str | None = None

    added_later: ClassVar[Mapping[str, Any]] = {"select_by": None}
    kinds = ("class", "tags", "value")

    def _build(self, in_channels: int, num_classes: int) -> MeanField:
        kind, options = backbone_class(self.backbone)
        if kind.knows_nodes:
            options |= {"num_nodes": self.graph_.num_nodes}
        shape = (self.hidden_channels, self.num_layers, self.dropout, self.head)
        return MeanField((kind, options), in_channels, num_classes, *shape)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, network, y = self._tensors(graph), self._network(), torch.from_numpy(y_train)
        check_target(network, graph.target)
        descend = partial(self._descend, network, tensors, y, y_validation, self._generator())
        with warming_up(network) as epochs:
            descend(epochs)
            start_from(network, tensors, y)
        descend(self.epochs)
        self.network_ = release(network)

    def _descend(
        self,
        network: nn.Module,
        tensors: GraphTensors,
        y: Tensor,
        y_validation: NDArray[np.int64],
        generator: torch.Generator,
        epochs: int,
    ) -> None:
        """Train for so many epochs, and leave the network with the weights that are best on validation nodes."""
        target, thinned = tensors.graph.target, GraphInputDropout(tensors)
        optimiser = torch.optim.Adam(parameter_groups(network), lr=self.lr, weight_decay=self.weight_decay)
        nodes = torch.from_numpy(np.flatnonzero(target.known(y.numpy())))
        loss = training_loss(target, y[nodes])
        best, weights = -np.inf, weights_of(network)
        if self.select_by is not None:
            selecting(self.select_by, target.kind, "labels", "probabilities")
        for epoch in range(1, epochs + 1):
            seen = thinned(self.input_dropout, generator)
            take_step(optimiser, loss(network(seen, generator)[nodes]) + penalties(network, tensors, y))
            if epoch % self.evaluate_every == 0 or epoch == epochs:
                answers = self._answers(network, tensors)
                score = validation_score(target, answers, y_validation, self.select_by)
                if score > best or np.isnan(score):
                    best, weights = score, weights_of(network)
        network.load_state_dict(weights)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if backbone_class(self.backbone)[0].knows_nodes and not self._is_fitted_graph(graph):
            raise InputError(
                f"{backbone_name(self.backbone)} has weights for every node of the graph that was fitted and none for "
                "other nodes; fit it on the other graph, or take a network such as gcn, which answers for any graph"
            )
        return self._answers(self.network_, self._tensors(graph))

    def _fit_features(self, graph: Graph) -> Features:
        # for classes it stays the network of the tables, which reads nothing but features
        return Features.fit(graph, self.scaling, structure=not isinstance(graph.target, OneClass))

    def _answers(self, network: nn.Module, tensors: GraphTensors) -> NDArray[np.float64]:
        return marginals(network, tensors, self.target_)


@torch.no_grad()
def marginals(network: nn.Module, tensors: GraphTensors, target: Target) -> NDArray[np.float64]:
    """What a network that reads the graph alone says of every node, through the link of the target."""
    return target.of_mean_field(target.link(network(tensors)).numpy())


def training_loss(target: Target, y: Tensor) -> Callable[[Tensor], Tensor]:
    """The mean loss of outputs (rows, channels) where the labels are y; of classes, torch's own."""
    if isinstance(target, OneClass):
        return lambda output: F.cross_entropy(output, y)
    field = target.field(y)
    return lambda output: target.loss(output, field).mean()


def validation_score(
    target: Target, answers: NDArray[np.float64], y_validation: NDArray[np.int64], select_by: str | None = None
) -> float:
    """How good marginals are on validation labels, the higher the better; NaN where there are none."""
    nodes, metric = target.known(y_validation), METRICS.find(select_by or target.metric)
    if metric.needs == "probabilities":
        return metric.gain(answers, y_validation, nodes)
    if isinstance(target, OneClass) and select_by is None:
        return validation_accuracy(answers, y_validation)
    if isinstance(target, Tags):
        threshold, score = best_threshold(answers, y_validation, nodes)
        chosen = (answers > threshold).astype(np.int64)
        return score if select_by is None else metric.gain(chosen, y_validation, nodes)
    predicted = target.nearest(torch.from_numpy(target.mean_field(answers))).numpy()
    return metric.gain(predicted, y_validation, nodes)


@torch.no_grad()
def probabilities(network: nn.Module, tensors: GraphTensors) -> NDArray[np.float64]:
    """Class probabilities of every node, by a network that reads the graph alone."""
    return network(tensors).softmax(dim=-1).double().numpy()


def validation_accuracy(proba: NDArray[np.float64], y_validation: NDArray[np.int64]) -> float:
    """Share of validation nodes whose most probable class is right; NaN where there are none."""
    nodes = y_validation != UNKNOWN
    return float((proba.argmax(axis=1) == y_validation)[nodes].mean()) if nodes.any() else float("nan")


METHODS["gcn"] = Method(
    partial(seeded, partial(GNN, "gcn")),
    search=SearchSpace(
        search_space.GNN,
        (
            {**SLOWLY, "epochs": 500},
            {**BINARY, "epochs": 500},
            {"scaling": "rows", "hidden_channels": 16, "input_dropout": 0.5, "weight_decay": 5e-4, **CONVOLVING},
            OURS,
        ),
    ),
)
METHODS["gat"] = Method(
    partial(seeded, partial(GNN, "gat(attention_dropout=True)")),  # attention is dropped, as in the original
    search=SearchSpace(
        search_space.GNN,
        (
            {**SLOWLY, "epochs": 500},
            {**BINARY, "lr": 0.005, "epochs": 500},
            {
                **{"scaling": "rows", "input_dropout": 0.6, "dropout": 0.6, "lr": 0.005, "weight_decay": 5e-4},
                "epochs": 500,
                **CONVOLVING,
            },
            OURS,
        ),
    ),
)
METHODS["gcnii"] = Method(
    partial(seeded, partial(GNN, "gcnii", num_layers=16)),
    search=SearchSpace(
        search_space.GNN,
        (
            {**SLOWLY, "epochs": 500},
            {**BINARY, "epochs": 500},
            {"scaling": "rows", "num_layers": 32, "input_dropout": 0.6, "dropout": 0.6, "epochs": 500},
        ),
    ),
)
METHODS["sage"] = Method(partial(seeded, partial(GNN, "sage")), search=SearchSpace(search_space.GNN))
METHODS["gin"] = Method(partial(seeded, partial(GNN, "gin")))
