r"""The denoiser of the pairwise model.

Noise falls on every label by itself, so the labels behind y_t follow the same pairwise model with other unaries,

    p(y | y_t, G, known) ~ prod_i exp(theta_i(y_i)) p(y_t,i | y_i) prod_{i-j} exp(s_ij H(y_i, y_j)),

and E[y | y_t] are its beliefs: belief propagation with theta_i + log p(y_t,i | y_i). A reverse process with this
denoiser draws joint labellings of the pairwise model, and at t = T, where y_t says nothing, its marginals are read off.

Components in which nothing is known have marginals and joint labellings of their own (`dpmsnc.pairwise.unlabelled`).

The first messages are those of known labels alone, which are the same for all samples. From one time to the next y_t
changes a little, so messages go on from the last ones.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.sampler import Noise
from dpmsnc.pairwise.learning import asking_iterations
from dpmsnc.pairwise.propagation import Propagation, clamped, cut
from dpmsnc.pairwise.unlabelled import Unlabelled

WARM_ITERATIONS = 5
"""Of belief propagation that go on from messages of a y_t that differed little."""
MOST_ENTRIES = 2**26
"""Entries of messages that are kept at a time."""


class PairwiseDenoiser:
    """The pairwise model on a graph, ready to be asked with any known labels and any y_t."""

    def __init__(
        self,
        propagation: Propagation,
        theta: Tensor,
        unlabelled: Unlabelled | None = None,
        messages: Tensor | None = None,
    ) -> None:
        """`theta` are unaries (nodes, 1 or batch, classes), given the labels that are known to the base models, and
        `messages` those that propagation begins with; by default they say nothing."""
        self.propagation, self.theta, self.unlabelled, self.messages = propagation, theta, unlabelled, messages

    @property
    def most_samples(self) -> int:
        """Samples that can be drawn at a time; at least one for every entry of theta."""
        fit = MOST_ENTRIES // max(1, len(self.propagation.edges) * self.theta.shape[-1])
        return max(self.theta.shape[1], fit)

    @torch.no_grad()
    def first_messages(self, known: Known) -> Tensor:
        """What known labels say alone (edges, 1 or batch, classes)."""
        theta = self.theta.expand(-1, max(self.theta.shape[1], known.mask.shape[1]), -1)
        most = asking_iterations(self.propagation.edges, theta.shape[-1])
        first = (
            self.propagation.silence(theta) if self.messages is None else self.messages.expand(-1, theta.shape[1], -1)
        )
        return self.propagation.propagate(certain(theta, known), first, most)

    def given(self, known: Known) -> Beliefs:
        """The beliefs of a reverse process with these labels, which may be on another device."""
        known = known.to(self.theta.device)
        return Beliefs(self.propagation, self.theta, known, self.first_messages(known), self.unlabelled)

    def begin(self, known: Known, num_samples: int, noise: Noise, logits: Callable[[], Tensor]) -> Known:
        """What samples are given: known labels, and all labels of components that have none."""
        return known if self.unlabelled is None else self.unlabelled.begin(known, num_samples, noise, logits())


class Beliefs:
    """Logits of the labels behind y_t, from one time to the next of a reverse process."""

    def __init__(
        self,
        propagation: Propagation,
        theta: Tensor,
        known: Known,
        messages: Tensor,
        unlabelled: Unlabelled | None = None,
    ) -> None:
        self.propagation, self.theta, self.known, self.messages = propagation, theta, known, messages
        self.unlabelled = unlabelled

    @torch.no_grad()
    def __call__(self, evidence: Tensor) -> Tensor:
        """The logits (nodes, batch, classes) for log p(y_t | y) of that shape."""
        here = evidence.to(self.theta.device)
        logits = self.coupled(self.theta + here)
        if self.unlabelled is not None:
            logits = self.unlabelled.pooled_with(logits, self.known, here)
        return logits.to(evidence.device)

    def coupled(self, theta: Tensor) -> Tensor:
        """The logits of the pairwise model with these unaries (nodes, batch, classes)."""
        if not self.propagation.couples:
            return theta
        batch = theta.shape[1]
        messages = self.messages.expand(-1, batch, -1)
        parts = cut(batch, len(self.propagation.edges) * theta.shape[-1])
        pieces = [self.go_on(theta[:, part], self.known.part(part), messages[:, part]) for part in parts]
        self.messages = torch.cat(pieces, dim=1) if len(pieces) > 1 else pieces[0]
        return theta + self.propagation.edges.collect(self.messages)

    def go_on(self, theta: Tensor, known: Known, messages: Tensor) -> Tensor:
        return self.propagation.propagate(certain(theta, known), messages.contiguous(), WARM_ITERATIONS)


def certain(theta: Tensor, known: Known) -> Tensor:
    """theta, or certainty where a label is given."""
    return clamped(theta, (known.y * known.mask.unsqueeze(-1)).expand_as(theta))
