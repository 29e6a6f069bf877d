r"""Algorithm 1 with a network that corrects the denoiser of its initialiser,

    logits_theta(y_t, t, G, known) = log q(y | y_t, G, known) + correction_theta(y_t, t, G, known),

where the correction is zero at first: the network begins as the denoiser of a pairwise model (`dpmsnc.pairwise`), and
learns what that does not know. q is asked again for whatever labels are known. In training only the pairwise model is
asked again: its base models were given all training labels but those of the fold that is asked for.

*E-step*: the buffer holds joint labellings, new ones every few steps. They are drawn from the pairwise model, and from
the network itself as long as it finds validation labels better than the pairwise model does. For each of them one fold
of the training labels was hidden from every part of the initialiser, so that nothing in it gives these labels away; the
other folds are known, and in half of the labellings some of its own labels, too. *M-step*: true labels on the hidden
fold, those of the labelling elsewhere. Every row that is not known counts the same, but all pseudo-labels together for
no more than `MOST_PSEUDO` true ones: where true labels are many, the network is to learn from them.

The weights are chosen by the calibrated joint likelihood of validation labels,

    log p(y_V | y_L) = log p(y_A | y_L) + log p(y_B | y_L, y_A),

averaged over both halves A and B of V in either order, and within a half node by node: a model is chosen by what it
makes of known labels as well as by what it says without them. The initialiser itself, at step 0, is one of the choices,
and is left only where later weights are better by more than the standard error of the difference. Training ends early
where they are not. Without validation labels the last weights are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.posterior import InitialDenoiser, Posterior
from dpmsnc.files import group
from dpmsnc.targets import Target
from dpmsnc.training.chains import Chains
from dpmsnc.training.gradient import Draw
from dpmsnc.training.partial import PartlyLabelled
from dpmsnc.training.trainer import Outcome

REFRESH_EVERY = 10
"""Steps between two E-steps: the labellings are cheap, and a network learns the few that it sees often by heart."""
STATE = ("leads", "behind", "may_be_kept", "gives_up", "sharpness", "best_sharpness", "parts_left")
PATIENCE_BEHIND = 0.4
"""Share of the patience after which training ends where the network has no lead over its initialiser."""
MOST_PSEUDO = 3000.0
"""Rows that pseudo-labels count for at most, all together."""
PRIOR_WIDTH = 0.1
"""Standard deviation of the prior of the logarithm of the sharpness: few validation labels say little about it."""


class Initialiser(Protocol):
    """Where joint labellings come from, and what a network corrects on them."""

    num_folds: int
    learned: Tensor
    """Rows whose labels are learned from (rows,); others are there for validation alone."""

    @property
    def denoiser(self) -> InitialDenoiser:
        """An entry of the batch for every fold, from base models that did not see it."""

    def draw(self, generator: torch.Generator, shows_own: bool, labels: Tensor | None = None) -> Chains:
        """A labelling for every fold; `shows_own` gives some of their own labels, too.

        `labels` (folds, rows) are taken in place of labellings of the initialiser's own.
        """

    def logits(self, chains: Chains, evidence: Tensor) -> Tensor:
        """The initial denoiser (rows, chains, channels) given what each chain shows and log p(y_t | y)."""


@dataclass(frozen=True)
class Exam:
    """Validation labels as they are asked for: all given the training labels, and each half given the other, too."""

    known: Known
    """What is given (rows, 3): training labels, and beside them nothing, the first half or the second."""
    logits: Tensor
    """Of the initialiser (rows, 3, channels)."""
    row: Tensor
    entry: Tensor
    """Rows and entries that are asked for (asked,)."""
    denoiser: InitialDenoiser
    """Of the initialiser given the training labels."""

    @classmethod
    def of(
        cls,
        y: Tensor,
        train: Tensor,
        half: Tensor,
        initial: Callable[[Known], Tensor],
        target: Target,
        denoiser: InitialDenoiser,
    ) -> Exam:
        """`half` is 0 or 1 on validation rows and -1 elsewhere; `initial` asks the initialiser."""
        given = torch.stack([train, train | (half == 0), train | (half == 1)], dim=1)
        asked = torch.stack([half >= 0, half == 1, half == 0], dim=1)
        known = Known(given, target.field(y).unsqueeze(1) * given.unsqueeze(-1))
        row, entry = asked.nonzero(as_tuple=True)
        return cls(known, initial(known), row, entry, denoiser)


class Corrected(PartlyLabelled):
    """The source of Algorithm 1 on chains of an initialiser."""

    begins_fitted = True

    def __init__(self, *arguments: Any, initialiser: Initialiser, exam: Exam, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.initialiser, self.exam = initialiser, exam
        self.chains: Chains | None = None
        self.first: Tensor | None = None
        """What the initialiser scored, label by label."""
        self.leads, self.behind = False, 0
        learned = initialiser.learned.to(self.train.device)
        pseudo_weight = min(1.0, MOST_PSEUDO / max(1, int((learned & ~self.train).sum())))
        self.learning_weight = torch.where(self.train, 1.0, pseudo_weight) * learned
        """Of every row where it is asked for."""
        self.sharpness = self.best_sharpness = 1.0

    def refresh(self, step: int) -> None:
        """E-step: new labellings take the place of the oldest ones."""
        if step % REFRESH_EVERY:
            return
        count, shows_own = self.initialiser.num_folds, step // REFRESH_EVERY % 2 == 1
        labels = self.own_labellings(count) if self.leads else None
        drawn = self.initialiser.draw(self.generator, shows_own, labels).to(self.labels.device)
        self.chains = drawn if self.chains is None else self.chains.followed_by(drawn, self.options.buffer_size)

    def own_labellings(self, count: int) -> Tensor:
        """Joint labellings (folds, rows) of the averaged weights, each on base models that did not see its fold."""
        return self.single_run(self.initialiser.denoiser).sample(count, 1.0, self.generator).transpose(0, 1)

    def draw(self) -> Draw:
        rows, graph = self.part()
        draws = self.options.time_draws
        assert self.chains is not None
        drawn = self.chains.draw(draws, self.generator)
        y_0 = self.target.field(drawn.labels.transpose(0, 1)).to(self.initial)
        t = self.times(draws).to(y_0.device)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        evidence = self.objective.evidence(self.objective.corrupt(y_0, t, eps), t)
        offset = self.initialiser.logits(drawn, evidence)[rows]
        y_0, eps, mask = y_0[rows], eps[rows], drawn.shown[:, rows].T
        shown = Known(mask, y_0 * mask.unsqueeze(-1)) if self.shows_known else None
        weights = ~mask * self.learning_weight[rows].unsqueeze(1)
        return Draw(graph, y_0, t, eps, weights / weights.sum().clamp_min(1), shown, self.keep(rows), offset)

    def times(self, draws: int) -> Tensor:
        """Half of them are T, where a label has to be found from known ones alone: marginals are read off there."""
        at_end = torch.full((draws // 2,), self.objective.schedule.num_steps)
        power, stratified = self.options.time_power, self.options.stratified
        others = self.objective.draw_times(draws - draws // 2, self.generator, power, stratified)
        return torch.cat([at_end, others])

    def score(self) -> float:
        """Geometric mean of the calibrated probabilities of validation labels, as they are asked for; or the metric
        that is to choose weights, of a single prediction."""
        if not bool(self.validation.any()):
            return math.nan
        likelihood = self.likelihood()
        if self.options.select_by is None:
            return likelihood
        self.may_be_kept = True
        return self.rate_answer(self.single_run(self.exam.denoiser))

    def single_run(self, initial: InitialDenoiser) -> Posterior:
        """What the averaged weights say given the training labels, as a correction of that denoiser."""
        single = replace(self.sampling, progressive=0.0)
        return Posterior(self.optimiser.averaged, self.objective, self.graph, self.known, single, initial)

    def likelihood(self) -> float:
        """Of the validation labels, a geometric mean; it also says whether the network leads."""
        log_p, y = self.exam_answers(), self.labels[self.exam.row]
        weight = torch.full((len(y),), 1.0) if self.class_weight is None else self.row_weight[self.exam.row]
        weight = (weight / weight.sum()).to(log_p)
        self.sharpness = sharpness(log_p, y, weight, self.log_likelihood)
        picked = self.log_likelihood(self.sharpness * log_p, y)
        begins = self.first is None
        self.first = picked if self.first is None else self.first
        self.leads = ahead(picked - self.first, weight)
        self.may_be_kept = self.leads or begins
        self.behind = 0 if self.may_be_kept else self.behind + 1
        self.gives_up = self.behind >= PATIENCE_BEHIND * self.options.patience
        return math.exp((picked @ weight).item())

    def log_likelihood(self, log_p: Tensor, y: Tensor) -> Tensor:
        """Of each of some labels (asked,), from log-probabilities (asked, channels) up to a constant."""
        return of_classes(log_p, y)

    def exam_answers(self) -> Tensor:
        """Log-probabilities (asked, channels) at T, where y_t says nothing."""
        return self.exam_outputs().log_softmax(dim=-1)

    def exam_outputs(self) -> Tensor:
        """What the network says of the labels that are asked for."""
        exam, averaged, T = self.exam, self.optimiser.averaged, self.objective.schedule.num_steps
        context = replace(averaged.precompute(self.graph, T), offset=exam.logits)
        with torch.no_grad():
            output = averaged(torch.zeros_like(exam.logits), T, context, exam.known if self.shows_known else None)
        return output[exam.row, exam.entry]

    @property
    def row_weight(self) -> Tensor:
        """The weight of every validation row among all rows."""
        assert self.class_weight is not None
        return torch.zeros(len(self.labels)).to(self.class_weight).masked_scatter(self.validation, self.class_weight)

    def keep_best(self) -> None:
        super().keep_best()
        self.best_sharpness = self.sharpness

    def outcome(self) -> Outcome:
        initial, chains = self.initial.cpu().numpy(), self.chains
        labels = self.labels.new_empty((0, *self.labels.shape)) if chains is None else chains.labels
        return Outcome(labels.cpu(), initial, self.rounds.best_share, self.best_sharpness)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        chains = {} if self.chains is None else {f"chains/{name}": part for name, part in vars(self.chains).items()}
        return chains | ({} if self.first is None else {"first": self.first}), {n: getattr(self, n) for n in STATE}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        chains, self.first = group(tensors, "chains/"), tensors.get("first")
        self.chains = Chains(**chains).to(self.labels.device) if chains else None
        for name in STATE:
            setattr(self, name, values[name])


def ahead(difference: Tensor, weight: Tensor) -> bool:
    """Whether labels are more likely than before by more than the standard error of the mean difference.

    Every label is asked for twice, and its two answers are taken as one: they go up and down together.
    """
    count, mean = len(difference) // 2, difference @ weight
    if count < 2:
        return False
    error = (2 * count / (count - 1) * (difference - mean).square() @ weight.square()).sqrt()
    return bool(mean > error)


def of_classes(log_p: Tensor, y: Tensor) -> Tensor:
    """Log-likelihoods of class indices."""
    return log_p.log_softmax(dim=-1).gather(1, y.unsqueeze(1)).squeeze(1)


def sharpness(
    log_p: Tensor, y: Tensor, weight: Tensor, log_likelihood: Callable[[Tensor, Tensor], Tensor] = of_classes
) -> float:
    """The inverse temperature under which labels are most likely, drawn to 1 where there are few of them."""
    from scipy.optimize import minimize_scalar

    log_p, y, weight = log_p.double().cpu(), y.cpu(), weight.double().cpu()

    def loss(log_a: float) -> float:
        picked = log_likelihood(math.exp(log_a) * log_p, y)
        return -float(picked @ weight) + (log_a / PRIOR_WIDTH) ** 2 / len(y)

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))
