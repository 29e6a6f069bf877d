"""Several tags a row: a sigmoid and the binary cross-entropy of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN
from dpmsnc.graph.clean import is_missing, short_list
from dpmsnc.targets.base import LEAST, TARGETS, Place, Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor


OTHER_COLUMNS = ("graph", "id", "label", "known")
"""What a table of answers has beside the columns of tags; a tag of that name has a column such as "tag label"."""


@TARGETS.register("tags")
@dataclass(frozen=True)
class Tags(Target):
    """Every row has any number of tags; a label is a row of 0/1 with a column per tag, all -1 where it is unknown.

    A value is a collection of tag names, or None; values may also come as a matrix of 0/1 with a row each.

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
                if (
                    present
                    and present <= {0, 1}
                    and not all(isinstance(v, (set, frozenset)) or is_missing(v) or not len(v) for v in values)
                ):
                    raise InputError("lists of 0 and 1: pass a matrix, np.array(y), or sets of tags that are called so")
        target = cls(tuple(names))
        labels = target.encode(values)
        if len(labels) != num_rows:
            raise InputError(f"{len(labels)} rows of tags for {num_rows} rows; pass one each, None where unknown")
        return target, labels

    @property
    def names(self) -> tuple[Any, ...]:
        return self.tags

    @property
    def channels(self) -> int:
        return len(self.tags)

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

    def ignorance(self, num_rows: int) -> NDArray[np.float64]:
        return np.full((num_rows, self.channels), 0.5)

    def columns(self, labels: NDArray[Any], marginals: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        probabilities = {f"probability of {tag}": marginals[:, k].round(6) for k, tag in enumerate(self.tags)}
        names = _column_names(list(map(str, self.tags)), {*OTHER_COLUMNS, *probabilities})
        return {name: labels[:, k] for k, name in enumerate(names)} | probabilities


def _column_names(tags: list[str], taken: set[str]) -> list[str]:
    """A name for the column of every tag: its own, or with "tag " before it where another column has that."""
    names = []
    for tag in tags:
        name = tag
        while name in taken or (name != tag and name in tags):
            name = f"tag {name}"
        names.append(name)
    return names


def _collection(value: Any) -> Iterable[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"tags of a row are a collection such as ['a', 'b'], not {value!r}")
    return value
