"""Nodes two steps away: the ring (A + I)^2 > 0 without A and I, as a sparse operator that is kept with the graph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from dpmsnc.errors import InputError
from dpmsnc.nn.operator import GraphTensors, Operator, symmetric_normalised

MOST_PAIRS = 2**24
"""Entries of a ring beyond which products with it take seconds."""
WALKS_AT_A_TIME = 2**24


def ring_operator(graph: GraphTensors, shared: int = 1) -> Operator:
    """The ring, normalised by its own degrees; see `ring`."""

    def build() -> Operator:
        return Operator(symmetric_normalised(ring(graph.graph.adjacency, shared), 0.0), graph.device, graph.dtype)

    return graph.cached(f"ring/{shared}", build)


def ring(adjacency: sp.csr_array, shared: int = 1) -> sp.csr_array:
    """1 for nodes that are no neighbours and share at least so many; made of some rows at a time, never dense."""
    # walks are counted, whatever the weights of edges
    adjacency = sp.csr_array((np.ones_like(adjacency.data), adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    parts, pairs = [], 0
    reached = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], format="csr"))
    for rows in _parts(adjacency):
        paths = sp.csr_array(adjacency[rows] @ adjacency)
        paths.data = (paths.data >= shared).astype(np.float32)
        part = sp.csr_array(paths - paths.multiply(reached[rows]))
        part.eliminate_zeros()
        parts.append(part)
        pairs += part.nnz
        if pairs > MOST_PAIRS:
            raise InputError(
                f"more than {MOST_PAIRS} pairs of nodes are two steps apart; count only those that share more "
                f"neighbours than {shared}, for example with the backbone h2gcn(shared={4 * shared})"
            )
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _parts(adjacency: sp.csr_array) -> Iterator[slice]:
    """The rows in parts from which about so many walks of two steps begin as fit into memory."""
    walks = np.cumsum(adjacency @ adjacency.sum(axis=1))
    ends = np.searchsorted(walks, np.arange(WALKS_AT_A_TIME, walks[-1], WALKS_AT_A_TIME)) + 1
    bounds = np.unique([0, *ends, adjacency.shape[0]])
    return (slice(a, b) for a, b in pairwise(bounds.tolist()))
