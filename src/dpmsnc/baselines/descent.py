"""Descent on a loss, with the prediction kept that is best on validation nodes: the loop that several baselines share.

The best prediction is the most accurate one, of equals the one with the least loss. The original methods differ in
this (GRAND and G3NN keep the least validation loss); one rule for all that descend here makes their rows comparable.
(`GNN` keeps the first of equals.)
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dpmsnc.graph import UNKNOWN


class Selection:
    """Keeps the prediction that is best on validation nodes, by accuracy and then by loss, and says when to stop."""

    def __init__(self, y_validation: NDArray[np.int64], patience: int) -> None:
        self.nodes = torch.from_numpy(np.flatnonzero(y_validation != UNKNOWN))
        self.labels = torch.from_numpy(y_validation)[self.nodes]
        self.possible = len(self.nodes) > 0
        self.patience = self.left = patience
        self.best = (-1.0, -math.inf)
        self.top_accuracy, self.least_loss = -1.0, math.inf
        self.z: Tensor | None = None

    def goes_on(self, z: Tensor) -> bool:
        """Take note of this epoch's propagated probabilities; False once patience is spent."""
        q = z[self.nodes]
        accuracy = float((q.argmax(dim=1) == self.labels).float().mean())
        loss = float(F.nll_loss((q / q.sum(dim=1, keepdim=True)).log(), self.labels))
        improved = accuracy > self.top_accuracy or loss < self.least_loss
        self.left = self.patience if improved else self.left - 1
        self.top_accuracy, self.least_loss = max(accuracy, self.top_accuracy), min(loss, self.least_loss)
        if (accuracy, -loss) >= self.best:
            self.best, self.z = (accuracy, -loss), z
        return self.left > 0


def descend(
    loss: Callable[[], Tensor],
    predict: Callable[[], Tensor],
    optimiser: torch.optim.Optimizer,
    y_validation: NDArray[np.int64],
    epochs: int,
    patience: int,
    evaluate_every: int,
) -> NDArray[np.float64]:
    """The class probabilities of the best evaluation; without validation nodes, those of the last epoch.

    `loss` and `predict` use whatever the optimiser optimises. Training ends early when neither accuracy nor loss on
    validation nodes has improved for `patience` epochs.
    """
    selection = Selection(y_validation, max(1, patience // evaluate_every))
    for epoch in range(1, epochs + 1):
        take_step(optimiser, loss())
        if selection.possible and (epoch % evaluate_every == 0 or epoch == epochs):
            with torch.no_grad():
                goes_on = selection.goes_on(predict())
            if not goes_on:
                break
    if selection.z is None:
        with torch.no_grad():
            selection.z = predict()
    return selection.z.double().numpy()


def take_step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step along the gradient, which is shortened to length 1 where it is longer."""
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for group in optimiser.param_groups for p in group["params"]], 1.0)
    optimiser.step()
