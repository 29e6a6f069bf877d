r"""p_theta(y_U | G, y_L): a trained denoiser, a graph, and known labels, from which joint labellings are drawn.

Known labels condition the reverse process in one of two ways: *guided* (Algorithm 2: a network trained without them is
steered by gradient and projection) or *amortised* (the network was trained to be shown them). Either may be run
*progressively*: after each run the most confident of the still unknown nodes are adopted as known and the rest is drawn
again, which carries labels across many hops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from dpmsnc.config import Sampling
from dpmsnc.diffusion.guidance import Guided, LabelGradient
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Estimate, Objective
from dpmsnc.diffusion.sampler import STEPS, Callback, Independent, Noise, Step, reverse
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.nn.receptive_field import HiddenRecorder
from dpmsnc.targets import Target

MAX_ROUNDS = 100
Beliefs = Callable[[Tensor], Tensor]
"""Logits (rows, batch, channels) of the labels behind y_t, from log p(y_t | y) of that shape."""


class InitialDenoiser(Protocol):
    """What a network corrects: a denoiser that was not learned by diffusion."""

    @property
    def most_samples(self) -> int:
        """Samples that can be drawn at a time."""

    def given(self, known: Known) -> Beliefs:
        """The denoiser of one reverse process with these labels; it is asked from T downwards."""

    def begin(self, known: Known, num_samples: int, noise: Noise, logits: Callable[[], Tensor]) -> Known:
        """The labels that samples are given: known ones, and maybe others that a sample begins with.

        `logits` gives those of the marginals (rows, channels) that the network has.
        """


class Posterior:
    """What can be asked of a denoiser on a graph with known labels; `NodeClassifier` and the E-step both ask it."""

    def __init__(
        self,
        denoiser: Denoiser,
        objective: Objective,
        graph: GraphTensors,
        known: Known,
        sampling: Sampling,
        initial: InitialDenoiser | None = None,
        sharpness: float = 1.0,
    ) -> None:
        """`initial` is the denoiser that the network corrects, if it does; `sharpness` calibrates what it says."""
        self.denoiser, self.objective, self.initial, self.sharpness = denoiser, objective, initial, sharpness
        self.context = denoiser.precompute(graph, objective.schedule.num_steps)
        self.known, self.sampling, self.target = known, sampling, objective.target

    def sample(
        self,
        num_samples: int,
        temperature: float,
        generator: torch.Generator,
        callback: Callback | None = None,
        clamp_known: bool = True,
    ) -> Tensor:
        """Joint labellings (rows, num_samples, ...) as labels; known ones come back unchanged if they are clamped."""
        y = self.draw(num_samples, temperature, generator, callback)
        if clamp_known:
            y = torch.where(self.known.mask.unsqueeze(-1), self.known.y, y)
        return self.target.nearest(y)

    def marginals(self, num_samples: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Probabilities (rows, channels) from the network's estimates of y_0.

        y_T says nothing, so E[y_0 | y_T] is the marginal: a network that corrects an initialiser is asked at T and
        nowhere else. Any other does not see far at T. Its estimates are averaged over samples and reverse steps, as
        E[E[y_0 | y_t]] = E[y_0] at every t. Later estimates are surer of the single sample and average out more slowly,
        so those of the first half of the times count; where rounds adopt labels, those of the last round.
        """
        T = self.objective.schedule.num_steps
        if self.initial is not None:
            nothing, shown = torch.zeros_like(self.known.y), self.known if self.denoiser.shows_known else None
            with torch.no_grad():
                return self.estimate(nothing, T, shown, beliefs=self.beliefs(self.known)).y0.squeeze(1)
        estimates: list[Tensor] = []

        def record(t: int, y_t: Tensor, estimate: Estimate) -> None:
            if t == T:
                estimates.clear()
            if t >= T / 2:
                estimates.append(estimate.y0.mean(dim=1))

        self.draw(num_samples, temperature, generator, record)
        return torch.stack(estimates).mean(dim=0).clone()

    def draw(
        self, num_samples: int, temperature: float, generator: torch.Generator, callback: Callback | None = None
    ) -> Tensor:
        """Final y (rows, num_samples, channels) of the model's own making, known rows included."""
        if self.initial is not None and num_samples > (most := self.initial.most_samples):
            counts = [min(most, num_samples - first) for first in range(0, num_samples, most)]
            return torch.cat([self.draw(count, temperature, generator, callback) for count in counts], dim=1)
        noise, known = Noise(temperature, generator), self.known
        if self.initial is not None:
            known = self.initial.begin(known, num_samples, noise, lambda: self.marginals(1, 0.0, generator).log())
        share = 0.0 if self.sampling.progressive == "auto" else self.sampling.progressive
        if share == 0:
            return self.with_added(known, self.run(known, num_samples, noise, callback))
        y, confidence = self.confident_run(known, num_samples, noise, callback)
        y = self.with_added(known, y)
        for _ in range(MAX_ROUNDS):
            if bool(known.mask.all()):
                break
            known = adopt_confident(self.target, known, y, confidence, share)
            run, confidence = self.confident_run(known, num_samples, noise, callback)
            y = self.with_added(known, run)
        return y

    def with_added(self, known: Known, y: Tensor) -> Tensor:
        """y with the labels that were added to those that are known."""
        if known is self.known:
            return y
        return torch.where((known.mask & ~self.known.mask).unsqueeze(-1), known.y.to(y.dtype), y)

    def confident_run(
        self, known: Known, num_samples: int, noise: Noise, callback: Callback | None
    ) -> tuple[Tensor, Tensor]:
        """One reverse process: the last y, and the share of it during which each node was settled on one class.

        What is near to known labels settles early, what is far settles late and by chance; the last y does not show it.
        """
        estimates, count = torch.zeros(()), 0

        def record(t: int, y_t: Tensor, estimate: Estimate) -> None:
            nonlocal estimates, count
            estimates, count = estimates + estimate.y0.clamp(0, 1), count + 1
            if callback is not None:
                callback(t, y_t, estimate)

        y = self.run(known, num_samples, noise, record)
        return y, self.target.confidence(estimates / count)

    def run(self, known: Known, num_samples: int, noise: Noise, callback: Callback | None) -> Tensor:
        """One reverse process, and its last y."""
        shown = known if self.denoiser.shows_known else None
        label_gradient, beliefs = self.label_gradient(known), self.beliefs(known)

        def denoise(y_t: Tensor, t: int) -> Estimate:
            recorder = None if label_gradient is None else label_gradient.recorder()
            return self.estimate(y_t, t, shown, recorder, beliefs)

        step, like = self.step(known, label_gradient), self.context.encoded
        shape = (known.y.shape[0], num_samples, known.y.shape[-1])
        needs_autograd = isinstance(step, Guided) and label_gradient is None
        # about a tenth faster than no_grad, but what comes out of it must be copied before training may touch it
        with torch.no_grad() if needs_autograd else torch.inference_mode():
            y = reverse(denoise, step, shape, noise, like, self.steps, callback)
        return y.clone()

    def beliefs(self, known: Known) -> Beliefs | None:
        """What the initial denoiser says given known labels, time after time."""
        return None if self.initial is None else self.initial.given(known)

    def estimate(
        self,
        y_t: Tensor,
        t: Tensor | int,
        shown: Known | None,
        recorder: HiddenRecorder | None = None,
        beliefs: Beliefs | None = None,
    ) -> Estimate:
        """What the network says about y_t.

        A network that is too sure, or not sure enough, is so about what it concludes from the graph and from other
        labels. What y_t says about its own label is exact, so sharpness leaves that as it is.
        """
        context = self.context
        if beliefs is not None:
            context = replace(context, offset=beliefs(self.objective.evidence(y_t, t)))
        output = self.denoiser(self.objective.scale_input(y_t, t), t, context, shown, recorder=recorder)
        if self.sharpness != 1:
            evidence = self.objective.evidence(y_t, t)
            output = evidence + self.sharpness * (output - evidence)
        return self.objective.estimate(output, y_t, t)

    def eps(self, y_t: Tensor, t: Tensor) -> Tensor:
        """The noise in y_t, with no label shown: what the bound on p_theta(y | G) asks for."""
        return self.estimate(y_t, t, None, beliefs=self.beliefs(self.known)).eps

    def step(self, known: Known, label_gradient: LabelGradient | None) -> Step:
        schedule = self.objective.schedule
        blank = self.objective.process == "blank"
        step = Independent(schedule, self.target) if blank else STEPS[self.sampling.method](schedule)
        if self.denoiser.shows_known or not bool(known.mask.any()):
            return step
        return Guided(step, known, self.sampling.guidance, label_gradient)

    def label_gradient(self, known: Known) -> LabelGradient | None:
        """The gradient of guidance, where the network knows a shorter way to it than autograd."""
        if not self.denoiser.has_backward or self.sampling.guidance.strength == 0 or not bool(known.mask.any()):
            return None
        return LabelGradient(self.denoiser, self.objective, self.context.graph, known)

    @property
    def steps(self) -> int | None:
        return 1 if self.objective.process == "blank" else self.sampling.steps


def adopt_confident(target: Target, known: Known, y: Tensor, confidence: Tensor, share: float) -> Known:
    """Known labels, and in each sample the labels of the most confident `share` of its other nodes.

    Of those, only nodes nearer to the most confident one than to the median are taken: where few nodes stand out, the
    rest of the share would be adopted by chance.
    """
    mask = known.mask.expand(y.shape[:2])
    unknown = confidence.masked_fill(mask, torch.nan)
    top, median = unknown.nan_to_num(-torch.inf).amax(dim=0), unknown.nanmedian(dim=0).values
    rank = unknown.nan_to_num(-torch.inf).argsort(dim=0, descending=True).argsort(dim=0)
    among_first = rank < (share * (~mask).sum(dim=0)).ceil()
    chosen = ~mask & among_first & (confidence >= (top + median) / 2)
    labels = target.field(target.nearest(y)).to(y.dtype)
    return Known(mask | chosen, torch.where(chosen.unsqueeze(-1), labels, known.y))
