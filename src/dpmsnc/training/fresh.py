"""Training on a stream of complete graphs with labels on all edges, drawn anew in every step.

The loss is that of `training/full.py`, in which every graph has its own time; the authors draw one for a whole batch.
The stream has a generator of its own, so that the graphs of a seed do not depend on the model that learns from them.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from dpmsnc.config import Sampling, Training
from dpmsnc.diffusion.objective import Objective
from dpmsnc.nn.edges import EdgeTensors
from dpmsnc.training.full import FullyLabelled, LabelledGraphs
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.trainer import Outcome

Groups = list[tuple[Tensor, Tensor]]
"""Attributes and labels (graphs, n, n), those of graphs of one size together."""
BATCH_SIZE = 64
"""Graphs of a step unless another number is asked for."""


class GraphStream(Protocol):
    """Where graphs come from; `dpmsnc.reasoning.tasks.TaskStream` is one."""

    def generator(self) -> torch.Generator:
        """Where graphs to learn from begin."""

    def draw(self, count: int, generator: torch.Generator) -> Groups:
        """So many graphs to learn from."""

    def validation(self) -> Groups:
        """Graphs that weights are chosen by, the same at every call."""


def labelled(groups: Groups, device: torch.device | str = "cpu") -> LabelledGraphs:
    """Complete graphs with all their labels."""
    tensors = EdgeTensors.complete([attributes.to(device) for attributes, _ in groups])
    labels = torch.cat([y.flatten() for _, y in groups]).double().unsqueeze(1)
    counts = torch.cat([torch.full((len(y),), y[0].numel()) for _, y in groups])
    member = torch.repeat_interleave(torch.arange(len(counts)), counts)
    known = torch.ones(len(member), dtype=torch.bool)
    return LabelledGraphs(tensors, *(each.to(device) for each in (member, labels, known)))  # type: ignore[arg-type]


class FreshGraphs(FullyLabelled):
    """The source of training on a stream."""

    def __init__(
        self,
        optimiser: Optimiser,
        objective: Objective,
        stream: GraphStream,
        options: Training,
        generator: torch.Generator,
        sampling: Sampling,
        device: torch.device | str = "cpu",
    ) -> None:
        validation = labelled(stream.validation(), device)
        super().__init__(optimiser, objective, [], options, generator, validation, sampling)
        self.stream, self.device, self.graphs = stream, device, stream.generator()

    def next_batch(self) -> LabelledGraphs:
        return labelled(self.stream.draw(self.options.batch_size or BATCH_SIZE, self.graphs), self.device)

    def outcome(self) -> Outcome:
        return Outcome(torch.empty(0, 0, dtype=torch.double), None, 0.0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"graphs": self.graphs.get_state()}, {}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.graphs.set_state(tensors["graphs"])
