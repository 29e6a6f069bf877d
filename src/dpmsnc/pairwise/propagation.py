r"""Loopy belief propagation in the pairwise model, for a batch of unaries and known labels on one graph at once.

With theta_i replaced by certainty where a label is known,

    m_{i->j}(c') = log sum_c exp(s_ij H(c, c')) q_{i->j}(c),   q_{i->j} = softmax(theta_i + sum_{k != j} m_{k->i}),

damped in the logarithm; the belief of a node is softmax(theta_i + sum_k m_{k->i}). It is exact on trees. At a known
node the belief is the opinion of everything but its own label: theta_i is what it was before the label was known.

With balanced couplings, theta_i is the unary of the base models less the sum of messages that solve, with
p = softmax(theta) and on every edge by itself,

    m_{i->j}(c') = log sum_c exp(s_ij H(c, c')) p_i(c) / exp(m_{j->i}(c)).

Propagation begins with these messages. They are a fixed point whose beliefs are p_i, and on a tree these are exact.
Where base models learned from the label of a node, p_i is certain of it: what they made of that label is in their
answers elsewhere already.

The loop does not depend on how a message is made: `dpmsnc.pairwise.edge_potentials` has a matrix for every edge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import SURE, Potentials

DAMPING, LEARNING_DAMPING = 0.5, 0.2
"""Share of the old message that is kept. Couplings that are negative make undamped messages swing between two answers;
the few iterations that a gradient goes through could not swing often, and must carry labels far."""
STRONGEST = 60.0
"""Coupling of an edge beyond which it counts as this: its exponential must be finite."""
TOLERANCE = 1e-4
"""Largest change of a log-message at which propagation has converged."""

MOST_BALANCING = 50
"""Iterations that balance couplings at most; with moderate ones a few are enough."""
ENTRIES = 2**20
"""Entries of messages that are worked on at a time, so that they stay in the processor's cache."""


class Unaries(NamedTuple):
    """What propagation begins with."""

    theta: Tensor
    """(nodes, batch, classes)."""
    messages: Tensor | None
    """Log-messages (edges, batch, classes); None where they say nothing."""


class MessagePassing(ABC):
    """Messages between the nodes of a graph until they no longer change; `passed_on` says what an edge carries."""

    def __init__(self, edges: Edges, couples: bool) -> None:
        self.edges, self.couples = edges, couples and len(edges) > 0

    def beliefs(self, theta: Tensor, known: Tensor | None, iterations: int, messages: Tensor | None = None) -> Tensor:
        """Logits (nodes, batch, classes), up to a constant a node.

        Args:
            theta: Unaries of that shape.
            known: One-hot labels of that shape, zero where a label is unknown.
            iterations: At most so many.
            messages: Log-messages (edges, batch, classes) to begin with; by default they say nothing.
        """
        if not self.couples:
            return theta
        evidence = theta if known is None else clamped(theta, known)
        damping = LEARNING_DAMPING if torch.is_grad_enabled() else DAMPING
        first = self.silence(theta) if messages is None else messages
        return theta + self.edges.collect(self.propagate(evidence, first, iterations, damping))

    def silence(self, theta: Tensor) -> Tensor:
        """Log-messages (edges, batch, classes) that say nothing."""
        return theta.new_zeros(len(self.edges), *theta.shape[1:])

    def propagate(
        self,
        evidence: Tensor,
        messages: Tensor,
        iterations: int,
        damping: float = DAMPING,
    ) -> Tensor:
        """Log-messages after at most so many iterations, from those that there are; fewer where nothing changes."""
        learning = torch.is_grad_enabled()
        for iteration in range(iterations if self.couples else 0):
            new = self.passed_on(evidence + self.edges.collect(messages), messages)
            settled = not learning and iteration % 5 == 0 and bool((new - messages).abs().max() <= TOLERANCE)
            messages = torch.lerp(new, messages, damping)
            if settled:
                break
        return messages

    @abstractmethod
    def passed_on(self, total: Tensor, messages: Tensor) -> Tensor:
        """Log-messages (edges, batch, classes) from the sum of all that a node has and the messages before."""


class Propagation(MessagePassing):
    """Beliefs of a model on a graph; what depends on neither labels nor unary is computed once."""

    def __init__(self, potentials: Potentials, edges: Edges, mean_log: float) -> None:
        super().__init__(edges, potentials.coupling != "none")
        self.potentials = potentials
        self.scales = edges.scales(potentials.gamma, mean_log)
        if potentials.has_rest:
            H = potentials.H
            self.compatibilities = (self.scales.view(-1, 1, 1) * (H - H.max().detach())).exp()
        else:
            sizes = torch.tensor(edges.sizes, dtype=torch.long, device=self.scales.device)
            strength = (potentials.J * self.scales).clamp_max(STRONGEST)
            self.agreement = torch.expm1(strength).repeat_interleave(sizes).view(-1, 1, 1)

    def unaries(self, log_p: Tensor, seen: Tensor | None = None) -> Unaries:
        """Those of log-probabilities (bases, nodes, batch, classes) on this graph.

        `seen` are the labels that base models learned from (nodes, batch, classes), one-hot, zero where there is none.
        """
        return self.balanced(self.potentials.unary(log_p), seen)

    @torch.no_grad()
    def balanced(self, theta: Tensor, seen: Tensor | None = None) -> Unaries:
        """With balanced couplings, unaries whose beliefs are softmax(theta) given the labels that are `seen`; theta
        itself with others."""
        if self.potentials.coupling != "balanced" or not self.couples:
            return Unaries(theta, None)
        messages = self.silence(theta)
        total = theta if seen is None else clamped(theta, seen)
        for _ in range(MOST_BALANCING):
            last, messages = messages, self.passed_on(total, messages)
            if bool((messages - last).abs().max() <= TOLERANCE):
                break
        return Unaries(theta - self.edges.collect(messages), messages)

    def passed_on(self, total: Tensor, messages: Tensor) -> Tensor:
        """Messages from the sum of all that a node has.

        The exponentials are those of nodes and of old messages: nothing is subtracted edge by edge first.
        """
        p = (total - total.amax(dim=-1, keepdim=True)).exp()
        q = self.edges.send(p) * (-messages).exp().index_select(0, self.edges.reverse)
        q = q / q.sum(dim=-1, keepdim=True)
        if not self.potentials.has_rest:
            return (1 + self.agreement * q).clamp_min(1e-6).log()
        parts = [part @ matrix for part, matrix in zip(q.split(self.edges.sizes), self.compatibilities)]
        return torch.cat(parts).clamp_min(1e-12).log()


def clamped(theta: Tensor, known: Tensor) -> Tensor:
    """theta, or certainty where a label is known."""
    return torch.where(known.sum(dim=-1, keepdim=True) > 0, SURE * known, theta)


def cut(batch: int, entries: int) -> list[slice]:
    """A batch in parts whose messages, so many entries each, are worked on at a time."""
    size = max(1, ENTRIES // max(1, entries))
    return [slice(first, min(first + size, batch)) for first in range(0, batch, size)]
