r"""The network of IREM (Du et al. 2022): an energy of the labels of a graph, which an answer descends.

    E(x, y) = w relu(V max over nodes of h),        h = three layers of GINEConv on attributes and labels

    y <- y - 100 dE/dy,        10 times in training, 40 times when asked

Back-propagation is truncated: only the last step of training is differentiated by the weights. Labels that are shown
as known stay as they are. There is neither noise nor clipping on the way, as in the authors' code for graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dpmsnc.nn.edges.base import EDGE_DENOISERS
from dpmsnc.nn.edges.ends import Untimed
from dpmsnc.nn.edges.tensors import Part

STEP_SIZE = 100.0
STEPS, STEPS_ASKED = 10, 40


@EDGE_DENOISERS.register("energy")
class EnergyNetwork(Untimed):
    """The labels that steps along the gradient of the energy lead to, from those that are given."""

    reached: Tensor | None = None
    """The labels of the last step of training."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        super().make_head(width, inputs, label_channels)
        self.label_channels = label_channels
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def energy(self, part: Part, x: Tensor | None, encoded: Tensor, labels: Tensor) -> Tensor:
        """E of every graph and batch entry (graphs, batch)."""
        return self.head(part.graph_max(self.states(part, x, encoded, labels))).squeeze(-1)

    def answer(
        self,
        part: Part,
        x: Tensor | None,
        encoded: Tensor,
        labels: Tensor,
        t: Tensor,
        times: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        training = generator is not None
        steps = STEPS if training else STEPS_ASKED
        with torch.inference_mode(False), torch.enable_grad():
            y, flags = labels.clone().split([self.label_channels, labels.shape[-1] - self.label_channels], dim=-1)
            unknown = 1 - flags.amax(dim=-1, keepdim=True) if self.shows_known else 1.0
            for step in range(steps):
                y = y.detach().requires_grad_()
                energy = self.energy(part, x, encoded, torch.cat([y, flags], dim=-1)).sum()
                (slope,) = torch.autograd.grad(energy, y, create_graph=training and step == steps - 1)
                y = y - STEP_SIZE * unknown * slope
        return y if training else y.detach()

    def evaluate(self, y_t: Tensor, t: Tensor | int, context: Any, *args: Any, **options: Any) -> Tensor:
        output = super().evaluate(y_t, t, context, *args, **options)
        if output.requires_grad:
            self.reached = output.detach()
        return output
