r"""The network of PonderNet (Banino et al. 2021) on edges: the tied network, which answers and may halt in every round.

    y_n = W (h_i || h_j),        l_n = sigmoid(w max over nodes of h),        p_n = l_n prod_{m<n} (1 - l_m)

with one l_n for a graph; the last round takes what is left, so that the p_n add up to 1. The output has the answers of
all rounds and then log p_n of all rounds: (rows, batch, rounds x (channels + 1)). `dpmsnc.reasoning.ponder` reads it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from dpmsnc.nn.edges.base import EDGE_DENOISERS
from dpmsnc.nn.edges.recurrent import TiedNetwork
from dpmsnc.nn.edges.tensors import Part


@EDGE_DENOISERS.register("ponder")
class PonderNetwork(TiedNetwork):
    """An answer and a probability to halt of every round."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        super().make_head(width, inputs, label_channels)
        self.halt = nn.Linear(width, 1)

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
        states = list(self.all_states(part, x, encoded, labels, training=generator is not None))
        answers = [self.of_ends(part, h) for h in states]
        logits = torch.cat([self.halt(part.graph_max(h)) for h in states], dim=-1)
        return torch.cat([*answers, part.to_rows(log_halting(logits))], dim=-1)


def log_halting(logits: Tensor) -> Tensor:
    """log p_n (..., rounds) from logits of l_n."""
    halts, goes_on = logsigmoid(logits[..., :-1]), logsigmoid(-logits[..., :-1])
    nothing = torch.zeros_like(logits[..., :1])
    return torch.cat([halts, nothing], dim=-1) + torch.cat([nothing, goes_on.cumsum(dim=-1)], dim=-1)
