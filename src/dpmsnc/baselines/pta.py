r"""PTA: labels are propagated once, then a network without a graph learns from them with growing trust in itself.

With Y0 one-hot on the training nodes L and zero elsewhere, S = D^-1/2 (A + I) D^-1/2 and a two-layer network f,

    targets      Y <- Y0;  K times  Y <- S Y,  Y_L <- Y0_L,  Y <- (1 - a) Y + a Y0,
    loss         J_e = -lambda / C  sum_{i,c} Y_ic w_ic log p_ic + wd / 2 |W_1|^2,      p = softmax f(x),
                 w = p^{ln(1 + e / 100)} at epoch e, without gradient,
    inference    z <- p;  K times  z <- (1 - a) S z + a p.

The loss is a sum over all nodes that propagation reaches, and no training step touches the graph: this makes it cheap
enough to start other methods from. The exponent is zero at first (plain soft labels) and then lets the network discount
targets it disbelieves.

Reference: Dong et al., "On the Equivalence of Decoupled Graph Convolution Network and Label Propagation", WWW 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges, one_hot
from dpmsnc.baselines.descent import Selection, release, weights_of
from dpmsnc.config import ScalingName
from dpmsnc.deadline import check_time
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.search_space import OPTIMISER, SearchSpace, same
from dpmsnc.graph import Graph
from dpmsnc.nn.backbones.base import multiply
from dpmsnc.nn.operator import Operator

EXPONENT_EPOCHS = 100


@dataclass(eq=False, repr=False)
class PTA(Baseline):
    """Propagation then adaptive training.

    With validation nodes, training ends when neither their accuracy nor their loss has improved for `patience` epochs,
    and the prediction of the best epoch (by accuracy, then loss) is kept; without, the rate falls to zero over
    `epochs_unvalidated` epochs.

    The defaults are those of the reference for bags of words. Where a node has hundreds of non-zero features, dividing
    rows by their sum leaves values so small that the weight decay wins: take `scaling="binary"` there (Amazon sets).
    """

    hidden_channels: int = 64
    num_layers: int = 10
    alpha: float = 0.1
    lr: float = 0.1
    weight_decay: float = 0.005
    loss_weight: float = 0.05
    max_epochs: int = 2000
    patience: int = 100
    epochs_unvalidated: int = 200
    scaling: ScalingName = "rows"
    seed: int = 0

    ranges: ClassVar[Ranges] = {
        "num_layers": (0, math.inf),
        "alpha": (0, 1),
        "loss_weight": (0, math.inf),
        **dict.fromkeys(("max_epochs", "epochs_unvalidated"), (1, math.inf)),
    }

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, weights = self._tensors(graph), self._network()
        S, Y0 = tensors.operator("gcn"), torch.from_numpy(one_hot(y_train, graph.num_classes)).float()
        targets = self._soft_targets(S, Y0)
        selection, best = Selection(y_validation, self.patience), None
        num_epochs = self.max_epochs if selection.possible else self.epochs_unvalidated
        groups: list[dict[str, Any]] = [
            {"params": [weights[0]], "weight_decay": self.weight_decay},
            {"params": list(weights)[1:]},
        ]
        optimizer = torch.optim.Adam(groups, lr=self.lr, fused=True)
        # at a constant rate accuracy jumps by points from epoch to epoch; with nothing to choose by, it has to settle
        last_rate = self.lr if selection.possible else 0.0
        decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_epochs, eta_min=last_rate)
        for epoch in range(num_epochs):
            check_time()
            log_p = predictor(tensors.x, weights)
            if selection.possible and selection.is_best(self._propagate(S, log_p.detach().exp())):
                best = weights_of(weights)
            if selection.spent:
                break
            optimizer.zero_grad()
            (self.loss_weight * adaptive_loss(log_p, targets, epoch)).backward()
            optimizer.step()
            decay.step()
        if best is not None:
            weights.load_state_dict(best)
        self.network_ = release(weights)

    @torch.no_grad()
    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        tensors = self._tensors(graph)
        z = self._propagate(tensors.operator("gcn"), predictor(tensors.x, self.network_).exp())
        return (z / z.sum(dim=1, keepdim=True)).double().numpy()

    def _soft_targets(self, S: Operator, Y0: Tensor) -> Tensor:
        labelled = Y0.sum(dim=1, keepdim=True) > 0
        Y = Y0
        for _ in range(self.num_layers):
            Y = torch.where(labelled, Y0, S(Y))
            Y = (1 - self.alpha) * Y + self.alpha * Y0
        return Y

    def _propagate(self, S: Operator, p: Tensor) -> Tensor:
        z = p
        for _ in range(self.num_layers):
            z = (1 - self.alpha) * S(z) + self.alpha * p
        return z

    def _build(self, in_channels: int, num_classes: int) -> nn.ParameterList:
        """W_1, b_1, W_2, b_2, uniform within 1 / sqrt(inputs of the layer)."""
        generator = self._generator()
        weights = []
        for fan_in, fan_out in pairwise([in_channels, self.hidden_channels, num_classes]):
            for shape in [(fan_in, fan_out), (fan_out,)]:
                uniform = 2 * torch.rand(shape, generator=generator) - 1
                weights.append(nn.Parameter(uniform / math.sqrt(fan_in)))
        return nn.ParameterList(weights)

    def _fitted_network(self) -> nn.ParameterList:
        widths = pairwise([self.features_.width, self.hidden_channels, self.target_.channels])
        shapes = [shape for fan_in, fan_out in widths for shape in [(fan_in, fan_out), (fan_out,)]]
        return nn.ParameterList(nn.Parameter(torch.empty(shape)) for shape in shapes)


def predictor(x: Tensor | Operator, weights: Any) -> Tensor:
    """log softmax f(x) of a network with one hidden layer."""
    W_1, b_1, W_2, b_2 = weights
    return F.log_softmax(torch.relu(multiply(x, W_1) + b_1) @ W_2 + b_2, dim=1)


def adaptive_loss(log_p: Tensor, targets: Tensor, epoch: int) -> Tensor:
    """-1/C sum Y w log p with w = p^{ln(1 + epoch / 100)} held constant."""
    w = (log_p.detach() * math.log1p(epoch / EXPONENT_EPOCHS)).exp()
    return -(targets * w * log_p).sum() / log_p.shape[1]


METHODS["pta"] = Method(
    partial(seeded, PTA),
    search=SearchSpace(
        {**OPTIMISER, **same("hidden_channels", "scaling"), **{"propagations": "num_layers", "damping": "alpha"}}
    ),
)
