r"""Training on many fully labelled graphs (paper, section 6.2 and appendix C.2), to predict the labels of new graphs.

With every label of G_1 .. G_M known there is no E-step, and the bound is that of a plain diffusion model:

    L = sum_m E_{t_m, eps} || eps - eps_theta(y_{t_m}, G_m, t_m) ||^2,      y_{t_m} from y_m, with its own time t_m

(or cross-entropy, as the objective has it). Graphs are trained on together as the components of their disjoint union,
one or several unions in turn. For amortised conditioning each graph shows its own random share of labels in each draw,
from none to all, and is asked for the rest; a model to be guided is trained without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpmsnc.config import ScalingName, Training
from dpmsnc.diffusion.objective import Objective
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.nn.denoiser import Denoiser, Known
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.gradient import accumulate
from dpmsnc.training.optimiser import Optimiser

Progress = Callable[["FullTraining"], None]


def disjoint_union(graphs: Sequence[Graph]) -> Graph:
    """One graph whose components are the given ones, in order; nodes are called 0 .. N-1.

    Example:
        >>> pair = Graph.build([(0, 1)], y=["red", "blue"])
        >>> disjoint_union([pair, pair]).edge_index.tolist()
        [[0, 2], [1, 3]]
    """
    if len({(graph.classes, graph.num_features) for graph in graphs}) != 1:
        raise InputError("graphs to train on together need the same classes, in the same order, and the same features")
    sizes = np.array([graph.num_nodes for graph in graphs])
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    x = None
    if graphs[0].x is not None:
        sparse = any(sp.issparse(graph.x) for graph in graphs)
        x = sp.csr_array(sp.vstack([graph.x for graph in graphs])) if sparse else np.concatenate([g.x for g in graphs])
    return Graph(
        num_nodes=int(sizes.sum()),
        edge_index=np.concatenate([graph.edge_index + start for graph, start in zip(graphs, first)], axis=1),
        x=x,
        y=np.concatenate([graph.y for graph in graphs]),
        target=graphs[0].target,
        ids=np.arange(sizes.sum()),
    )


@dataclass(frozen=True)
class LabelledGraphs:
    """The disjoint union of labelled graphs; a graph may come with several labellings, each a sample of p(y | G)."""

    graph: GraphTensors
    member: Tensor
    """Which of the graphs each node belongs to (nodes,)."""
    labels: Tensor
    """Labellings (nodes, labellings) as class indices."""

    @classmethod
    def of(
        cls,
        graphs: Sequence[Graph],
        labels: Tensor | None = None,
        scaling: ScalingName = "unit",
        device: torch.device | str = "cpu",
    ) -> LabelledGraphs:
        """`labels` (nodes, labellings) in place of the graphs' own."""
        union = disjoint_union(graphs)
        labels = torch.from_numpy(union.y).unsqueeze(1) if labels is None else labels
        if bool((labels < 0).any()):
            raise InputError("every node needs a label here; graphs with unknown labels are fitted one at a time")
        member = np.repeat(np.arange(len(graphs)), [graph.num_nodes for graph in graphs])
        tensors = GraphTensors.of(union, scaling, device)
        return cls(tensors, torch.from_numpy(member).to(device), labels.to(device))

    @property
    def num_graphs(self) -> int:
        return int(self.member[-1]) + 1


class FullTraining:
    """Gradient steps on one union of graphs after the other, in an order shuffled anew each time round."""

    def __init__(
        self,
        denoiser: Denoiser,
        objective: Objective,
        batches: Sequence[LabelledGraphs],
        options: Training,
        generator: torch.Generator,
    ) -> None:
        self.denoiser, self.objective, self.batches = denoiser, objective, batches
        self.options, self.generator = options, generator
        self.optimiser = Optimiser(denoiser, options)
        self.order: list[int] = []
        self.step, self.loss = 0, math.nan

    def run(self, progress: Progress | None = None) -> None:
        while self.step < self.options.steps:
            self.order = self.order or torch.randperm(len(self.batches), generator=self.generator).tolist()
            self.update(self.batches[self.order.pop()])
            self.step += 1
            if progress is not None:
                progress(self)

    def update(self, batch: LabelledGraphs) -> None:
        """One gradient step on all graphs of a batch and all their time draws at once."""
        y_0, t = self.labels(batch), self.times(batch)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        shown = self.show(batch, y_0)
        asked = torch.ones(y_0.shape[:2]).to(y_0) if shown is None else (~shown.mask).to(y_0)
        weights = asked / asked.sum().clamp_min(1)
        context = self.denoiser.encode(batch.graph)
        self.optimiser.zero_grad()
        self.loss = accumulate(self.denoiser, self.objective, context, y_0, t, eps, weights, shown, self.generator)
        self.optimiser.descend(self.step)

    def labels(self, batch: LabelledGraphs) -> Tensor:
        """y_0 (nodes, draws, classes): in each draw, one of the labellings of each graph."""
        shape = (batch.num_graphs, self.options.time_draws)
        choice = torch.randint(batch.labels.shape[1], shape, generator=self.generator).to(batch.member.device)
        y = batch.labels.gather(1, choice[batch.member])
        return torch.nn.functional.one_hot(y, batch.graph.graph.num_classes).to(batch.graph.dtype)

    def times(self, batch: LabelledGraphs) -> Tensor:
        """t (nodes, draws): every graph has its own in every draw, spread evenly over the batch."""
        shape = (batch.num_graphs, self.options.time_draws)
        t = self.objective.draw_times(math.prod(shape), self.generator)
        shuffled = t[torch.randperm(len(t), generator=self.generator)]
        return shuffled.view(shape).to(batch.member.device)[batch.member]

    def show(self, batch: LabelledGraphs, y_0: Tensor) -> Known | None:
        """For amortised conditioning: a random share of the labels of each graph in each draw."""
        if not self.denoiser.shows_known:
            return None
        share = torch.rand(batch.num_graphs, self.options.time_draws, generator=self.generator)
        u = torch.rand(y_0.shape[:2], generator=self.generator)
        mask = (u < share[batch.member.cpu()]).to(y_0.device)
        return Known(mask, y_0 * mask.unsqueeze(-1))
