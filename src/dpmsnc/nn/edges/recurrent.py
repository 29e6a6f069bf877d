r"""Recurrent baselines: the same weights in every round, and more rounds when asked than in training.

*tied* (Schwarzschild et al. 2021, with the recall of the input of Bansal et al. 2022). With two layers of GINEConv,
conv_1 and conv_2, the second of which sees the edges anew in every round,

    h_0 = conv_1(x),        h_k = conv_2(LayerNorm(h_{k-1})) + R h_0

*lstm*, what Du et al. 2022 compare with: every node has an LSTM that is shown the same input in every round,

    h_0 = conv_1(x),        s_k = LSTM(h_0, s_{k-1}),        h_k = conv_2(s_k)

The answer is W (h_i || h_j) after the last round. Training has 10 rounds, an answer 40. Sums over nodes would grow from
round to round without the LayerNorm, which the cited networks, on images, do not need.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dpmsnc.nn.edges.base import EDGE_DENOISERS
from dpmsnc.nn.edges.ends import Ends
from dpmsnc.nn.edges.tensors import Part

LONGER = 4
"""Rounds of an answer, by those of training."""


class Recurrent(Ends):
    """Two layers of GINEConv, and rounds between the first and the answer."""

    def __init__(
        self,
        node_channels: int,
        edge_channels: int,
        label_channels: int,
        hidden_channels: int = 128,
        num_layers: int = 10,
        shows_known: bool = False,
    ) -> None:
        """`num_layers` are the rounds of training."""
        super().__init__(node_channels, edge_channels, label_channels, hidden_channels, 2, shows_known)
        self.rounds = num_layers

    def unroll(self, part: Part, first: Tensor, embedded: Tensor, rounds: int) -> Iterator[Tensor]:
        """h_1, h_2, ... (nodes, batch, width) from h_0 and E e_ij of the second layer."""
        raise NotImplementedError

    def all_states(
        self, part: Part, x: Tensor | None, encoded: Tensor, labels: Tensor, training: bool
    ) -> Iterator[Tensor]:
        """h_1, h_2, ... of as many rounds as there are."""
        first = self.conv(0, part, self.inputs(part, x, labels), self.embedded(0, encoded, labels))
        rounds = self.rounds if training else LONGER * self.rounds
        return self.unroll(part, first, self.embedded(1, encoded, labels), rounds)

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
        *_, last = self.all_states(part, x, encoded, labels, training=generator is not None)
        return self.of_ends(part, last)


@EDGE_DENOISERS.register("recurrent")
class TiedNetwork(Recurrent):
    """The second layer in every round, with recall."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        super().make_head(width, inputs, label_channels)
        self.norm, self.recall = nn.LayerNorm(width), nn.Linear(width, width)

    def unroll(self, part: Part, first: Tensor, embedded: Tensor, rounds: int) -> Iterator[Tensor]:
        h, recalled = first, self.recall(first)
        for _ in range(rounds):
            h = self.conv(1, part, self.norm(h), embedded) + recalled
            yield h


@EDGE_DENOISERS.register("lstm")
class LSTMNetwork(Recurrent):
    """An LSTM in every round."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        super().make_head(width, inputs, label_channels)
        self.cell = nn.LSTMCell(width, width)

    def unroll(self, part: Part, first: Tensor, embedded: Tensor, rounds: int) -> Iterator[Tensor]:
        shown = first.flatten(0, 1)
        state = self.cell(shown)
        for _ in range(rounds - 1):
            state = self.cell(shown, state)
        yield self.conv(1, part, state[0].view_as(first), embedded)
