r"""APPNP: a network without a graph predicts every node, then the predictions spread with a pull back to their origin.

With H the output of an `MLP` and S = D^-1/2 (A + I) D^-1/2,

    Z <- H;  K times  Z <- (1 - alpha) S Z + alpha H;  p = softmax(Z),

trained end to end: unlike in `PTA`, every training step spreads. The propagation is torch_geometric's. Its dropout of
edges, which the reference also has, stays off: it goes on thinning the same edges from one step of a pass to the next,
so that after K steps at rate 1/2 hardly any is left.

Reference: Gasteiger et al., "Predict then Propagate: Graph Neural Networks meet Personalized PageRank", ICLR 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.nn import APPNP as Propagation

from dpmsnc.baselines.mlp import MLP
from dpmsnc.config import check_range
from dpmsnc.graph import Graph
from dpmsnc.nn.operator import GraphTensors


@dataclass(eq=False)
class APPNP(MLP):
    """An `MLP` whose logits are propagated `num_layers` times."""

    num_layers: int = 10
    alpha: float = 0.1

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_range(self, num_layers=(0, inf), alpha=(0, 1))
        return super()._fit(graph, y_train, y_validation)

    def _propagation(self, tensors: GraphTensors) -> Callable[[Tensor], Tensor]:
        spread, S = Propagation(self.num_layers, self.alpha, normalize=False), tensors.operator("gcn").matrix
        return lambda h: spread(h, S)
