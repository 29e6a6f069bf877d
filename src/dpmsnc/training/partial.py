r"""Algorithm 1: training on one partly labelled graph by alternating two updates of the bound

    L_VLB = E_q(y_U|y_L) [ E_q(y_1:T|y) [ log p_theta(y, y_1:T | G) - log q(y_1:T | y) ] - log q(y_U | y_L) ].

*E-step* (`refresh`): q(y_U | y_L) is a buffer of joint labellings, filled first from a mean-field initialiser and then
with samples of the model's own p_theta(y_U | G, y_L). *M-step* (`update`): theta follows the gradient of the objective
with y = y_L and a labelling of y_U from the buffer; where `options.parts` says so, on one part of the graph after the
other.

Added to the paper for stability: averaged weights (the ones that sample), clipped gradients, a decaying rate, refusal
of collapsed samples, early stopping. The best weights by validation accuracy are kept. Only training labels are ever
shown, buffered or learned from. Validation labels are read when evaluating and nowhere else here; their score chooses
the weights that are kept, and whether prediction and E-step run in progressive rounds. (An initialiser may have chosen
its epoch by the same score, and a stack of them the weights of its members by their likelihood.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpmsnc.config import Sampling, Training, estimates_shares
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.nn.denoiser import Denoiser, Known
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.training.buffer import Buffer
from dpmsnc.training.gradient import accumulate
from dpmsnc.training.optimiser import Optimiser

if TYPE_CHECKING:
    from dpmsnc.training.partitions import Parts

PLAIN_STATE = (
    "step",
    "best_step",
    "improved_step",
    "best_accuracy",
    "best_progressive",
    "progressive",
    "shares",
    "unhelpful",
    "loss",
    "parts_left",
)
WORTH_ROUNDS = 0.01
"""Validation accuracy that progressive rounds must gain: they cost many times a single run, and less may be chance."""
Nodes = Tensor | slice
ALL = slice(None)
Progress = Callable[["PartialTraining"], None]


@dataclass
class History:
    """What happened, evaluation by evaluation."""

    step: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    validation_accuracy: list[float] = field(default_factory=list)


class PartialTraining:
    """One run of Algorithm 1; resumable, because all that changes is in `state()`."""

    def __init__(
        self,
        denoiser: Denoiser,
        objective: Objective,
        graph: GraphTensors,
        labels: Tensor,
        train: Tensor,
        validation: Tensor,
        initialiser: Tensor,
        options: Training,
        sampling: Sampling,
        generator: torch.Generator,
    ) -> None:
        """`labels` (nodes,) are read at `train` and, for evaluation only, at `validation`; `initialiser` are the
        mean-field probabilities (nodes, classes) that fill the first buffer."""
        self.denoiser, self.objective, self.graph = denoiser, objective, graph
        self.labels, self.train, self.validation, self.initialiser = labels, train, validation, initialiser
        self.options, self.sampling, self.generator = options, sampling, generator
        one_hot = torch.nn.functional.one_hot(labels.clamp_min(0), initialiser.shape[1]).to(initialiser.dtype)
        self.known = Known(train.unsqueeze(1), (one_hot * train.unsqueeze(1)).unsqueeze(1))
        self.optimiser = Optimiser(denoiser, options)
        self.averaged = self.optimiser.averaged
        self.best = {name: value.clone() for name, value in self.averaged.items()}
        self.buffer = Buffer(
            options.buffer_size, labels.where(train, 0), train, initialiser[~train].double().mean(dim=0)
        )
        self.step, self.best_step, self.improved_step, self.best_accuracy = 0, 0, 0, -1.0
        self.shares = [0.0] if sampling.progressive == "auto" else [sampling.progressive]
        if sampling.progressive == "auto" and bool(validation.any()):
            self.shares = [0.0, 0.1]
        self.soft, self.trust = initialiser, torch.zeros_like(initialiser[:, 0])
        self.progressive = self.best_progressive = self.shares[0]
        self.unhelpful = 0
        self.history = History()
        self.loss = math.nan
        self.class_weight = self.estimated_weight()
        self.parts = cut(graph, options.parts)
        self.parts_left: list[list[int]] = []  # of this time round

    def run(self, progress: Progress | None = None) -> None:
        """Alternate until validation accuracy stops improving, or the steps are used up."""
        while not self.finished:
            if self.step % self.options.refresh_every == 0:
                self.refresh()
            self.update()
            self.step += 1
            if self.step % self.options.evaluate_every == 0 or self.step == self.options.steps:
                self.evaluate()
            if progress is not None:
                progress(self)

    @property
    def finished(self) -> bool:
        waited = self.step - self.improved_step
        return self.step >= self.options.steps or waited >= self.options.patience * self.options.evaluate_every

    def refresh(self) -> None:
        """E-step: new labellings enter the buffer, and with them what the M-step may believe of unlabelled nodes."""
        count, temperature = self.options.samples_per_refresh, self.options.temperature
        if self.step < self.options.initialiser_refreshes * self.options.refresh_every:
            sharpened = self.initialiser.clamp_min(1e-9).log().div(max(temperature, 1e-3)).softmax(dim=-1)
            drawn = torch.multinomial(sharpened, count, replacement=True, generator=self.generator).T
            self.buffer.add(drawn, guarded=False)  # an initialiser may rightly say the same of every node
            self.believe(self.initialiser, sharpened, skill=1.0)
        else:
            with self.optimiser.averaged_weights():
                samples = self.posterior(self.progressive).sample(count, temperature, self.generator)
            self.buffer.add(samples.T, guarded=len(self.buffer.entries) > 0)
            frequencies = self.buffer.mean.to(self.initialiser)
            self.believe(frequencies, frequencies, self.skill())

    def believe(self, probabilities: Tensor, sharpened: Tensor, skill: float) -> None:
        """Set `trust`, the weight of each node's labels, and `soft`, the labels that fill it.

        Both fade where there is no skill, and trust also where a node is told no more than the average of all. Sampled
        labels that mean nothing still differ from node to node: a network would learn training labels by heart from
        such fingerprints, so `soft` is not sampled for the initialiser, and drawn to the average for lack of skill.
        """
        average = probabilities[~self.train].mean(dim=0)
        self.trust = skill * information(probabilities, average)
        self.soft = torch.lerp(average.expand_as(sharpened), sharpened, skill)

    def skill(self) -> float:
        """How much better than guessing the model finds training labels hidden from it: half are shown, half asked."""
        shown = self.train & (torch.rand(len(self.train), generator=self.generator) < 0.5).to(self.train.device)
        hidden = self.train & ~shown
        if not hidden.any():
            return 0.0
        known = Known(shown.unsqueeze(1), self.known.y * shown.view(-1, 1, 1))
        with self.optimiser.averaged_weights():
            predicted = self.posterior(0.0, known).sample(1, 0.0, self.generator).squeeze(1)
        accuracy = (predicted == self.labels)[hidden].double().mean().item()
        guess = self.labels[hidden].bincount().max().item() / int(hidden.sum())
        return max(0.0, (accuracy - guess) / (1 - guess)) if guess < 1 else 0.0

    def update(self) -> None:
        """M-step: one gradient step on all time draws at once."""
        nodes, graph = self.part()
        draws = self.options.time_draws
        y_0 = self.fill(draws, nodes)
        t = self.objective.draw_times(draws, self.generator, self.options.time_power).to(y_0.device)
        eps = torch.randn(y_0.shape, generator=self.generator).to(y_0)
        shown = self.show(nodes)
        keep = self.keep(nodes)
        self.optimiser.zero_grad()
        self.loss = accumulate(
            self.denoiser,
            self.objective,
            self.denoiser.encode(graph),
            y_0,
            t,
            eps,
            self.node_weights(shown, nodes),
            shown,
            self.generator,
            keep,
        )
        self.optimiser.descend(self.step)

    def part(self) -> tuple[Nodes, GraphTensors]:
        """What the next M-step works on: the nodes, and the graph that they induce."""
        if self.parts is None:
            return ALL, self.graph
        *self.parts_left, clusters = self.parts_left or self.parts.draw(self.generator)
        return self.parts.join(clusters)

    def keep(self, nodes: Nodes = ALL) -> Tensor | None:
        """Where features are kept (nodes, draws, 1): in each draw some nodes go without, so that labels of neighbours
        are learned from also where features would have been enough."""
        rate, shape = self.options.hide_features, (len(self.labels[nodes]), self.options.time_draws, 1)
        return None if rate == 0 else (torch.rand(shape, generator=self.generator) >= rate).to(self.initialiser)

    def fill(self, draws: int, nodes: Nodes = ALL) -> Tensor:
        """y_0 (nodes, draws, classes): true labels on training nodes, the buffer's on the others."""
        if self.options.fill == "soft":
            y = torch.where(self.known.mask[nodes], self.known.y[nodes].squeeze(1), self.soft[nodes])
            return y.unsqueeze(1).expand(-1, draws, -1)
        y = self.buffer.draw(draws, self.generator)[:, nodes].T
        return torch.nn.functional.one_hot(y, self.initialiser.shape[1]).to(self.initialiser.dtype)

    def show(self, nodes: Nodes = ALL) -> Known | None:
        """For amortised conditioning: in each draw, a random share of the labels is shown as known.

        True labels alone would be too few to learn what a known neighbour is worth, so labels from the buffer are shown
        too, in so far as they are trusted.
        """
        if not self.denoiser.shows_known:
            return None
        draws, trust = self.options.time_draws, self.trust[nodes].unsqueeze(1)
        believed = torch.rand(len(trust), draws, generator=self.generator) < trust.cpu()
        believed &= torch.tensor(self.options.show_unlabelled)
        share, u = torch.rand(draws, generator=self.generator), torch.rand(believed.shape, generator=self.generator)
        mask = (u < share).to(self.train.device) & (self.known.mask[nodes] | believed.to(self.train.device))
        labels = self.buffer.draw(draws, self.generator)[:, nodes].T
        return Known(mask, torch.nn.functional.one_hot(labels, self.initialiser.shape[1]).to(self.initialiser.dtype))

    def node_weights(self, shown: Known | None, nodes: Nodes = ALL) -> Tensor:
        """Weight of each node in each draw: those shown are not asked for."""
        draws, train = self.options.time_draws, self.train[nodes].unsqueeze(1)
        asked = torch.ones(len(train), draws, device=self.labels.device) if shown is None else ~shown.mask
        labelled, unlabelled = asked * train, asked * ~train
        weight = self.options.unlabelled_weight
        trust = self.trust[nodes].unsqueeze(1) if weight == "confidence" else weight
        if self.options.average_over == "nodes":
            return (labelled + trust * unlabelled) / (len(train) * draws)
        groups = [group / group.sum(dim=0).clamp_min(1) for group in (labelled, unlabelled)]
        return (groups[0] + trust * groups[1]) / draws

    def evaluate(self) -> None:
        """Validation accuracy of the averaged weights, conditioned on training labels alone; keep the best."""
        scores = {progressive: self.score(progressive) for progressive in self.shares}
        best = max(scores, key=lambda progressive: scores[progressive])
        helped = scores[best] > scores[self.shares[0]] + WORTH_ROUNDS - 1e-6  # scores are rounded
        self.progressive = best if helped else self.shares[0]
        self.give_up_progressive(scores, helped)
        accuracy = scores[self.progressive]
        if not accuracy <= self.best_accuracy:
            self.improved_step = self.step
        if not accuracy < self.best_accuracy:  # of equals, the later one has seen more
            self.best_accuracy, self.best_step, self.best_progressive = accuracy, self.step, self.progressive
            self.best = {name: value.clone() for name, value in self.averaged.items()}
        self.history.step.append(self.step)
        self.history.loss.append(self.loss)
        self.history.validation_accuracy.append(accuracy)

    def score(self, share: float) -> float:
        with self.optimiser.averaged_weights():
            predicted = self.posterior(share).sample(1, self.sampling.temperature, self.generator).squeeze(1)
        right = (predicted == self.labels)[self.validation].float()
        return right.mean().item() if self.class_weight is None else (right @ self.class_weight).item()

    def estimated_weight(self) -> Tensor | None:
        """Weight of each validation node: that of its class among unlabelled nodes, by the initialiser; None if equal.

        Where so many nodes of every class are validation nodes, a model that is right on frequent classes would lose
        against one that is right on rare ones.
        """
        y = self.labels[self.validation]
        counts = y.bincount(minlength=self.initialiser.shape[1])
        if not estimates_shares(self.options.class_shares, counts.tolist()):
            return None
        weight = (self.initialiser[~self.train].mean(dim=0) / counts)[y]
        return weight / weight.sum()

    def give_up_progressive(self, scores: dict[float, float], helped: bool) -> None:
        """Many rounds cost many times a single run: stop trying once they have not helped a model three times in a row.

        A model that still guesses cannot be helped by either, and is not counted.
        """
        answers = self.labels[self.validation]
        guess = answers.bincount().max().item() / len(answers) if len(answers) else 0.0
        if len(scores) > 1 and scores[0.0] > guess + 0.1:
            self.unhelpful = 0 if helped else self.unhelpful + 1
        if self.unhelpful == 3:
            self.shares = [0.0]

    def posterior(self, share: float, known: Known | None = None) -> Posterior:
        """p_theta(y_U | G, y_L) given the training labels, or other known ones."""
        context = self.denoiser.precompute(self.graph, self.objective.schedule.num_steps)
        sampling = replace(self.sampling, progressive=share)
        return Posterior(self.denoiser, self.objective, context, known or self.known, sampling)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that a run needs to go on as if it had never stopped: tensors, and plain values."""
        tensors = {"generator": self.generator.get_state(), "buffer": self.buffer.entries}
        tensors |= {name: getattr(self, name) for name in ("initialiser", "soft", "trust")}
        for group, weights in self._weights().items():
            tensors |= {f"{group}/{name}": value for name, value in weights.items()}
        for index, moments in self.optimiser.adam.state_dict()["state"].items():
            tensors |= {f"optimiser/{index}/{name}": value for name, value in moments.items()}
        values = {name: getattr(self, name) for name in PLAIN_STATE}
        return tensors, values | {"history": asdict(self.history), "refused": self.buffer.refused}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go back to a `state()`; the trainer must have been built with the same arguments."""
        values = dict(values)
        self.history, self.buffer.refused = History(**values.pop("history")), values.pop("refused")
        for name, value in values.items():
            setattr(self, name, value)
        self.generator.set_state(tensors["generator"])
        for name in ("initialiser", "soft", "trust"):
            setattr(self, name, tensors[name].to(self.initialiser))
        self.class_weight = self.estimated_weight()
        self.buffer.entries = tensors["buffer"].to(self.labels)
        self.buffer.expected = self.initialiser[~self.train].double().mean(dim=0)
        self.buffer.summarise()
        with torch.no_grad():
            for group, weights in self._weights().items():
                for name, value in weights.items():
                    value.copy_(tensors[f"{group}/{name}"])
        moments: dict[int, dict[str, Tensor]] = {}
        for key in (key for key in tensors if key.startswith("optimiser/")):
            _, index, name = key.split("/")
            moments.setdefault(int(index), {})[name] = tensors[key]
        self.optimiser.adam.load_state_dict(self.optimiser.adam.state_dict() | {"state": moments})

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        own = {name: value.detach() for name, value in self.denoiser.named_parameters()}
        return {"weights": own, "averaged": self.averaged, "best": self.best}


def information(probabilities: Tensor, average: Tensor) -> Tensor:
    """Of each row, 0 where it is the average and 1 where it is certain: |p - average| / (1 - average of its class),
    in total variation."""
    distance = (probabilities - average).abs().sum(dim=-1) / 2
    return (distance / (1 - average[probabilities.argmax(dim=-1)]).clamp_min(1e-6)).clamp(0, 1)


def cut(graph: GraphTensors, parts: int) -> Parts | None:
    """The graph in parts; None where it stays whole, which needs neither METIS nor the import of PyG."""
    if parts == 1:
        return None
    from dpmsnc.training.partitions import Parts

    return Parts(graph, parts)
