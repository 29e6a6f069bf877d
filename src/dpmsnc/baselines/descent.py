"""Descent on a loss, with the prediction kept that is best on validation nodes: the loop that several baselines share.

The best prediction is the most accurate one, of equals the one with the least loss. The original methods differ in
this (GRAND and G3NN keep the least validation loss); one rule for all makes their rows comparable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines.pta import Selection


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
