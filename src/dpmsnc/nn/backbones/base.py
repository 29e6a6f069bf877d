r"""What all backbones share: layers on a concatenation that is never formed.

Appendix C.1 feeds every layer [h || y_t]. Any layer that begins with a linear map distributes over that concatenation,

    conv([h || y]) = finish(lift(h, W_h) + spread(y) W_y),        W = [W_h ; W_y],

so a layer is given by `lift`, linear in its input; by `spread`, the same without the weight, which all layers share;
and by `finish`, the rest. In the first layer h is x, which depends on neither y_t nor t: its lift is computed once by
`encode` and shared by all time draws, samples and reverse steps.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones.block import Block, Norm, NormName
from dpmsnc.nn.dropout import relu_dropout
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.nn.products import combine
from dpmsnc.nn.receptive_field import HiddenRecorder, ReceptiveField


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

    def forward(
        self,
        encoded: Tensor,
        spread: Tensor | None,
        graph: GraphTensors,
        time: Tensor | None = None,
        reuse: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The layer's output plus `time` from the encoded h, which may be written over (`reuse`), and the labels.

        A generator turns dropout inside the layer on, where it has any.
        """
        if spread is not None:
            encoded = combine(encoded, spread, self.label_weight, encoded.new_zeros(()), reuse)
        z = self.finish(encoded, graph, generator)
        return z if time is None else z.add_(time)

    @property
    def label_weight(self) -> Tensor:
        """The weight of spread labels."""
        return self.weight[self.in_channels :]

    @abstractmethod
    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        """The linear part for one block of the input and the matching rows of the weight."""

    @abstractmethod
    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        """What of the labels arrives at each node."""

    @abstractmethod
    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        """What follows the linear part: attention, a second linear map. Always a new tensor."""

    def unlift(self, grad: Tensor, receptive_field: ReceptiveField, layer: int) -> Tensor:
        """The transpose of `lift`, as far as a receptive field goes in that layer."""
        raise NotImplementedError

    def unspread(self, grad: Tensor, receptive_field: ReceptiveField) -> Tensor:
        """The transpose of `spread`, as far as a receptive field goes in the first layer."""
        raise NotImplementedError


def multiply(h: Tensor | Operator, weight: Tensor) -> Tensor:
    """h @ weight for dense fields (nodes, batch, channels) and for dense or sparse features (nodes, channels)."""
    return h(weight) if isinstance(h, Operator) else h @ weight


