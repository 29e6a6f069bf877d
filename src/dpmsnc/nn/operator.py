"""Sparse products on label fields, and the graph as a network sees it.

A label field is shaped (nodes, batch, channels): time draws and joint samples are a batch axis on one graph, not
copies of the graph, so that one sparse product serves them all.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpmsnc.config import ScalingName
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features


class Operator:
    """A constant sparse matrix M that maps (columns, ...) to (rows, ...); its backward is M transposed."""

    def __init__(self, matrix: sp.csr_array, device: torch.device, dtype: torch.dtype) -> None:
        self.shape = matrix.shape
        self.matrix = _csr_tensor(matrix, device, dtype)
        symmetric = matrix.shape[0] == matrix.shape[1] and abs(matrix - matrix.T).max() == 0
        self.transpose = self.matrix if symmetric else _csr_tensor(sp.csr_array(matrix.T), device, dtype)

    def __call__(self, h: Tensor) -> Tensor:
        return _Product.apply(self, h) if torch.is_grad_enabled() else _multiply(self.matrix, h)

    def back(self, grad: Tensor) -> Tensor:
        """The transpose of it, without a gradient of its own."""
        return _multiply(self.transpose, grad)

    def restrict(self, rows: Tensor, columns: Tensor) -> Operator:
        """The operator of those rows and columns alone."""
        matrix = sp.csr_array(
            (self.matrix.values().cpu(), self.matrix.col_indices().cpu(), self.matrix.crow_indices().cpu()),
            shape=self.shape,
        )
        return Operator(matrix[rows.cpu().numpy()][:, columns.cpu().numpy()], self.matrix.device, self.matrix.dtype)


class _Product(torch.autograd.Function):
    # torch's own sparse product also asks for the gradient of the matrix; ours is constant
    @staticmethod
    def forward(ctx: Any, operator: Operator, h: Tensor) -> Tensor:
        ctx.operator = operator
        return _multiply(operator.matrix, h)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, _multiply(ctx.operator.transpose, grad)


def _multiply(matrix: Tensor, h: Tensor) -> Tensor:
    out = h.new_empty(matrix.shape[0], *h.shape[1:])
    width = math.prod(h.shape[1:])
    flat = out.view(matrix.shape[0], width)
    # unlike `matrix @ h` and `torch.mm(..., out=)`, this neither fills a result with zeros first nor copies it after
    torch.addmm(flat, matrix, h.reshape(h.shape[0], width), beta=0, out=flat)
    return out


def _csr_tensor(matrix: sp.csr_array, device: torch.device, dtype: torch.dtype) -> Tensor:
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    index = np.int32 if matrix.nnz < 2**31 else np.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index)),
            torch.from_numpy(matrix.indices.astype(index)),
            torch.from_numpy(matrix.data).to(dtype),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )


class GraphTensors:
    """A graph as a network sees it on one device: its features, scaled, and its operators, each made when first used.

    What is made is kept by the graph, whose copies with other labels share it; nothing of it depends on labels.
    """

    def __init__(self, graph: Graph, features: Features, device: torch.device, dtype: torch.dtype) -> None:
        self.graph, self.features, self.device, self.dtype = graph, features, device, dtype
        self._operators: dict[OperatorName, Operator] = {}

    @classmethod
    def of(
        cls,
        graph: Graph,
        features: Features | ScalingName = "unit",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> GraphTensors:
        """`features` may be the name of a scaling, which is then fitted to this graph."""
        fitted = features if isinstance(features, Features) else Features.fit(graph, features)
        return cls(graph, fitted, torch.device(device), dtype)

    @functools.cached_property
    def x(self) -> Operator | Tensor:
        """Features: a sparse operator to be applied to a weight matrix, or dense N x F; ones where there are none."""
        return self.cached(f"x/{self.features.key}", self._input)

    def _input(self) -> Operator | Tensor:
        x = self.features.transform(self.graph)
        if x is None:
            return torch.ones(self.graph.num_nodes, 1, device=self.device, dtype=self.dtype)
        if sp.issparse(x):
            return Operator(x, self.device, self.dtype)
        return torch.as_tensor(x, device=self.device, dtype=self.dtype)

    def cached(self, name: str, build: Callable[[], Any]) -> Any:
        """What `build()` made the first time, on this device."""

        def outside_inference() -> Any:
            with torch.inference_mode(False):  # made while sampling, it must still serve training
                return build()

        return self.graph.cached(f"{name}/{self.device}/{self.dtype}", outside_inference)

    @property
    def num_features(self) -> int:
        return self.features.width

    def operator(self, name: OperatorName) -> Operator:
        """The operator of that name: a key of `MATRICES` or of `DIRECTED`."""
        if name not in self._operators:
            self._operators[name] = self.cached(
                f"operator/{name}", lambda: Operator(self._matrix(name), self.device, self.dtype)
            )
        return self._operators[name]

    def _matrix(self, name: OperatorName) -> sp.csr_array:
        if name in MATRICES:
            return MATRICES[name](self.graph.adjacency)
        if not self.graph.directed:
            raise InputError(
                "messages by direction need a graph whose edges have one: read it with directed=True (--directed), or "
                "leave directions out of the backbone; they are not there in training on parts of a graph"
            )
        return DIRECTED[name](self.graph.directed_adjacency)

    def log_weights(self, loops: bool) -> Tensor | None:
        """Of `directed_edges`, where edges have weights; a loop weighs as much as an edge on average."""
        if self.graph.edge_weight is None:
            return None
        return torch.from_numpy(np.log(self._edge_matrix(loops).data)).to(self.device, self.dtype).unsqueeze(1)

    def directed_edges(self, loops: bool) -> tuple[Tensor, Tensor]:
        """Source and target of every directed edge, with or without one self-loop per node, sorted by target."""
        matrix = self._edge_matrix(loops)
        target = np.repeat(np.arange(self.graph.num_nodes), np.diff(matrix.indptr))
        source = matrix.indices.astype(np.int64)
        return torch.from_numpy(source).to(self.device), torch.from_numpy(target).to(self.device)

    def _edge_matrix(self, loops: bool) -> sp.csr_array:
        matrix = self.graph.adjacency
        if loops:
            matrix = matrix + sp.eye_array(self.graph.num_nodes, format="csr")
        matrix = sp.csr_array(matrix)
        matrix.sort_indices()
        return matrix


def symmetric_normalised(adjacency: sp.csr_array, self_loop: float) -> sp.csr_array:
    """D^-1/2 (A + c I) D^-1/2 in double precision; rows of isolated nodes without a loop are zero."""
    matrix = sp.csr_array(adjacency, dtype=np.float64)
    if self_loop:
        matrix = sp.csr_array(matrix + self_loop * sp.eye_array(matrix.shape[0], format="csr"))
    degree = np.asarray(matrix.sum(axis=1)).ravel()
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_array(sp.diags_array(scale) @ matrix @ sp.diags_array(scale))


def mean_normalised(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1 A; isolated nodes receive zero."""
    degree = adjacency.sum(axis=1)
    degree = np.where(degree > 0, degree, 1)
    return sp.csr_array(sp.diags_array(1 / degree) @ adjacency)


def mean_with_self(adjacency: sp.csr_array) -> sp.csr_array:
    """The rows of A + I, brought to sum 1."""
    return mean_normalised(sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], format="csr")))


OperatorName = Literal["gcn", "gcn-improved", "sum", "mean", "neighbours", "mean-with-self", "mean-in", "mean-out"]
MATRICES: dict[OperatorName, Callable[[sp.csr_array], sp.csr_array]] = {
    "gcn": functools.partial(symmetric_normalised, self_loop=1.0),
    "gcn-improved": functools.partial(symmetric_normalised, self_loop=2.0),  # the authors' choice on real graphs
    "sum": sp.csr_array,
    "mean": mean_normalised,
    "neighbours": functools.partial(symmetric_normalised, self_loop=0.0),
    "mean-with-self": mean_with_self,
}
DIRECTED: dict[OperatorName, Callable[[sp.csr_array], sp.csr_array]] = {
    "mean-in": mean_normalised,
    "mean-out": lambda arriving: mean_normalised(sp.csr_array(arriving.T)),
}
"""Of the matrix whose row j receives: means over the nodes that edges come from, and over those that they lead to."""
