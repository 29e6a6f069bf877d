r"""CPGNN (Zhu et al. 2021): what a network without a graph believes spreads through a matrix of class compatibilities.

With R the logits of that network, P = softmax(R), E = P - 1/c and a learned c x c matrix H,

    B <- E;  K times  B <- E + A B H;      logits = B + 1/c.

H begins with what training labels say: for each class, the mean over its training nodes of the labels among a node's
neighbours (P where unknown), made doubly stochastic by Sinkhorn's iteration and symmetric, less 1/c. The network
without a graph is trained alone first (`warm_up` epochs) and chosen by validation labels, then both are trained with

    J = CE(logits) + prior_weight CE(R) + sum_i |sum_j H_ij|.

The second term is in the paper and not in the released code; a large weight holds P where features alone lead it. A is
raw, or normalised symmetrically where degrees are so large that beliefs would grow beyond bounds. `num_layers` is K.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.config import check_number
from dpmsnc.graph import UNKNOWN
from dpmsnc.nn.backbones.base import Backbone, Linear, Nodewise
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.nn.stages import Staged

NormalisationName = Literal["symmetric", "none"]
WARM_UP = 200
LEAST = 1e-6
"""Stands for a compatibility of 0 in Sinkhorn's iteration, which has no limit for some patterns of zeros."""


class Compatibility(Nodewise, Staged):
    """R, P and the beliefs; while it is `warming`, R alone."""

    undecayed = ("compatibility",)
    classes_only = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        rounds: int,
        normalisation: NormalisationName,
        warm_up: int,
        prior_weight: float,
    ) -> None:
        super().__init__(in_channels, 0, out_channels)
        self.rounds, self.normalisation, self.prior_weight = rounds, normalisation, prior_weight
        self.warm_up = warm_up
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.compatibility = nn.Parameter(torch.zeros(out_channels, out_channels))
        self.prior: Tensor | None = None

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        R = z + self.bias
        if self.warming:
            return R
        self.prior = None if generator is None else R.squeeze(1)
        A, average = graph.operator("neighbours" if self.normalisation == "symmetric" else "sum"), 1 / R.shape[-1]
        B = E = R.softmax(dim=-1) - average
        for _ in range(self.rounds):
            B = E + A(B) @ self.compatibility
        return B + average

    def start(self, network: nn.Module, graph: GraphTensors, y: Tensor) -> None:
        P = network(graph).softmax(dim=-1)
        self.compatibility.copy_(compatibility(P, graph.operator("mean"), y))

    def penalty(self, graph: GraphTensors, y: Tensor) -> Tensor | float:
        prior, self.prior = self.prior, None
        if prior is None:
            return 0.0
        known = y != UNKNOWN
        return self.prior_weight * F.cross_entropy(prior[known], y[known]) + self.compatibility.sum(dim=1).abs().sum()


def compatibility(P: Tensor, mean: Operator, y: Tensor) -> Tensor:
    """H at the start: symmetric, with rows of sum 0."""
    known, c = y != UNKNOWN, P.shape[1]
    labels = F.one_hot(y[known], c).to(P.dtype)
    shown = P.index_copy(0, known.nonzero().squeeze(1), labels)
    received = labels.T @ mean(shown)[known]
    H = received / received.sum(dim=1, keepdim=True)
    H = torch.where(H.isnan(), H.T, H).nan_to_num(1 / c)  # of classes without a label, or without neighbours
    H = doubly_stochastic(H)
    return (H + H.T) / 2 - 1 / c


def doubly_stochastic(H: Tensor, iterations: int = 3000) -> Tensor:
    """Rows and columns brought to sum 1 in turn, until both are."""
    H = H.double().clamp_min(LEAST)
    for _ in range(iterations):
        H = H / H.sum(dim=0, keepdim=True)
        rows = H.sum(dim=1, keepdim=True)
        H = H / rows
        if (rows - 1).abs().max() < 1e-9:
            break
    return H.float()


class CPGNN(Backbone):
    """Options: `normalisation`, "none" or "symmetric"; `warm_up`, epochs; `prior_weight`."""

    conv = Linear
    convolves_last = False
    reads_labels = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        normalisation: NormalisationName = "none",
        warm_up: int = WARM_UP,
        prior_weight: float = 0.1,
    ) -> None:
        check_number("warm_up", warm_up, 0, 10**6, whole=True)
        check_number("prior_weight", prior_weight, 0)
        super().__init__(in_channels, hidden_channels, 1, label_channels, dropout)
        self.rounds, self.normalisation = num_layers, normalisation
        self.warm_up, self.prior_weight = warm_up, prior_weight

    def head(self, num_classes: int) -> nn.Module:
        of_stages = (self.warm_up, self.prior_weight)
        return Compatibility(self.out_channels, num_classes, self.rounds, self.normalisation, *of_stages)

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
