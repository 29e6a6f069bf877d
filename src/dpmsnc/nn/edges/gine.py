r"""The paper's denoiser of edge labels (appendix C.2), after the networks of IREM (Du et al. 2022).

With attributes a_ij, labels y_ij and embeddings e_ij = W_a a_ij || W_y y_ij of edges, three layers of GINEConv

    h_j' = W (h_j + sum over edges (i, j) of relu(h_i + E e_ij)) + f(t),        h = x, or 0 without node features,

and a decoder with two layers on h_i || h_j || y_ij. As in the authors' code there is no activation between layers.

E e_ij is linear in a_ij and y_ij, so both embeddings and all E are multiplied with each other first: no product is left
that costs as much as the width squared for every edge. The decoder's first layer is likewise applied to nodes.

`GINELayers` are these layers without a decoder, which the baselines of table 5 have too.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from dpmsnc.nn.edges.base import EDGE_DENOISERS, EdgeDenoiser
from dpmsnc.nn.edges.tensors import Part


class GINELayers(EdgeDenoiser):
    """Three layers of GINEConv, 128 wide; subclasses say what is read from nodes."""

    def __init__(
        self,
        node_channels: int,
        edge_channels: int,
        label_channels: int,
        hidden_channels: int = 128,
        num_layers: int = 3,
        shows_known: bool = False,
    ) -> None:
        """`node_channels` is 0 where nodes have no features; they are then one number, zero, as in the tasks."""
        super().__init__(edge_channels, hidden_channels, shows_known)
        inputs, half = label_channels + shows_known, hidden_channels // 2
        widths = [max(node_channels, 1)] + [hidden_channels] * num_layers
        self.embed_attr, self.embed_label = nn.Linear(edge_channels, half), nn.Linear(inputs, half)
        self.of_edge = nn.ModuleList(nn.Linear(2 * half, width) for width in widths[:-1])
        self.of_node = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(widths))
        self.make_head(hidden_channels, inputs, label_channels)

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        """The weights of what is read from nodes, given the channels of labels as they are shown and are answered."""
        raise NotImplementedError

    def encode_part(self, part: Part, x: Tensor | None, edge_attr: Tensor) -> Tensor:
        """The part of a_ij, and all biases, in E e_ij of every layer."""
        weight = torch.cat([layer.weight for layer in self.of_edge])  # type: ignore[misc]
        bias = torch.cat([layer.bias for layer in self.of_edge])  # type: ignore[misc]
        of_attr, of_label = weight.chunk(2, dim=1)
        constant = bias + of_attr @ self.embed_attr.bias + of_label @ self.embed_label.bias
        return nn.functional.linear(edge_attr, of_attr @ self.embed_attr.weight, constant).unsqueeze(1)

    def embedded(self, index: int, encoded: Tensor, labels: Tensor) -> Tensor:
        """E e_ij of a layer (rows, batch, width of its input)."""
        weight = self.of_edge[index].weight.chunk(2, dim=1)[1] @ self.embed_label.weight  # type: ignore[operator]
        return labels @ weight.T + encoded.split([layer.out_features for layer in self.of_edge], dim=-1)[index]

    def conv(self, index: int, part: Part, h: Tensor, embedded: Tensor) -> Tensor:
        """W (h_j + sum of relu(h_i + E e_ij)) of a layer."""
        return self.of_node[index](h + part.sum_in(part.add_ends(embedded, h).relu_()))

    def inputs(self, part: Part, x: Tensor | None, labels: Tensor) -> Tensor:
        """h of the first layer."""
        return labels.new_zeros(part.num_nodes, 1, 1) if x is None else x.unsqueeze(1)

    def states(
        self, part: Part, x: Tensor | None, encoded: Tensor, labels: Tensor, shift: Tensor | float = 0.0
    ) -> Tensor:
        """h (nodes, batch, width) after all layers, to each of which `shift` is added."""
        h = self.inputs(part, x, labels)
        for index in range(len(self.of_edge)):
            h = self.conv(index, part, h, self.embedded(index, encoded, labels)) + shift
        return h


@EDGE_DENOISERS.register("gine")
class GINEDenoiser(GINELayers):
    """The layers, and a decoder that sees the noisy label again."""

    def make_head(self, width: int, inputs: int, label_channels: int) -> None:
        decoder = 2 * width + inputs
        self.decoder, self.head = nn.Linear(decoder, decoder), nn.Linear(decoder, label_channels)

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
        shift = nn.functional.embedding(t.index_select(0, part.row_of_node), times)
        h = self.states(part, x, encoded, labels, shift)
        of_source, of_target, of_label = self.decoder.weight.split([h.shape[-1], h.shape[-1], labels.shape[-1]], dim=1)
        hidden = part.add_ends(labels @ of_label.T, h @ of_source.T + self.decoder.bias, h @ of_target.T)
        return self.head(hidden.relu_())
