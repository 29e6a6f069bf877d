"""What a fit says while it runs: which phase it is in, a line for every evaluation, and how long it may still take.

The clock of training starts with its first step, not with the choice of the initialiser before it. The time left is
that of all steps that may follow; training that stops early takes less.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dpmsnc.progress import shown, spelled

if TYPE_CHECKING:
    from dpmsnc.training.trainer import Trainer

LOGGER = logging.getLogger(__name__)


class FitProgress:
    """Lines of the logger "dpmsnc"; on a terminal, a bar in the place of those of evaluations."""

    def __init__(self, name: str, steps: int, verbose: bool) -> None:
        self.name, self.steps, self.verbose = name, steps, verbose
        self.bar: Any = None

    @contextmanager
    def running(self) -> Iterator[FitProgress]:
        """From the choice of the initialiser to the end of training."""
        with shown(self.verbose):
            LOGGER.info("%s: choosing what the network begins as", self.name)
            self.began = time.monotonic()
            try:
                yield self
            finally:
                if self.bar is not None:
                    self.bar.close()

    def start(self, trainer: Trainer) -> None:
        """Training begins, maybe in the middle."""
        LOGGER.info("%s: chosen in %s; training for up to %d steps", self.name, self._since(self.began), self.steps)
        self.began, self.first = time.monotonic(), trainer.step
        if self.verbose and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.steps, initial=trainer.step, desc=self.name, unit="step", leave=False)

    def step(self, trainer: Trainer) -> None:
        """After every step."""
        history = trainer.history
        evaluated = bool(history.step) and history.step[-1] == trainer.step
        if self.bar is not None:
            if evaluated:
                self.bar.set_postfix(validation=f"{history.validation_score[-1]:.3f}", refresh=False)
            self.bar.update(trainer.step - self.bar.n)
        if evaluated:
            level = logging.INFO if self.bar is None else logging.DEBUG
            score = f"validation {history.validation_score[-1]:.4f}, best {trainer.best_score:.4f}"
            after = f"step {trainer.step} of {self.steps}: {score} at step {trainer.best_step}"
            LOGGER.log(level, "%s: %s; at most %s left", self.name, after, spelled(self.left(trainer.step)))

    def left(self, step: int) -> float:
        """Seconds that the steps to come would take at the pace of those since training began."""
        pace = (time.monotonic() - self.began) / max(step - self.first, 1)
        return pace * (self.steps - step)

    def end(self, trainer: Trainer) -> None:
        """Training is over; what follows is evaluated with the weights that were kept."""
        LOGGER.info(
            "%s: trained %d steps in %s, keeping step %d; evaluating",
            self.name, trainer.step, self._since(self.began), trainer.best_step,
        )  # fmt: skip

    def _since(self, moment: float) -> str:
        return spelled(time.monotonic() - moment)
