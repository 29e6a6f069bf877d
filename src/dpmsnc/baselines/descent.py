"""Descent on a loss, with the weights kept that are best on validation nodes: the loop that several baselines share.

The best prediction is the most accurate one, or the one with the best of another metric, of equals the one with the
least loss. The original methods differ in
this (GRAND and G3NN keep the least validation loss); one rule for all that descend here makes their rows comparable.
(`GNN` keeps the first of equals.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.deadline import check_time
from dpmsnc.graph import UNKNOWN
from dpmsnc.metrics import selecting

Weights = dict[str, Tensor]


class Selection:
    """Tells which prediction is best on validation nodes, by a metric and then by loss, and when to stop."""

    def __init__(self, y_validation: NDArray[np.int64], patience: int, select_by: str | None = None) -> None:
        self.metric = None if select_by is None else selecting(select_by, "class", "labels", "probabilities")
        self.nodes = torch.from_numpy(np.flatnonzero(y_validation != UNKNOWN))
        self.labels = torch.from_numpy(y_validation)[self.nodes]
        self.possible = len(self.nodes) > 0
        self.patience = self.left = patience
        self.best = (-math.inf, -math.inf)
        self.top_score, self.least_loss = -math.inf, math.inf

    @property
    def spent(self) -> bool:
        """Whether nothing has improved for so many predictions as patience allows."""
        return self.left <= 0

    def is_best(self, z: Tensor) -> bool:
        """Take note of class probabilities, up to a factor: whether they are the best so far, or equal to the best.

        Without validation nodes there is nothing to choose by, and the last prediction is the best.
        """
        if not self.possible:
            return True
        q = z[self.nodes]
        score = self.score(q)
        loss = float(F.nll_loss((q / q.sum(dim=1, keepdim=True)).log(), self.labels))
        improved = score > self.top_score or loss < self.least_loss
        self.left = self.patience if improved else self.left - 1
        self.top_score, self.least_loss = max(score, self.top_score), min(loss, self.least_loss)
        best = (score, -loss) >= self.best
        if best:
            self.best = (score, -loss)
        return best

    def score(self, q: Tensor) -> float:
        """The metric of class probabilities (validation nodes, classes), the higher the better."""
        if self.metric is None:
            return float((q.argmax(dim=1) == self.labels).float().mean())
        answers = q if self.metric.needs == "probabilities" else q.argmax(dim=1)
        return self.metric.gain(answers.numpy(), self.labels.numpy(), np.ones(len(q), dtype=bool))


def descend(
    network: nn.Module,
    loss: Callable[[], Tensor],
    predict: Callable[[], Tensor],
    optimiser: torch.optim.Optimizer,
    y_validation: NDArray[np.int64],
    epochs: int,
    patience: int,
    evaluate_every: int,
    select_by: str | None = None,
) -> None:
    """Train a network, and leave it with the weights of the best evaluation; without validation nodes, the last ones.

    `loss` and `predict` use the network. Training ends early when neither loss nor accuracy, or the metric that was
    asked for, has improved on validation nodes for `patience` epochs.
    """
    selection = Selection(y_validation, max(1, patience // evaluate_every), select_by)
    best: Weights | None = None
    for epoch in range(1, epochs + 1):
        take_step(optimiser, loss())
        if selection.possible and (epoch % evaluate_every == 0 or epoch == epochs):
            with torch.no_grad():
                if selection.is_best(predict()):
                    best = weights_of(network)
            if selection.spent:
                break
    if best is not None:
        network.load_state_dict(best)


def take_step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step along the gradient, which is shortened to length 1 where it is longer."""
    check_time()
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for group in optimiser.param_groups for p in group["params"]], 1.0)
    optimiser.step()


def weights_of(network: nn.Module) -> Weights:
    """A copy of the weights of a network."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def release(network: nn.Module) -> nn.Module:
    """The network as a fitted model keeps it: without gradients, which take as much memory as the weights."""
    for parameter in network.parameters():
        parameter.grad = None
    return network.requires_grad_(False)
