r"""GMNN: a network on features and a network on labels teach each other in turn.

A Markov network over labels is learned by variational EM. q(y_i | x) is a plain GNN; p(y_i | y_N(i)) is a GCN that is
shown the labels of the graph in place of features. q is trained on the known labels first; then, in every round,

    M-step   Y = labels drawn from softmax(log q / tau), one-hot, with known labels in their place;
             p learns to give Y from Y, by cross-entropy on all nodes;
    E-step   T = p(. | Y), with known labels in their place;
             q learns to give T, by cross-entropy on all nodes.

One draw serves a whole M-step. Instead of a draw, Y may be the most probable labels ("max") or softmax(log q / tau)
itself ("expected"). Networks and optimisers go on from round to round; pre-training ends with the weights, and the
state of the optimiser, that were best on validation nodes.

The reference optimises by RMSprop on Cora and Citeseer, as the authors of DPM-SNC do.

The reference, and the authors of DPM-SNC, let p see node i's own label too, through self-loops ("neighbourhood");
dropout of its input keeps p from copying it. With "neighbours" p is what the formula says: one layer, which takes the
mean over neighbours without the node itself. In both cases p is a GCN, whatever the backbone of q.

The prediction is q's. Where nodes have no features q cannot tell them apart, but p can, by the known labels around
them: `prediction="p"`. Then labels are drawn from q with the random numbers of the fit, and p looks at them. The
prediction that is best on validation nodes is kept, from all rounds but not from pre-training.

Reference: Qu et al., "GMNN: Graph Markov Neural Networks", ICML 2019.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges, one_hot
from dpmsnc.baselines.descent import Selection, Weights, release, take_step, weights_of
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.estimators import search_space
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import BINARY, CONVOLVING, OURS, SLOWLY, SearchSpace, same
from dpmsnc.graph import Graph
from dpmsnc.nn.backbones.base import Backbone
from dpmsnc.nn.backbones.gcn import GCN, GCNConv
from dpmsnc.nn.input_dropout import InputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors, Operator

DrawName = Literal["sample", "max", "expected"]
OPTIMISERS = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
P_LAYERS = 2


@dataclass(eq=False, repr=False)
class GMNN(Baseline):
    """Graph Markov neural network with any backbone for q.

    `head="convolution"` lets q end in a convolution instead of a linear map, and p too if it has two layers
    ("neighbourhood").

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> GMNN(pretraining=10, epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.5
    temperature: float = 0.1
    draw: DrawName = "sample"
    sees: Literal["neighbourhood", "neighbours"] = "neighbourhood"
    prediction: Literal["q", "p"] = "q"
    rounds: int = 1
    pretraining: int = 200
    epochs: int = 100
    optimiser: Literal["adam", "rmsprop"] = "adam"
    lr: float = 0.01
    weight_decay: float = 0.001
    evaluate_every: int = 5
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {**dict.fromkeys(("rounds", "pretraining"), (1, inf)), "temperature": (1e-3, inf)}

    def _build(self, in_channels: int, num_classes: int) -> nn.ModuleDict:
        shape = (self.hidden_channels, self.num_layers, self.dropout, self.head)
        q = MeanField(self.backbone, in_channels, num_classes, *shape)
        return nn.ModuleDict({"q": q, "p": self._network_on_labels(num_classes)})

    def _fitted_network(self) -> nn.ModuleDict:
        """q, and p where it makes the prediction."""
        networks = self._network()
        return nn.ModuleDict({name: networks[name] for name in dict.fromkeys(("q", self.prediction))})

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        Y0 = torch.from_numpy(one_hot(y_train, graph.num_classes)).float()
        labelled = Y0.any(dim=1, keepdim=True)
        q, p = self._learners(self._network(), self._tensors(graph))
        self._pretrain(q, Y0, labelled.squeeze(1), y_validation)
        selection = Selection(y_validation, self.rounds * self.epochs)
        best: dict[str, Weights] = {}
        for _ in range(self.rounds):
            asked, state = weights_of(q.network), q.generator.get_state()
            Y = torch.where(labelled, Y0, draw_labels(q.predict(), self.temperature, self.draw, q.generator))
            p.look_at(Y)
            for z in p.learn(Y, self.epochs, self.evaluate_every):
                if self.prediction == "p" and selection.is_best(z):
                    best, self.draws_ = {"q": asked, "p": weights_of(p.network)}, state
            T = torch.where(labelled, Y0, p.predict())
            for z in q.learn(T, self.epochs, self.evaluate_every):
                if self.prediction == "q" and selection.is_best(z):
                    best = {"q": weights_of(q.network)}
        self.network_ = self._fitted_network()
        for name, weights in best.items():
            self.network_[name].load_state_dict(weights)
        release(self.network_)

    @torch.no_grad()
    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        tensors, networks = self._tensors(graph), cast(nn.ModuleDict, self.network_)
        z = networks["q"](tensors).softmax(dim=1)
        if self.prediction == "p":
            Y0 = torch.from_numpy(one_hot(y, graph.num_classes)).float()
            draws = self._generator()
            draws.set_state(self.draws_)
            Y = torch.where(Y0.any(dim=1, keepdim=True), Y0, draw_labels(z, self.temperature, self.draw, draws))
            z = networks["p"](tensors, x=Y).softmax(dim=1)
        return z.double().numpy()

    def _learners(self, networks: nn.ModuleDict, tensors: GraphTensors) -> tuple[Learner, Learner]:
        """q, which looks at features, and p, which is yet to be shown labels."""
        generator = self._generator()
        q, p = (Learner(cast(MeanField, networks[name]), tensors, generator, self) for name in ("q", "p"))
        q.look_at(tensors.x)
        return q, p

    def _network_on_labels(self, num_classes: int) -> MeanField:
        if self.sees == "neighbours":
            return MeanField(Neighbours, num_classes, num_classes, self.hidden_channels, 1, self.dropout)
        return MeanField(GCN, num_classes, num_classes, self.hidden_channels, P_LAYERS, self.dropout, self.head)

    def _pretrain(self, q: Learner, Y0: Tensor, labelled: Tensor, y_validation: NDArray[np.int64]) -> None:
        selection = Selection(y_validation, self.pretraining)
        best = q.state()
        for z in q.learn(Y0, self.pretraining, self.evaluate_every, only=labelled):
            if selection.is_best(z):
                best = q.state()
        q.restore(best)


class Neighbours(Backbone):
    """Every node takes the mean over its neighbours, and nothing of its own."""

    class MeanConv(GCNConv):
        operator = "mean"

    conv = MeanConv


class Learner:
    """One of the two networks with its optimiser and what it looks at."""

    def __init__(self, network: MeanField, graph: GraphTensors, generator: torch.Generator, options: GMNN) -> None:
        self.network, self.graph, self.generator = network, graph, generator
        self.input_dropout = options.input_dropout
        kind: type[torch.optim.Optimizer] = OPTIMISERS[options.optimiser]
        self.optimiser = kind(network.parameters(), lr=options.lr, weight_decay=options.weight_decay)  # type: ignore[call-arg]

    def look_at(self, x: Tensor | Operator) -> None:
        """From now on, predict from this input, a row per node."""
        self.thin = InputDropout(x)

    def learn(self, target: Tensor, epochs: int, evaluate_every: int, only: Tensor | None = None) -> Iterator[Tensor]:
        """Train towards class probabilities, of all nodes or of some, and yield predictions from time to time."""
        nodes = slice(None) if only is None else only
        for epoch in range(1, epochs + 1):
            x = self.thin(self.input_dropout, self.generator)
            logits = self.network(self.graph, self.generator, x)
            take_step(self.optimiser, F.cross_entropy(logits[nodes], target[nodes]))
            if epoch % evaluate_every == 0 or epoch == epochs:
                yield self.predict()

    def predict(self) -> Tensor:
        with torch.no_grad():
            return self.network(self.graph, x=self.thin.x).softmax(dim=1)

    def state(self) -> tuple[dict, dict]:
        return copy.deepcopy((self.network.state_dict(), self.optimiser.state_dict()))

    def restore(self, state: tuple[dict, dict]) -> None:
        self.network.load_state_dict(state[0])
        self.optimiser.load_state_dict(state[1])


def draw_labels(q: Tensor, temperature: float, draw: DrawName, generator: torch.Generator) -> Tensor:
    """Labels of every node as rows: one-hot, or probabilities where they are expected."""
    sharpened = (q.log() / temperature).softmax(dim=1)
    if draw == "expected":
        return sharpened
    chosen = (
        sharpened.argmax(dim=1) if draw == "max" else torch.multinomial(sharpened, 1, generator=generator).squeeze(1)
    )
    return F.one_hot(chosen, q.shape[1]).to(q.dtype)


METHODS["gmnn"] = Method(
    partial(seeded, GMNN),
    version=2,
    search=SearchSpace(
        {**search_space.GNN, **same("temperature", "rounds", "sees")},
        (
            {**SLOWLY, "epochs": 500},
            {
                **{"scaling": "rows", "hidden_channels": 16, "dropout": 0.0},
                **{"optimiser": "rmsprop", "lr": 0.05, "weight_decay": 5e-4, **CONVOLVING},
            },
            OURS,
            {**BINARY, "optimiser": "rmsprop", "rounds": 10, "temperature": 0.3, "epochs": 200},
        ),
    ),
)
