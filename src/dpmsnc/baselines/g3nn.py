r"""G3NN: a generative model of labels and edges given features, fitted together with a GNN as its posterior.

The model is p(y, E | x) = prod_i p(y_i | x_i) p(E | x, y) with a prior that sees features only; the posterior q(y_i) of
an unlabelled node is any GNN, and it makes the prediction. With r_i the label of a training node (L) and p(. | x_i) of
any other (U), the loss is

    J = edges + CE_L(p) - mean_{U, c} q log p - s mean_{U, c} q log q + lambda CE_L(q),

where `edges` compares all edges with as many random pairs, N, drawn anew in each step:

    lsm    logit_ij = <a, [u_i, r_i]> + <b, [u_j, r_j]> + c,   u = relu(x W) in R^2,
           edges = -mean_E log sigma(logit) - mean_N log sigma(-logit),
    sbm    edges = -ln(p_0 / p_1) mean_E r_i r_j - ln((1 - p_0) / (1 - p_1)) mean_N r_i r_j,   p_0 = .9, p_1 = .1.

Two things to know. The evidence bound has s = -1: it rewards an uncertain q. The released code has s = 1, and so do the
figures of the DPM-SNC paper; it is the default here, and sharpens q as pseudo-labels do. And the logit of `lsm` is a
sum of one term per end: it learns which classes have many edges, not which classes are joined; `sbm` favours edges
within a class.

Reference: Ma et al., "A Flexible Generative Framework for Graph-based Semi-supervised Learning", NeurIPS 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges, one_hot
from dpmsnc.baselines.descent import descend, release
from dpmsnc.baselines.folds import in_labelled_graphs
from dpmsnc.baselines.gnn import probabilities
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.estimators import search_space
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import BINARY, CONVOLVING, SLOWLY, SearchSpace, same
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.backbones.base import multiply
from dpmsnc.nn.dropout import relu_dropout
from dpmsnc.nn.input_dropout import GraphInputDropout, InputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors, Operator

EdgeModelName = Literal["lsm", "sbm"]
Pairs = tuple[Tensor, Tensor]
LATENT_CHANNELS = 2
P_0, P_1 = 0.9, 0.1


@dataclass(eq=False, repr=False)
class G3NN(Baseline):
    """A GNN that is fitted as the posterior of a generative model; lambda is `constraint_weight`, s `entropy_sign`.

    `head="convolution"` makes the last of the `num_layers` convolutions the output, instead of a linear map after them.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> G3NN(epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    edge_model: EdgeModelName = "lsm"
    constraint_weight: float = 1.0
    entropy_sign: float = 1.0
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 2000
    patience: int = 200
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {"constraint_weight": (0, math.inf)}

    def _build(self, in_channels: int, num_classes: int) -> Generative:
        return Generative(in_channels, num_classes, self)

    def _fitted_network(self) -> nn.Module:
        return self._network().posterior

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, parts, generator = self._tensors(graph), self._network(), self._generator()
        # nodes of graphs without labels would outnumber the others, and pull q towards what it says of them already
        learned = in_labelled_graphs(y_train, graph.member)
        y, part = (
            torch.from_numpy(y_train[learned]),
            tensors if learned.all() else self._tensors(graph.subgraph(learned)),
        )
        seen = Seen(part, one_hot(y.numpy(), graph.num_classes))
        descend(
            parts,
            lambda: self._loss(y, *parts(seen, self.input_dropout, generator)),
            lambda: parts.posterior(tensors).softmax(dim=1),
            torch.optim.Adam(parts.parameters(), lr=self.lr, weight_decay=self.weight_decay),
            y_validation,
            self.epochs,
            self.patience,
            self.evaluate_every,
        )
        self.network_ = release(parts.posterior)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return probabilities(self.network_, self._tensors(graph))

    def _loss(self, y: Tensor, log_q: Tensor, log_p: Tensor, edges: Tensor) -> Tensor:
        L = y != UNKNOWN
        loss = edges + F.nll_loss(log_p[L], y[L]) + self.constraint_weight * F.nll_loss(log_q[L], y[L])
        if L.all():
            return loss
        log_q, log_p = log_q[~L], log_p[~L]
        return loss - (log_q.exp() * (log_p + self.entropy_sign * log_q)).mean()


class Seen:
    """What training looks at: the graph, its features with some dropped, its edges in both directions, and labels."""

    def __init__(self, graph: GraphTensors, Y0: NDArray[np.float64]) -> None:
        self.thinned, self.thin, self.Y0 = GraphInputDropout(graph), InputDropout(graph.x), torch.from_numpy(Y0).float()
        once = torch.from_numpy(graph.graph.edge_index)
        self.edges = torch.cat([once, once.flip(0)], dim=1)


class Generative(nn.Module):
    """The posterior network, the prior and the edge model, and what a training step needs of them."""

    def __init__(self, in_channels: int, num_classes: int, options: G3NN) -> None:
        super().__init__()
        self.dropout, width = options.dropout, options.hidden_channels
        self.posterior = MeanField(
            options.backbone, in_channels, num_classes, width, options.num_layers, options.dropout, options.head
        )
        self.prior = Prior(in_channels, num_classes, width, options.dropout)
        self.edge_model = EDGE_MODELS[options.edge_model](in_channels, num_classes)

    def forward(self, seen: Seen, input_dropout: float, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """log q and log p of all nodes, and the loss of the edges."""
        log_q = self.posterior(seen.thinned(input_dropout, generator), generator).log_softmax(dim=1)
        log_p = self.prior(seen.thin(self.dropout, generator), generator)
        Y0, edges = seen.Y0, seen.edges
        if edges.shape[1] == 0:
            return log_q, log_p, log_p.new_zeros(())
        r = torch.where(Y0.any(dim=1, keepdim=True), Y0, log_p.exp())
        i, j = torch.randint(len(Y0), edges.shape, generator=generator)
        x = seen.thin(self.dropout, generator)
        return log_q, log_p, self.edge_model(x, r, (edges[0], edges[1]), (i, j))


class Prior(nn.Module):
    """log p(y | x) by a network with one hidden layer."""

    def __init__(self, in_channels: int, num_classes: int, hidden_channels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(in_channels, hidden_channels))
        nn.init.xavier_uniform_(self.weight)
        self.bias = nn.Parameter(torch.zeros(hidden_channels))
        self.head = nn.Linear(hidden_channels, num_classes)

    def forward(self, x: Tensor | Operator, generator: torch.Generator) -> Tensor:
        h = relu_dropout(multiply(x, self.weight) + self.bias, self.dropout, generator)
        return self.head(h).log_softmax(dim=1)


class LatentSpace(nn.Module):
    """`lsm`: the ends of a pair are scored by where features put them and by their classes."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, LATENT_CHANNELS))
        nn.init.xavier_uniform_(self.weight)
        self.ends = nn.Linear(LATENT_CHANNELS + num_classes, 2)

    def forward(self, x: Tensor | Operator, r: Tensor, edges: Pairs, others: Pairs) -> Tensor:
        u = torch.relu(multiply(x, self.weight))
        first, second = self.ends(torch.cat([u, r], dim=1)).unbind(dim=1)
        there, not_there = (first[i] + second[j] for i, j in (edges, others))
        return F.softplus(-there).mean() + F.softplus(not_there).mean()


class BlockModel(nn.Module):
    """`sbm`: edges are likely within a class and rare between classes, by fixed probabilities."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()

    def forward(self, x: Tensor | Operator, r: Tensor, edges: Pairs, others: Pairs) -> Tensor:
        agree, agree_elsewhere = ((r[i] * r[j]).mean() for i, j in (edges, others))
        return -math.log(P_0 / P_1) * agree - math.log((1 - P_0) / (1 - P_1)) * agree_elsewhere


EDGE_MODELS: dict[EdgeModelName, Any] = {"lsm": LatentSpace, "sbm": BlockModel}

METHODS["g3nn"] = Method(
    partial(seeded, G3NN),
    search=SearchSpace(
        {**search_space.GNN, **same("constraint_weight")},
        (SLOWLY, BINARY, {"scaling": "rows", "weight_decay": 5e-4, **CONVOLVING}),
    ),
)
