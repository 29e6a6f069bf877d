r"""Algorithm 1: training on partly labelled graphs by alternating two updates of the bound

    L_VLB = E_q(y_U|y_L) [ E_q(y_1:T|y) [ log p_theta(y, y_1:T | G) - log q(y_1:T | y) ] - log q(y_U | y_L) ].

*E-step* (`refresh`): q(y_U | y_L) is a buffer of joint labellings, filled first from a mean-field initialiser and then
with samples of the model's own p_theta(y_U | G, y_L). *M-step* (`draw`, and the trainer's gradient): theta follows the
gradient of the objective with y = y_L and a labelling of y_U from the buffer; where `options.parts` says so, on one
part of the graph after the other.

Added to the paper for stability: averaged weights (the ones that sample), clipped gradients, a decaying rate, refusal
of collapsed samples, early stopping, pseudo-labels that are believed in part. Only training labels are ever shown,
buffered or learned from. Validation labels are read when scoring and nowhere else here; their score chooses the
weights that are kept, and whether prediction and E-step run in progressive rounds. (An initialiser may have chosen its
epoch by the same score, and a stack of them the weights of its members by their likelihood.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpmsnc.config import Sampling, Training, estimates_shares
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.metrics import METRICS
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.answer import answered, gain_of_marginals
from dpmsnc.training.buffer import Buffer
from dpmsnc.training.gradient import Draw
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.progressive import STATE, ProgressiveChoice
from dpmsnc.training.pseudo_labels import PseudoLabels, divide
from dpmsnc.training.trainer import Outcome

if TYPE_CHECKING:
    from dpmsnc.training.partitions import Parts

Rows = Tensor | slice
ALL = slice(None)
LEAST_TEMPERATURE = 1e-3
"""Probabilities of the initialiser are not sharpened beyond."""


class PartlyLabelled:
    """The source of Algorithm 1 on one graph, or on the disjoint union of several."""

    begins_fitted = False
    may_be_kept, gives_up = True, False

    def __init__(
        self,
        optimiser: Optimiser,
        objective: Objective,
        graph: GraphTensors,
        labels: Tensor,
        train: Tensor,
        validation: Tensor,
        initial: Tensor,
        options: Training,
        sampling: Sampling,
        generator: torch.Generator,
        member: Tensor | None = None,
    ) -> None:
        """`labels` (rows, ...) are read at `train` and, for scoring only, at `validation`; `initial` are the mean-field
        probabilities (rows, channels) of the initialiser; `member` tells several graphs apart."""
        self.optimiser, self.objective, self.graph = optimiser, objective, graph
        self.target, self.shows_known = objective.target, optimiser.averaged.shows_known
        self.labels, self.train, self.validation, self.initial = labels, train, validation, initial
        self.options, self.sampling, self.generator = options, sampling, generator
        self.known = Known.of(self.target.field(labels).to(initial), train)
        given = labels.where(train.view(-1, *[1] * (labels.dim() - 1)), labels.new_zeros(()))
        expected = initial[~train].double().mean(dim=0)
        self.buffer = Buffer(options.buffer_size, self.target, given, train, expected)
        self.pseudo = PseudoLabels(self.target, initial, train)
        self.metric, self.member = METRICS.find(options.select_by or self.target.metric), member
        self.class_weight = self.estimated_weight()
        can_choose = bool(validation.any()) and bool(self.target.names)  # numbers are never sure enough to be adopted
        self.rounds = ProgressiveChoice(sampling.progressive, can_choose, self.guess())
        self.parts = cut(graph, options.parts)
        self.parts_left: list[list[int]] = []  # of this time round

    def refresh(self, step: int) -> None:
        """E-step: new labellings enter the buffer, and with them what the M-step may believe of unlabelled rows."""
        if step % self.options.refresh_every:
            return
        count, temperature = self.options.samples_per_refresh, self.options.temperature
        if step < self.options.initialiser_refreshes * self.options.refresh_every:
            sharpened = self.target.sharpen(self.initial, max(temperature, LEAST_TEMPERATURE))
            drawn = self.target.draw(sharpened, count, self.generator)
            self.buffer.add(drawn, guarded=False)  # an initialiser may rightly say the same of every row
            self.pseudo.believe(self.initial, sharpened, skill=1.0)
        else:
            samples = self.sample(self.known, self.rounds.share, count, temperature)
            guarded = self.options.refuse_collapsed and len(self.buffer.entries) > 0
            self.buffer.add(samples.transpose(0, 1), guarded)
            frequencies = self.buffer.mean.to(self.initial)
            self.pseudo.believe(frequencies, frequencies, self.skill())

    def sample(self, known: Known, share: float, count: int, temperature: float) -> Tensor:
        """Joint labellings (rows, count, ...) of the averaged weights given known labels."""
        return self.posterior(known, share).sample(count, temperature, self.generator)

    def posterior(self, known: Known, share: float) -> Posterior:
        """What the averaged weights say given known labels, in rounds that adopt that share of the rows."""
        sampling = replace(self.sampling, progressive=share)
        return Posterior(self.optimiser.averaged, self.objective, self.graph, known, sampling)

    def skill(self) -> float:
        """How much better than guessing the model finds training labels hidden from it: half are shown, half asked."""
        shown, hidden = divide(self.train, self.generator)
        if not hidden.any():
            return 0.0
        known = Known(shown.unsqueeze(1), self.known.y * shown.view(-1, 1, 1))
        predicted = self.sample(known, 0.0, 1, 0.0).squeeze(1)
        return self.target.skill(predicted[hidden], self.labels[hidden])

    def draw(self) -> Draw:
        """M-step: labels, times and noise of the next gradient step."""
        rows, graph = self.part()
        y_0 = self.fill(rows)
        options = self.options
        t = self.objective.draw_times(options.time_draws, self.generator, options.time_power, options.stratified)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        shown, keep = self.show(rows), self.keep(rows)
        return Draw(graph, y_0, t.to(y_0.device), eps, self.row_weights(shown, rows), shown, keep)

    def part(self) -> tuple[Rows, GraphTensors]:
        """What the next M-step works on: the rows, and the graph that they induce."""
        if self.parts is None:
            return ALL, self.graph
        *self.parts_left, clusters = self.parts_left or self.parts.draw(self.generator)
        return self.parts.join(clusters)

    def fill(self, rows: Rows = ALL) -> Tensor:
        """y_0 (rows, draws, channels): true labels on training rows, those of the buffer on the others."""
        if self.options.fill == "soft":
            y = torch.where(self.known.mask[rows], self.known.y[rows].squeeze(1), self.pseudo.soft[rows])
            return y.unsqueeze(1).expand(-1, self.options.time_draws, -1)
        return self.buffered(rows)

    def buffered(self, rows: Rows) -> Tensor:
        """A labelling of the buffer for every draw, as a field (rows, draws, channels)."""
        labels = self.buffer.draw(self.options.time_draws, self.generator)[:, rows]
        return self.target.field(labels.transpose(0, 1)).to(self.initial)

    def show(self, rows: Rows = ALL) -> Known | None:
        """For amortised conditioning: in each draw, a random share of the labels is shown as known.

        True labels alone would be too few to learn what a known neighbour is worth, so labels from the buffer are shown
        too, in so far as they are trusted.
        """
        if not self.shows_known:
            return None
        draws, trust = self.options.time_draws, self.pseudo.trust[rows].unsqueeze(1)
        believed = torch.rand(len(trust), draws, generator=self.generator) < trust.cpu()
        believed &= torch.tensor(self.options.show_unlabelled)
        share, u = torch.rand(draws, generator=self.generator), torch.rand(believed.shape, generator=self.generator)
        mask = (u < share).to(self.train.device) & (self.known.mask[rows] | believed.to(self.train.device))
        return Known(mask, self.buffered(rows))

    def keep(self, rows: Rows = ALL) -> Tensor | None:
        """Where features are kept (rows, draws, 1): in each draw some rows go without, so that labels of neighbours
        are learned from also where features would have been enough."""
        rate, shape = self.options.hide_features, (len(self.train[rows]), self.options.time_draws, 1)
        return None if rate == 0 else (torch.rand(shape, generator=self.generator) >= rate).to(self.initial)

    def row_weights(self, shown: Known | None, rows: Rows = ALL) -> Tensor:
        """Weight of each row in each draw: those shown are not asked for."""
        draws, train = self.options.time_draws, self.train[rows].unsqueeze(1)
        asked = torch.ones(len(train), draws, device=train.device) if shown is None else ~shown.mask
        labelled, unlabelled = asked * train, asked * ~train
        weight = self.options.unlabelled_weight
        trust = self.pseudo.trust[rows].unsqueeze(1) if weight == "confidence" else weight
        if self.options.average_over == "nodes":
            return (labelled + trust * unlabelled) / (len(train) * draws)
        groups = [group / group.sum(dim=0).clamp_min(1) for group in (labelled, unlabelled)]
        return (groups[0] + trust * groups[1]) / draws

    def score(self) -> float:
        """Validation score given the training labels alone, with or without progressive rounds."""
        return self.rounds.choose(self.score_with)

    def score_with(self, share: float) -> float:
        return self.rate_answer(self.posterior(self.known, share))

    def rate_answer(self, posterior: Posterior) -> float:
        """The score of what a posterior answers."""
        if self.metric.needs == "probabilities":
            return gain_of_marginals(self.metric, posterior, self.labels, self.validation, self.generator)
        return self.rate(answered(posterior, self.labels, self.validation, self.generator))

    def rate(self, predicted: Tensor) -> float:
        """The score of predicted labels on validation rows, the higher the better."""
        if self.class_weight is not None and self.options.select_by is None:
            return ((predicted == self.labels)[self.validation].float() @ self.class_weight).item()
        truth, mask = self.labels.cpu().numpy(), self.validation.cpu().numpy()
        needed = [self.member.cpu().numpy()] if self.metric.needs == "member" and self.member is not None else []
        return self.metric.gain(predicted.cpu().numpy(), truth, mask, *needed)

    def guess(self) -> float:
        """Validation score of the best constant answer."""
        counts = self.target.balance(self.labels[self.validation])
        return max(counts) / sum(counts) if counts and sum(counts) else 0.0

    def estimated_weight(self) -> Tensor | None:
        """Weight of each validation row: that of its class among unlabelled rows, by the initialiser; None if equal.

        Where so many rows of every class are validation rows, a model that is right on frequent classes would lose
        against one that is right on rare ones.
        """
        y = self.labels[self.validation]
        counts = self.target.balance(y)
        if counts is None or not estimates_shares(self.options.class_shares, counts):
            return None
        weight = (self.initial[~self.train].mean(dim=0) / torch.tensor(counts, device=y.device))[y]
        return weight / weight.sum()

    def keep_best(self) -> None:
        self.rounds.keep()

    def outcome(self) -> Outcome:
        return Outcome(self.buffer.entries.cpu(), self.initial.cpu().numpy(), self.rounds.best_share)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        pseudo = self.pseudo
        tensors = {"buffer": self.buffer.entries, "initial": self.initial, "soft": pseudo.soft, "trust": pseudo.trust}
        rounds = {name: getattr(self.rounds, name) for name in STATE}
        return tensors, {"rounds": rounds, "refused": self.buffer.refused, "parts_left": self.parts_left}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        self.initial, soft, trust = (tensors[name].to(self.initial) for name in ("initial", "soft", "trust"))
        self.pseudo.soft, self.pseudo.trust = soft, trust
        self.class_weight = self.estimated_weight()
        self.buffer.entries, self.buffer.refused = tensors["buffer"].to(self.labels), values["refused"]
        self.buffer.expected = self.initial[~self.train].double().mean(dim=0)
        self.buffer.summarise()
        self.parts_left = values["parts_left"]
        for name in STATE:
            setattr(self.rounds, name, values["rounds"][name])


def cut(graph: GraphTensors, parts: int) -> Parts | None:
    """The graph in parts; None where it stays whole, which needs neither METIS nor the import of PyG."""
    if parts == 1:
        return None
    from dpmsnc.training.partitions import Parts

    return Parts(graph, parts)
