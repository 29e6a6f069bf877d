r"""IREM (Du et al. 2022), a baseline of table 5: labels descend a learned energy (`dpmsnc.nn.edges.energy`).

    L = |y - y_K|^2,        y_K from K steps along the gradient, which begin at noise or where an earlier run has ended

Of a batch of 512 graphs, 32 more come from a replay buffer of 10 000, each with the labels that its last run ended at;
these and 40 others go into the buffer afterwards. Batches are smaller here, and the shares are the same. A run begins
at normal noise, as those of the diffusion models, where the authors have U(-1, 1). The answer is that of the last step,
where the authors take the step with the least energy.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpmsnc.diffusion.objective import Objective
from dpmsnc.errors import InputError
from dpmsnc.estimators.edge_regressor import DirectEdgeRegressor
from dpmsnc.training.fresh import BATCH_SIZE, FreshGraphs, Groups, labelled
from dpmsnc.training.full import LabelledGraphs
from dpmsnc.training.gradient import Draw

if TYPE_CHECKING:
    from dpmsnc.diffusion.posterior import Posterior

BUFFER_SIZE = 10_000
REPLAYED, STORED = 32 / 512, 40 / 512
"""By the graphs of a batch: those from the buffer, and fresh ones that go into it."""


@dataclass(frozen=True)
class Descent(Objective):
    """The network is given where it begins, in training in the place of the noise."""

    def corrupt(self, y_0: Tensor, t: Tensor, eps: Tensor) -> Tensor:
        return eps

    def scale_input(self, y_t: Tensor, t: Tensor | int) -> Tensor:
        return y_t


class ReplayedGraphs(FreshGraphs):
    """A stream, some of whose graphs return with the labels that the network has left them with.

    A graph with its attributes, its answer and these labels is a block (3, n, n).
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.buffer: deque[Tensor] = deque(maxlen=BUFFER_SIZE)
        self.blocks: list[Tensor] = []
        """Those of the last step (graphs, 3, n, n), by size; the labels of fresh graphs are NaN."""

    def draw(self) -> Draw:
        drawn = super().draw()
        start = torch.cat([block[:, 2].flatten() for block in self.blocks]).to(drawn.eps).view(-1, 1, 1)
        return replace(drawn, eps=torch.where(start.isnan(), drawn.eps, start))

    def next_batch(self) -> LabelledGraphs:
        self.store()
        count = self.options.batch_size or BATCH_SIZE
        fresh = self.stream.draw(count, self.graphs)
        self.blocks = joined(fresh, self.replayed(round(REPLAYED * count)))
        return labelled([(block[:, 0], block[:, 1]) for block in self.blocks], self.device)

    def replayed(self, count: int) -> list[Tensor]:
        """Blocks of the buffer at random, once it has enough."""
        if len(self.buffer) < count:
            return []
        return [self.buffer[k] for k in torch.randint(len(self.buffer), (count,), generator=self.generator).tolist()]

    def store(self) -> None:
        """Put those that were replayed and some fresh ones of the last step into the buffer, as they were left."""
        if not self.blocks:
            return
        network: Any = self.optimiser.module
        reached = network.reached[:, 0, 0].cpu()
        for block, labels in zip(self.blocks, reached.split([block[:, 2].numel() for block in self.blocks])):
            fresh = block[:, 2, 0, 0].isnan()
            chosen = ~fresh | (torch.rand(len(block), generator=self.generator) < STORED)
            left = torch.stack([block[:, 0], block[:, 1], labels.view_as(block[:, 2])], dim=1)
            self.buffer.extend(left[chosen].unbind())
        self.blocks = []

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self.store()
        tensors, values = super().state()
        flat = [block.flatten() for block in self.buffer]
        sizes = torch.tensor([block.shape[-1] for block in self.buffer], dtype=torch.long)
        return tensors | {"buffer": torch.cat([torch.empty(0), *flat]), "sizes": sizes}, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super().load_state(tensors, values)
        sizes, self.blocks = tensors["sizes"].tolist(), []
        flat = tensors["buffer"].split([3 * n * n for n in sizes])
        self.buffer = deque((block.view(3, n, n) for block, n in zip(flat, sizes)), maxlen=BUFFER_SIZE)


def joined(fresh: Groups, replayed: list[Tensor]) -> list[Tensor]:
    """Blocks (graphs, 3, n, n) of fresh graphs and of those that are replayed, those of one size together."""
    by_size: dict[int, list[Tensor]] = defaultdict(list)
    for attributes, y in fresh:
        nothing = torch.full_like(y, torch.nan)
        by_size[y.shape[-1]].append(torch.stack([attributes, y, nothing], dim=1))
    for block in replayed:
        by_size[block.shape[-1]].append(block.unsqueeze(0))
    return [torch.cat(blocks) for blocks in by_size.values()]


class IREM(DirectEdgeRegressor):
    """Labels that descend a learned energy; its network is "energy". On a stream, graphs are replayed."""

    def _objective(self) -> Objective:
        return Descent(self.schedule, self.parameterisation, self.training.weighting, self.process, self._modelled)

    def _posterior(self, asked: Any, sharpness: float = 1.0, said: Any = None) -> Posterior:
        if self.conditioning == "guided" and asked.known.any():
            raise InputError("labels that descend an energy cannot be guided; fit with conditioning='amortised'")
        return super()._posterior(asked, sharpness, said)

    def _source(self, *parts: Any) -> Any:
        if not self._is_stream:
            return super()._source(*parts)
        _, _, optimiser, objective, generator, _ = parts
        how = (self.training, generator, self.sampling, self._device())
        return ReplayedGraphs(optimiser, objective, self._stream, *how)
