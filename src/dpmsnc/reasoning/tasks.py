r"""The three tasks of table 5, after Du et al. 2022, each with its exact answer on every edge.

A graph is complete and directed with self-loops: an n x n matrix of edge attributes, and another one of answers. Nodes
have no features.

    edge copy               a_ij ~ U(-1, 1)                                y = a
    connected components    a_ij = 1 with probability .05, else 0          y_ij = 1 where i and j are connected by
                            (of each direction on its own)                 attributes 1 in whichever direction
    shortest path           a = u + u^T, u_ij ~ U(0, 1), a_ii = 0          y_ij = length of the shortest path

Graphs to learn from have 2 to 10 nodes; they are drawn anew in every step. `generator` gives training, validation and
test graphs of the same seed streams of their own. Many graphs are made at once: components by squaring the matrix of
what is reachable, distances by n min-plus steps (Floyd and Warshall).

The rules at the end need no learning. They are what a method has to beat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dpmsnc.config import check_number
from dpmsnc.registry import Registry

Purpose = Literal["train", "validation", "test"]
Groups = list[tuple[Tensor, Tensor]]
"""Attributes and answers (graphs, n, n), those of graphs of one size together."""
PURPOSES: tuple[Purpose, ...] = ("train", "validation", "test")
SIZES = range(2, 11)
"""Nodes of a graph to learn from."""
EDGE_SHARE = 0.05
"""Share of the ordered pairs that are joined where components are asked for."""


@dataclass(frozen=True)
class ReasoningTask:
    """Attributes at random, their exact answer, and a rule that needs no learning."""

    attributes: Callable[[int, int, torch.Generator], Tensor]
    """Of so many graphs of so many nodes (graphs, n, n)."""
    answer: Callable[[Tensor], Tensor]
    """The exact answer to attributes (graphs, n, n), of the same shape."""
    rule: Callable[[Tensor], Tensor]
    """What a trivial rule answers."""

    def draw(self, count: int, num_nodes: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Attributes and answers of graphs of one size, both (count, n, n)."""
        check_number("num_nodes", num_nodes, 1, 10**4, whole=True)
        attributes = self.attributes(count, num_nodes, generator)
        return attributes, self.answer(attributes)

    def draw_mixed(self, count: int, generator: torch.Generator, sizes: range = SIZES) -> Groups:
        """Graphs whose sizes are drawn uniformly; those of one size together, from the smallest to the largest."""
        drawn = torch.randint(sizes.start, sizes.stop, (count,), generator=generator)
        counts = drawn.bincount(minlength=sizes.stop).tolist()
        return [self.draw(number, size, generator) for size, number in enumerate(counts) if number]


def generator(seed: int, purpose: Purpose, *further: int) -> torch.Generator:
    """The stream of a seed for a purpose; `further` numbers, such as a size, tell streams of it apart."""
    state = np.random.SeedSequence([seed, PURPOSES.index(purpose), *further]).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 32 | int(state[1]))


def uniform(count: int, n: int, generator: torch.Generator) -> Tensor:
    """a_ij ~ U(-1, 1)."""
    return 2 * torch.rand(count, n, n, generator=generator) - 1


def few_edges(count: int, n: int, generator: torch.Generator) -> Tensor:
    """1 for few of the ordered pairs, else 0; neither symmetric nor without a diagonal."""
    return (torch.rand(count, n, n, generator=generator) > 1 - EDGE_SHARE).float()


def lengths(count: int, n: int, generator: torch.Generator) -> Tensor:
    """Symmetric lengths with a triangular distribution on [0, 2], and a diagonal of 0."""
    u = torch.rand(count, n, n, generator=generator)
    return (u + u.mT) * (1 - torch.eye(n))


def joined(attributes: Tensor) -> Tensor:
    """Which pairs are the same node, or are joined in one of the two directions."""
    n = attributes.shape[-1]
    return (attributes + attributes.mT + torch.eye(n) > 0).float()


def components(attributes: Tensor) -> Tensor:
    """1 where two nodes are in the same weakly connected component: what is reachable in 1, 2, 4, ... hops."""
    reachable = joined(attributes)
    for _ in range((attributes.shape[-1] - 1).bit_length()):
        reachable = two_hops(reachable)
    return reachable


def two_hops(reachable: Tensor) -> Tensor:
    """What is reachable by two steps in a row."""
    return (reachable @ reachable > 0).float()


def distances(attributes: Tensor) -> Tensor:
    """Lengths of shortest paths: node k as a stop for every pair, for one k after the other."""
    found = attributes.clone()
    for k in range(attributes.shape[-1]):
        torch.minimum(found, found[..., :, k, None] + found[..., None, k, :], out=found)
    return found


def own_attribute(attributes: Tensor) -> Tensor:
    """The attribute of the edge itself."""
    return attributes


def reachable_in_two(attributes: Tensor) -> Tensor:
    """1 where two nodes are joined by at most two edges."""
    return two_hops(joined(attributes))


def one_stop(attributes: Tensor) -> Tensor:
    """The shortest path with at most one stop: one min-plus step."""
    return torch.stack([(row[..., None] + attributes).amin(dim=-2) for row in attributes.unbind(dim=-2)], dim=-2)


TASKS: Registry[ReasoningTask] = Registry("reasoning task")
TASKS["edge_copy"] = ReasoningTask(uniform, own_attribute, own_attribute)
TASKS["connected_components"] = ReasoningTask(few_edges, components, reachable_in_two)
TASKS["shortest_path"] = ReasoningTask(lengths, distances, one_stop)


@dataclass(frozen=True)
class TaskStream:
    """Graphs of a task for `EdgeRegressor.fit`: fresh ones to learn from, and fixed ones to choose weights by."""

    name: str
    seed: int = 0
    num_validation: int = 256

    def draw(self, count: int, generator: torch.Generator) -> Groups:
        """Graphs of mixed sizes to learn from."""
        return TASKS.find(self.name).draw_mixed(count, generator)

    def generator(self) -> torch.Generator:
        """Where graphs to learn from begin."""
        return generator(self.seed, "train")

    def validation(self) -> Groups:
        """Graphs of the largest size that is learned from, which none is learned from."""
        n = SIZES[-1]
        return [TASKS.find(self.name).draw(self.num_validation, n, generator(self.seed, "validation", n))]
