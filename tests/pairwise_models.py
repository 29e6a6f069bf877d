"""Small pairwise models whose answers are known exactly, by summing over all labellings."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.graph import Graph
from dpmsnc.pairwise.edge_potentials import once
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.learning import Folds
from dpmsnc.pairwise.potentials import Coupling, Potentials

MEAN_LOG = 0.7
"""As if the model had been fitted on another graph."""


def graph_of(pairs: list[tuple[int, int]], num_nodes: int) -> Graph:
    return Graph.build(np.array(pairs, dtype=np.int64).reshape(-1, 2), num_nodes=num_nodes, classes=["a", "b", "c"])


def path(num_nodes: int) -> Graph:
    return graph_of([(i, i + 1) for i in range(num_nodes - 1)], num_nodes)


def random_tree(num_nodes: int, seed: int) -> Graph:
    """Every node hangs on an earlier one."""
    rng = np.random.default_rng(seed)
    return graph_of([(int(rng.integers(i)), i) for i in range(1, num_nodes)], num_nodes)


def bipartite_tree(num_nodes: int, seed: int) -> tuple[Graph, NDArray[np.int64]]:
    """A tree and its two-colouring."""
    graph = random_tree(num_nodes, seed)
    colour = nx.single_source_shortest_path_length(nx.Graph(graph.edge_index.T.tolist()), 0)
    return graph, np.array([colour[i] % 2 for i in range(num_nodes)])


def random_potentials(num_classes: int, coupling: Coupling, seed: int, J: float | None = None) -> Potentials:
    rng = np.random.default_rng(seed)
    potentials = Potentials(num_classes, coupling, J=rng.normal() if J is None else J, gamma=rng.uniform(0, 1))
    with torch.no_grad():
        potentials.R.copy_(torch.from_numpy(rng.normal(size=(num_classes, num_classes))))
        potentials.a.fill_(rng.uniform(0.5, 1.5))
        potentials.b.copy_(torch.from_numpy(rng.normal(size=num_classes)))
    if coupling == "one":
        torch.nn.init.zeros_(potentials.R)
    return potentials.requires_grad_(False)


def random_theta(num_nodes: int, batch: int, num_classes: int, seed: int) -> Tensor:
    return torch.randn(num_nodes, batch, num_classes, generator=torch.Generator().manual_seed(seed))


def known_labels(labels: dict[int, int], num_nodes: int, num_classes: int) -> Tensor:
    """One-hot labels (nodes, 1, classes), zero elsewhere."""
    known = torch.zeros(num_nodes, 1, num_classes)
    for node, label in labels.items():
        known[node, 0, label] = 1
    return known


def folds_of(log_p: Tensor, y: NDArray[np.int64], fold: NDArray[np.int64]) -> Folds:
    """What is learned from the answers (nodes, folds, classes) of one base model, or of several, stacked."""
    return Folds.of(log_p.reshape(-1, *log_p.shape[-3:]), torch.from_numpy(y), torch.from_numpy(fold))


def labellings_and_weights(
    potentials: Potentials, graph: Graph, theta: Tensor, labels: dict[int, int], mean_log: float = MEAN_LOG
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All labellings that agree with known labels, and their probabilities, edge by edge from the definition."""
    num_nodes, num_classes = theta.shape
    degree = np.bincount(graph.edge_index.ravel(), minlength=num_nodes)
    H, unary = potentials.H.double().numpy(), theta.double().numpy()
    choices = [[labels[i]] if i in labels else range(num_classes) for i in range(num_nodes)]
    found = np.array(list(product(*choices)))
    energy = unary[np.arange(num_nodes), found].sum(axis=1)
    for i, j in graph.edge_index.T:
        scale = (degree[i] * degree[j] / np.exp(mean_log)) ** (-potentials.gamma.item() / 2)
        energy += scale * H[found[:, i], found[:, j]]
    weights = np.exp(energy - energy.max())
    return found, weights / weights.sum()


def exact_marginal(
    potentials: Potentials, graph: Graph, theta: Tensor, labels: dict[int, int], node: int
) -> NDArray[np.float64]:
    """Of one node given all labels but its own."""
    others = {i: label for i, label in labels.items() if i != node}
    found, weights = labellings_and_weights(potentials, graph, theta, others)
    return np.bincount(found[:, node], weights=weights, minlength=theta.shape[1])


def exact_pair(
    potentials: Potentials, graph: Graph, theta: Tensor, labels: dict[int, int], i: int, j: int
) -> NDArray[np.float64]:
    found, weights = labellings_and_weights(potentials, graph, theta, labels)
    num_classes = theta.shape[1]
    flat = np.bincount(found[:, i] * num_classes + found[:, j], weights=weights, minlength=num_classes**2)
    return flat.reshape(num_classes, num_classes)


def random_edge_matrices(edges: Edges, num_classes: int, seed: int, scale: float = 1.5) -> Tensor:
    """W of every edge once, in the order of `once`."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(len(edges) // 2, num_classes, num_classes, generator=generator)


def labellings_and_energies(
    edges: Edges, theta: Tensor, W: Tensor, labels: dict[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All labellings that agree with known labels and their log-probabilities, with W of every edge once."""
    num_nodes, num_classes = theta.shape
    chosen = once(edges).numpy()
    found = np.array(list(product(*([labels[i]] if i in labels else range(num_classes) for i in range(num_nodes)))))
    energy = theta.double().numpy()[np.arange(num_nodes), found].sum(axis=1)
    for i, j, matrix in zip(edges.start[chosen], edges.end[chosen], W.double().numpy()):
        energy += matrix[found[:, i], found[:, j]]
    return found, energy - np.logaddexp.reduce(energy)


def marginals_of(found: NDArray[np.int64], log_p: NDArray[np.float64], num_classes: int) -> NDArray[np.float64]:
    """Of every node (nodes, classes)."""
    return np.stack([np.exp(log_p) @ (found == c) for c in range(num_classes)], axis=1)
