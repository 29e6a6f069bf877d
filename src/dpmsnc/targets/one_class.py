"""One class a row: softmax and cross-entropy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN
from dpmsnc.graph.clean import clean_labels, encode_labels, label_values
from dpmsnc.targets.base import LEAST, TARGETS, Place, Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@TARGETS.register("class")
@dataclass(frozen=True)
class OneClass(Target):
    """Every row has one class; a label is its index in `classes`, -1 where it is unknown.

    Example:
        >>> target, labels = OneClass.from_values(["red", None, "blue"], 3)
        >>> target.classes, labels.tolist(), target.decode([0, -1]).tolist()
        (('blue', 'red'), [1, -1, 0], ['blue', None])
    """

    classes: tuple[Any, ...] = ()
    on: Place = "node"

    kind: ClassVar[str] = "class"
    metric: ClassVar[str] = "accuracy"

    @classmethod
    def from_values(
        cls, values: Any, num_rows: int, names: Iterable[Any] | None = None
    ) -> tuple[OneClass, NDArray[np.int64]]:
        labels, classes = clean_labels(values, num_rows, None if names is None else list(names))
        return cls(classes), labels

    @property
    def names(self) -> tuple[Any, ...]:
        return self.classes

    @property
    def channels(self) -> int:
        return len(self.classes)

    def encode(self, values: Any) -> NDArray[np.int64]:
        return encode_labels(label_values(values, self.classes), self.classes)

    def decode(self, labels: ArrayLike) -> NDArray[np.object_]:
        names = np.empty(self.channels + 1, dtype=object)
        names[: self.channels] = np.fromiter(self.classes, dtype=object, count=self.channels)
        labels = np.asarray(labels, dtype=np.int64)
        if labels.size and not (labels.min() >= UNKNOWN and labels.max() < self.channels):
            raise InputError(f"class indices run from 0 to {self.channels - 1}, with {UNKNOWN} for unknown")
        return np.asarray(names[labels], dtype=object)

    def unknown(self, num_rows: int) -> NDArray[np.int64]:
        return np.full(num_rows, UNKNOWN, dtype=np.int64)

    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        return labels != UNKNOWN

    def check_trainable(self, labels: NDArray[Any]) -> None:
        if len(present := np.unique(labels)) == 1:
            raise InputError(
                f"every known label is {self.classes[present[0]]!r}; label at least one node of another class "
                "(if -1 is one of your classes, list it in classes=, since -1 otherwise means unknown)"
            )

    def field(self, labels: Tensor) -> Tensor:
        from torch.nn.functional import one_hot

        return one_hot(labels.clamp_min(0), self.channels).float()

    def nearest(self, field: Tensor) -> Tensor:
        return field.argmax(dim=-1)

    def link(self, output: Tensor) -> Tensor:
        return output.softmax(dim=-1)

    def link_backward(self, grad: Tensor, mean: Tensor) -> Tensor:
        return mean * (grad - (grad * mean).sum(dim=-1, keepdim=True))

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        return -(y * output.log_softmax(dim=-1)).sum(dim=-1)

    def sharpen(self, mean: Tensor, temperature: float) -> Tensor:
        return mean.clamp_min(LEAST).log().div(temperature).softmax(dim=-1)

    def draw(self, mean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        return mean.multinomial(count, replacement=True, generator=generator).T

    def perturb(self, mean: Tensor, uniform: Tensor, temperature: float) -> Tensor:
        gumbel = -(-uniform.log()).clamp_min(1e-30).log()
        return mean.clamp_min(1e-30).log() + temperature * gumbel

    def confidence(self, mean: Tensor) -> Tensor:
        return mean.amax(dim=-1)

    def information(self, mean: Tensor, average: Tensor) -> Tensor:
        distance = (mean - average).abs().sum(dim=-1) / 2  # in total variation, which is 1 - average[c] from certainty
        return (distance / (1 - average[mean.argmax(dim=-1)]).clamp_min(1e-6)).clamp(0, 1)

    def skill(self, predicted: Tensor, labels: Tensor) -> float:
        accuracy = (predicted == labels).double().mean().item()
        guess = labels.bincount().max().item() / len(labels)
        return max(0.0, (accuracy - guess) / (1 - guess)) if guess < 1 else 0.0

    # bincount and scatter_add: the one-hot vectors of all nodes would take more memory than training

    def average(self, labels: Tensor) -> Tensor:
        counts = labels.bincount(minlength=self.channels).double()
        return counts / counts.sum().clamp_min(1)

    def add_field(self, total: Tensor, labels: Tensor) -> None:
        total.scatter_add_(1, labels.unsqueeze(1), total.new_ones(len(labels), 1))

    def balance(self, labels: Tensor) -> list[int] | None:
        return labels.bincount(minlength=self.channels).tolist()

    def distance(self, average: Tensor, expected: Tensor) -> float:
        return (average - expected).abs().sum().item() / 2

    def marginals(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        # half a count more for every class, so that none is impossible because few samples were drawn
        counts = np.stack([(samples == c).sum(axis=0) for c in range(self.channels)], axis=1) + 0.5
        return counts / counts.sum(axis=1, keepdims=True)

    def ignorance(self, num_rows: int) -> NDArray[np.float64]:
        return np.full((num_rows, self.channels), 1 / self.channels)

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        logs = np.log(marginals, out=np.zeros_like(marginals), where=marginals > 0)
        return {
            "label": self.decode(labels),
            "probability": marginals[np.arange(len(labels)), labels].round(6),
            "entropy": np.abs((marginals * logs).sum(axis=1)).round(6),
        }
