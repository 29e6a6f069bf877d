"""What a fit to numbers says about itself: R^2 on validation numbers, beside that of its Gaussian model alone.

Validation numbers chose the weights of the network, so its R^2 is on the high side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpmsnc.config import check_number
from dpmsnc.estimators.report import ENOUGH
from dpmsnc.metrics import r2

WORSE, LITTLE = 1.25, 0.01
"""What is left of the variance may be so many times as much, and so much more, as the Gaussian model leaves, without a
warning."""

if TYPE_CHECKING:
    from dpmsnc.estimators.diffusion import DiffusionEstimator


@dataclass(frozen=True)
class ValueReport:
    """What a fit to numbers had and reached; R^2 is None where there are no validation numbers, or they are equal.

    `str` gives it in a few lines, with the warnings that `fit` gives.
    """

    num_train: int
    num_validation: int
    r2: float | None = None
    """Of the fitted model, given the training numbers; the mean of the validation numbers has 0."""
    gaussian: float | None = None
    """Of what the Gaussian model says alone: linear in features, plus a field on the graph."""

    @classmethod
    def of(cls, model: DiffusionEstimator) -> Self:
        """Of a model that was just fitted."""
        sizes = int(model.train_.sum()), int(model.validation_.sum())
        if not sizes[1]:
            return cls(*sizes)
        y, asked = model.graph_.y, model.validation_
        given = model._asked(None, None, "train")
        answer = model._answer(given, clamp_known=False)
        said = np.broadcast_to(model._said(given), y.shape)
        found = (r2(numbers, y, asked) for numbers in (answer, said))
        return cls(*sizes, *(None if np.isnan(value) else value for value in found))

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the result and what to try, as far as validation numbers are enough to say so."""
        if self.num_validation < ENOUGH or self.r2 is None:
            return []
        if self.r2 <= 0 and (self.gaussian is None or self.gaussian <= 0):
            return [
                f"The validation R^2 is {self.r2:.3f}: the answers are no better than the mean. Give more numbers or "
                "features, or check that the edges mean something for the numbers."
            ]
        if self.gaussian is not None and 1 - self.r2 > WORSE * (1 - self.gaussian) + LITTLE:
            return [
                f"The validation R^2 of {self.r2:.3f} is below that of the Gaussian model that it begins with, "
                f"{self.gaussian:.3f}. Train for more steps, or with a smaller learning rate."
            ]
        return []

    def __str__(self) -> str:
        lines = [f"numbers              {self.num_train} for training, {self.num_validation} for validation"]
        for name, value in (("validation R^2", self.r2), ("its Gaussian model", self.gaussian)):
            lines += [] if value is None else [f"{name:<21}{value:.3f}"]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Self:
        """The report again, from what `dataclasses.asdict` made of it."""
        report = cls(**values)
        for name in ("r2", "gaussian"):
            if (value := getattr(report, name)) is not None:
                check_number(name, value, -inf, 1)
        for name in ("num_train", "num_validation"):
            check_number(name, getattr(report, name), 0, whole=True)
        return report
