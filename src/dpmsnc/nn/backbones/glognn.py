r"""GloGNN (Li et al. 2022): every node is explained by all others, with coefficients in closed form.

From h = drop(act(delta X W_1 + (1 - delta) P W_A + b)) and H_0 = h W_2 + b_2, with P the rows of A + I brought to sum 1
and W_A a row of weights for every node, the layers are H <- (1 - gamma) Z H + gamma H_0, where Z minimises

    |H - (1 - gamma) Z H - gamma H_0|^2 + alpha |Z|^2 + beta |Z - sum_k l_k P^k|^2.

Z is n x n and never formed. With c classes, G = H'H and q = 1 / (alpha + beta), what Z is multiplied by is

    Q = q / (1 - gamma) H M^-1,      M = I / (1 - gamma)^2 + q G      (c x c, in double precision),
    H <- ((1 - gamma) H - gamma (1 - gamma) H_0) (H'Q) + beta sum_k l_k P^k Q + gamma H_0.

Since W_A belongs to the nodes of one graph, the network answers for that graph alone. W_A begins at zero, so that the
order of nodes does not matter. G grows with the number of nodes, so `beta` has to be of that order for the edges to
count. `num_layers` counts the layers above.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Backbone, Linear, Nodewise
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.nn.receptive_field import HiddenRecorder


class GlobalHead(Nodewise):
    """H_0, and the layers."""

    def __init__(
        self, in_channels: int, out_channels: int, layers: int, orders: int, alpha: float, beta: float, gamma: float
    ) -> None:
        super().__init__(in_channels, 0, out_channels)
        self.layers, self.alpha, self.beta, self.gamma = layers, alpha, beta, gamma
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.orders = nn.Parameter(torch.full((orders,), 1 / orders))

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        H = H_0 = (z + self.bias).squeeze(1)
        for _ in range(self.layers):
            H = self.layer(H, H_0, graph)
        return H.unsqueeze(1)

    def layer(self, H: Tensor, H_0: Tensor, graph: GraphTensors) -> Tensor:
        """(1 - gamma) Z H + gamma H_0."""
        kept, q = 1 - self.gamma, 1 / (self.alpha + self.beta)
        double = H.double()
        M = torch.eye(H.shape[1], dtype=double.dtype, device=H.device) / kept**2 + q * double.T @ double
        Q = (q / kept * torch.linalg.solve(M, double.T).T).to(H.dtype)
        local = self.beta * self.orders_of(Q, graph) if self.beta else 0.0
        return kept * (H - self.gamma * H_0) @ (H.T @ Q) + local + self.gamma * H_0

    def orders_of(self, Q: Tensor, graph: GraphTensors) -> Tensor:
        """sum_k l_k P^k Q, by Horner's rule."""
        P, total = graph.operator("mean-with-self"), torch.zeros_like(Q)
        for weight in self.orders.flip(0):
            total = P(weight * Q + total)
        return total


class GloGNN(Backbone):
    """Options: `delta`, the share of features beside the adjacency; `orders`, the largest k; `alpha`, `beta`, `gamma`;
    `num_nodes` of the graph, which a plain classifier fills in."""

    conv = Linear
    convolves_last = False
    reads_labels = False
    knows_nodes = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        num_nodes: int | None = None,
        delta: float = 0.9,
        orders: int = 3,
        alpha: float = 1.0,
        beta: float = 1000.0,
        gamma: float = 0.1,
    ) -> None:
        if num_nodes is None:
            raise InputError("GloGNN has weights for the nodes of one graph: take GNN('glognn') or --method glognn")
        ranges = {"delta": (delta, 1), "gamma": (gamma, 0.99), "alpha": (alpha, 1e9), "beta": (beta, 1e9)}
        for name, (value, most) in ranges.items():
            check_number(name, value, 0, most)
        check_number("alpha + beta", alpha + beta, 1e-6)
        check_number("orders", orders, 1, 100, whole=True)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.delta, self.of_layers = delta, (num_layers, orders, alpha, beta, gamma)
        self.of_nodes = nn.Parameter(torch.zeros(num_nodes, hidden_channels))

    def head(self, num_classes: int) -> nn.Module:
        return GlobalHead(self.out_channels, num_classes, *self.of_layers)

    def encode(self, graph: GraphTensors, x: Tensor | Operator | None = None) -> Tensor:
        of_graph = graph.operator("mean-with-self")(self.of_nodes).unsqueeze(1)
        return torch.lerp(of_graph, super().encode(graph, x), self.delta)

    def forward(
        self,
        encoded: Tensor,
        graph: GraphTensors,
        y: Tensor | None = None,
        time: Tensor | None = None,
        generator: torch.Generator | None = None,
        recorder: HiddenRecorder | None = None,
    ) -> Tensor:
        return self.leave(self.convs[0](encoded, None, graph), generator)
