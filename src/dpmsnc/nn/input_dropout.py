"""Dropout on input features, which may be sparse: only entries that are not zero are drawn for."""

from __future__ import annotations

import copy
import warnings
from typing import Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpmsnc.nn.dropout import dropout
from dpmsnc.nn.operator import GraphTensors, Operator

Tensors = TypeVar("Tensors", bound=GraphTensors)


class InputDropout:
    """Features with some of their entries dropped and the rest rescaled, anew at every call.

    Example:
        >>> dropped = InputDropout(torch.ones(100, 5))
        >>> dropped(0.5, torch.Generator().manual_seed(0)).unique().tolist()
        [0.0, 2.0]
    """

    def __init__(self, x: Tensor | Operator) -> None:
        self.x = x
        self.order = _order_of_transpose(x.matrix) if isinstance(x, Operator) else None

    def __call__(self, rate: float, generator: torch.Generator | None) -> Tensor | Operator:
        """No generator means evaluation: all features as they are."""
        if rate == 0 or generator is None:
            return self.x
        if isinstance(self.x, Tensor):
            return dropout(self.x, rate, generator)
        values = dropout(self.x.matrix.values(), rate, generator)
        return _DroppedOperator(self.x, values, values[self.order])


class GraphInputDropout(Generic[Tensors]):
    """A graph with dropout on its features, anew at every call; one without features stays as it is."""

    def __init__(self, graph: Tensors) -> None:
        self.graph, self.features = graph, None if graph.graph.x is None else InputDropout(graph.x)

    def __call__(self, rate: float, generator: torch.Generator | None) -> Tensors:
        if self.features is None or rate == 0 or generator is None:
            return self.graph
        view = copy.copy(self.graph)
        view.__dict__["x"] = self.features(rate, generator)  # in place of the cached property
        return view


class _DroppedOperator(Operator):
    """The operator with other values in the same places."""

    def __init__(self, whole: Operator, values: Tensor, transposed: Tensor) -> None:
        self.shape = whole.shape
        self.matrix, self.transpose = _replaced(whole.matrix, values), _replaced(whole.transpose, transposed)


def _replaced(matrix: Tensor, values: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape, check_invariants=False
        )


def _order_of_transpose(matrix: Tensor) -> Tensor:
    """For every entry of the transpose, row by row, its place among the entries of the matrix."""
    indices, starts = matrix.col_indices().cpu().numpy(), matrix.crow_indices().cpu().numpy()
    numbered = sp.csr_array((np.arange(len(indices)), indices, starts), shape=tuple(matrix.shape))
    turned = sp.csr_array(numbered.T)
    turned.sort_indices()
    return torch.from_numpy(turned.data).to(matrix.device)
