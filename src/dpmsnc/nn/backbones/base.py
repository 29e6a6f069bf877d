r"""What all backbones share: layers on a concatenation that is never formed.

Appendix C.1 feeds every layer [h || y_t]. Any layer that begins with a linear map distributes over that concatenation,

    conv([h || y]) = finish(lift(h, W_h) + lift(y, W_y)),        W = [W_h ; W_y],

so a layer is given by `lift`, linear in its input, and `finish`, the rest. In the first layer h is x, which depends on
neither y_t nor t: its lift is computed once by `encode` and shared by all time draws, samples and reverse steps.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors, Operator


class Conv(nn.Module):
    """One graph convolution on [h || y]; h has `in_channels`, y has `label_channels` (0 in a plain classifier)."""

    def __init__(self, in_channels: int, label_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.weight = nn.Parameter(torch.empty(in_channels + label_channels, out_channels))
        nn.init.xavier_uniform_(self.weight)

    def encode(self, h: Tensor | Operator, graph: GraphTensors) -> Tensor:
        """The contribution of h alone."""
        return self.lift(h, self.weight[: self.in_channels], graph)

    def forward(self, encoded: Tensor, y: Tensor | None, graph: GraphTensors) -> Tensor:
        """The layer's output, from the encoded h and the labels."""
        if y is not None:
            encoded = encoded + self.lift(y, self.weight[self.in_channels :], graph)
        return self.finish(encoded, graph)

    @abstractmethod
    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        """The linear part for one block of the input and the matching rows of the weight."""

    @abstractmethod
    def finish(self, z: Tensor, graph: GraphTensors) -> Tensor:
        """What follows the linear part: bias, attention, a second linear map."""


def multiply(h: Tensor | Operator, weight: Tensor) -> Tensor:
    """h @ weight for dense fields (nodes, batch, channels) and for dense or sparse features (nodes, channels)."""
    return h(weight) if isinstance(h, Operator) else h @ weight


class Backbone(nn.Module):
    """A stack of convolutions: h_l = act(conv_l([h_{l-1} || y]) + f(t)), with dropout; plain GNN without y and f(t).

    A new backbone is a subclass that names its `conv`.
    """

    conv: ClassVar[type[Conv]]

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.convs = nn.ModuleList(self.conv(width, label_channels, hidden_channels) for width in widths)

    def encode(self, graph: GraphTensors) -> Tensor:
        """All that depends on neither labels nor time: shaped (nodes, 1, channels) to meet a batch axis."""
        return self.convs[0].encode(graph.x, graph).unsqueeze(1)  # type: ignore[operator]

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Shaped (nodes, batch, hidden); `time` is added before each activation; a generator turns dropout on."""
        for layer, conv in enumerate(self.convs):
            if layer:
                encoded = conv.encode(h, graph)  # type: ignore[operator,has-type]  # noqa: F821
            z = conv(encoded, y, graph)
            h = dropout(self.activate(z if time is None else z + time), self.dropout, generator)
        return h

    def activate(self, z: Tensor) -> Tensor:
        return torch.relu(z)
