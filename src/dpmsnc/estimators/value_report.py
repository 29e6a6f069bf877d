"""What a fit to numbers says about itself: R^2 on validation numbers, beside that of its linear part alone.

Validation numbers chose the weights of the network, so its R^2 is on the high side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from dpmsnc.estimators.report import ENOUGH
from dpmsnc.metrics import r2

if TYPE_CHECKING:
    from dpmsnc.estimators.diffusion import DiffusionEstimator


@dataclass(frozen=True)
class ValueReport:
    """What a fit to numbers had and reached; R^2 is None where there are no validation numbers.

    `str` gives it in a few lines, with the warnings that `fit` gives.
    """

    num_train: int
    num_validation: int
    r2: float | None = None
    """Of the fitted model, given the training numbers; the mean of the validation numbers has 0."""
    linear: float | None = None
    """Of the linear model alone; None where there is none."""

    @classmethod
    def of(cls, model: DiffusionEstimator) -> Self:
        """Of a model that was just fitted."""
        sizes = int(model.train_.sum()), int(model.validation_.sum())
        if not sizes[1]:
            return cls(*sizes)
        y, asked = model.graph_.y, model.validation_
        answer = model._answer(model._asked(None, None, "train"), clamp_known=False)
        linear = None if model.linear_ is None else r2(model.linear_.unseen, y, asked)
        return cls(*sizes, r2(answer, y, asked), linear)

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the result and what to try, as far as validation numbers are enough to say so."""
        if self.num_validation < ENOUGH or self.r2 is None or self.r2 > 0:
            return []
        return [
            f"The validation R^2 is {self.r2:.3f}: the answers are no better than the mean. Give more numbers or "
            "features, or check that the edges mean something for the numbers."
        ]

    def __str__(self) -> str:
        lines = [f"numbers              {self.num_train} for training, {self.num_validation} for validation"]
        for name, value in (("validation R^2", self.r2), ("its linear part", self.linear)):
            lines += [] if value is None else [f"{name:<21}{value:.3f}"]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Self:
        """The report again, from what `dataclasses.asdict` made of it."""
        return cls(**values)
