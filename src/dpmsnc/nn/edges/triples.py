r"""Our denoiser of edge labels: edges have states, and learn from the two edges that lead around by a third node.

    e_ij  =  what is known of the edge, of its opposite and of its ends, y_ij and y_ji, and f(t)
    e_ij +=  W relu(U z_ij + V z_ji + M max_k (A z_ik + B z_kj) + S p_i + T p_j),      z = LayerNorm(e),
             p_j = max over edges (i, j) of C z_ij

The same weights serve every round. A round joins two paths, so r rounds reach along 2^r edges: a graph of n nodes gets
ceil(log2(n - 1)) rounds, and at least `num_layers`; in training up to `MORE_ROUNDS` more, drawn anew in every step, so
that answers stay as they are when larger graphs ask for more rounds.

Nothing here belongs to one task. A maximum of negated sums is a minimum, and signs are learned, so there is no minimum
beside it; sums over nodes grow with the graph and are left out. The p say something of the rest of a graph where edges
close few triangles.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.edges.base import EDGE_DENOISERS, EdgeDenoiser
from dpmsnc.nn.edges.tensors import Part

MORE_ROUNDS = 2


@EDGE_DENOISERS.register("triples")
class TripleDenoiser(EdgeDenoiser):
    """Rounds of messages over triples i - k - j, with shared weights."""

    def __init__(
        self,
        node_channels: int,
        edge_channels: int,
        label_channels: int,
        hidden_channels: int = 32,
        num_layers: int = 4,
        shows_known: bool = False,
    ) -> None:
        super().__init__(edge_channels, hidden_channels, shows_known)
        width, inputs = hidden_channels, label_channels + shows_known
        self.least_rounds = num_layers
        self.of_edge, self.of_reverse = nn.Linear(edge_channels + 1, width), nn.Linear(edge_channels, width, bias=False)
        self.of_ends = nn.Linear(node_channels, 2 * width, bias=False) if node_channels else None
        self.of_label, self.of_reverse_label = (nn.Linear(inputs, width, bias=False) for _ in range(2))
        self.norm, self.views = nn.LayerNorm(width), nn.Linear(width, 7 * width)
        self.of_triples, self.of_nodes = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 4 * width, bias=False),
        )
        self.update, self.head = nn.Linear(2 * width, width), nn.Linear(width, label_channels)

    def encode_part(self, part: Part, x: Tensor | None, edge_attr: Tensor) -> Tensor:
        flagged = torch.cat([edge_attr, part.loops.unsqueeze(1).to(edge_attr)], dim=1)
        state = self.of_edge(flagged) + part.reverse(self.of_reverse(edge_attr))
        if x is not None and self.of_ends is not None:
            state = part.add_ends(state, *self.of_ends(x).chunk(2, dim=-1))
        return state.unsqueeze(1)

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
        e = encoded + self.of_label(labels) + part.reverse(self.of_reverse_label(labels))
        e = e + nn.functional.embedding(t, times)
        rounds = self.rounds(part.graph_size)
        if generator is not None:
            rounds = rounds + int(torch.randint(MORE_ROUNDS + 1, (), generator=generator))
        least = int(rounds.min())
        for k in range(int(rounds.max())):
            change = self.exchange(part, e)
            e = e + (change if k < least else change * (rounds > k).view(-1, 1, 1))
        return self.head(e)

    def exchange(self, part: Part, e: Tensor) -> Tensor:
        """What one round adds to the state of every edge."""
        width = self.width
        own, back, a, b, into = self.views(self.norm(e)).split([2 * width, 2 * width, width, width, width], dim=-1)
        hidden = own + part.reverse(back) + self.of_triples(part.triple_max(a, b))
        return self.update(part.add_ends(hidden, *self.of_nodes(part.max_in(into)).chunk(2, dim=-1)).relu_())

    def rounds(self, graph_size: Tensor) -> Tensor:
        """Rounds for graphs of so many nodes."""
        needed = (graph_size - 1).clamp_min(1).double().log2().ceil().long()
        return needed.clamp_min(self.least_rounds)
