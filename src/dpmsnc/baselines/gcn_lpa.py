r"""GCN-LPA: edges have weights of their own, learned so that labels that spread along them arrive where they belong.

Each directed edge, self-loops included, has a parameter w_ij. With Y0 one-hot on the training nodes L and 0 elsewhere,

    A*   = softmax_j(b_ij + w_ij), so that rows sum to 1 (by default),
    T    = (A*)^k Y0,
    J    = CE_L(Z) + lambda CE_L(T),

where Z are the logits of a network that passes messages along A*, and T is taken for logits too, as in the reference.
Prediction is by Z; the second term only shapes the edges.

    gcn  every layer multiplies by A*; b_ij = log S_ij with S = D^-1/2 (A + I) D^-1/2, so that at w = 0 it is a GCN with
         rows scaled to sum 1 (the reference starts at random weights around the plain mean). With `normalisation`
         "symmetric", A*_ij = exp(w_ij) / sqrt(d_i d_j), d_i = sum_j exp(w_ij), at w = 0 a GCN as it is. That of
         the authors of DPM-SNC is symmetric too, with weights w_ij themselves, from 1, and self-loops that are not
         learned; their T is not normalised at all;
    gat  the attention of every head is softmax_j(e_ij + w_ij), and b = 0, so that at w = 0 it is a GAT. The authors of
         DPM-SNC pass w in a way that their GAT ignores; here the labels do act on the attention. The A* of T alone
         may be symmetric, and where attention is dropped (`attention_dropout`) it is whole.

Since w decays towards 0, edges that no label tells anything about stay as they were. A node's own label comes back to
it through its self-loop and along walks there and back, so T_i can be made right by holding on to y_i; with
`leave_one_out` it is left out of T_i. That takes one column per training node instead of one per class.

Reference: Wang & Leskovec, "Unifying Graph Convolutional Neural Networks and Label Propagation", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.descent import descend, release
from dpmsnc.baselines.gnn import probabilities
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.errors import InputError
from dpmsnc.estimators import search_space
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import BINARY, OURS, SLOWLY, SearchSpace, same
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.backbones import Backbone, backbone_class
from dpmsnc.nn.backbones.gat import GAT, Edges, GATConv, attend
from dpmsnc.nn.backbones.gcn import GCN
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors, Operator, OperatorName


@dataclass(eq=False, repr=False)
class GCNLPA(Baseline):
    """A GCN or GAT with learned edge weights; the prediction that is best on validation nodes is kept.

    `head="convolution"` makes the last of the `num_layers` convolutions the output, instead of a linear map after them.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> GCNLPA(epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    propagations: int = 5
    label_weight: float = 1.0
    leave_one_out: bool = False
    normalisation: Literal["rows", "symmetric"] = "rows"
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    patience: int = 300
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {"propagations": (1, inf), "label_weight": (0, inf)}

    def _check_settings(self) -> None:
        super()._check_settings()
        if backbone_class(self.backbone)[0] not in WEIGHTED:
            raise InputError(f"the backbone of GCN-LPA is a gcn or a gat, whose edges it weighs, not {self.backbone!r}")

    def _build(self, in_channels: int, num_classes: int) -> MeanField:
        kind, options = backbone_class(self.backbone)
        shape = (self.hidden_channels, self.num_layers, self.dropout, self.head)
        return MeanField((WEIGHTED[kind], options), in_channels, num_classes, *shape)

    def _tensors(self, graph: Graph) -> WeightedGraph:
        like_gcn, symmetric = backbone_class(self.backbone)[0] is GCN, self.normalisation == "symmetric"
        return WeightedGraph(graph, self.features_, like_gcn, symmetric)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors = self._tensors(graph)
        network = self._network()
        thinned, generator = GraphInputDropout(tensors), self._generator()
        nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        y = torch.from_numpy(y_train)[nodes]

        def loss() -> Tensor:
            seen = thinned(self.input_dropout, generator)
            supervised = F.cross_entropy(network(seen, generator)[nodes], y)
            if self.label_weight == 0:
                return supervised
            T = arrived_labels(tensors.transition, nodes, y, graph.num_classes, self.propagations, self.leave_one_out)
            return supervised + self.label_weight * F.cross_entropy(T, y)

        both = nn.ModuleList([network, nn.ParameterList([tensors.w])])
        descend(
            both,
            loss,
            lambda: network(tensors).softmax(dim=1),
            torch.optim.Adam(both.parameters(), lr=self.lr, weight_decay=self.weight_decay),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )
        release(both)
        self.network_, self.edge_weights_ = network, tensors.w.detach()

    @torch.no_grad()
    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        if not self._is_fitted_graph(graph):
            raise InputError(
                "GCN-LPA has a weight for every edge of the graph that was fitted and none for other edges; fit it on "
                "the other graph, or take a method such as GNN or G3NN, which answers for any graph"
            )
        tensors = self._tensors(graph)
        tensors.w.copy_(self.edge_weights_)
        return probabilities(self.network_, tensors)


class WeightedGraph(GraphTensors):
    """A graph whose edges have weights that are learned; every operator of it is A*."""

    def __init__(self, graph: Graph, features: Features | ScalingName, like_gcn: bool, symmetric: bool = False) -> None:
        fitted = features if isinstance(features, Features) else Features.fit(graph, features)
        super().__init__(graph, fitted, torch.device("cpu"), torch.float32)
        self.edges, self.symmetric = Edges.of(self), symmetric
        self.w = nn.Parameter(torch.zeros(len(self.edges.column), 1))
        # both are sorted by row and then by column, so the entries of S stand in the order of the edges
        given = torch.zeros_like(self.w) if self.edges.log_weight is None else self.edges.log_weight
        self.b = super().operator("gcn").matrix.values().log().unsqueeze(1) if like_gcn else given

    @property
    def transition(self) -> Transition:
        return Transition(self.edges, self._symmetric() if self.symmetric else self.edges.softmax(self.b + self.w))

    def _symmetric(self) -> Tensor:
        weight = self.w.exp()
        scale = self.edges.to_target(weight).rsqrt()
        return weight * self.edges.from_target(scale) * self.edges.from_source(scale)

    def operator(self, name: OperatorName) -> Operator:
        return self.transition


class Transition(Operator):
    """A*: a product with a matrix that has a gradient of its own, on the edges."""

    def __init__(self, edges: Edges, value: Tensor) -> None:
        self.edges, self.value = edges, value

    def __call__(self, h: Tensor) -> Tensor:
        return attend(self.edges, self.value, h.reshape(len(h), 1, -1)).view(h.shape)


class WeightedGATConv(GATConv):
    def scores(self, z: Tensor, graph: GraphTensors) -> Tensor:
        assert isinstance(graph, WeightedGraph)
        return super().scores(z, graph) + graph.w


class WeightedGAT(GAT):
    conv = WeightedGATConv


WEIGHTED: dict[type[Backbone], type[Backbone]] = {GCN: GCN, GAT: WeightedGAT}


def arrived_labels(
    transition: Transition, nodes: Tensor, y: Tensor, num_classes: int, propagations: int, leave_one_out: bool
) -> Tensor:
    """T on the training `nodes`, whose labels are `y`; with `leave_one_out`, without what a node gets from itself."""
    Y = F.one_hot(y, num_classes).float()
    start = torch.eye(len(nodes)) if leave_one_out else Y
    T = torch.zeros(transition.edges.num_nodes, start.shape[1]).index_copy(0, nodes, start)
    for _ in range(propagations):
        T = transition(T)
    T = T[nodes]
    return (T - torch.diag(T.diag())) @ Y if leave_one_out else T


METHODS["gcn-lpa"] = Method(
    partial(seeded, GCNLPA),
    search=SearchSpace(
        {
            **search_space.GNN,
            **{"constraint_weight": "label_weight", "label_steps": "propagations"},
            **same("normalisation"),
        },
        (
            {**SLOWLY, "epochs": 500},
            {**BINARY, "label_weight": 10.0, "propagations": 10, "epochs": 1000, "normalisation": "symmetric"},
            OURS,
            {**OURS, "normalisation": "symmetric"},
        ),
    ),
)
