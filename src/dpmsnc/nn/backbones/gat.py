r"""GAT (Velickovic et al. 2018): with z = H W split into heads, the new field of node i is, in every head,

    sum_j a_ij z_j + b,      a_ij = softmax_j LeakyReLU(<s, z_j> + <r, z_i>),      j a neighbour of i or i itself.

The heads are concatenated in every layer, the last one too, as the authors of DPM-SNC do; only a convolution that is
the head of a plain classifier has a single one. The original also drops entries of a_ij in training: the option
`attention_dropout`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from dpmsnc.config import check_number
from dpmsnc.nn.backbones.base import Backbone, Conv, multiply
from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors, Operator

MAX_HEADS = 8
NEGATIVE_SLOPE = 0.2


class GATConv(Conv):
    """With as many heads as divide the channels, at most `heads`; a share of the attention is dropped in training."""

    def __init__(
        self,
        in_channels: int,
        label_channels: int,
        out_channels: int,
        *,
        heads: int = MAX_HEADS,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__(in_channels, label_channels, out_channels)
        check_number("heads", heads, 1, whole=True)
        check_number("attention_dropout", attention_dropout, 0, 0.99)
        self.dropout = attention_dropout
        self.heads = max(count for count in range(1, heads + 1) if out_channels % count == 0)
        width = out_channels // self.heads
        # PyG's initialisation: Glorot on (heads, width), not on the (heads * width, heads) matrix it stands for
        bound = math.sqrt(6 / (self.heads + width))
        self.source = nn.Parameter(torch.empty(self.heads, width).uniform_(-bound, bound))
        self.target = nn.Parameter(torch.empty(self.heads, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def lift(self, h: Tensor | Operator, weight: Tensor, graph: GraphTensors) -> Tensor:
        return multiply(h, weight)

    def spread(self, y: Tensor, graph: GraphTensors) -> Tensor:
        return y

    def finish(self, z: Tensor, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        edges = Edges.of(graph)
        nodes, batch, channels = z.shape
        attention = dropout(edges.softmax(self.scores(z, graph)), self.dropout, generator)
        mixed = attend(edges, attention, z.reshape(nodes, batch * self.heads, -1))
        return mixed.view(nodes, batch, channels) + self.bias

    def scores(self, z: Tensor, graph: GraphTensors) -> Tensor:
        """What the softmax is taken of: a row per edge, a column per batch entry and head."""
        edges = Edges.of(graph)
        # as one dense product: a sum over each head's few channels would run over a short axis
        scores = z @ torch.cat([_block_columns(self.source), _block_columns(self.target)], dim=1)
        at_source, at_target = (s.flatten(1) for s in scores.split(self.heads, dim=-1))
        return nn.functional.leaky_relu(edges.from_source(at_source) + edges.from_target(at_target), NEGATIVE_SLOPE)


def attend(edges: Edges, attention: Tensor, z: Tensor) -> Tensor:
    """sum_j a_ij z_j of every field: attention is (edges, fields), z is (nodes, fields, channels)."""
    return _Attend.apply(edges, attention, z)


def _block_columns(vectors: Tensor) -> Tensor:
    """(heads, width) as the (heads * width, heads) matrix that multiplies each head by its own vector."""
    return torch.block_diag(*vectors.unsqueeze(-1))


class GAT(Backbone):
    """Options: `heads`, at most so many; `attention_dropout`, a rate, or True for that of the hidden field."""

    conv: ClassVar[type[GATConv]] = GATConv

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        label_channels: int = 0,
        dropout: float = 0.5,
        *,
        heads: int = MAX_HEADS,
        attention_dropout: bool | float = False,
        **options: Any,
    ) -> None:
        rate = dropout if attention_dropout is True else float(attention_dropout)
        attention: dict[str, Any] = {"heads": heads, "attention_dropout": rate}
        super().__init__(in_channels, hidden_channels, num_layers, label_channels, dropout, **attention, **options)

    def last(self, in_channels: int, out_channels: int) -> GATConv:
        """With a single head, as in the original on Cora and Citeseer (on Pubmed it averages eight)."""
        return self.conv(in_channels, 0, out_channels, **(self.conv_options | {"heads": 1}))

    def leave(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        return dropout(nn.functional.elu(z, inplace=True), self.dropout, generator)


class Edges:
    """The edges, with self-loops or without, sorted by target: as operators between nodes and edges, and as a sparse
    matrix."""

    def __init__(self, graph: GraphTensors, loops: bool = True) -> None:
        source, target = graph.edges_with_loops if loops else graph.edges_without_loops
        self.num_nodes = graph.graph.num_nodes
        self.in_degree = torch.bincount(target, minlength=self.num_nodes)
        self.row_start = nn.functional.pad(self.in_degree.cumsum(0), (1, 0)).int()
        self.column = source.int()
        # the adjacency is symmetric: sorted by source, the edges are the same list turned round
        self.reverse = torch.argsort(source, stable=True)
        pick_source, pick_target = (_selection(index, self.num_nodes) for index in (source, target))
        self.from_source, self.from_target, self.to_target = (
            Operator(matrix, graph.device, graph.dtype)
            for matrix in (pick_source, pick_target, sp.csr_array(pick_target.T))
        )

    @classmethod
    def of(cls, graph: GraphTensors, loops: bool = True) -> Edges:
        return graph.cached("edges" if loops else "edges/no loops", lambda: cls(graph, loops))

    def softmax(self, e: Tensor) -> Tensor:
        """exp(e) of every edge, brought to sum 1 over the edges into each node."""
        with torch.no_grad():  # the softmax does not depend on what is subtracted
            highest = self.from_target(torch.segment_reduce(e, "max", lengths=self.in_degree, axis=0))
        weight = (e - highest).exp()
        return weight * self.from_target(self.to_target(weight).reciprocal())

    def matrix(self, value: Tensor) -> Tensor:
        """The sparse matrix that has `value` on the edges; row i holds the edges into node i."""
        size = (self.num_nodes, self.num_nodes)
        return torch.sparse_csr_tensor(self.row_start, self.column, value, size=size, check_invariants=False)


def _selection(index: Tensor, num_nodes: int) -> sp.csr_array:
    """The 0/1 matrix that takes node values to edges; as a product its backward is a sum in a fixed order."""
    rows = np.arange(len(index) + 1)
    return sp.csr_array((np.ones(len(index), np.float32), index.cpu().numpy(), rows), shape=(len(index), num_nodes))


class _Attend(torch.autograd.Function):
    # Messages are never formed. For each batch entry and head the forward is one sparse product; the backward is one
    # more with the transpose, and for the attention the inner products of gradient and field, taken at the edges only.
    @staticmethod
    def forward(ctx: Any, edges: Edges, attention: Tensor, z: Tensor) -> Tensor:
        attention, z = _by_field(attention), _by_field(z)
        ctx.edges = edges
        ctx.save_for_backward(attention, z)
        return _by_field(_mix(edges, attention, z))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        edges, (attention, z), grad = ctx.edges, ctx.saved_tensors, _by_field(grad)
        grad_z = _mix(edges, attention.index_select(1, edges.reverse), grad)
        grad_attention = torch.empty_like(attention)
        for k in range(len(z)):
            at_edges = torch.sparse.sampled_addmm(edges.matrix(attention[k]), grad[k], z[k].T, beta=0)
            grad_attention[k] = at_edges.values()
        return None, _by_field(grad_attention), _by_field(grad_z)


def _mix(edges: Edges, attention: Tensor, z: Tensor) -> Tensor:
    """The sparse products of attention (fields, edges) and z (fields, nodes, channels)."""
    out = torch.empty_like(z)
    for k in range(len(z)):
        torch.mm(edges.matrix(attention[k]), z[k], out=out[k])
    return out


def _by_field(h: Tensor) -> Tensor:
    """Swap the axis of nodes or edges with that of fields; a copy, since elementwise work on mixed strides is slow."""
    return h.transpose(0, 1).contiguous()
