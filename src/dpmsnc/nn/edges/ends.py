r"""The network of the feedforward baselines of IREM (Du et al. 2022): an edge is answered from its two ends alone.

    h = three layers of GINEConv,        y_ij = W (h_i || h_j)

No time enters. The decoder sees the edge itself only through sums at nodes: on edge copy, the sum of the attributes at
a node leaves an error of (1 - 1/n) / 3. Where nothing is known of labels they are zero ("feedforward"); where there is
an estimate, it stands beside the attribute ("iterative feedforward").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.edges.base import EDGE_DENOISERS
from dpmsnc.nn.edges.gine import GINELayers
from dpmsnc.nn.edges.tensors import Part


class Untimed(GINELayers):
    """Layers that are not told the time."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        del self.time

    def embed(self, t: Tensor) -> Tensor:
        return torch.zeros(len(t), 1, device=t.device)


class Ends(Untimed):
    """A linear function of both ends."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        super().make_head(width, inputs, label_channels)
        self.head = nn.Linear(2 * width, label_channels)

    def of_ends(self, part: Part, h: Tensor) -> Tensor:
        """W (h_i || h_j) of every edge, from states (nodes, batch, width)."""
        of_source, of_target = self.head.weight.chunk(2, dim=1)
        nothing = h.new_zeros(part.num_rows, 1, 1)
        return part.add_ends(nothing, h @ of_source.T + self.head.bias, h @ of_target.T)


@EDGE_DENOISERS.register("ends")
class EndsNetwork(Ends):
    """All layers once."""

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
        return self.of_ends(part, self.states(part, x, encoded, labels))