class Additive(Conv):
    """A convolution that ends in a bias, which is then added together with the time and the labels."""

    def __init__(self, in_channels: int, label_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(
        self,
        encoded: Tensor,
        spread: Tensor | None,
        graph: GraphTensors,
        time: Tensor | None = None,
        reuse: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        shift = self.bias if time is None else self.bias + time
        return encoded + shift if spread is None else combine(encoded, spread, self.label_weight, shift, reuse)

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        return z + self.bias


class Nodewise(Conv):
    """A convolution that begins with a linear map of every node by itself."""

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        return multiply(h, weight)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return y


class Linear(Nodewise, Additive):
    """A linear map of [h || y] that every node applies to itself alone."""


class Backbone(nn.Module):
    """A stack of convolutions: h_l = act(conv_l([h_{l-1} || y]) + f(t)), with dropout; plain GNN without y and f(t).

    A new backbone is a subclass that names its `conv`, a `Conv` with `lift`, `spread` and `finish`; keyword-only
    arguments of that convolution are options of the backbone. A network of another shape overrides `encode` and
    `forward`, and `__init__`, which takes the same five arguments by position; its keyword-only arguments are options.

    Options of all backbones:
        residual: A linear map of the layer's input, labels included, is added to each convolution.
        norm: Each convolution is followed by a normalisation over channels ("layer") or over nodes: with statistics
            that training records ("batch"), or each field with its own ("nodes").
        input_layer: A linear map of [x || y] and an activation precede the first convolution.
    """

    convs: Any
    has_backward: bool = False
    """Whether `backward` knows the way; else the gradient by the labels is left to autograd."""
    conv: ClassVar[type[Conv]]
    convolves_last: ClassVar[bool] = True
    """Whether a plain classifier may end in a convolution (`last`) instead of its `head`."""
    reads_labels: ClassVar[bool] = True
    """Whether it may be shown labels beside features, as a denoiser must be."""
    is_linear: ClassVar[bool] = False
    """Whether it is linear in the features: a plain classifier of it has no hidden layer, its channels are classes."""
    knows_nodes: ClassVar[bool] = False
    """Whether it has weights for the nodes of one graph, whose number is the option `num_nodes`."""
    out_channels: int
    """Channels of the output: as many as are hidden, unless fields of several layers stand side by side in it."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        residual: bool = False,
        norm: NormName | None = None,
        input_layer: bool = False,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        self.dropout, self.conv_options = dropout, conv_options
        self.out_channels = hidden_channels
        self.input = Linear(in_channels, label_channels, hidden_channels) if input_layer else None
        self.has_backward = type(self).has_backward and not (residual or norm or input_layer)

        def layer(width: int) -> Conv | Block:
            conv = self.conv(width, label_channels, hidden_channels, **conv_options)
            if not residual and norm is None:
                return conv
            around = Linear(width, label_channels, hidden_channels) if residual else None
            return Block(conv, around, None if norm is None else Norm(norm, hidden_channels))

        first = hidden_channels if input_layer else in_channels
        self.convs = nn.ModuleList(layer(width) for width in [first, *[hidden_channels] * (num_layers - 1)])

    def last(self, in_channels: int, out_channels: int) -> Conv:
        """A convolution that ends a plain classifier in place of a linear map."""
        return self.conv(in_channels, 0, out_channels, **self.conv_options)

    def head(self, num_classes: int) -> nn.Module:
        """What makes logits of the output in a plain classifier: a linear map, or a convolution of its own."""
        return nn.Linear(self.out_channels, num_classes)

    def encode(self, graph: GraphTensors, x: Tensor | Operator | None = None) -> Tensor:
        """All that depends on neither labels nor time: shaped (nodes, 1, channels) to meet a batch axis.

        `x` is read in place of the graph's features.
        """
        first = self.convs[0] if self.input is None else self.input
        return first.encode(graph.x if x is None else x, graph).unsqueeze(1)

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        """Shaped (nodes, batch, hidden); `time` is added before each activation; a generator turns dropout on."""
        spread = None if y is None else self.convs[0].spread(y, graph)
        h: Any = None if self.input is None else self.leave(self.input(encoded, y, graph), generator)
        for layer, conv in enumerate(self.convs):
            if h is not None:
                encoded = conv.encode(h, graph)
            h = self.leave(conv(encoded, spread, graph, time, h is not None, generator), generator)
            if recorder is not None:
                recorder.record(layer, h)
        return h

    def leave(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        """Activation and dropout at the end of a layer; z is written over."""
        return torch.relu_(z) if generator is None else relu_dropout(z, self.dropout, generator)

    def backward(self, grad: Tensor, recorder: HiddenRecorder) -> Tensor:
        """The gradient by the labels, from that by the output in a receptive field (as `forward` recorded them)."""
        by_spread = grad.new_zeros(
            len(recorder.receptive_field.nodes(0)), grad.shape[1], len(self.convs[0].label_weight)
        )
        for layer, conv in reversed(list(enumerate(self.convs))):
            grad = torch.ops.aten.threshold_backward(grad, recorder.hidden(layer), 0)
            by_spread[: len(grad)] += grad @ conv.label_weight.T
            if layer:
                grad = conv.unlift(grad, recorder.receptive_field, layer)
        return self.convs[0].unspread(by_spread, recorder.receptive_field)
