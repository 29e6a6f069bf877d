r"""JacobiConv (Wang & Zhang 2022): a linear network with a polynomial filter for every channel,

    Z_c = sum_{k=0..K} a_kc s_1 ... s_k P_k(A_hat) (X W + b)_c,      A_hat = D^-1/2 A D^-1/2 without self-loops.

P_k are Jacobi's polynomials for the weight (1 - x)^a (1 + x)^b on [-1, 1], by their three-term recursion with the sign
of textbooks (the released code has that of a^2 - b^2 turned round), and s_k = scale tanh(t_k) is learned as a and W
are. `num_layers` is K. A plain classifier has one filter for each class and nothing that is not linear; in a network
that reads labels, a filter for each hidden channel is followed by the time and an activation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Nodewise
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.nn.stages import Staged


class JacobiFilter(Nodewise, Staged):
    """A linear map, dropout, and a filter of degree K on every channel."""

    undecayed = ("t", "coefficients")

    def __init__(
        self,
        in_channels: int,
        label_channels: int,
        out_channels: int,
        *,
        degree: int,
        rate: float,
        a: float,
        b: float,
        scale: float,
    ) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        self.rate, self.a, self.b, self.scale = rate, a, b, scale
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.t = nn.Parameter(torch.full((degree,), min(1 / scale, 1.0)))
        self.coefficients = nn.Parameter(torch.ones(degree + 1, out_channels))

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        z = dropout(z + self.bias, self.rate, generator)
        A, scales = graph.operator("neighbours"), self.scale * torch.tanh(self.t)
        before, last, total = torch.zeros_like(z), z, self.coefficients[0] * z
        previous = z.new_ones(())
        for k, s in enumerate(scales, start=1):
            of_product, of_last, of_before = recursion(k, self.a, self.b)
            before, last = last, s * (of_product * A(last) + of_last * last) - s * previous * of_before * before
            previous = s
            total = total + self.coefficients[k] * last
        return total


def recursion(k: int, a: float, b: float) -> tuple[float, float, float]:
    """P_k(x) = (f x + g) P_{k-1}(x) - h P_{k-2}(x), with P_{-1} = 0: f, g and h.

    Example:
        >>> recursion(2, 0, 0)  # Legendre: P_2 = 3/2 x P_1 - 1/2
        (1.5, 0.0, 0.5)
    """
    if k == 1:
        return (a + b + 2) / 2, (a - b) / 2, 0.0
    n = 2 * k + a + b
    scale = 2 * k * (k + a + b) * (n - 2)
    return (n - 1) * n * (n - 2) / scale, (n - 1) * (a**2 - b**2) / scale, 2 * (k + a - 1) * (k + b - 1) * n / scale


class JacobiConv(Backbone):
    """Options: `a` and `b` of the polynomials, above -1; `scale`, which bounds how much each order grows."""

    conv = JacobiFilter
    convolves_last = False
    is_linear = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 10,
        label_channels: int = 0,
        dropout: float = 0.1,
        *,
        a: float = 1.0,
        b: float = 1.0,
        scale: float = 1.0,
    ) -> None:
        for name, value in (("a", a), ("b", b)):
            check_number(name, value, -0.99)
        check_number("scale", scale, 1e-3)
        of_conv: dict[str, Any] = {"degree": num_layers, "rate": dropout, "a": a, "b": b, "scale": scale}
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout, **of_conv)
        self.activates = label_channels > 0

    def head(self, num_classes: int) -> nn.Module:
        return super().head(num_classes) if self.activates else nn.Identity()

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        z = self.convs[0](encoded, y, graph, time, generator=generator)
        return self.leave(z, generator) if self.activates else z
