r"""What a label is and where it lives: one class, several tags or a real value, on nodes or on edges.

A label has four forms, and a target goes between them. A row is a node or an edge, y a row of a label field:

    value    what a user writes: "red", {"a", "b"}, 3.5; None where it is unknown
    label    what is stored and compared: an index into the classes, 0/1 for every tag, a number; or unknown
    field    what diffusion works on, shaped (..., channels): a one-hot vector, 0/1 for every tag, the number itself
    output   what a network gives, of the shape of a field; `link` maps it to E[y]: softmax, sigmoid, identity

The loss of an output is minus the log-likelihood of y under the link, up to a constant.

Networks, samplers and training know fields and outputs and nothing else, so a new kind of target is a subclass of
`Target` that is registered in `TARGETS`, here or outside the package. Labels are numpy arrays on graphs, and torch
tensors of the same values elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Place = Literal["node", "edge"]
LEAST = 1e-9
"""Probabilities below count as this when their logarithm is taken."""
TARGETS: Registry[type[Target]] = Registry("kind of target")


class Target(ABC):
    """What one label is. A subclass is a frozen dataclass; its fields describe it in JSON values, or tuples of them."""

    on: Place
    """Whether nodes or edges carry the label."""
    kind: ClassVar[str]
    metric: ClassVar[str]
    """The metric that selects weights unless another is asked for, a key of `dpmsnc.metrics.METRICS`."""

    @classmethod
    @abstractmethod
    def from_values(cls, values: Any, num_rows: int, names: Iterable[Any] | None = None) -> tuple[Target, NDArray[Any]]:
        """The target of such values, one per row, and their labels; `names` lists classes or tags in order."""

    @property
    def names(self) -> tuple[Any, ...]:
        """What the channels are called: classes or tags; nothing where they have no names."""
        return ()

    @property
    @abstractmethod
    def channels(self) -> int:
        """Channels of a label field."""

    @abstractmethod
    def encode(self, values: Any) -> NDArray[Any]:
        """Values to labels."""

    @abstractmethod
    def decode(self, labels: ArrayLike) -> NDArray[Any]:
        """Labels to values, None where one is unknown; leading axes stay as they are."""

    @abstractmethod
    def unknown(self, num_rows: int) -> NDArray[Any]:
        """Labels of which none is known."""

    @abstractmethod
    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows have a label."""

    def check_trainable(self, labels: NDArray[Any]) -> None:  # noqa: B027 (most have nothing to check)
        """Raise `InputError` where known labels leave nothing to learn."""

    @abstractmethod
    def field(self, labels: Tensor) -> Tensor:
        """The field of labels in float32; of an unknown one, anything finite."""

    @abstractmethod
    def nearest(self, field: Tensor) -> Tensor:
        """The labels that a field is nearest to."""

    @abstractmethod
    def link(self, output: Tensor) -> Tensor:
        """E[y] from the output of a network."""

    @abstractmethod
    def link_backward(self, grad: Tensor, mean: Tensor) -> Tensor:
        """The gradient by the output from the gradient by `mean` = link(output)."""

    @abstractmethod
    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """The loss of an output where the field is y, summed over channels."""

    @abstractmethod
    def sharpen(self, mean: Tensor, temperature: float) -> Tensor:
        """Mean-field probabilities raised to 1 / temperature."""

    @abstractmethod
    def draw(self, mean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Labels (count, rows, ...), each drawn on its own from mean-field probabilities (rows, channels)."""

    @abstractmethod
    def perturb(self, mean: Tensor, uniform: Tensor, temperature: float) -> Tensor:
        """A field whose nearest labels are drawn from mean^(1 / temperature), given uniform numbers of its shape."""

    @abstractmethod
    def confidence(self, mean: Tensor) -> Tensor:
        """How sure mean-field probabilities (..., channels) are of their most probable label, from 0 to 1."""

    @abstractmethod
    def information(self, mean: Tensor, average: Tensor) -> Tensor:
        """How much mean-field probabilities say beyond the average of all: 0 if nothing, 1 if they are certain."""

    @abstractmethod
    def skill(self, predicted: Tensor, labels: Tensor) -> float:
        """How much better than the best constant answer predicted labels are: 0 if no better, 1 if all are right."""

    def average(self, labels: Tensor) -> Tensor:
        """Mean of the field over rows, in double precision."""
        return self.field(labels).double().mean(dim=0)

    def add_field(self, total: Tensor, labels: Tensor) -> None:
        """Add the field of labels to `total` in place."""
        total.add_(self.field(labels))

    def balance(self, labels: Tensor) -> list[int] | None:
        """How many labels there are of every class; None where there are no classes."""
        return None

    @abstractmethod
    def distance(self, average: Tensor, expected: Tensor) -> float:
        """How far the average of a labelling lies from the expected one, from 0 to 1."""

    @abstractmethod
    def marginals(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        """Mean-field probabilities (rows, channels) from joint samples (samples, rows, ...) of labels."""

    def certain(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """What `marginals` would be of labels (rows, ...) that are sure."""
        import torch

        return self.field(torch.from_numpy(labels)).double().numpy()

    def mean_field(self, marginals: NDArray[np.float64]) -> NDArray[np.float32]:
        """Marginals as a field, which an initialiser's answer becomes."""
        return marginals.astype(np.float32)

    def of_mean_field(self, field: NDArray[np.floating]) -> NDArray[np.float64]:
        """Marginals from a field, the inverse of `mean_field`."""
        return field.astype(np.float64)

    @abstractmethod
    def ignorance(self, num_rows: int) -> NDArray[np.float64]:
        """Marginals of somebody who knows nothing."""

    @abstractmethod
    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """A table of answers: columns by name, from predicted labels and marginals."""

    def describe(self) -> dict[str, Any]:
        """The target in JSON's own types; `target_from` reads it."""
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()  # type: ignore[call-overload]
        }


def target_from(description: Mapping[str, Any]) -> Target:
    """The target that `Target.describe` described."""
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in description.items() if name != "kind"}
    return TARGETS.find(str(description.get("kind")))(**fields)
