r"""CLGNN: a GNN that reads labels beside features, its own earlier predictions among them, round after round.

A label field shows some training labels as they are and, at every other node, a label drawn from the distribution kept
from the round before (nothing in the first round). Training divides the training nodes at random into some that are
shown (30 %) and the targets of the cross-entropy, so that no node can copy its own label. With M fields y^m,

    log p = log softmax 1/M sum_m f(x, y^m),

and at inference all training labels are shown. Two distributions are kept for the next round, both from the evaluation
that was best on validation nodes, both raised to 1/tau: one for inference, and one for training in which a training
node's entry comes only from passes that hid its label. (In the released code a label shown in one partition stays in
the kept distribution and comes back when the node is a target.)

All fields of all partitions of a step are one batch. The network is the backbone of the denoiser: labels enter all its
layers. With `head="convolution"` the last convolution is the head, which reads none: with two layers, labels enter the
first alone, as in the original.

Reference: Hang, Neville & Ribeiro, "A Collective Learning Framework to Boost GNN Expressiveness for Node
Classification", ICML 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, one_hot
from dpmsnc.baselines.descent import Selection, take_step
from dpmsnc.config import BackboneName, HeadName, ScalingName, check_choices, check_range
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.denoiser import CHUNK
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors

FOLDS = 4
"""Parts of the training nodes, each shown alone to predict the others for the kept training distribution."""


@dataclass(eq=False)
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

    backbone: BackboneName = "gcn"
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

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_choices(self)
        counts = ("samples", "partitions", "rounds", "first_steps", "steps", "patience", "evaluate_every", "num_layers")
        check_range(self, **dict.fromkeys(counts, (1, inf)), temperature=(1e-3, inf), shown=(0, 1))
        check_range(self, dropout=(0, 0.99), input_dropout=(0, 0.99))
        tensors = GraphTensors.of(graph, self.scaling)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = LabelReader(tensors, graph.num_classes, self)
        learner, kept = Learner(network, y_train, self), None
        selection = Selection(y_validation, self.patience)
        for number in range(self.rounds):
            kept = self._round(learner, kept, y_validation, self.steps if number else self.first_steps)
            if selection.possible and not selection.goes_on(kept.inference):
                break
        assert kept is not None
        return (kept.inference if selection.z is None else selection.z).double().numpy()

    def _round(self, learner: Learner, kept: Kept | None, y_validation: NDArray[np.int64], steps: int) -> Kept:
        """Train for some steps; the distributions of the evaluation that was best on validation nodes."""
        selection = Selection(y_validation, steps)
        for step in range(1, steps + 1):
            learner.step(kept)
            if step == steps or (selection.possible and step % self.evaluate_every == 0):
                proba = learner.predict(kept)
                if selection.possible:
                    selection.goes_on(proba)
                if selection.z is None or selection.z is proba:
                    following = Kept(proba, learner.predict_hidden(kept))
        return following


class Kept(NamedTuple):
    """The predictions of a round (nodes, classes): with all training labels shown, and with a node's own hidden."""

    inference: Tensor
    training: Tensor


class LabelReader(nn.Module):
    """Logits (nodes, batch, classes) from features and a batch of label fields of that shape."""

    def __init__(self, graph: GraphTensors, num_classes: int, options: CLGNN) -> None:
        super().__init__()
        self.graph, self.num_classes, self.width = graph, num_classes, options.hidden_channels
        self.input_dropout, self.thinned = options.input_dropout, GraphInputDropout(graph)
        self.network = MeanField(
            options.backbone,
            graph.num_features,
            num_classes,
            self.width,
            options.num_layers,
            options.dropout,
            options.head,
            label_channels=num_classes,
        )

    def forward(self, fields: Tensor, generator: torch.Generator | None = None) -> Tensor:
        encoded = self.network.encode(self.thinned(self.input_dropout, generator))
        at_a_time = max(1, CHUNK // (len(fields) * self.width))  # as in the denoiser: what the cache holds
        parts = fields.split(at_a_time, dim=1)
        return torch.cat([self.network.decode(encoded, self.graph, part, generator) for part in parts], dim=1)


class Learner:
    """A network in training: its steps, and its predictions given what was kept from the round before."""

    def __init__(self, network: LabelReader, y_train: NDArray[np.int64], options: CLGNN) -> None:
        self.network, self.options = network, options
        self.y = torch.from_numpy(y_train)
        self.nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        self.Y0 = torch.from_numpy(one_hot(y_train, network.num_classes)).float()
        self.generator = torch.Generator().manual_seed(int(options.seed))
        self.optimiser = torch.optim.Adam(network.parameters(), lr=options.lr, weight_decay=options.weight_decay)

    def step(self, kept: Kept | None) -> None:
        """One step on fresh partitions of the training nodes, with fresh samples."""
        count, size = self.options.partitions, len(self.nodes)
        rank = torch.rand(size, count, generator=self.generator).argsort(dim=0)
        hidden = rank >= min(round(self.options.shown * size), size - 1)
        logits = self.logits(self.show(~hidden), kept and kept.training, self.generator, self.generator)
        target = self.y[self.nodes].unsqueeze(1).expand(-1, count)
        take_step(self.optimiser, F.cross_entropy(logits[self.nodes][hidden], target[hidden]))

    @torch.no_grad()
    def predict(self, kept: Kept | None) -> Tensor:
        """p with all training labels shown."""
        every = torch.ones(len(self.nodes), 1, dtype=torch.bool)
        return self.logits(self.show(every), kept and kept.inference, self.draws())[:, 0].softmax(dim=1)

    @torch.no_grad()
    def predict_hidden(self, kept: Kept | None) -> Tensor:
        """p with a part of the training labels shown, averaged over the parts that leave out the node's own label."""
        draws = self.draws()
        fold = torch.randperm(len(self.nodes), generator=draws) % FOLDS
        shown = self.show(fold.unsqueeze(1) == torch.arange(FOLDS))
        p = self.logits(shown, kept and kept.training, draws).softmax(dim=2)
        hidden = (~shown).to(p.dtype).unsqueeze(2)
        return (hidden * p).sum(dim=1) / hidden.sum(dim=1)

    def show(self, training: Tensor) -> Tensor:
        """Which of all nodes are shown (nodes, partitions), from which of the training nodes are."""
        shown = torch.zeros(len(self.y), training.shape[1], dtype=torch.bool)
        shown[self.nodes] = training
        return shown

    def logits(
        self, shown: Tensor, q: Tensor | None, draws: torch.Generator, dropout: torch.Generator | None = None
    ) -> Tensor:
        """Mean logits of the samples of every partition (nodes, partitions, classes)."""
        fields = label_fields(self.Y0, shown, self.drawn(q, shown.shape[1], draws))
        return self.network(fields.flatten(1, 2), dropout).view_as(fields).mean(dim=2)

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
