r"""Learning the pairwise model: the likelihood of held-back labels, through unrolled belief propagation.

Training labels are divided into folds. For fold k every node's unary comes from a base model that was fitted without
the labels of fold k, all other training labels are known, and the labels of fold k are scored:

    loss = -1/n sum_k sum_{i in fold k} log belief_i(y_i) - 1/n log prior(a, b, J, R, gamma).

The prior is narrow, so that with few labels little more than one coupling J is learned. The few parameters are found
by L-BFGS, on all folds at once: with a fold at a time, the noise of b would tip the whole graph into one class.
Neighbours that agree and neighbours that differ are far apart for a gradient, so both are tried.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn

from dpmsnc.deadline import check_time
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.potentials import Coupling, Potentials
from dpmsnc.pairwise.propagation import Propagation

STARTS = (1.0, -1.0)
"""J that learning begins with, one after the other."""
STRENGTHS = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Couplings, of either sign, of which labels alone tell one; on dense graphs those that help are small."""
AGREEING = 4.0
"""How much more likely neighbours are to agree than to differ, where labels do not tell."""
BALANCED_GAMMA = 1.0
"""With it the couplings of a node add up to about the same at all degrees."""
TRIAL_STEPS = 6
"""Steps from each start; the better one goes on."""
LEARNING: Any = {"least": 4, "most": 12, "work": 5e6}
"""Iterations of belief propagation that the gradient goes through."""
ASKING: Any = {"least": 15, "most": 200, "work": 1e7}
"""Iterations when a model is scored or asked, so that labels travel far."""
FACTORS = (1.0, 0.5, 0.7, 2.0, 4.0)
"""That couplings may be multiplied by after learning."""
WIDTHS = {"a": (0.5, 1.0), "b": (0.0, 0.1), "J": (0.0, 1.0), "gamma": (0.5, 0.5), "R": (0.0, 0.3)}
"""Centre and width of the prior of each parameter: Gaussian, but for J, which is strong where a rule has no exception,
Cauchy's."""
BOUNDS = {"a": (0.0, None), "gamma": (0.0, 2.0)}


class Folds:
    """What a pairwise model learns from: unaries, known labels and labels that are asked for, entry by entry."""

    def __init__(self, log_p: Tensor, y: Tensor, shown: Tensor, asked: Tensor, seen: Tensor | None = None) -> None:
        """
        Args:
            log_p: Log-probabilities (bases, nodes, entries, classes) of base models that did not see what is asked for.
            y: Labels (nodes,), read where there is one.
            shown: Where a label is known (nodes, entries).
            asked: Where one is asked for (nodes, entries).
            seen: Where a known label is one that base models learned from (nodes, entries); by default nowhere.
        """
        self.log_p, self.y = log_p, y
        self.num_classes = log_p.shape[-1]
        labels = nn.functional.one_hot(y.clamp_min(0), log_p.shape[-1]).to(log_p.dtype)
        self.known = labels.unsqueeze(1) * shown.unsqueeze(-1)
        """One-hot labels (nodes, entries, classes), zero where none is known."""
        self.seen = None if seen is None else labels.unsqueeze(1) * seen.unsqueeze(-1)
        """Those among them that base models learned from."""
        self.row, self.entry = asked.nonzero(as_tuple=True)
        self.size = int(asked.any(dim=1).sum())
        """Labels that are asked for, each once."""

    @classmethod
    def of(cls, log_p: Tensor, y: Tensor, fold: Tensor) -> Folds:
        """An entry for every fold, whose labels are asked for given all others; `fold` is -1 where there is none."""
        asked = fold.unsqueeze(1) == torch.arange(log_p.shape[2])
        given = (fold.unsqueeze(1) >= 0) & ~asked
        return cls(log_p, y, given, asked, seen=given)

    @classmethod
    def without_labels(cls, log_p: Tensor, y: Tensor, fold: Tensor) -> Folds:
        """The same labels are asked for, and none is given."""
        asked = fold.unsqueeze(1) == torch.arange(log_p.shape[2])
        return cls(log_p, y, torch.zeros_like(asked), asked)

    @classmethod
    def of_halves(cls, log_p: Tensor, y: Tensor, fold: Tensor, outside: Tensor, half: Tensor) -> Folds:
        """Labels that base models have not seen, each half of them given the other: those of a fold and, in every
        fold, the labels of the nodes `outside` all folds. That is how labels come that are revealed after the fit.

        `half` is 0 or 1 at every node.
        """
        of_fold = fold.unsqueeze(1) == torch.arange(log_p.shape[2])
        unseen, first = of_fold | outside.unsqueeze(1), (half == 0).unsqueeze(1)
        given = (fold.unsqueeze(1) >= 0) & ~of_fold
        parts = unseen & first, unseen & ~first
        shown = torch.cat([given | part for part in parts], dim=1)
        seen = torch.cat([given, given], dim=1)
        return cls(torch.cat([log_p, log_p], dim=2), y, shown, torch.cat(parts[::-1], dim=1), seen)

    @classmethod
    def of_graphs(cls, log_p: Tensor, y: Tensor, half: Tensor) -> Folds:
        """Labels of graphs that no base model saw: all of them given nothing, and each half given the other.

        `log_p` has one entry; `half` is 0, 1, or -1 where there is no label.
        """
        labelled, first = half >= 0, half == 0
        second = labelled & ~first
        shown = torch.stack([torch.zeros_like(first), first, second], dim=1)
        return cls(log_p.expand(-1, -1, 3, -1), y, shown, torch.stack([labelled, second, first], dim=1))

    def beliefs(self, potentials: Potentials, edges: Edges, iterations: int) -> Tensor:
        """Logits (nodes, entries, classes)."""
        propagation = Propagation(potentials, edges, edges.mean_log)
        theta, messages = propagation.unaries(self.log_p, self.seen)
        return propagation.beliefs(theta, self.known, iterations, messages)

    def log_likelihood(self, beliefs: Tensor) -> Tensor:
        """log belief_i(y_i) of everything that is asked for."""
        log_q = beliefs[self.row, self.entry].log_softmax(dim=-1)
        return log_q.gather(1, self.y[self.row].unsqueeze(1)).squeeze(1)


