r"""CLGNN: a GNN that reads labels beside features, its own earlier predictions among them, round after round.

A label field shows some training labels as they are and, at every other node, a label drawn from the distribution kept
from the round before (nothing in the first round). Training divides the training nodes at random into some that are
shown (30 %) and the targets of the cross-entropy, so that no node can copy its own label. With M fields y^m,

    log p = log softmax 1/M sum_m f(x, y^m),

and at inference all training labels are shown. Two distributions are kept for the next round, both from the evaluation
that was best on validation nodes, both raised to 1/tau: one for inference, and one for training in which a training
node's entry comes only from passes that hid its label. (In the released code a label shown in one partition stays in
the kept distribution and comes back when the node is a target.)

A fitted model keeps the network of every round up to the best one, and an answer goes through the rounds again.

All fields of all partitions of a step are one batch. The network is the backbone of the denoiser: labels enter all its
layers. With `head="convolution"` the last convolution is the head, which reads none: with two layers, labels enter the
first alone, as in the original.

Reference: Hang, Neville & Ribeiro, "A Collective Learning Framework to Boost GNN Expressiveness for Node
Classification", ICML 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar, NamedTuple, cast

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
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.denoiser import CHUNK
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors

FOLDS = 4
"""Parts of the training nodes, each shown alone to predict the others for the kept training distribution."""


@dataclass(eq=False, repr=False)
class CLGNN(Baseline):
    """Collective learning with `samples` label fields a partition, in `rounds` rounds of `steps` training steps.

    The first round has no predictions to read yet and costs little per step: it has `first_steps`. Training ends when
    no round of the last `patience` has improved accuracy or loss on validation nodes. The released code takes 300 steps
    in each of ten rounds, the authors of DPM-SNC 10000; each step costs `samples` passes.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> model = CLGNN(rounds=2, steps=5, first_steps=5).fit(task.graph, validation=task.validation)
        >>> model.predict_proba().shape
        (40, 2)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    temperature: float = 0.3
    samples: int = 10
    partitions: int = 1
    shown: float = 0.3
    rounds: int = 10
    first_steps: int = 300
    steps: int = 60
    patience: int = 3
    evaluate_every: int = 20
    lr: float = 0.01
    weight_decay: float = 0.001
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {
        **dict.fromkeys(("samples", "partitions", "rounds", "first_steps", "steps"), (1, inf)),
        "temperature": (1e-3, inf),
        "shown": (0, 1),
    }

    def _build(self, in_channels: int, num_classes: int) -> MeanField:
        shape = (self.hidden_channels, self.num_layers, self.dropout, self.head)
        return MeanField(self.backbone, in_channels, num_classes, *shape, label_channels=num_classes)

    def _fitted_network(self) -> nn.ModuleList:
        return nn.ModuleList(self._network() for _ in range(min(self.rounds_, self.rounds)))

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        learner, kept = Learner(self._network(), self._tensors(graph), y_train, graph.num_classes, self), None
        selection, networks = Selection(y_validation, self.patience), []
        for number in range(self.rounds):
            kept, weights = self._round(learner, kept, y_validation, self.steps if number else self.first_steps)
            networks.append(weights)
            if selection.is_best(kept.inference):
                self.rounds_ = number + 1
            if selection.spent:
                break
        fitted = self._fitted_network()
        for network, weights in zip(fitted, networks):
            network.load_state_dict(weights)
        self.network_ = release(fitted)

    def _round(
        self, learner: Learner, kept: Kept | None, y_validation: NDArray[np.int64], steps: int
    ) -> tuple[Kept, Weights]:
        """Train for some steps; distributions and weights of the evaluation that was best on validation nodes."""
        selection = Selection(y_validation, steps)
        for step in range(1, steps + 1):
            learner.step(kept)
            if step == steps or (selection.possible and step % self.evaluate_every == 0):
                proba = learner.predict(kept and kept.inference)
                if selection.is_best(proba):
                    best = Kept(proba, learner.predict_hidden(kept)), weights_of(learner.network)
        return best

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """The rounds of the fit, each with its network, on the labels of this graph."""
        tensors, q = self._tensors(graph), None
        for network in cast(nn.ModuleList, self.network_):
            q = Reader(cast(MeanField, network), tensors, y, graph.num_classes, self).predict(q)
        assert q is not None
        return q.double().numpy()


class Kept(NamedTuple):
    """The predictions of a round (nodes, classes): with all training labels shown, and with a node's own hidden."""

    inference: Tensor
    training: Tensor


