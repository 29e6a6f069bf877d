"""GCN (Kipf and Welling 2017): A_hat H W + b with A_hat = D^-1/2 (A + c I) D^-1/2, c = 1 or 2."""

from __future__ import annotations

from torch import Tensor

from dpmsnc.nn.backbones.base import Additive, Backbone, multiply
from dpmsnc.nn.operator import GraphTensors, Operator, OperatorName
from dpmsnc.nn.receptive_field import ReceptiveField


class GCNConv(Additive):
    operator: OperatorName = "gcn"

    def __init__(self, in_channels: int, label_channels: int, out_channels: int, *, improved: bool = False) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        if improved:
            self.operator = "gcn-improved"

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        propagate = graph.operator(self.operator)
        if isinstance(h, Tensor) and h.shape[-1] < weight.shape[-1]:  # propagate whichever is narrower
            return propagate(h) @ weight
        return propagate(multiply(h, weight))

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return graph.operator(self.operator)(y)

    def unlift(self, grad: Tensor, receptive_field: ReceptiveField, layer: int) -> Tensor:
        return receptive_field.operator(self.operator, layer).back(grad) @ self.weight[: self.in_channels].T

    def unspread(self, grad: Tensor, receptive_field: ReceptiveField) -> Tensor:
        return receptive_field.operator(self.operator, layer=0).back(grad)


class GCN(Backbone):
    """Options: `improved` gives the self-loop the weight 2, as the authors use it on real graphs, instead of 1."""

    conv = GCNConv
    has_backward = True
