"""What a fit to tags says about itself: micro-F1 on validation labels, beside that of simpler answers.

Every answer has the threshold that suits it best on the same labels, so all are on the high side alike. The best
constant answer gives every node the same most frequent tags, as many of them as is best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpmsnc.estimators.report import ENOUGH
from dpmsnc.metrics import best_threshold, micro_f1

if TYPE_CHECKING:
    from dpmsnc.estimators.diffusion import DiffusionEstimator


@dataclass(frozen=True)
class TagReport:
    """What a fit to tags had and reached; micro-F1 is None where there are no validation labels.

    `str` gives it in a few lines, with the warnings that `fit` gives.
    """

    num_train: int
    num_validation: int
    constant: float | None = None
    """Micro-F1 of the best constant answer."""
    initialiser: float | None = None
    """Micro-F1 of the initialiser, given the training labels; None where there was none."""
    fitted: float | None = None
    """Micro-F1 of the fitted model, given the training labels."""
    threshold: float = 0.5
    """The probability above which a tag is answered."""
    choices: tuple[Mapping[str, Any], ...] = ()
    """The base models of the initialiser, with their weights."""

    @classmethod
    def of(cls, model: DiffusionEstimator) -> Self:
        """Of a model that was just fitted."""
        sizes = int(model.train_.sum()), int(model.validation_.sum())
        choices = tuple(model.history_.choices)
        if not sizes[1]:
            return cls(*sizes, choices=choices)
        y, asked, start = model.graph_.y, model.validation_, model.initialiser_proba_
        shares = np.broadcast_to(y[asked].mean(axis=0), y.shape)
        return cls(
            *sizes,
            constant=best_threshold(shares, y, asked)[1],
            initialiser=None if start is None else best_threshold(start, y, asked)[1],
            fitted=micro_f1(model._answer(model._asked(None, None, "train"), clamp_known=False), y, asked),
            threshold=model.threshold_,
            choices=choices,
        )

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the result and what to try, as far as validation labels are enough to say so."""
        if self.num_validation < ENOUGH or self.fitted is None or self.constant is None:
            return []
        if self.fitted > self.constant:
            return []
        return [
            f"The validation micro-F1 of {self.fitted:.1%} is no better than that of the same tags everywhere, "
            f"{self.constant:.1%}. Give more labels or features, or check that the edges mean something for the tags."
        ]

    def __str__(self) -> str:
        lines = [f"labels               {self.num_train} for training, {self.num_validation} for validation"]
        for name, value in (
            ("validation micro-F1", self.fitted),
            ("its initialiser", self.initialiser),
            ("same tags for all", self.constant),
        ):
            lines += [] if value is None else [f"{name:<21}{value:.1%}"]
        if self.fitted is not None:
            lines.append(f"{'threshold':<21}{self.threshold:.3f}")
        pooled = ", ".join(f"{choice['base']} ({choice['weight']:.2f})" for choice in self.choices)
        lines += [f"{'pooled':<21}{pooled}"] if pooled else []
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Self:
        """The report again, from what `dataclasses.asdict` made of it."""
        return cls(**{**values, "choices": tuple(dict(choice) for choice in values["choices"])})
