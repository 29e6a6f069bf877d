r"""Inputs for graphs without node features, made of the graph alone: degrees and closed walks.

With A the adjacency matrix, d_i the degree of node i and P = D^-1 A the random walk, the columns of node i are

    1{d_i in bucket b}                    buckets 0, 1, ..., 8, 9-16, 17-32, ..., and one without an end
    log(1 + d_i),  sum_j P_ij log(1 + d_j)
    (P^k)_ii,  k = 2, ..., K              how probable it is to be back after k steps

Where edges have weights, A and the logarithms of degrees are weighted, and buckets count edges. Nodes in another order
have their rows in that order, and a column means the same on any graph; eigenvectors, whose signs and order are
arbitrary, would do neither. Powers of P and of S = D^-1/2 A D^-1/2 have the same diagonal, and S is symmetric, so

    (P^(a+b))_ii = sum_j (S^a)_ij (S^b)_ij,

and powers up to K/2 suffice. All is computed in double precision and rounded to single, so that nodes that look alike
have the same row whatever the order of summation.

References: Dwivedi et al., "Graph Neural Networks with Learnable Structural and Positional Representations", ICLR 2022.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.graph.graph import Graph

BUCKETS = np.array([*range(9), *(2**power for power in range(4, 17))])
"""Largest degree of every bucket but the last."""
WALKS = SHORT_WALK, LONG_WALK = 2, 6
"""Choices of K."""
MOST_PRODUCTS = 2e9
"""Nodes times entries of A up to which long walks are counted: a few seconds."""
CHUNK = 2**22
"""Entries that columns of S^k have at most, as many of them as are worked on at a time."""


def longest_walk(graph: Graph) -> int:
    """K, by the size of a graph: walks of two steps cost a look at every edge, longer ones a look from every node."""
    return LONG_WALK if graph.num_nodes * graph.adjacency.nnz <= MOST_PRODUCTS else SHORT_WALK


def num_columns(longest_walk: int) -> int:
    """How many columns `structure_features` gives."""
    return len(BUCKETS) + 1 + 2 + longest_walk - 1


def structure_features(graph: Graph, longest_walk: int) -> NDArray[np.float32]:
    """All columns (nodes, columns), not yet scaled; the graph keeps them."""
    return graph.cached(f"structure/{longest_walk}", lambda: _columns(graph.adjacency, longest_walk))


def return_probabilities(adjacency: sp.csr_array, longest_walk: int) -> NDArray[np.float64]:
    """(P^k)_ii for k = 2, ..., K as columns; 0 where a node has no edge."""
    degree = adjacency.sum(axis=1, dtype=np.float64)
    scale = sp.diags_array(1 / np.sqrt(np.where(degree > 0, degree, 1)))
    S = sp.csr_array(scale @ adjacency @ scale)
    if longest_walk == SHORT_WALK:
        return np.asarray(S.multiply(S).sum(axis=1)).reshape(-1, 1)
    size = max(CHUNK // max(S.shape[0], 1), 1)
    return np.concatenate(
        [_closed_walks(S, S[:, start : start + size], longest_walk) for start in range(0, max(S.shape[0], 1), size)]
    )


def _closed_walks(S: sp.csr_array, columns: sp.csr_array, longest_walk: int) -> NDArray[np.float64]:
    """Those of the nodes that some columns of S belong to; sparse even where they fill up, which is no slower."""
    powers = [columns]
    while 2 * len(powers) < longest_walk:
        powers.append(S @ powers[-1])
    halves = ((k // 2, k - k // 2) for k in range(2, longest_walk + 1))
    return np.stack([powers[a - 1].multiply(powers[b - 1]).sum(axis=0) for a, b in halves], axis=1)


def _columns(adjacency: sp.csr_array, longest_walk: int) -> NDArray[np.float32]:
    degree = adjacency.sum(axis=1, dtype=np.float64)
    bucket = np.searchsorted(BUCKETS, np.diff(adjacency.indptr))
    log_degree = np.log1p(degree)
    around = adjacency @ log_degree / np.where(degree > 0, degree, 1)
    one_hot = bucket[:, None] == np.arange(len(BUCKETS) + 1)
    columns = (one_hot, log_degree[:, None], around[:, None], return_probabilities(adjacency, longest_walk))
    return np.concatenate(columns, axis=1, dtype=np.float32, casting="unsafe")
