r"""Joint labellings of tags to learn from, and the denoiser that a network corrects on them.

The initialiser of tags has log-odds theta_ik of every tag of every node, each on its own. Noise falls on every tag by
itself, so with the evidence e = log p(y_t | 1) - log p(y_t | 0) the exact denoiser of such a model is

    E[y_ik | y_t] = sigmoid(theta_ik + e_ik).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.sampler import Noise
from dpmsnc.training.chains import Chains, with_own

MOST_ENTRIES = 2**26
"""Entries of label fields that are kept at a time."""


class TagDenoiser:
    """Independent tags, ready to be asked at any y_t."""

    def __init__(self, theta: Tensor) -> None:
        """`theta` are log-odds (nodes, 1 or batch, tags), given the labels that are known to the base models."""
        self.theta = theta

    @property
    def most_samples(self) -> int:
        """Samples that can be drawn at a time; at least one for every entry of theta."""
        return max(self.theta.shape[1], MOST_ENTRIES // max(1, self.theta[:, 0].numel()))

    def given(self, known: Known) -> Callable[[Tensor], Tensor]:
        """Known labels say nothing of other nodes beyond what the base models made of them."""
        return lambda evidence: self.theta.to(evidence) + evidence

    def begin(self, known: Known, num_samples: int, noise: Noise, logits: Callable[[], Tensor]) -> Known:
        """Samples are given nothing but known labels."""
        return known


class TagChains:
    """Labellings, one for each fold of the training labels at a time: drawn tag by tag, true on training rows.

    They come from base models that did not see the fold. What is given, as in `ChainSampler`, are the labels of the
    other folds, and in every other call also some of a labelling's own.
    """

    def __init__(self, theta: Tensor, y_train: NDArray[np.int64], fold: NDArray[np.int64]) -> None:
        """`theta` (nodes, folds, tags) are log-odds from base models without the fold."""
        self.denoiser, self.num_folds = TagDenoiser(theta), theta.shape[1]
        of_node = torch.from_numpy(fold).unsqueeze(1)
        self.labelled, self.hidden = of_node >= 0, of_node == torch.arange(self.num_folds)
        self.given = self.labelled & ~self.hidden
        self.learned = torch.ones(len(fold), dtype=torch.bool)
        # a byte a tag: there may be millions, times the size of the buffer
        self.truth = torch.from_numpy(y_train.clip(0).astype(np.int8)).unsqueeze(1)

    def draw(self, generator: torch.Generator, shows_own: bool, labels: Tensor | None = None) -> Chains:
        if labels is None:
            y = self.denoiser.theta.sigmoid().bernoulli(generator=generator)
        else:
            y = labels.cpu().transpose(0, 1)
        y = torch.where(self.labelled.unsqueeze(-1), self.truth, y.to(torch.int8))
        shown = with_own(self.given, self.hidden, generator) if shows_own else self.given
        return Chains(y.transpose(0, 1), shown.T, torch.arange(self.num_folds))

    def logits(self, chains: Chains, evidence: Tensor) -> Tensor:
        return self.denoiser.theta[:, chains.fold.cpu()].to(evidence) + evidence
