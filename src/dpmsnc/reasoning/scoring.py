"""How a method of table 5 is scored: the mean squared error on test graphs that no method was fitted to.

The error of a graph is the mean over all its n^2 edges; a size has the mean over graphs, with its standard error. All
methods are asked about the same graphs of a seed. Where an answer is the mean of samples, which cost much, fewer graphs
are asked about. `trajectory` is what a reverse process estimates on the way for the first test graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmsnc.reasoning.tasks import TASKS, TaskStream, generator

SAME, LARGE = 10, 15
NAMES = {SAME: "mse", LARGE: "mse_large"}
"""Metrics of the sizes that the paper has; those of others are called after the size."""
GRAPHS, GRAPHS_SAMPLED = 2048, 512
BEYOND = {20: 128, 30: 64, 50: 16}
"""Larger sizes that networks over triples are asked about, and of how many graphs."""
SHOWN_STEPS = 5


@dataclass(frozen=True)
class StreamedTask:
    """A task of a seed: the stream that a method is fitted to, and its test graphs."""

    name: str
    seed: int = 0
    most_graphs: int = GRAPHS

    @property
    def stream(self) -> TaskStream:
        return TaskStream(self.name, self.seed)

    def scores(self, model: Any) -> dict[str, float]:
        """Errors and standard errors by size."""
        averaged = getattr(model, "num_averaged", 1) > 1 and model.process == "gaussian"
        count = min(self.most_graphs, GRAPHS_SAMPLED if averaged else GRAPHS)
        sizes = dict.fromkeys(NAMES, count)
        if getattr(model, "network", None) == "triples":
            sizes |= {n: min(self.most_graphs, number) for n, number in BEYOND.items()}
        found: dict[str, float] = {}
        for n, number in sizes.items():
            mean, error = self.error(model, n, number)
            name = NAMES.get(n, f"mse_{n}")
            found |= {name: mean, f"{name}_se": error}
        return {name: round(value, 8) for name, value in found.items()}

    def error(self, model: Any, n: int, count: int) -> tuple[float, float]:
        """The mean error on graphs of n nodes, and its standard error."""
        attributes, answers = TASKS.find(self.name).draw(count, n, generator(self.seed, "test", n))
        errors = np.square(model.predict(attributes) - answers.numpy()).mean(axis=(1, 2), dtype=np.float64)
        return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(count)) if count > 1 else 0.0

    def trajectory(self, model: Any) -> dict[str, Any]:
        """Attributes, answer and estimates along the reverse steps of one graph, as nested lists."""
        attributes, answers = TASKS.find(self.name).draw(1, SAME, generator(self.seed, "test", SAME))
        seen: dict[int, Any] = {}

        def record(t: int, y_t: Any, estimate: Any) -> None:
            seen[t] = model.target_.nearest(estimate.y0).mean(dim=1).view(SAME, SAME)

        prediction = model.predict(attributes, callback=record)
        times = sorted(seen, reverse=True)
        shown = sorted({times[k] for k in np.linspace(0, len(times) - 1, SHOWN_STEPS).astype(int)}, reverse=True)
        matrices = {"attributes": attributes[0], "answer": answers[0], "prediction": prediction[0]}
        return {name: np.round(np.asarray(matrix), 4).tolist() for name, matrix in matrices.items()} | {
            "steps": [{"t": t, "estimate": np.round(seen[t].numpy(), 4).tolist()} for t in shown]
        }
