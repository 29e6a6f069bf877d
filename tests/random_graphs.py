"""Small random graphs with isolated nodes, for tests of networks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from dpmsnc.graph import Graph
from dpmsnc.targets import OneClass


def random_graph(num_nodes: int = 20, num_features: int = 6, sparse: bool = True, seed: int = 0) -> Graph:
    """The last three nodes are isolated; features are non-negative, sparse or dense."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((num_nodes, num_nodes)) < 0.25, k=1)
    upper[:, -3:] = False
    filled = rng.random((num_nodes, num_features)) < (0.15 if sparse else 0.5)
    x = (rng.random((num_nodes, num_features)) * filled).astype(np.float32)
    return graph_of(np.stack(upper.nonzero()), sp.csr_array(x) if sparse else x)


def graph_of(edge_index: np.ndarray, x: np.ndarray | sp.csr_array) -> Graph:
    """A graph of edges listed once (i < j) and features, without labels."""
    num_nodes = x.shape[0]
    y = np.full(num_nodes, -1)
    return Graph(num_nodes, edge_index.astype(np.int64), x, y, OneClass(("a", "b", "c")), ids=np.arange(num_nodes))


def both_directions(graph: Graph) -> torch.Tensor:
    """The edge list as PyG wants it."""
    return torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
