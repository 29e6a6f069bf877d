"""The package's side of a case, through the calls that `NodeClassifier` makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from benchmarks.problem import PAPER, SEED, Problem
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.diffusion.sampler import Noise
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.partial import PartlyLabelled
from dpmsnc.training.trainer import Trainer


class Ours:
    """A problem as the package takes it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.graph = GraphTensors.of(problem.graph, PAPER["scaling"], "cpu", problem.dtype)
        self.denoiser = problem.denoiser()
        one_hot = torch.nn.functional.one_hot(problem.labels, problem.num_classes).to(problem.dtype)
        mask = problem.train.unsqueeze(1)
        self.known = Known(mask, (one_hot * mask).unsqueeze(1))
        self.generator = torch.Generator().manual_seed(SEED)

    @cached_property
    def training(self) -> Trainer:
        return self._trainer(PartlyLabelled, self.problem.objective)

    def train_step(self) -> None:
        """The M-step of Algorithm 1."""
        self.denoiser.requires_grad_(True)  # `posterior` may have turned it off
        self.training.update(self.training.source.draw())

    def recorded_trainer(self) -> Trainer:
        """Training from which can be read what its last update was made of."""
        objective = self.problem.objective
        return self._trainer(
            RecordedSource, RecordedObjective(objective.schedule, objective.parameterisation, target=objective.target)
        )

    def _trainer(self, kind: type[PartlyLabelled], objective: Objective) -> Trainer:
        """Training with its first buffer filled."""
        problem, optimiser = self.problem, Optimiser(self.denoiser, PAPER["training"])
        source = kind(
            optimiser,
            objective,
            self.graph,
            labels=problem.labels,
            train=problem.train,
            validation=torch.zeros_like(problem.train),
            initial=problem.initialiser(),
            options=PAPER["training"],
            sampling=problem.sampling,
            generator=self.generator,
        )
        source.refresh(0)
        return Trainer(optimiser, objective, source, PAPER["training"], self.generator)

    def posterior(self, steps: int | None = None) -> Posterior:
        """What a prediction is asked of; made anew for each, since it encodes the graph."""
        self.denoiser.requires_grad_(False)
        sampling = self.problem.sampling if steps is None else replace(self.problem.sampling, steps=steps)
        return Posterior(self.denoiser, self.problem.objective, self.graph, self.known, sampling)

    def sample(self, steps: int | None = None) -> Tensor:
        posterior = self.posterior(steps)
        return posterior.draw(self.problem.num_samples, self.problem.temperature, self.generator)

    def recorded_sample(self, steps: int | None = None) -> tuple[Tensor, list[Tensor]]:
        """A sample, and the noise that it was made of, in the order of use."""
        noise = RecordedNoise(self.problem.temperature, self.generator)
        return self.posterior(steps).run(self.known, self.problem.num_samples, noise, None), noise.drawn


@dataclass(frozen=True)
class RecordedNoise(Noise):
    """Noise that remembers what it gave."""

    drawn: list[Tensor] = field(default_factory=list)

    def __call__(self, like: Tensor) -> Tensor:
        z = super().__call__(like)
        self.drawn.append(z.clone())
        return z


@dataclass(frozen=True)
class RecordedObjective(Objective):
    """An objective that remembers which y_0, t and eps it corrupted."""

    corrupted: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def corrupt(self, y_0: Tensor, t: Tensor, eps: Tensor) -> Tensor:
        self.corrupted.append((y_0.clone(), t.clone(), eps.clone()))
        return super().corrupt(y_0, t, eps)


class RecordedSource(PartlyLabelled):
    """A source that remembers which labels it showed; its objective remembers the rest."""

    objective: RecordedObjective
    shown: Known | None = None

    def show(self, *arguments: Any) -> Known | None:
        self.shown = super().show(*arguments)
        return self.shown
