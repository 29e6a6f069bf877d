r"""Training on graphs whose labels are all known (paper, section 6.2 and appendix C.2), to predict those of new graphs.

With every label of G_1 .. G_M known there is no E-step, and the bound is that of a plain diffusion model:

    L = sum_m E_{t_m, eps} || eps - eps_theta(y_{t_m}, G_m, t_m) ||^2,      y_{t_m} from y_m, with its own time t_m

(or the loss of the target, as the objective has it). Graphs are trained on together as the components of their disjoint
union, one or several unions in turn. A node without a label is in no loss. For amortised conditioning each graph shows
its own random share of labels in each draw, from none to all, and is asked for the rest; a model to be guided is
trained without. Validation graphs are predicted without any of their labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmsnc.config import Sampling, ScalingName, Training
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.graph.features import Features
from dpmsnc.metrics import METRICS
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.answer import answered, gain_of_marginals
from dpmsnc.training.gradient import Draw
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.trainer import Outcome


@dataclass(frozen=True)
class LabelledGraphs:
    """The disjoint union of labelled graphs; a graph may come with several labellings, each a sample of p(y | G).

    A row is a node, or an edge where edges carry the labels.
    """

    graph: GraphTensors
    member: Tensor
    """Which of the graphs each row belongs to (rows,)."""
    labels: Tensor
    """Labellings (rows, labellings, ...)."""
    known: Tensor
    """Which rows have a label (rows,)."""

    @classmethod
    def of(
        cls,
        graphs: Sequence[Graph],
        labels: Tensor | None = None,
        features: Features | ScalingName = "unit",
        device: torch.device | str = "cpu",
    ) -> LabelledGraphs:
        """`labels` (nodes, labellings, ...) in place of the graphs' own."""
        union = GraphBatch.of(graphs).graph
        return cls.of_union(union, GraphTensors.of(union, features, device), labels)

    @classmethod
    def of_union(cls, union: Graph, tensors: Any, labels: Tensor | None = None) -> LabelledGraphs:
        """Of graphs that are one already, as a network sees them; their labels may be those of nodes or of edges."""
        known = np.ones(len(union.y), dtype=bool) if labels is not None else union.known
        labels = torch.from_numpy(union.y).unsqueeze(1) if labels is None else labels
        member = np.zeros(len(union.y), dtype=np.int64) if union.row_member is None else union.row_member
        member = np.unique(member, return_inverse=True)[1]
        on_device = (torch.as_tensor(each, device=tensors.device) for each in (member, labels, known))
        return cls(tensors, *on_device)

    @property
    def num_graphs(self) -> int:
        return int(self.member[-1]) + 1


class FullyLabelled:
    """The source of training on one union of graphs after the other, in an order shuffled anew each time round."""

    begins_fitted = False
    may_be_kept, gives_up = True, False

    def __init__(
        self,
        optimiser: Optimiser,
        objective: Objective,
        batches: Sequence[LabelledGraphs],
        options: Training,
        generator: torch.Generator,
        validation: LabelledGraphs | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        self.optimiser, self.objective, self.batches = optimiser, objective, batches
        self.target, self.shows_known = objective.target, optimiser.averaged.shows_known
        self.options, self.generator = options, generator
        self.validation, self.sampling = validation, replace(sampling or Sampling(), progressive=0.0)
        self.metric = METRICS.find(self.target.metric if options.select_by is None else options.select_by)
        self.order: list[int] = []

    def refresh(self, step: int) -> None:
        """There is no E-step: every label is known."""

    def draw(self) -> Draw:
        """Labels, times and noise of all graphs of the next batch."""
        batch = self.next_batch()
        y_0, t = self.labels(batch), self.times(batch)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        shown = self.show(batch, y_0)
        asked = batch.known.unsqueeze(1).expand(y_0.shape[:2]).to(y_0)
        asked = asked if shown is None else asked * ~shown.mask
        return Draw(batch.graph, y_0, t, eps, asked / asked.sum().clamp_min(1), shown)

    def next_batch(self) -> LabelledGraphs:
        """The graphs of the next step."""
        self.order = self.order or torch.randperm(len(self.batches), generator=self.generator).tolist()
        return self.batches[self.order.pop()]

    def labels(self, batch: LabelledGraphs) -> Tensor:
        """y_0 (rows, draws, channels): in each draw, one of the labellings of each graph."""
        shape = (batch.num_graphs, self.options.time_draws)
        choice = torch.randint(batch.labels.shape[1], shape, generator=self.generator).to(batch.member.device)
        rows = torch.arange(len(batch.member), device=batch.member.device).unsqueeze(1)
        return self.target.field(batch.labels[rows, choice[batch.member]]).to(batch.graph.dtype)

    def times(self, batch: LabelledGraphs) -> Tensor:
        """t (rows, draws): every graph has its own in every draw, spread evenly over the batch."""
        shape = (batch.num_graphs, self.options.time_draws)
        t = self.objective.draw_times(math.prod(shape), self.generator, stratified=self.options.stratified)
        shuffled = t[torch.randperm(len(t), generator=self.generator)]
        return shuffled.view(shape).to(batch.member.device)[batch.member]

    def show(self, batch: LabelledGraphs, y_0: Tensor) -> Known | None:
        """For amortised conditioning: a random share of the labels of each graph in each draw."""
        if not self.shows_known:
            return None
        share = torch.rand(batch.num_graphs, self.options.time_draws, generator=self.generator)
        u = torch.rand(y_0.shape[:2], generator=self.generator)
        mask = (u < share[batch.member.cpu()]).to(y_0.device) & batch.known.unsqueeze(1)
        return Known(mask, y_0 * mask.unsqueeze(-1))

    def score(self) -> float:
        """The target's metric on validation graphs of which no label is known."""
        if self.validation is None:
            return math.nan
        truth = self.validation.labels[:, 0]
        nothing = torch.zeros(len(truth), dtype=torch.bool, device=truth.device)
        known = Known.of(self.target.field(truth), nothing)
        posterior = Posterior(self.optimiser.averaged, self.objective, self.validation.graph, known, self.sampling)
        if self.metric.needs == "probabilities":
            return gain_of_marginals(self.metric, posterior, truth, self.validation.known, self.generator)
        predicted = answered(posterior, truth, self.validation.known, self.generator)
        extra = [self.validation.member.cpu().numpy()] if self.metric.needs == "member" else []
        mask = self.validation.known.cpu().numpy()
        return self.metric.gain(predicted.cpu().numpy(), truth.cpu().numpy(), mask, *extra)

    def keep_best(self) -> None:
        """Nothing but weights is chosen."""

    def outcome(self) -> Outcome:
        return Outcome(self.batches[0].labels.transpose(0, 1).cpu(), None, 0.0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"order": self.order}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.order = values["order"]
