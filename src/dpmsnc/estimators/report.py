"""What `fit` can say about itself: how many labels it had, what it chose, and whether it found anything.

Shares are of validation labels, with the 95 % interval of Wilson. The same labels chose the weights, so the accuracy is
on the high side; where even that is no better than always answering the most frequent class, a user should know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

ENOUGH = 10
"""Validation labels that it takes to warn: the interval of fewer includes almost anything."""
NORMAL_QUANTILE = 1.959964
"""Of 97.5 %, for intervals of 95 %."""
RUNNERS_UP = 2


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.of:
            raise ValueError(f"{self.count} of {self.of} is no share")

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the probability behind the share."""
        if not self.of:
            return 0.0, 1.0
        z2 = NORMAL_QUANTILE**2 / self.of
        middle = (self.value + z2 / 2) / (1 + z2)
        reach = (z2 * (self.value * (1 - self.value) + z2 / 4)) ** 0.5 / (1 + z2)
        return max(middle - reach, 0.0), min(middle + reach, 1.0)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:.1%} ({low:.1%} to {high:.1%})"


@dataclass(frozen=True)
class FitReport:
    """What a fit to classes had, chose and reached.

    `str` gives it in a few lines, with the warnings that `fit` gives.
    """

    num_train: int
    num_validation: int
    majority: Share
    """The most frequent class among validation labels."""
    initialiser: Share | None
    """Validation labels that the initialiser has right, given the training labels; None where there was none."""
    fitted: Share
    """Validation labels that the fitted model has right, given the training labels."""
    constant: bool
    """Whether every node without a training label is given the same class, though validation labels differ."""
    choices: tuple[Mapping[str, Any], ...] = ()
    """What was compared to choose the initialiser, the chosen one first: base, coupling, and the mean log-likelihood
    of labels that were not seen as score."""

    @classmethod
    def of(
        cls,
        y: NDArray[np.int64],
        train: NDArray[np.bool_],
        validation: NDArray[np.bool_],
        initialiser: NDArray[np.int64] | None,
        fitted: NDArray[np.int64],
        choices: list[dict[str, Any]],
    ) -> Self:
        """From labels, who has them, and what was answered for every node from training labels alone."""
        truth, size = y[validation], int(validation.sum())
        return cls(
            num_train=int(train.sum()),
            num_validation=size,
            majority=Share(int(np.bincount(truth, minlength=1).max()), size),
            initialiser=None if initialiser is None else Share(int((initialiser[validation] == truth).sum()), size),
            fitted=Share(int((fitted[validation] == truth).sum()), size),
            constant=len(np.unique(truth)) > 1 and len(np.unique(fitted[~train])) == 1,
            choices=tuple(choices),
        )

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the result and what to try, as far as validation labels are enough to say so."""
        if self.num_validation < ENOUGH:
            return []
        low, high = self.fitted.interval
        found = []
        if self.constant:
            found.append(
                "The model answers the same class everywhere. Give more labels of the other classes, or features that "
                "tell classes apart."
            )
        elif low <= self.majority.value:
            found.append(
                f"The validation accuracy of {self.fitted} cannot be told from that of always answering the most "
                f"frequent class, {self.majority.value:.1%}. Give more labels or features, check that the edges mean "
                "something for the labels, or try another backbone."
            )
        first = None if self.initialiser is None else self.initialiser.value
        if first is not None and high < first and self.fitted.value < first:  # intervals are rounded
            found.append(
                f"The validation accuracy of {self.fitted} is below that of the initialiser, "
                f"{first:.1%}. Train for more steps or with another backbone, or use the initialiser "
                "alone."
            )
        return found

    def __str__(self) -> str:
        lines = [f"labels               {self.num_train} for training, {self.num_validation} for validation"]
        if self.num_validation:
            lines += [
                f"validation accuracy  {self.fitted}, with 95 % interval",
                *([] if self.initialiser is None else [f"its initialiser      {self.initialiser}"]),
                f"most frequent class  {self.majority.value:.1%}",
            ]
        for role, choice in zip(["chosen", *["runner-up"] * RUNNERS_UP], self.choices):
            lines.append(f"{role:<21}{described(choice)}")
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Self:
        """The report again, from what `dataclasses.asdict` made of it."""
        shares = {name: values[name] and Share(**values[name]) for name in ("majority", "initialiser", "fitted")}
        return cls(**{**values, **shares, "choices": tuple(dict(choice) for choice in values["choices"])})


def described(choice: Mapping[str, Any]) -> str:
    """A candidate for the initialiser in words."""
    coupling = {
        "none": "no coupling",
        "one": "one coupling",
        "balanced": "balanced couplings",
        "full": "a matrix of couplings",
        None: "not tried with couplings",
    }[choice["coupling"]]
    return f"{choice['base']}, {coupling}: {choice['score']:.3f} nats a label"
