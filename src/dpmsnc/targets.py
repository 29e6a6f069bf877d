r"""What a label is and where it lives: one class, several tags or a real value, on nodes or on edges.

A label has four forms, and a target goes between them. A row is a node or an edge, y a row of a label field:

    value    what a user writes: "red", {"a", "b"}, 3.5; None where it is unknown
    label    what is stored and compared: an index into the classes, 0/1 for every tag, a number; or unknown
    field    what diffusion works on, shaped (..., channels): a one-hot vector, 0/1 for every tag, the number itself
    output   what a network gives, of the shape of a field; `link` maps it to E[y]: softmax, sigmoid, identity

The loss of an output is minus the log-likelihood of y under the link, up to a constant.

Networks, samplers and training know fields and outputs and nothing else, so a new kind of target is a subclass of
`Target` that is registered in `TARGETS`. Labels are numpy arrays on graphs and torch tensors of the same values here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN
from dpmsnc.graph.clean import clean_labels, encode_labels, is_missing, label_values, short_list
from dpmsnc.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Place = Literal["node", "edge"]
LEAST = 1e-9
"""Probabilities below count as this when their logarithm is taken."""
TARGETS: Registry[type[Target]] = Registry("kind of target")


@dataclass(frozen=True)
class Target(ABC):
    """What one label is. Fields are what it takes to describe it: JSON values, or tuples of them."""

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
    def channels(self) -> int:
        """Channels of a label field."""
        return len(self.names)

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

    @abstractmethod
    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        """A table of answers: columns by name, from predicted labels and marginals."""

    def describe(self) -> dict[str, Any]:
        """The target in JSON's own types; `target_from` reads it."""
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }


def target_from(description: Mapping[str, Any]) -> Target:
    """The target that `Target.describe` described."""
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in description.items() if name != "kind"}
    return TARGETS.find(str(description.get("kind")))(**fields)


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

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        logs = np.log(marginals, out=np.zeros_like(marginals), where=marginals > 0)
        return {
            "label": self.decode(labels),
            "probability": marginals[np.arange(len(labels)), labels].round(6),
            "entropy": np.abs((marginals * logs).sum(axis=1)).round(6),
        }


