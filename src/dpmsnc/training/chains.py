"""Joint labellings to learn from, each with the labels it gives and the fold of training labels that it hides, and
where they come from: a pairwise model, or the network that learns from them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from dpmsnc.diffusion.known import Known
from dpmsnc.pairwise.denoiser import Beliefs, PairwiseDenoiser
from dpmsnc.pairwise.gibbs import SWEEPS, Gibbs
from dpmsnc.pairwise.propagation import Propagation, Unaries, cut

MOST_SHOWN = 0.5
"""Share of its own labels that a joint labelling gives at most."""


@dataclass(frozen=True)
class Chains:
    """Labellings of all rows, each to be found by a model that has not seen the training labels it hides.

    A chain gives all training labels but those of one fold, and possibly some of its own labels besides.
    """

    labels: Tensor
    """Labels (chains, rows, ...); the true ones on all training rows."""
    shown: Tensor
    """Rows whose labels are given (chains, rows)."""
    fold: Tensor
    """The fold that is hidden (chains,)."""

    def draw(self, count: int, generator: torch.Generator) -> Chains:
        """So many of them, each uniformly."""
        chosen = torch.randint(len(self.labels), (count,), generator=generator)
        return Chains(*(getattr(self, part.name)[chosen] for part in fields(self)))

    def followed_by(self, newer: Chains, size: int) -> Chains:
        """These and newer ones, without the oldest beyond `size`."""
        both = (torch.cat([getattr(self, part.name), getattr(newer, part.name)])[-size:] for part in fields(self))
        return Chains(*both)

    def to(self, device: torch.device) -> Chains:
        return Chains(*(getattr(self, part.name).to(device) for part in fields(self)))


class ChainSampler:
    """Joint labellings, one for each fold of the training labels at a time, and the denoiser on them.

    Each is drawn given all training labels, from answers of base models that did not see its fold. What is given to a
    model that learns from it, and to the denoiser that it is to correct, are the labels of the other folds; in every
    other call also some of its own labels, up to half of them.

    Several graphs are one fold, since base models are asked about each of them without its labels. Nothing is given, or
    in every other call a share of the labels of each graph, from none to all. Graphs without a training label, which
    are there for validation, are not learned from.
    """

    def __init__(
        self,
        unaries: Unaries,
        propagation: Propagation,
        sampler: Gibbs,
        y_train: NDArray[np.int64],
        fold: NDArray[np.int64],
        member: NDArray[np.int64] | None = None,
        hides_graphs: bool = False,
    ) -> None:
        """`unaries` have an entry for each fold, from base models without it; `member` tells graphs apart, of which
        several have training labels where `hides_graphs` says so."""
        unary, messages = unaries
        self.denoiser = PairwiseDenoiser(propagation, unary, messages=messages)
        self.sampler, self.num_folds = sampler, unary.shape[1]
        self.truth = torch.from_numpy(y_train).to(unary.device).unsqueeze(1).expand(-1, self.num_folds)
        of_node = torch.from_numpy(fold).to(unary.device).unsqueeze(1)
        self.labelled = (of_node >= 0).expand(-1, self.num_folds)
        self.hidden = of_node == torch.arange(self.num_folds, device=unary.device)
        self.given = self.labelled & ~self.hidden
        self.member = None if member is None else torch.from_numpy(member).to(unary.device)
        self.hides_graphs = hides_graphs
        self.learned = self.in_labelled_graphs()
        """Rows to learn from (nodes,)."""
        self.messages = self.denoiser.first_messages(self.known(self.truth, self.given))
        everything = self.known(self.truth, self.labelled)
        self.beliefs, self.all_known = self.denoiser.given(everything)(torch.zeros_like(unary)), everything.y

    def known(self, y: Tensor, mask: Tensor) -> Known:
        """Labels (nodes, folds) where the mask says so."""
        channels = self.denoiser.theta.shape[-1]
        field = one_hot(y.clamp_min(0), channels).float() * mask.unsqueeze(-1)
        return Known(mask, field)

    @torch.no_grad()
    def draw(self, generator: torch.Generator, shows_own: bool, labels: Tensor | None = None) -> Chains:
        if labels is None:
            y = self.sampler.sample(self.denoiser.theta, self.beliefs, self.all_known, SWEEPS, generator)
        else:
            y = torch.where(self.labelled, self.truth, labels.T.to(self.truth.device))
        shown = self.with_own(generator) if shows_own else self.given
        return Chains(y.T, shown.T, torch.arange(self.num_folds, device=y.device))

    def with_own(self, generator: torch.Generator) -> Tensor:
        """Rows (rows, folds) whose labels are given, some of a labelling's own among them."""
        if self.member is None or not self.hides_graphs:
            return with_own(self.given, self.hidden, generator)
        share = torch.rand(int(self.member[-1]) + 1, self.num_folds, generator=generator)[self.member.cpu()]
        return (torch.rand(share.shape, generator=generator) < share).to(self.given.device)

    def in_labelled_graphs(self) -> Tensor:
        """All rows, or those of graphs that have a training label."""
        labelled = self.labelled[:, 0]
        if self.member is None:
            return torch.ones_like(labelled)
        return torch.isin(self.member, self.member[labelled])

    def logits(self, chains: Chains, evidence: Tensor) -> Tensor:
        """Messages begin as those of the labels of other folds."""
        propagation, theta = self.denoiser.propagation, self.denoiser.theta
        chains = chains.to(theta.device)
        known = self.known(chains.labels.T, chains.shown.T)

        def of(part: slice) -> Tensor:
            fold = chains.fold[part]
            return Beliefs(propagation, theta[:, fold], known.part(part), self.messages[:, fold])(evidence[:, part])

        parts = cut(len(chains.fold), len(propagation.edges) * theta.shape[-1])
        return torch.cat([of(part) for part in parts], dim=1)


def with_own(given: Tensor, hidden: Tensor, generator: torch.Generator) -> Tensor:
    """Rows (rows, folds) whose labels are given, and of the others some at random, but none that is hidden."""
    share = MOST_SHOWN * torch.rand(given.shape[1], generator=generator)
    chosen = (torch.rand(given.shape, generator=generator) < share).to(given.device)
    return given | (chosen & ~hidden)
