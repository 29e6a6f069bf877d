r"""Generated graphs on which it is known what can be found out about the labels.

    two-colourings   trees, tori, hypercubes and bipartite graphs, all connected and without features; a label is the
                     side of the node, y_i != y_j for every edge (i, j), so one known label decides all others;
    Potts models     p(y) ∝ exp( J sum_{(i,j) in E} [y_i = y_j] ), whose marginals given known labels `potts_reference`
                     computes; J > 0 makes neighbours alike, J < 0 makes them differ;
    block models     an edge joins classes a and b with probability proportional to B_ab, and within them nodes i and j
                     with probability proportional to w_i w_j.

Nodes are numbered at random, so that the position of a node says nothing about its label. A seed fixes the graph, its
labels and its split. Known labels are scattered over the graph or lie in one region of it; a fifth of them are
validation labels, and all other nodes are test nodes.

Reference for the block models: Karrer & Newman, "Stochastic blockmodels and community structure in networks", 2011.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra

from dpmsnc.data.task import Task
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.edges import both_ways

Mask = NDArray[np.bool_]
Edges = NDArray[np.int64]
Labels = NDArray[np.int64]
Splitter = Callable[[Graph, int], tuple[Mask, Mask, Mask]]
VALIDATION_SHARE = 0.2
REGION_SHARE = 0.2


def tree(seed: int = 0, num_nodes: int = 500) -> Graph:
    """The two-colouring of a tree, uniformly drawn among all labelled trees."""
    rng = np.random.default_rng(seed)
    network = nx.random_labeled_tree(num_nodes, seed=int(rng.integers(2**32)))
    return _two_coloured(np.array(network.edges).T, num_nodes, rng)


def torus(seed: int = 0, side: int = 8, dimensions: int = 3) -> Graph:
    """The two-colouring of a cyclic grid with an even number of nodes along each dimension."""
    if side % 2:
        raise InputError(f"a torus of side {side} has no two-colouring; pass an even side")
    return _two_coloured(_torus_edges(side, dimensions), side**dimensions, np.random.default_rng(seed))


def hypercube(seed: int = 0, dimension: int = 9) -> Graph:
    """The two-colouring of the hypercube, whose nodes are 0/1 vectors that differ from a neighbour in one entry."""
    nodes = np.arange(2**dimension)
    ends = [(nodes, nodes ^ (1 << k)) for k in range(dimension)]
    edges = np.concatenate([np.stack([i, j])[:, i < j] for i, j in ends], axis=1)
    return _two_coloured(edges, len(nodes), np.random.default_rng(seed))


def bipartite(seed: int = 0, num_nodes: int = 510, mean_degree: float = 4.0) -> Graph:
    """The two-colouring of the largest component of a random graph between two sides of num_nodes / 2."""
    rng, side = np.random.default_rng(seed), num_nodes // 2
    pairs = rng.choice(side**2, size=round(num_nodes * mean_degree / 2), replace=False)
    left, right = np.divmod(pairs, side)
    _, component = connected_components(both_ways(np.stack([left, side + right]), 2 * side), directed=False)
    kept = component == np.bincount(component).argmax()
    position, inside = np.cumsum(kept) - 1, kept[left]
    edges = position[np.stack([left, side + right])[:, inside]]
    return _two_coloured(edges, int(kept.sum()), rng)


@dataclass(frozen=True)
class Potts:
    """A Potts model on a random regular graph or a two-dimensional torus; labels come from Gibbs sampling.

    The couplings of `POTTS` are below the transition to order: classes are balanced, and belief propagation has one
    fixed point. Its marginals are then within 0.03 of those of long Gibbs sampling in mean total variation.
    """

    coupling: float
    on_torus: bool = False
    side: int = 20
    """The graph has side^2 nodes."""
    degree: int = 3
    """Of the random regular graph, which looks like a tree around almost every node."""
    num_classes: int = 3
    sweeps: int = 2000

    def __call__(self, seed: int = 0) -> Graph:
        rng, num_nodes = np.random.default_rng(seed), self.side**2
        if self.on_torus:
            edges = _torus_edges(self.side, 2)
        else:
            network = nx.random_regular_graph(self.degree, num_nodes, seed=int(rng.integers(2**32)))
            edges = np.array(network.edges).T
        edges = _renumbered(edges, num_nodes, rng)
        labels = gibbs_sample(edges, num_nodes, self.num_classes, self.coupling, self.sweeps, rng)
        return _labelled(edges, labels, self.num_classes)


def gibbs_sample(
    edges: Edges, num_nodes: int, num_classes: int, coupling: float, sweeps: int, rng: np.random.Generator
) -> Labels:
    """A labelling after so many sweeps of Gibbs sampling from a uniformly random one; nodes without an edge between
    them are drawn at once."""
    network = nx.Graph()
    network.add_nodes_from(range(num_nodes))
    network.add_edges_from(edges.T.tolist())
    coloured = nx.greedy_color(network, strategy="connected_sequential_bfs")
    colour = np.array([coloured[node] for node in range(num_nodes)])
    adjacency, one_hot = both_ways(edges, num_nodes), np.eye(num_classes)
    groups = [(nodes, adjacency[nodes]) for nodes in map(np.flatnonzero, colour == np.unique(colour)[:, None])]
    state = one_hot[rng.integers(num_classes, size=num_nodes)]
    for _ in range(sweeps):
        for nodes, incoming in groups:
            noise = rng.gumbel(size=(len(nodes), num_classes))
            state[nodes] = one_hot[(coupling * (incoming @ state) + noise).argmax(axis=1)]
    return state.argmax(axis=1)


def potts_reference(
    graph: Graph,
    coupling: float,
    y_known: Labels,
    damping: float = 0.5,
    tolerance: float = 1e-9,
    max_rounds: int = 5000,
) -> NDArray[np.float64]:
    r"""Marginals (nodes, classes) of the Potts model given known labels, by damped belief propagation.

    With b_i the indicator of a known label, or 1, the messages are

        m_ij(c) = 1 + (e^J - 1) h_ij(c),    h_ij(c) ∝ b_i(c) prod_{k in N(i) without j} m_ki(c),

    and p_i(c) ∝ b_i(c) prod_{k in N(i)} m_ki(c). Log-messages keep the share `damping` of their last value. On trees
    the marginals are exact; with cycles they are an approximation, the better the longer the cycles.

    Args:
        graph: The graph; its own labels play no part.
        coupling: J.
        y_known: Class of every node, -1 where it is not known.
    """
    n, num_edges = graph.num_nodes, graph.num_edges
    source, target = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    reverse = np.roll(np.arange(2 * num_edges), num_edges)
    incoming = sp.csr_array((np.ones(2 * num_edges), (target, np.arange(2 * num_edges))), shape=(n, 2 * num_edges))
    known = y_known != UNKNOWN
    evidence = np.zeros((n, graph.num_classes))
    evidence[known] = np.where(np.eye(graph.num_classes)[y_known[known]] == 1, 0.0, -np.inf)
    messages = np.zeros((2 * num_edges, graph.num_classes))
    for _ in range(max_rounds):
        cavity = _softmax((evidence + incoming @ messages)[source] - messages[reverse])
        updated = np.log1p(np.expm1(coupling) * cavity)
        if abs(updated - messages).max(initial=0.0) < tolerance:
            return _softmax(evidence + incoming @ messages)
        messages = damping * messages + (1 - damping) * updated
    raise InputError(
        f"belief propagation did not converge in {max_rounds} rounds at coupling {coupling:g}; "
        "pass more damping or more rounds, or a weaker coupling"
    )


@dataclass(frozen=True)
class Blocks:
    """A block model of which every node has the same chance to be in a class; features, if any, say little."""

    num_nodes: int
    num_classes: int
    mean_degree: float
    within: float
    """Share of the edges that join nodes of one class."""
    partners: float = 0.0
    """Share of the edges that join the classes 0 and 1, 2 and 3, and so on; those left over join classes evenly."""
    num_features: int = 0
    separation: float = 0.7
    """Length of the mean feature vector of a class; single features have the standard deviation 1 around it."""
    power: float | None = None
    """Exponent of the power law of the weights w; None for equal weights."""

    def affinity(self) -> NDArray[np.float64]:
        """B, the share of edges between classes, as a symmetric matrix that sums to 1."""
        classes = np.arange(self.num_classes)
        same = np.eye(self.num_classes, dtype=bool)
        paired = (classes[:, None] ^ 1 == classes) if self.partners else np.zeros_like(same)
        parts = ((same, self.within), (paired, self.partners), (~same & ~paired, 1 - self.within - self.partners))
        return np.asarray(sum(mask * share / max(1, mask.sum()) for mask, share in parts))

    def __call__(self, seed: int = 0) -> Graph:
        rng = np.random.default_rng(seed)
        y = rng.permutation(np.arange(self.num_nodes) % self.num_classes)
        weights = np.ones(self.num_nodes) if self.power is None else 1 + rng.pareto(self.power - 1, size=self.num_nodes)
        # heavier nodes would expect more neighbours in a class than there are
        weights = np.minimum(weights, np.sqrt(self.num_nodes))
        edges = _block_edges(y, weights, self.affinity(), round(self.num_nodes * self.mean_degree / 2), rng)
        if not self.num_features:
            return _labelled(edges, y, self.num_classes)
        means = rng.standard_normal((self.num_classes, self.num_features))
        means *= self.separation / np.linalg.norm(means, axis=1, keepdims=True)
        x = means[y] + rng.standard_normal((self.num_nodes, self.num_features))
        return _labelled(edges, y, self.num_classes, x.astype(np.float32))


def scattered(share: float) -> Splitter:
    """A share of all nodes, at random, has known labels."""

    def draw(graph: Graph, seed: int) -> tuple[Mask, Mask, Mask]:
        rng = np.random.default_rng([seed, 1])
        return _split(rng.permutation(graph.num_nodes)[: round(share * graph.num_nodes)], graph.num_nodes, rng)

    return draw


def region(graph: Graph, seed: int) -> tuple[Mask, Mask, Mask]:
    """A fifth of the nodes has known labels: those that a breadth-first search from a random node finds first.

    It starts in the largest component; validation nodes lie in the region, too.
    """
    rng, size = np.random.default_rng([seed, 1]), round(REGION_SHARE * graph.num_nodes)
    _, component = connected_components(graph.adjacency, directed=False)
    start = rng.choice(np.flatnonzero(component == np.bincount(component).argmax()))
    found = breadth_first_order(graph.adjacency, start, directed=False, return_predecessors=False)
    if len(found) < size:
        raise InputError(f"the largest component has {len(found)} nodes, fewer than the {size} of a region")
    return _split(found[:size], graph.num_nodes, rng)


POTTS: dict[str, Potts] = {
    "potts-ferro": Potts(1.2),
    "potts-antiferro": Potts(-3.0),
    "potts-torus-ferro": Potts(0.8, on_torus=True),
    "potts-torus-antiferro": Potts(-1.2, on_torus=True),
}
GRAPHS: dict[str, Callable[[int], Graph]] = {
    "tree": tree,
    "torus": torus,
    "hypercube": hypercube,
    "bipartite": bipartite,
    **POTTS,
    "blocks-assortative": Blocks(1000, 4, mean_degree=8, within=0.6, num_features=16),
    "blocks-disassortative": Blocks(1000, 4, mean_degree=8, within=0.1, partners=0.7, num_features=16),
    "blocks-power-law": Blocks(1500, 5, mean_degree=25, within=0.4, power=2.5),
}
SPLITS: dict[str, Splitter] = {
    "5pct": scattered(0.05),
    "10pct": scattered(0.1),
    "30pct": scattered(0.3),
    "region": region,
}


def generated(name: str, split: str, seed: int = 0) -> Task:
    """The task on a generated graph, a key of `GRAPHS`, with a split, a key of `SPLITS`; it is called <name>-<split>.

    Example:
        >>> task = generated("tree", "10pct")
        >>> int(task.train.sum()), int(task.validation.sum()), int(task.test.sum())
        (40, 10, 450)
    """
    if name not in GRAPHS or split not in SPLITS:
        raise InputError(
            f"there is no graph {name!r} with split {split!r}; graphs are {', '.join(GRAPHS)}, "
            f"splits are {', '.join(SPLITS)}"
        )
    graph = GRAPHS[name](seed)
    return Task.hiding(f"{name}-{split}", graph, *SPLITS[split](graph, seed))


def _torus_edges(side: int, dimensions: int) -> Edges:
    nodes = np.arange(side**dimensions).reshape((side,) * dimensions)
    ends = [np.stack([nodes.ravel(), np.roll(nodes, 1, axis=axis).ravel()]) for axis in range(dimensions)]
    return np.concatenate(ends, axis=1)


def _block_edges(
    y: Labels, weights: NDArray[np.float64], affinity: NDArray[np.float64], count: int, rng: np.random.Generator
) -> Edges:
    """So many distinct edges: classes are drawn by affinity, nodes within a class by weight."""
    order = np.argsort(y, kind="stable")
    cumulative = np.cumsum(weights[order])
    ends = cumulative[np.cumsum(np.bincount(y, minlength=len(affinity))) - 1]
    starts = np.concatenate([[0.0], ends[:-1]])
    # loops and repeated edges are left out, so more than enough are drawn
    classes = np.stack(np.divmod(rng.choice(affinity.size, size=3 * count, p=affinity.ravel()), len(affinity)))
    drawn = starts[classes] + rng.random(classes.shape) * (ends - starts)[classes]
    i, j = np.sort(order[np.searchsorted(cumulative, drawn, side="right").clip(max=len(y) - 1)], axis=0)
    _, first = np.unique(np.where(i == j, -1, i * len(y) + j), return_index=True)
    first = np.sort(first[i[first] != j[first]])[:count]
    return np.stack([i[first], j[first]])


def _two_coloured(edges: Edges, num_nodes: int, rng: np.random.Generator) -> Graph:
    edges = _renumbered(edges, num_nodes, rng)
    distance = dijkstra(both_ways(edges, num_nodes), unweighted=True, indices=0)
    return _labelled(edges, distance.astype(np.int64) % 2, 2)


def _renumbered(edges: Edges, num_nodes: int, rng: np.random.Generator) -> Edges:
    return rng.permutation(num_nodes)[edges]


def _labelled(edges: Edges, y: Labels, num_classes: int, x: NDArray[np.float32] | None = None) -> Graph:
    return Graph.build(edges, num_nodes=len(y), x=x, y=y, classes=range(num_classes))


def _split(labelled: NDArray[np.int64], num_nodes: int, rng: np.random.Generator) -> tuple[Mask, Mask, Mask]:
    labelled = rng.permutation(labelled)
    held_back, nodes = round(VALIDATION_SHARE * len(labelled)), np.arange(num_nodes)
    validation, train = np.isin(nodes, labelled[:held_back]), np.isin(nodes, labelled[held_back:])
    return train, validation, ~(train | validation)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))
