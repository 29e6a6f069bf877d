r"""A task with many right answers: one perfect matching of a graph, whichever.

A matching M is drawn uniformly, and every other pair of nodes is joined with probability 1/2. All perfect matchings of
the graph G are then equally likely to be the one that it was made from,

    p(M | G) proportional to p(G | M) p(M) = the same for all M within G,

so a learner that knows G is left with the uniform distribution over its perfect matchings. Their mean is none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.reasoning.scoring import StreamedTask
from dpmsnc.reasoning.tasks import Groups, generator

SIZES = (4, 6, 8)
"""Nodes of a graph to learn from."""
TESTED = {8: "", 10: "_large"}
"""Sizes that are asked about, and how their metrics end."""
JOINED = 0.5
GRAPHS = 256


def matchings(count: int, n: int, generator: torch.Generator) -> Tensor:
    """Perfect matchings at random as matrices (count, n, n) of 0 and 1: neighbours in a random order of the nodes."""
    order = torch.rand(count, n, generator=generator).argsort(dim=1)
    first, second = order[:, ::2], order[:, 1::2]
    y = torch.zeros(count, n, n)
    graph = torch.arange(count).unsqueeze(1)
    y[graph, first, second] = y[graph, second, first] = 1.0
    return y


def draw(count: int, n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Graphs, and one perfect matching of each, both (count, n, n)."""
    y = matchings(count, n, generator)
    others = (torch.rand(count, n, n, generator=generator) < JOINED).float().triu(1)
    return torch.maximum(y, others + others.mT), y


def valid(attributes: Any, answers: Any) -> NDArray[np.bool_]:
    """Which answers (..., n, n) are perfect matchings of their graphs, once they are rounded."""
    y = np.asarray(answers) > 0.5
    symmetric = (y == y.swapaxes(-1, -2)).all(axis=(-1, -2))
    within = ~(y & (np.asarray(attributes) < 0.5)).any(axis=(-1, -2))
    return symmetric & within & (y.sum(axis=-1) == 1).all(axis=-1)


@dataclass(frozen=True)
class MatchingStream:
    """Graphs with one of their perfect matchings, for `EdgeRegressor.fit`."""

    seed: int = 0
    num_validation: int = 256

    def generator(self) -> torch.Generator:
        return generator(self.seed, "train")

    def draw(self, count: int, generator: torch.Generator) -> Groups:
        drawn = torch.randint(len(SIZES), (count,), generator=generator).bincount(minlength=len(SIZES)).tolist()
        return [draw(number, n, generator) for n, number in zip(SIZES, drawn) if number]

    def validation(self) -> Groups:
        return [draw(self.num_validation, SIZES[-1], generator(self.seed, "validation", SIZES[-1]))]


@dataclass(frozen=True)
class MatchingTask(StreamedTask):
    """How many answers are perfect matchings: single samples, and predictions, both rounded."""

    most_graphs: int = GRAPHS

    @property
    def stream(self) -> Any:
        return MatchingStream(self.seed)

    def scores(self, model: Any) -> dict[str, float]:
        found: dict[str, float] = {}
        for n, end in TESTED.items():
            attributes, y = draw(self.most_graphs, n, generator(self.seed, "test", n))
            answer, (sample,) = model.predict(attributes), model.sample(1, attributes)
            found |= {f"mse{end}": float(np.square(answer - y.numpy()).mean())}
            found |= {f"valid_answer{end}": float(valid(attributes, answer).mean())}
            found |= {f"valid_sample{end}": float(valid(attributes, sample).mean())}
        return {name: round(value, 6) for name, value in found.items()}