def learn(folds: Folds, edges: Edges, coupling: Coupling, steps: int = 25) -> Potentials:
    """The potentials under which the labels of the folds are most likely."""
    num_bases, num_classes = len(folds.log_p), folds.log_p.shape[-1]
    if coupling == "none":
        return descend(Potentials(num_classes, "none", num_bases=num_bases), folds, edges, steps)
    return refine(begin(folds, edges), coupling, folds, edges, steps)


def begin(folds: Folds, edges: Edges) -> Potentials:
    """One coupling after a few steps, from the better of two starts."""
    starts = [Potentials(folds.num_classes, "one", J, num_bases=len(folds.log_p)) for J in STARTS]
    trials = [descend(start, folds, edges, TRIAL_STEPS) for start in starts]
    return min(trials, key=lambda trial: loss_of(trial, folds, edges).item())


def direction(y: Tensor, fold: Tensor, num_classes: int, edges: Edges) -> float:
    """1 where neighbours agree and -1 where they differ, by labels in folds alone: the sign that is learned from strong
    couplings of either one, which finds rules that hold from node to node.

    Base models that smooth over neighbours may ask for the opposite sign, to be smoothed less.
    """
    labels = Folds.of(torch.zeros(1, len(y), int(fold.max()) + 1, num_classes), y, fold)
    return 1.0 if begin(labels, edges).J >= 0 else -1.0


@torch.no_grad()
def told_by_labels(y: Tensor, fold: Tensor, num_classes: int, edges: Edges) -> float:
    """How much neighbours agree (J > 0) or differ (J < 0), by labels in folds alone: the mean of couplings of either
    sign, each weighted by how likely it makes the labels. Where these do not tell, it is a small positive one.

    Couplings are balanced for the shares of the classes: where most labels are of one class, neighbours agree anyway.
    On dense graphs the couplings that help are weak, and a gradient that begins with strong ones does not find them.
    """
    asked = fold.unsqueeze(1) == torch.arange(int(fold.max()) + 1)
    given = (fold.unsqueeze(1) >= 0) & ~asked
    shares = (1 + y[fold >= 0].bincount(minlength=num_classes)).float().log().log_softmax(dim=0)
    labels = Folds(shares.expand(1, *asked.shape, -1), y, given, asked)
    J = torch.tensor([sign * strength for strength in STRENGTHS for sign in (1, -1)], dtype=torch.float64)
    tried = (Potentials(num_classes, "balanced", strength, BALANCED_GAMMA) for strength in J.tolist())
    iterations = asking_iterations(edges, num_classes)
    found = [labels.log_likelihood(labels.beliefs(potentials, edges, iterations)).mean().item() for potentials in tried]
    prior = log_prior("J", J) + torch.where(J > 0, math.log(AGREEING), 0.0)
    log_weight = labels.size * torch.tensor(found, dtype=torch.float64) + prior
    return float(log_weight.softmax(dim=0) @ J)


