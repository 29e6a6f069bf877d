r"""How far answers are from true numbers, beside the best constant answer.

With truth y, answers p and the rows M that are asked for,

    MSE   mean of (p_i - y_i)^2,      MAE   mean of |p_i - y_i|,
    R^2   1 - MSE / (MSE of the mean of y over M).

The mean of the true numbers is what no method is told, so that a constant answer has an R^2 of 0 at best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.metrics import mae, mse, r2


@dataclass(frozen=True)
class NumberReport:
    """Answers against true numbers; `print` it."""

    num_rows: int
    """Nodes or edges that were asked for."""
    mse: float
    mae: float
    r2: float
    """NaN where all true numbers are equal."""
    mse_of_mean: float
    mae_of_mean: float
    on: Literal["node", "edge"] = "node"

    @classmethod
    def of(
        cls,
        predicted: NDArray[np.float64],
        truth: NDArray[np.float64],
        mask: NDArray[np.bool_],
        on: Literal["node", "edge"] = "node",
    ) -> Self:
        """From the numbers of all rows; those of the mask that have a true number are asked for."""
        asked = mask & ~np.isnan(truth)
        constant = np.full(len(truth), truth[asked].mean())
        errors: dict[str, Any] = {"mse": mse, "mae": mae, "r2": r2}
        found = {name: error(predicted, truth, asked) for name, error in errors.items()}
        mean = {f"{name}_of_mean": errors[name](constant, truth, asked) for name in ("mse", "mae")}
        return cls(int(asked.sum()), **found, **mean, on=on)

    @property
    def scores(self) -> dict[str, float]:
        """Metrics by name."""
        return {"mse": self.mse, "mae": self.mae, "r2": self.r2}

    def __str__(self) -> str:
        baseline = {"mse of the mean": self.mse_of_mean, "mae of the mean": self.mae_of_mean}
        lines = [f"{name:<26}{value:.6g}" for name, value in (self.scores | baseline).items()]
        return "\n".join([f"{self.on + 's':<26}{self.num_rows}", *lines])
