"""Graphs with values on edges, for tests: complete ones as blocks and as lists, and the network of PyG."""

import torch
from torch import nn
from torch_geometric.nn import GINEConv

from dpmsnc.nn.denoiser import sinusoid
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
    return EdgeTensors([part], torch.cat([group.reshape(-1, group.shape[-1]) for group in groups]))


class PlainGINE(nn.Module):
    """The paper's denoiser on PyG's layers, with the weights of ours."""

    def __init__(self, ours):
        super().__init__()
        self.ours, self.convs = ours, nn.ModuleList()
        for of_edge, of_node in zip(ours.of_edge, ours.of_node):
            conv = GINEConv(nn.Linear(of_node.in_features, 1), edge_dim=of_edge.in_features)
            conv.nn, conv.lin = of_node, of_edge  # not before, since PyG begins with new weights
            self.convs.append(conv)

    def forward(self, edge_index, edge_attr, y_t, t_of_node, num_nodes):
        """One label field (edges, 1); a time for every node."""
        ours, h = self.ours, torch.zeros(num_nodes, 1, dtype=y_t.dtype)
        embedded = torch.cat([ours.embed_attr(edge_attr), ours.embed_label(y_t)], dim=-1)
        for conv in self.convs:
            h = conv(h, edge_index, embedded) + ours.time(sinusoid(t_of_node).to(y_t))
        both = torch.cat([h[edge_index[0]], h[edge_index[1]], y_t], dim=-1)
        return ours.head(ours.decoder(both).relu())
