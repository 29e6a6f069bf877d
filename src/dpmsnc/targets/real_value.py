"""A number a row: the identity and squared errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import is_missing
from dpmsnc.targets.base import TARGETS, Place, Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@TARGETS.register("value")
@dataclass(frozen=True)
class RealValue(Target):
    """Every row has a number; a label is that number, NaN where it is unknown.

    Diffusion works on (number - shift) / scale, which `from_values` sets to the mean and spread of the known ones.

    Example:
        >>> target, labels = RealValue.from_values([1.0, None, 3.0], 3)
        >>> target.shift, target.scale, labels.tolist()
        (2.0, 1.0, [1.0, nan, 3.0])
    """

    shift: float = 0.0
    scale: float = 1.0
    on: Place = "node"

    kind: ClassVar[str] = "value"
    metric: ClassVar[str] = "mse"

    @classmethod
    def from_values(
        cls, values: Any, num_rows: int, names: Iterable[Any] | None = None
    ) -> tuple[RealValue, NDArray[np.float64]]:
        labels = cls().encode(values)
        if len(labels) != num_rows:
            raise InputError(f"{len(labels)} values for {num_rows} rows; pass one each, None where unknown")
        given = labels[~np.isnan(labels)]
        spread = float(given.std()) if len(given) else 0.0
        return cls(float(given.mean()) if len(given) else 0.0, spread or 1.0), labels

    @property
    def channels(self) -> int:
        return 1

    def encode(self, values: Any) -> NDArray[np.float64]:
        try:
            labels = np.array([np.nan if is_missing(value) else value for value in values], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"a real value must be a number ({error}); leave it blank where it is unknown") from error
        if labels.ndim != 1 or np.isinf(labels).any():
            raise InputError("real values are one finite number per row, blank where unknown")
        return labels

    def decode(self, labels: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(labels, dtype=np.float64)

    def unknown(self, num_rows: int) -> NDArray[np.float64]:
        return np.full(num_rows, np.nan)

    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        return ~np.isnan(labels)

    def field(self, labels: Tensor) -> Tensor:
        return ((labels.nan_to_num(self.shift) - self.shift) / self.scale).float().unsqueeze(-1)

    def nearest(self, field: Tensor) -> Tensor:
        return field.squeeze(-1).double() * self.scale + self.shift

    def link(self, output: Tensor) -> Tensor:
        return output

    def link_backward(self, grad: Tensor, mean: Tensor) -> Tensor:
        return grad

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return (output - y).square().sum(dim=-1)

    def sharpen(self, mean: Tensor, temperature: float) -> Tensor:
        return mean

    def draw(self, mean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        return self.nearest(mean).expand(count, -1)

    def perturb(self, mean: Tensor, uniform: Tensor, temperature: float) -> Tensor:
        return mean

    def confidence(self, mean: Tensor) -> Tensor:
        return mean.new_zeros(mean.shape[:-1])

    def information(self, mean: Tensor, average: Tensor) -> Tensor:
        return mean.new_ones(mean.shape[:-1])

    def skill(self, predicted: Tensor, labels: Tensor) -> float:
        error, spread = (predicted - labels).square().mean(), labels.var(correction=0)
        return max(0.0, 1 - (error / spread).item()) if spread > 0 else 0.0

    def distance(self, average: Tensor, expected: Tensor) -> float:
        return 0.0

    def marginals(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        return samples.mean(axis=0)[:, None]

    def certain(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        return labels[:, None]

    def mean_field(self, marginals: NDArray[np.float64]) -> NDArray[np.float32]:
        return ((marginals - self.shift) / self.scale).astype(np.float32)

    def of_mean_field(self, field: NDArray[np.floating]) -> NDArray[np.float64]:
        return field.astype(np.float64) * self.scale + self.shift

    def ignorance(self, num_rows: int) -> NDArray[np.float64]:
        return np.full((num_rows, 1), self.shift)

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        return {"value": labels, "mean of samples": marginals[:, 0]}
