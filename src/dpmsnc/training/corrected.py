r"""Algorithm 1 with a network that corrects its initialiser,

    logits_theta(y_t, t, G, known) = log q(y | G, known) + log p(y_t | y) + correction_theta(y_t, t, G, known),

where the correction is zero at first: the network begins as the exact denoiser of independent labels with marginals q,
and learns how labels depend on each other. q is asked again for whatever labels are known. (In training the pairwise
model is; base models have seen all training labels but those of the fold that is asked for.)

*E-step*: the buffer holds joint labellings of the initialiser's pairwise model, new ones every few steps. For each of
them one fold of the training labels was hidden from every part of the initialiser, so that nothing in it gives these
labels away; the other folds are known, and in half of the labellings some of its own labels, too. *M-step*: true labels
on the hidden fold, those of the labelling elsewhere, and every row that is not known counts the same.

The weights are chosen by the calibrated likelihood of validation labels, the latest of those that are nearly the best.
The initialiser itself, at step 0, is one of the choices.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpmsnc.diffusion.known import Known
from dpmsnc.training.chains import Chains
from dpmsnc.training.gradient import Draw
from dpmsnc.training.partial import PartlyLabelled
from dpmsnc.training.trainer import Outcome

REFRESH_EVERY = 10
"""Steps between two E-steps: the labellings are cheap, and a network learns the few that it sees often by heart."""
PRIOR_WIDTH = 0.1
"""Standard deviation of the prior of the logarithm of the sharpness: few validation labels say little about it."""
TOLERANCE = 0.015
"""Loss of score, a probability, at which later weights are still kept: they know more of the joint, which the score
does not show. The initialiser is kept only where it is better by more."""


class Sampler(Protocol):
    """Where joint labellings come from."""

    def draw(self, generator: torch.Generator, shows_own: bool) -> Chains:
        """Some labellings; `shows_own` gives some of their own labels, too."""


class Corrected(PartlyLabelled):
    """The source of Algorithm 1 on chains of an initialiser."""

    begins_fitted = True
    tolerance = TOLERANCE

    def __init__(self, *arguments: Any, sampler: Sampler, offset: Tensor, **options: Any) -> None:
        """`offset` are log-probabilities (rows, channels) given all training labels."""
        super().__init__(*arguments, **options)
        self.sampler, self.offset = sampler, offset
        self.chains: Chains | None = None
        self.sharpness = self.best_sharpness = 1.0

    def refresh(self, step: int) -> None:
        """E-step: new labellings take the place of the oldest ones."""
        if step % REFRESH_EVERY:
            return
        own = step // REFRESH_EVERY % 2 == 1
        drawn = self.sampler.draw(self.generator, shows_own=own).to(self.labels.device)
        self.chains = drawn if self.chains is None else self.chains.followed_by(drawn, self.options.buffer_size)

    def draw(self) -> Draw:
        rows, graph = self.part()
        draws = self.options.time_draws
        assert self.chains is not None
        drawn = self.chains.draw(draws, self.generator)
        y_0 = self.target.field(drawn.labels[:, rows].T).to(self.initial)
        t = self.objective.draw_times(draws, self.generator, self.options.time_power).to(y_0.device)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        mask = drawn.shown[:, rows].T
        shown = Known(mask, y_0 * mask.unsqueeze(-1)) if self.shows_known else None
        weights = ~mask / (~mask).sum().clamp_min(1)
        offset = drawn.offset[:, rows].transpose(0, 1).to(self.initial)
        return Draw(graph, y_0, t, eps, weights, shown, self.keep(rows), offset)

    def score(self) -> float:
        """Geometric mean of the calibrated probabilities of validation labels, given the training labels."""
        if not bool(self.validation.any()):
            return math.nan
        marginals = self.posterior(self.known, 0.0).marginals(1, 0.0, self.generator)
        log_p, y = marginals[self.validation].clamp_min(1e-9).log(), self.labels[self.validation]
        self.sharpness = sharpness(log_p, y, self.class_weight)
        picked = (self.sharpness * log_p).log_softmax(dim=-1).gather(1, y.unsqueeze(1)).squeeze(1)
        weight = self.class_weight
        return math.exp((picked.mean() if weight is None else picked @ weight).item())

    def keep_best(self) -> None:
        super().keep_best()
        self.best_sharpness = self.sharpness

    def outcome(self) -> Outcome:
        initial, chains = self.initial.cpu().numpy(), self.chains
        labels = self.labels.new_empty((0, len(self.labels))) if chains is None else chains.labels
        return Outcome(labels.cpu(), initial, self.rounds.best_share, self.best_sharpness)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        chains = {} if self.chains is None else vars(self.chains)
        return dict(chains), {
            "sharpness": self.sharpness,
            "best_sharpness": self.best_sharpness,
            "parts_left": self.parts_left,
        }

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.chains = Chains(**tensors).to(self.labels.device) if tensors else None
        self.sharpness, self.best_sharpness = values["sharpness"], values["best_sharpness"]
        self.parts_left = values["parts_left"]


def sharpness(log_p: Tensor, y: Tensor, weight: Tensor | None = None) -> float:
    """The inverse temperature under which labels are most likely, drawn to 1 where there are few of them."""
    from scipy.optimize import minimize_scalar

    count = len(y)
    each = torch.full((count,), 1.0 / count) if weight is None else weight.cpu()

    def loss(log_a: float) -> float:
        picked = (math.exp(log_a) * log_p).log_softmax(dim=-1).gather(1, y.unsqueeze(1)).squeeze(1).cpu()
        return -float(picked.double() @ each.double()) + (log_a / PRIOR_WIDTH) ** 2 / 2 / count

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))