def refine(potentials: Potentials, coupling: Coupling, folds: Folds, edges: Edges, steps: int) -> Potentials:
    """Learning that goes on from other potentials."""
    found = descend(Potentials.like(potentials, coupling), folds, edges, steps)
    return rescale(found, folds, edges)


def with_coupling(potentials: Potentials, J: float, folds: Folds, edges: Edges, steps: int) -> Potentials:
    """Another coupling, with everything else learned again."""
    fixed = copy.deepcopy(potentials)
    with torch.no_grad():
        fixed.J.fill_(J)
    fixed.J.requires_grad_(False)
    return descend(fixed, folds, edges, steps)


@torch.no_grad()
def rescale(potentials: Potentials, folds: Folds, edges: Edges) -> Potentials:
    """Couplings times the factor with which the labels are most likely when propagation runs to its end.

    A gradient through a few iterations overrates couplings that need many to do harm. And a rule without exceptions has
    no finite couplings, which a gradient comes near to slowly.
    """
    tried = []
    for factor in FACTORS:
        scaled = copy.deepcopy(potentials)
        scaled.J.mul_(factor)
        scaled.R.mul_(factor)
        tried.append((loss_of(scaled, folds, edges, asking_iterations(edges, folds.num_classes)).item(), scaled))
    return min(tried, key=lambda trial: trial[0])[1]


def descend(potentials: Potentials, folds: Folds, edges: Edges, steps: int) -> Potentials:
    """At most so many steps of L-BFGS from where the potentials are."""
    names = [name for name, parameter in potentials.named_parameters() if parameter.requires_grad]
    learned = [getattr(potentials, name) for name in names]
    bounds = [BOUNDS.get(name, (None, None)) for name, part in zip(names, learned) for _ in range(part.numel())]

    def loss_and_gradient(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        check_time()
        set_values(learned, values)
        loss = loss_of(potentials, folds, edges)
        gradient = torch.autograd.grad(loss, learned)
        return loss.item(), torch.cat([part.flatten() for part in gradient]).double().numpy()

    first = torch.cat([part.detach().flatten() for part in learned]).double().numpy()
    options = {"maxiter": steps, "maxfun": 2 * steps}
    found = minimize(loss_and_gradient, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    set_values(learned, found.x)
    return potentials


def set_values(parameters: Sequence[nn.Parameter], values: NDArray[np.float64]) -> None:
    flat = torch.from_numpy(values).float()
    with torch.no_grad():
        for parameter, part in zip(parameters, flat.split([parameter.numel() for parameter in parameters])):
            parameter.copy_(part.view_as(parameter))


def loss_of(potentials: Potentials, folds: Folds, edges: Edges, iterations: int | None = None) -> Tensor:
    """-1/n (log-likelihood of the folds + log prior), by default with the few iterations of learning."""
    few = edges.iterations(folds.num_classes, **LEARNING)
    scores = folds.log_likelihood(folds.beliefs(potentials, edges, iterations or few))
    return -scores.mean() + penalty(potentials) / folds.size


def asking_iterations(edges: Edges, num_classes: int) -> int:
    """Iterations of belief propagation when a fitted model is asked."""
    return edges.iterations(num_classes, **ASKING)


def penalty(potentials: Potentials) -> Tensor:
    """-log prior of all that is learned."""
    learned = [(name, getattr(potentials, name)) for name in WIDTHS]
    parts = [-log_prior(name, values).sum() for name, values in learned if values.requires_grad]
    return torch.stack(parts).sum()


def log_prior(name: str, values: Tensor) -> Tensor:
    """Of a parameter, up to a constant."""
    centre, width = WIDTHS[name]
    square = ((values - centre) / width).square()
    return -square.log1p() if name == "J" else -square / 2
