"""The one training loop: step, evaluate, keep the best, checkpoint, stop.

What a step is trained on comes from a *source*: a partly labelled graph with Algorithm 1 (`partial`), or graphs whose
labels are all known (`full`). The loop knows neither; it follows the gradient of

    sum over rows and draws of  weights * loss(network(y_t, t, shown labels), y_0),

averages the weights, and keeps those with the best validation score, of equals the later ones, which have seen more.
Training ends when the score stops improving or the steps are used up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.config import Training
from dpmsnc.deadline import check_time
from dpmsnc.diffusion.objective import Objective
from dpmsnc.errors import InputError
from dpmsnc.files import group
from dpmsnc.training.gradient import Draw, accumulate
from dpmsnc.training.optimiser import Optimiser

STATE = ("step", "best_step", "improved_step", "best_score", "loss")
Progress = Callable[["Trainer"], None]


class Outcome(NamedTuple):
    """What a source leaves behind."""

    buffer: Tensor
    """Joint labellings (count, rows, ...) of the variational distribution."""
    initial: NDArray[np.float32] | None
    """Mean-field probabilities (rows, channels) of the initialiser; None where there was none."""
    progressive: float
    """Share of the rows that each progressive round adopts; 0 for a single run."""
    sharpness: float = 1.0
    """The inverse temperature that calibrates marginals."""


class Source(Protocol):
    """Where training data come from, and how good a model is."""

    begins_fitted: bool
    """Whether the weights before the first step are worth to be scored."""
    may_be_kept: bool
    """Whether the weights that were scored last may be kept at all."""
    gives_up: bool
    """Whether there is no hope of a better score."""

    def refresh(self, step: int) -> None:
        """The E-step before that step, where one is due."""

    def draw(self) -> Draw:
        """What the next step is trained on."""

    def score(self) -> float:
        """Validation score of the averaged weights, the higher the better; NaN where there is nothing to score."""

    def keep_best(self) -> None:
        """The last score was the best so far."""

    def outcome(self) -> Outcome:
        """What training ended with, apart from the network."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that changes, as tensors and JSON values."""

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go back to a `state()`."""


@dataclass
class History:
    """What happened, evaluation by evaluation."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    validation_score: list[float] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    """What was compared to choose the initialiser, the chosen one first."""


class Trainer:
    """One run of training; resumable, because all that changes is in `state()`."""

    def __init__(
        self,
        optimiser: Optimiser,
        objective: Objective,
        source: Source,
        options: Training,
        generator: torch.Generator,
    ) -> None:
        self.optimiser, self.objective, self.source = optimiser, objective, source
        self.denoiser: Any = optimiser.module
        self.options, self.generator = options, generator
        self.best = copy_of(optimiser.averaged)
        self.step, self.best_step, self.improved_step, self.best_score = 0, 0, 0, -math.inf
        self.loss, self.history = math.nan, History()

    def run(self, progress: Progress | None = None) -> None:
        if self.step == 0 and self.source.begins_fitted:
            self.evaluate()
        while not self.finished:
            check_time()
            self.source.refresh(self.step)
            self.update(self.source.draw())
            self.step += 1
            if self.step % self.options.evaluate_every == 0 or self.step == self.options.steps:
                self.evaluate()
            if progress is not None:
                progress(self)

    @property
    def finished(self) -> bool:
        waited = self.step - self.improved_step
        ended = self.step >= self.options.steps or waited >= self.options.patience * self.options.evaluate_every
        return ended or self.source.gives_up

    def update(self, draw: Draw) -> None:
        """One gradient step on all draws at once."""
        self.optimiser.zero_grad()
        self.loss = accumulate(self.denoiser, self.objective, draw, self.generator)
        if not math.isfinite(self.loss):
            raise InputError(
                f"training diverged: the loss is {self.loss} at step {self.step}; lower training.learning_rate (now "
                f"{self.options.learning_rate:g}) or training.clip (now {self.options.clip:g}), and look for extreme "
                "features, which scaling='unit' tames"
            )
        self.optimiser.descend()

    def evaluate(self) -> None:
        """Score the averaged weights, and keep the best."""
        score = self.source.score()
        if not score <= self.best_score:
            self.improved_step = self.step
        if self.source.may_be_kept and not score < self.best_score:
            self.best_score, self.best_step = score, self.step
            self.best = copy_of(self.optimiser.averaged)
            self.source.keep_best()
        self.history.step.append(self.step)
        self.history.loss.append(self.loss)
        self.history.validation_score.append(score)

    @property
    def selected(self) -> dict[str, Tensor]:
        """The best weights; before the first evaluation there is nothing to choose from, and the averaged ones."""
        return self.best if self.history.step else self.optimiser.averaged.state_dict()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that a run needs to go on as if it had never stopped: tensors, and JSON values."""
        parts = {"source": self.source.state(), "optimiser": self.optimiser.state()}
        tensors = {f"{name}/{key}": tensor for name, part in parts.items() for key, tensor in part[0].items()}
        tensors |= {f"best/{key}": tensor for key, tensor in self.best.items()}
        values = {name: part[1] for name, part in parts.items()}
        own = {name: getattr(self, name) for name in STATE}
        history = {"trainer": own, "history": asdict(self.history)}
        return tensors | {"generator": self.generator.get_state()}, values | history

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go back to a `state()`; the trainer must have been built with the same arguments."""
        for name in STATE:
            setattr(self, name, values["trainer"][name])
        self.history, self.best = History(**values["history"]), group(tensors, "best/")
        self.generator.set_state(tensors["generator"])
        self.source.load_state(group(tensors, "source/"), values["source"])
        self.optimiser.load_state(group(tensors, "optimiser/"), values["optimiser"])


def copy_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """The weights of a module, which go on changing there."""
    return {name: value.clone() for name, value in module.state_dict().items()}