class Reader:
    """A network on one graph: its predictions given known labels and what was predicted in the round before."""

    def __init__(
        self, network: MeanField, graph: GraphTensors, y: NDArray[np.int64], num_classes: int, options: CLGNN
    ) -> None:
        self.network, self.graph, self.options = network, graph, options
        self.nodes = torch.from_numpy(np.flatnonzero(y != UNKNOWN))
        self.Y0 = torch.from_numpy(one_hot(y, num_classes)).float()

    @torch.no_grad()
    def predict(self, q: Tensor | None) -> Tensor:
        """p with all known labels shown, and others drawn from q."""
        every = torch.ones(len(self.nodes), 1, dtype=torch.bool)
        return self.logits(self.show(every), q, self.draws())[:, 0].softmax(dim=1)

    def show(self, known: Tensor) -> Tensor:
        """Which of all nodes are shown (nodes, partitions), from which of the known nodes are."""
        shown = torch.zeros(len(self.Y0), known.shape[1], dtype=torch.bool)
        shown[self.nodes] = known
        return shown

    def logits(
        self, shown: Tensor, q: Tensor | None, draws: torch.Generator, dropout: torch.Generator | None = None
    ) -> Tensor:
        """Mean logits of the samples of every partition (nodes, partitions, classes)."""
        fields = label_fields(self.Y0, shown, self.drawn(q, shown.shape[1], draws))
        return self.read(fields.flatten(1, 2), dropout).view_as(fields).mean(dim=2)

    def read(self, fields: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits of a batch of label fields, all shaped (nodes, batch, classes)."""
        encoded = self.network.encode(self.seen(generator))
        at_a_time = max(
            1, CHUNK // (len(fields) * self.options.hidden_channels)
        )  # as in the denoiser: the cache's size
        parts = fields.split(at_a_time, dim=1)
        return torch.cat([self.network.decode(encoded, self.graph, part, generator) for part in parts], dim=1)

    def seen(self, generator: torch.Generator | None) -> GraphTensors:
        """The graph as the network reads it."""
        return self.graph

    def drawn(self, q: Tensor | None, partitions: int, draws: torch.Generator) -> Tensor:
        """Labels from q (nodes, partitions, samples, classes); a single blank field each where there is no q yet."""
        if q is None:
            return self.Y0.new_zeros(len(self.Y0), partitions, 1, self.Y0.shape[1])
        labels = torch.multinomial(
            sharpened(q, self.options.temperature), partitions * self.options.samples, replacement=True, generator=draws
        )
        return F.one_hot(labels, q.shape[1]).to(q.dtype).view(len(q), partitions, self.options.samples, -1)

    def draws(self) -> torch.Generator:
        """The same random numbers in every evaluation: predictions differ by their weights, and training by no label
        that only chooses among them."""
        return torch.Generator().manual_seed(int(self.options.seed))


class Learner(Reader):
    """A network in training, on training labels."""

    def __init__(
        self, network: MeanField, graph: GraphTensors, y_train: NDArray[np.int64], num_classes: int, options: CLGNN
    ) -> None:
        super().__init__(network, graph, y_train, num_classes, options)
        self.y, self.thinned = torch.from_numpy(y_train), GraphInputDropout(graph)
        self.generator = torch.Generator().manual_seed(int(options.seed))
        self.optimiser = torch.optim.Adam(network.parameters(), lr=options.lr, weight_decay=options.weight_decay)

    def seen(self, generator: torch.Generator | None) -> GraphTensors:
        return self.thinned(self.options.input_dropout, generator)

    def step(self, kept: Kept | None) -> None:
        """One step on fresh partitions of the training nodes, with fresh samples."""
        count, size = self.options.partitions, len(self.nodes)
        rank = torch.rand(size, count, generator=self.generator).argsort(dim=0)
        hidden = rank >= min(round(self.options.shown * size), size - 1)
        logits = self.logits(self.show(~hidden), kept and kept.training, self.generator, self.generator)
        target = self.y[self.nodes].unsqueeze(1).expand(-1, count)
        take_step(self.optimiser, F.cross_entropy(logits[self.nodes][hidden], target[hidden]))

    @torch.no_grad()
    def predict_hidden(self, kept: Kept | None) -> Tensor:
        """p with a part of the training labels shown, averaged over the parts that leave out the node's own label."""
        draws = self.draws()
        fold = torch.randperm(len(self.nodes), generator=draws) % FOLDS
        shown = self.show(fold.unsqueeze(1) == torch.arange(FOLDS))
        p = self.logits(shown, kept and kept.training, draws).softmax(dim=2)
        hidden = (~shown).to(p.dtype).unsqueeze(2)
        return (hidden * p).sum(dim=1) / hidden.sum(dim=1)


def label_fields(Y0: Tensor, shown: Tensor, drawn: Tensor) -> Tensor:
    """What the network reads (nodes, partitions, samples, classes): labels where they are shown, else drawn ones."""
    return torch.where(shown[:, :, None, None], Y0[:, None, None], drawn)


def sharpened(q: Tensor, temperature: float) -> Tensor:
    """q^{1/tau}, brought to sum 1.

    Example:
        >>> sharpened(torch.tensor([[0.2, 0.4]]), 0.5).numpy().round(3).tolist()
        [[0.20000000298023224, 0.800000011920929]]
    """
    return (q.log() / temperature).softmax(dim=1)


METHODS["clgnn"] = Method(
    partial(seeded, CLGNN),
    search=SearchSpace(
        {**search_space.GNN, **same("temperature", "shown")},
        (
            {**SLOWLY, "first_steps": 1000, "steps": 200},
            BINARY,
            {"scaling": "rows", "hidden_channels": 16, "weight_decay": 5e-4, **CONVOLVING},
            OURS,
        ),
    ),
)
