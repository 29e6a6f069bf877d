r"""Other graphs of which fewer labels are known than where couplings were learned.

Couplings are learned where a share s_0 of the labels is known, which hold each other in check. Where fewer are known,
neighbours repeat to each other what little there is until all of them are sure of it. So there, beliefs are pooled with
the marginals of components without a known label (`dpmsnc.pairwise.unlabelled`), logit by logit,

    f(s) coupled + (1 - f(s)) alone,    f(s) = min(1, s / s_0)^kappa,

with s the share of labels that is known in a component. kappa is learned by hiding more labels of the fitted graph. It
is 0 where a rule holds without exceptions, so that one label settles a component, and large where few labels say
little about far nodes. In a reverse process y_t comes to tell labels, too, and s grows to 1: in the end a joint
labelling obeys the couplings as they were learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, log

import torch
from torch import Tensor

from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.learning import Folds, asking_iterations
from dpmsnc.pairwise.potentials import Potentials

POWERS = (0.0, 0.5, 1.0, 2.0)
"""Values of kappa to choose from."""
SHARES = (0.5, 0.25, 0.0625)
"""Of the labels that are usually known, those that are shown where kappa is learned."""
ENOUGH = 0.015
"""Nats a label by which trust that depends on the share of labels has to be better than full trust."""


@dataclass(frozen=True)
class Trust:
    """f: how far couplings are trusted."""

    usual: float
    """s_0."""
    power: float
    """kappa."""

    def __post_init__(self) -> None:
        if not (isfinite(self.usual) and self.usual > 0 and isfinite(self.power) and self.power >= 0):
            raise ValueError(f"a usual share of {self.usual} and a power of {self.power} are out of range")

    def at(self, share: Tensor) -> Tensor:
        """f of shares of known labels."""
        return (share / self.usual).clamp(0, 1) ** self.power


def share_known(component: Tensor, mask: Tensor, evidence: Tensor | None = None) -> Tensor:
    """The share of labels (nodes, batch) that is known in the component of every node.

    Args:
        component: Of every node (nodes,).
        mask: Where labels are known (nodes, batch).
        evidence: log p(y_t | y) (nodes, batch, classes): where it is certain, a label counts as known.
    """
    told = mask.float() if evidence is None else torch.where(mask, 1.0, certainty(evidence))
    size = component.bincount().unsqueeze(1)
    total = told.new_zeros(len(size), told.shape[1]).index_add_(0, component, told)
    return (total / size)[component]


def certainty(logits: Tensor) -> Tensor:
    """1 where logits leave no doubt about a class, 0 where they say nothing."""
    log_p = logits.log_softmax(dim=-1)
    return (1 + (log_p.exp() * log_p).sum(dim=-1) / log(logits.shape[-1])).clamp(0, 1)


def pooled(coupled: Tensor, alone: Tensor, trust: Tensor) -> Tensor:
    """Logits (nodes, batch, classes) between those with couplings and those without, for a trust (nodes, batch)."""
    return torch.lerp(alone.expand_as(coupled), coupled, trust.unsqueeze(-1))


@torch.no_grad()
def learn_trust(
    potentials: Potentials,
    alone: Tensor,
    edges: Edges,
    component: Tensor,
    usual: float,
    question: Callable[[float], Folds],
) -> Trust | None:
    """The trust under which labels are most likely where fewer of them are shown; None where it may be full.

    Args:
        potentials: Those with couplings.
        alone: Logits (nodes, folds, classes) of nodes in components without a known label.
        edges: Of the fitted graph.
        component: Of every node (nodes,).
        usual: The share of labels that was known where couplings were learned.
        question: Labels of the folds that are asked for where this share of the others is shown.
    """
    tried = [Trust(usual, power) for power in POWERS]
    scores = torch.zeros(len(tried), dtype=torch.float64)
    for folds in map(question, SHARES):
        coupled = folds.beliefs(potentials, edges, asking_iterations(edges, folds.num_classes))
        share = share_known(component, folds.known.any(dim=-1))
        found = [folds.log_likelihood(pooled(coupled, alone, trust.at(share))).mean() for trust in tried]
        scores += torch.stack(found).double() / len(SHARES)
    best = int(scores.argmax())
    return tried[best] if scores[best] > scores[0] + ENOUGH else None