@TARGETS.register("tags")
@dataclass(frozen=True)
class Tags(Target):
    """Every row has any number of tags; a label is a row of 0/1 with a column per tag, all -1 where it is unknown.

    A value is a collection of tag names, a row of 0/1, or None; a matrix of 0/1 has a row per value.

    Example:
        >>> target, labels = Tags.from_values([{"a", "b"}, None, set()], 3)
        >>> target.tags, labels.tolist(), target.decode(labels).tolist()
        (('a', 'b'), [[1, 1], [-1, -1], [0, 0]], [('a', 'b'), None, ()])
    """

    tags: tuple[Any, ...] = ()
    on: Place = "node"

    kind: ClassVar[str] = "tags"
    metric: ClassVar[str] = "micro_f1"

    @classmethod
    def from_values(
        cls, values: Any, num_rows: int, names: Iterable[Any] | None = None
    ) -> tuple[Tags, NDArray[np.int64]]:
        if names is None:
            if getattr(values, "ndim", 1) == 2:
                names = range(values.shape[1])
            else:
                present = {tag for value in values if not is_missing(value) for tag in _collection(value)}
                names = sorted(present, key=lambda tag: (type(tag).__name__, tag))
        target = cls(tuple(names))
        labels = target.encode(values)
        if len(labels) != num_rows:
            raise InputError(f"{len(labels)} rows of tags for {num_rows} rows; pass one each, None where unknown")
        return target, labels

    @property
    def names(self) -> tuple[Any, ...]:
        return self.tags

    def encode(self, values: Any) -> NDArray[np.int64]:
        if getattr(values, "ndim", 1) == 2:
            return self._matrix(np.asarray(values))
        position = {tag: k for k, tag in enumerate(self.tags)}
        labels = self.unknown(len(values))
        for row, value in enumerate(values):
            if is_missing(value):
                continue
            found = list(_collection(value))
            if strange := [tag for tag in found if tag not in position]:
                raise InputError(f"unknown tags {short_list(strange)}; the tags are {short_list(self.tags)}")
            labels[row] = 0
            labels[row, [position[tag] for tag in found]] = 1
        return labels

    def _matrix(self, values: NDArray[Any]) -> NDArray[np.int64]:
        unknown = (values != values) | (values == UNKNOWN)
        if values.shape[1] != self.channels or not np.isin(values[~unknown], (0, 1)).all():
            raise InputError(f"a matrix of tags has {self.channels} columns of 0 and 1, with NaN or -1 where unknown")
        labels = np.where(unknown, 0, values).astype(np.int64)
        labels[unknown.any(axis=1)] = UNKNOWN
        return labels

    def decode(self, labels: ArrayLike) -> NDArray[np.object_]:
        labels = np.asarray(labels)
        rows = labels.reshape(-1, self.channels)
        values = [None if (row == UNKNOWN).any() else tuple(self.tags[k] for k in np.flatnonzero(row)) for row in rows]
        return np.fromiter(values, dtype=object, count=len(values)).reshape(labels.shape[:-1])

    def unknown(self, num_rows: int) -> NDArray[np.int64]:
        return np.full((num_rows, self.channels), UNKNOWN, dtype=np.int64)

    def known(self, labels: NDArray[Any]) -> NDArray[np.bool_]:
        return (labels != UNKNOWN).all(axis=-1)

    def field(self, labels: Tensor) -> Tensor:
        return labels.clamp_min(0).float()

    def nearest(self, field: Tensor) -> Tensor:
        return (field > 0.5).long()

    def link(self, output: Tensor) -> Tensor:
        return output.sigmoid()

    def link_backward(self, grad: Tensor, mean: Tensor) -> Tensor:
        return grad * mean * (1 - mean)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        return (softplus(output) - y * output).sum(dim=-1)

    def sharpen(self, mean: Tensor, temperature: float) -> Tensor:
        return mean.logit(eps=LEAST).div(temperature).sigmoid()

    def draw(self, mean: Tensor, count: int, generator: torch.Generator) -> Tensor:
        return mean.expand(count, *mean.shape).bernoulli(generator=generator).long()

    def perturb(self, mean: Tensor, uniform: Tensor, temperature: float) -> Tensor:
        return (mean.logit(eps=LEAST) + temperature * uniform.logit(eps=LEAST)).sigmoid()

    def confidence(self, mean: Tensor) -> Tensor:
        return mean.maximum(1 - mean).mean(dim=-1)

    def information(self, mean: Tensor, average: Tensor) -> Tensor:
        certain = (mean > average).to(mean.dtype)
        return ((mean - average).abs() / (certain - average).abs().clamp_min(1e-6)).mean(dim=-1).clamp(0, 1)

    def skill(self, predicted: Tensor, labels: Tensor) -> float:
        wrong = (predicted != labels).double().mean().item()
        share = labels.double().mean(dim=0)
        guess = share.minimum(1 - share).mean().item()
        return max(0.0, 1 - wrong / guess) if guess > 0 else 0.0

    def distance(self, average: Tensor, expected: Tensor) -> float:
        return (average - expected).abs().mean().item()

    def marginals(self, samples: NDArray[Any]) -> NDArray[np.float64]:
        return (samples.sum(axis=0) + 0.5) / (len(samples) + 1)

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        return {str(tag): labels[:, k] for k, tag in enumerate(self.tags)} | {
            f"probability of {tag}": marginals[:, k].round(6) for k, tag in enumerate(self.tags)
        }


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

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        return {"value": labels, "mean of samples": marginals[:, 0]}


def _collection(value: Any) -> Iterable[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"tags of a row are a collection such as ['a', 'b'], not {value!r}")
    return value
