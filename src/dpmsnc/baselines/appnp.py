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
from functools import partial
from math import inf
from typing import ClassVar

from torch import Tensor

from dpmsnc.baselines.base import Ranges
from dpmsnc.baselines.mlp import MLP
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import OPTIMISER, SearchSpace, same
from dpmsnc.nn.operator import GraphTensors


@dataclass(eq=False, repr=False)
class APPNP(MLP):
    """An `MLP` whose logits are propagated `num_layers` times."""

    num_layers: int = 10
    alpha: float = 0.1

    ranges: ClassVar[Ranges] = {"num_layers": (0, inf), "alpha": (0, 1)}

    def _propagation(self, tensors: GraphTensors) -> Callable[[Tensor], Tensor]:
        from torch_geometric.nn import APPNP as Propagation  # takes seconds, which only this method should cost

        spread, S = Propagation(self.num_layers, self.alpha, normalize=False), tensors.operator("gcn").matrix
        return lambda h: spread(h, S)


METHODS["appnp"] = Method(
    partial(seeded, APPNP),
    search=SearchSpace(
        {
            **same("hidden_channels", "dropout", "scaling"),
            **OPTIMISER,
            **{"propagations": "num_layers", "damping": "alpha"},
        }
    ),
)
