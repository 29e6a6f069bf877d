r"""What a Gaussian model says of numbers; diffusion models the rest.

A number is y = m + u + rest, with m linear in features (`linear_part`) and u a field on the graph (`field_part`). Where
a number is known, m and u are what is said of it without it: by fits and folds that leave it out. So what is left of
known numbers is like what is left of unknown ones. Diffusion models (y - m - u) / s, s being its deviation. Where the
field leaves less without features, m is the mean.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import LARGEST_SEED, check_number
from dpmsnc.errors import InputError
from dpmsnc.estimators.field_part import FieldPart
from dpmsnc.estimators.linear_part import LinearPart
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.targets import RealValue
from dpmsnc.targets.base import Place

SMALLEST, LARGEST = 1e-100, 1e100
"""Between these has to be the largest number, so that squares can be computed."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NumberModel:
    """The Gaussian model of numbers, fitted."""

    linear: LinearPart
    field: FieldPart | None
    spread: float
    """s."""
    seed: int

    @classmethod
    def of(cls, graph: Graph, features: Features, y_train: Array, seed: int = 0) -> Self | None:
        """The model of training numbers (rows,), NaN elsewhere; None where there is none."""
        known = ~np.isnan(y_train)
        if not known.any():
            return None
        largest = float(np.abs(y_train[known]).max())
        if largest and not SMALLEST < largest < LARGEST:
            raise InputError(f"numbers up to {largest:.3g} are out of range; give them in another unit")
        both = LinearPart.of(graph, features, y_train, seed), LinearPart.constant(graph, features, y_train)
        found = []
        for linear in both[: 2 if both[0].weight.any() else 1]:
            left = y_train - linear.unseen
            field = FieldPart.of(graph, left, seed)
            rest = (left if field is None else left - field.at(graph, left, seed))[known]
            found.append((float(np.sqrt(np.square(rest).mean())), linear, field))
        spread, linear, field = min(found, key=lambda one: one[0])
        tiny = max(1e-9 * float(y_train[known].std()), 1e-13 * largest)
        return cls(linear, field, max(spread, tiny) or 1.0, seed)

    def at(self, graph: Graph, features: Features, y: Array, is_fitted: bool) -> Array:
        """m + u of every row of a graph, given its known numbers (rows,), NaN elsewhere."""
        m = self.linear.at(graph, features, is_fitted)
        return m if self.field is None else m + self.field.at(graph, y - m, self.seed)

    def target(self, on: Place) -> RealValue:
        """What is left of numbers."""
        return RealValue(0.0, self.spread, on)

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays, and values that JSON can hold, which `from_state` reads."""
        field = None if self.field is None else asdict(self.field)
        return self.linear.state(), {"field": field, "spread": self.spread, "seed": self.seed}

    @classmethod
    def from_state(cls, arrays: dict[str, Array], values: dict[str, Any], graph: Graph, features: Features) -> Self:
        """What `state` gave, for the graph that was fitted; `ValueError` where it does not fit."""
        linear = LinearPart.from_state(arrays, graph, features)
        field = None if values["field"] is None else FieldPart(**values["field"])
        if not 0 < values["spread"] < np.inf:
            raise ValueError("what is left of its numbers has no deviation")
        check_number("seed", values["seed"], 0, LARGEST_SEED, whole=True)
        return cls(linear, field, values["spread"], values["seed"])
