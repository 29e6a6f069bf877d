"""Graphs with values on edges, for tests: complete ones as blocks and as lists."""

import torch

from dpmsnc.nn.edges.tensors import EdgeTensors, Listed


def complete_groups(sizes=((3, 2), (2, 5), (1, 1)), channels=1, seed=0):
    """Attributes (graphs, n, n, channels) of so many graphs of n nodes."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(count, n, n, channels, generator=generator) for count, n in sizes]


def listed_tensors(groups):
    """The same complete graphs as one list of edges."""
    ends, member, first = [], [], 0
    for group in groups:
        n = group.shape[1]
        pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n)).view(-1, 2)
        for _ in group:
            ends.append(pairs + first)
            member += [len(set(member))] * n
            first += n
    source, target = torch.cat(ends).T
    part = Listed(source, target, first, torch.tensor(member))
    return EdgeTensors(part, torch.cat([group.reshape(-1, group.shape[-1]) for group in groups]))
