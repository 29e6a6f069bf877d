r"""SPN: a conditional random field whose potentials are made by two GNNs, one of nodes and one of edges.

    p(y | x, E) ~ exp(sum_s theta_s(y_s) + sum_{s-t} theta_st(y_s, y_t)).

*Proxy*. On a tree the field is known once its marginals are: theta_s = log tau_s and theta_st = log tau_st / (tau_s
tau_t). So a node network learns tau_s by the cross-entropy of labels, an edge network tau_st by the cross-entropy of
pairs of labels on edges that have two. Each keeps the weights that are best on validation labels of its own kind.

*Potentials*. With l_st the C x C logits of the edge network and T = softmax(g l_st),

    theta_s = log tau_s,    theta_st = log T - c (log sum_t T + log sum_s T),

where g and c are chosen by validation labels: of those whose labellings are as right as the best up to chance, the most
likely by sum-product. The theory has g = c = 1. Where no edge has two training labels, g = 0: nodes are independent.

*Refinement*. Some steps along the gradient of the log-likelihood of training labels, the difference of moments with and
without them, both by sum-product. Weights are kept where validation labels have become more likely and no fewer of them
are right than before, so without such labels there is no refinement.

`predict` gives the labelling of max-product, `predict_proba` the marginals of sum-product; known labels are clamped in
both, and both are exact on trees. The released code has logits for both directions of an edge, which may contradict
each other, and adds logarithms where sum-product has a log-sum-exp. Here l_st(a, b) = l_ts(b, a), by their mean.

Reference: Qu, Cai & Tang, "Neural Structured Prediction for Inductive Node Classification", ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn
from torch.nn import functional as F

from dpmsnc.baselines.base import Baseline, Ranges, one_hot
from dpmsnc.baselines.descent import descend, release, take_step, weights_of
from dpmsnc.config import BackboneSpec, HeadName, ScalingName
from dpmsnc.errors import ModelFileError
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.pairwise.edge_potentials import EdgeGibbs, EdgePropagation, both_ways, once
from dpmsnc.pairwise.edges import Edges, edges_of
from dpmsnc.pairwise.gibbs import SWEEPS
from dpmsnc.pairwise.learning import asking_iterations
from dpmsnc.pairwise.propagation import clamped

SHARPNESS, CORRECTIONS = (1.0, 2.0, 10.0, 0.5, 0.2, 0.1), (1.0, 0.1)
"""Values of g and of c to choose from. With c = 1, which the theory has, loops make a field far too sure."""
UNTOLD = 1.0, 0.1
"""g and c where no validation label tells; the released code has this c."""
CHANCE = 2.0
"""Standard errors within which accuracies differ by chance."""
MANY = 30
"""Components from which on it is they, not their nodes, that are right or wrong independently of each other."""
WARM_ITERATIONS = 3
"""Of sum-product in a step of refinement, which go on from the messages of the step before."""
SelectionName = Literal["accuracy", "graph_accuracy"]


@dataclass(eq=False, repr=False)
class SPN(Baseline):
    """A field of node and edge potentials by GNNs.

    Both networks end in a convolution, as in the original; for backbones that cannot, `head="linear"`.

    Args:
        patience: Each network stops after so many epochs without a better accuracy or loss on validation labels.
        select_by: What tells better potentials from worse ones: the share of validation nodes that are right, or of
            connected components that are right as a whole, as it suits a union of many small graphs.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> SPN(epochs=10, refinement_epochs=5).fit(task.graph, validation=task.validation).sample(3).shape
        (3, 40)
    """

    backbone: BackboneSpec = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "convolution"
    dropout: float = 0.5
    input_dropout: float = 0.5
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    patience: int = 100
    evaluate_every: int = 10
    refinement_epochs: int = 100
    refinement_lr: float = 0.003
    select_by: SelectionName = "accuracy"
    scaling: ScalingName = "unit"
    seed: int = 0

    ranges: ClassVar[Ranges] = {"refinement_epochs": (0, inf), "refinement_lr": (0, inf)}

    def _build(self, in_channels: int, num_classes: int) -> Networks:
        return Networks(in_channels, num_classes, self)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        tensors, edges = self._tensors(graph), edges_of(graph)
        self.network_, (self.g_, self.c_) = self._network(), UNTOLD
        validation = Validation(edges, y_train, y_validation, self.select_by, self.target_.channels)
        self._learn_nodes(tensors, y_train, y_validation)
        if not self._learn_pairs(tensors, y_train, y_validation):
            self.g_ = 0.0
        elif validation.possible:
            self._choose(tensors, validation)
            self._refine(tensors, y_train, validation)
        release(self.network_)

    @property
    def _networks(self) -> Networks:
        return cast(Networks, self.network_)

    def _learn_nodes(self, graph: GraphTensors, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        """tau_s by the cross-entropy of training labels."""
        network, seen, generator = self._networks.node, GraphInputDropout(graph), self._generator()
        nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        target = torch.from_numpy(y_train)[nodes]

        def loss() -> Tensor:
            return F.cross_entropy(network(seen(self.input_dropout, generator), generator)[nodes], target)

        self._descend(network, loss, lambda: network(graph).softmax(dim=1), y_validation)

    def _learn_pairs(self, graph: GraphTensors, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> bool:
        """tau_st by the cross-entropy of edges with two training labels; whether there are any.

        The best weights are chosen by edges with two labels of which at least one is a validation label.
        """
        network, seen, generator = self._networks.edge, GraphInputDropout(graph), self._generator()
        edges, C = edges_of(graph.graph), self.target_.channels
        pairs = np.stack([edges.start, edges.end])[:, once(edges).numpy()]
        y = np.where(y_train != UNKNOWN, y_train, y_validation)
        labelled, trained = (y[pairs] != UNKNOWN).all(axis=0), (y_train[pairs] != UNKNOWN).all(axis=0)
        (start, end), (v_start, v_end) = (torch.from_numpy(pairs[:, mask]) for mask in (trained, labelled & ~trained))
        target = torch.from_numpy(y_train)[start] * C + torch.from_numpy(y_train)[end]
        if not trained.any():
            return False

        def loss() -> Tensor:
            logits = network(seen(self.input_dropout, generator), start, end, generator)
            return F.cross_entropy(logits.flatten(1), target)

        def predict() -> Tensor:
            return network(graph, v_start, v_end).flatten(1).softmax(dim=1)

        self._descend(network, loss, predict, y[v_start.numpy()] * C + y[v_end.numpy()])
        return True

    def _descend(self, network: nn.Module, loss: Any, predict: Any, y_validation: NDArray[np.int64]) -> None:
        optimiser = torch.optim.Adam(network.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        descend(network, loss, predict, optimiser, y_validation, self.epochs, self.patience, self.evaluate_every)

    @torch.no_grad()
    def _choose(self, graph: GraphTensors, validation: Validation) -> None:
        """g and c by validation labels."""
        theta, logits = self._networks(graph)
        tried = [(c, g) for c in CORRECTIONS for g in SHARPNESS]
        scores = [validation.score(theta, edge_potentials(logits, g, c)) for c, g in tried]
        self.c_, self.g_ = tried[best_of(scores)]

    def _refine(self, graph: GraphTensors, y_train: NDArray[np.int64], validation: Validation) -> None:
        """Steps along the gradient of the log-likelihood, kept where validation labels say that it got better."""
        network, gradient = self._networks, Moments(edges_of(graph.graph), self._one_hot(y_train))
        optimiser = torch.optim.Adam(network.parameters(), lr=self.refinement_lr)
        first, best, weights = 0.0, -inf, weights_of(network)
        for epoch in range(self.refinement_epochs + 1):
            theta, logits = network(graph)
            W = edge_potentials(logits, self.g_, self.c_)
            if epoch % self.evaluate_every == 0 or epoch == self.refinement_epochs:
                score = validation.score(theta.detach(), W.detach())
                first = first if epoch else score.accuracy
                if score.accuracy >= first and score.log_likelihood > best:
                    best, weights = score.log_likelihood, weights_of(network)
            if epoch < self.refinement_epochs:
                take_step(optimiser, gradient.surrogate(theta, W))
        network.load_state_dict(weights)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._beliefs(graph, y).softmax(dim=-1).double().numpy()

    def _answer(self, asked: Graph, clamp_known: bool = True) -> NDArray[Any]:
        labels = self._beliefs(asked, asked.y, maximise=True).argmax(dim=-1).numpy()
        if clamp_known:
            labels[asked.known] = asked.y[asked.known]
        return labels

    def _beliefs(self, graph: Graph, y: NDArray[np.int64], maximise: bool = False) -> Tensor:
        """Logits (nodes, classes) of sum-product or max-product given known labels."""
        theta, W = self._potentials(graph)
        return beliefs(edges_of(graph), theta, W, self._one_hot(y), maximise).squeeze(1)

    @torch.no_grad()
    def _potentials(self, graph: Graph) -> tuple[Tensor, Tensor]:
        theta, logits = self._networks(self._tensors(graph))
        return theta, edge_potentials(logits, self.g_, self.c_)

    def _one_hot(self, y: NDArray[np.int64]) -> Tensor:
        """Known labels (nodes, 1, classes), zero where there is none."""
        return torch.from_numpy(one_hot(y, self.target_.channels)).float().unsqueeze(1)

    @torch.no_grad()
    def _drawn(self, asked: Graph, num_samples: int, generator: torch.Generator) -> NDArray[np.int64]:
        """Joint labellings, exact on forests."""
        edges, (theta, W) = edges_of(asked), self._potentials(asked)
        propagation, evidence = EdgePropagation(edges, both_ways(edges, W)), clamped(theta, self._one_hot(asked.y))
        messages = propagation.propagate(evidence, propagation.silence(evidence), most_iterations(edges, theta))
        given = torch.from_numpy(asked.known)
        return EdgeGibbs(propagation).draw(evidence, messages, given, num_samples, SWEEPS, generator).T.numpy()

    def _check_state(self) -> None:
        super()._check_state()
        if not all(isinstance(value, float) and np.isfinite(value) for value in (self.g_, self.c_)):
            raise ModelFileError("what was saved of the edge potentials is damaged; fit again")


class Networks(nn.Module):
    """The node network and the edge network, which share nothing."""

    def __init__(self, in_channels: int, num_classes: int, options: SPN) -> None:
        super().__init__()
        shape = (options.hidden_channels, options.num_layers, options.dropout, options.head)
        self.node = MeanField(options.backbone, in_channels, num_classes, *shape)
        ends = MeanField(options.backbone, in_channels, options.hidden_channels, *shape)
        self.edge = PairNetwork(ends, options.hidden_channels, num_classes)

    def forward(self, graph: GraphTensors) -> tuple[Tensor, Tensor]:
        """theta (nodes, 1, classes), and logits of all pairs of neighbours (edges once, classes, classes)."""
        edges = edges_of(graph.graph)
        pairs = once(edges)
        theta = self.node(graph).log_softmax(dim=-1).unsqueeze(1)
        return theta, self.edge(graph, edges.leaves[pairs], edges.arrives[pairs])


class PairNetwork(nn.Module):
    """Logits of the labels of two nodes, from what a GNN makes of each of them."""

    def __init__(self, ends: MeanField, channels: int, num_classes: int) -> None:
        super().__init__()
        self.ends, self.num_classes = ends, num_classes
        self.pair = nn.Linear(2 * channels, num_classes**2)

    def forward(
        self, graph: GraphTensors, start: Tensor, end: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Shaped (pairs, classes, classes); for the same pairs turned round, the transpose."""
        z, C = self.ends(graph, generator), self.num_classes
        forth, back = (
            self.pair(torch.cat([z[i], z[j]], dim=1)).view(-1, C, C) for i, j in ((start, end), (end, start))
        )
        return (forth + back.transpose(1, 2)) / 2


@dataclass(frozen=True)
class Score:
    """How well a field finds validation labels."""

    right: NDArray[np.bool_]
    """Whether each node, or each component as a whole, is right by max-product."""
    component: NDArray[np.int64]
    """Which of those are right or wrong together."""
    log_likelihood: float
    """A node, by sum-product: mean of log b_s, and of log b_st / (b_s b_t) for pairs of neighbours."""

    @property
    def accuracy(self) -> float:
        return float(self.right.mean())

    def behind(self, other: Score) -> float:
        """How much less accurate it is than another, in standard errors of the difference."""
        difference = np.bincount(self.component, weights=other.right.astype(float) - self.right)
        return float(difference.sum() / max(np.sqrt(np.square(difference).sum()), 1e-12))


def best_of(scores: list[Score]) -> int:
    """Which field is most likely, among those that are not less accurate than the best by more than chance."""
    best = max(scores, key=lambda score: (score.accuracy, score.log_likelihood))
    in_reach = [k for k, score in enumerate(scores) if score.behind(best) <= CHANCE]
    return max(in_reach, key=lambda k: scores[k].log_likelihood)


class Validation:
    """Scores fields on one graph by validation labels, given training labels."""

    def __init__(
        self,
        edges: Edges,
        y_train: NDArray[np.int64],
        y_validation: NDArray[np.int64],
        select_by: SelectionName,
        num_classes: int,
    ) -> None:
        self.edges, self.known = edges, torch.from_numpy(one_hot(y_train, num_classes)).float().unsqueeze(1)
        self.nodes, self.y = np.flatnonzero(y_validation != UNKNOWN), torch.from_numpy(y_validation)
        self.possible = len(self.nodes) > 0
        pairs = once(edges)
        asked = (self.y[torch.stack([edges.leaves[pairs], edges.arrives[pairs]])] != UNKNOWN).all(dim=0)
        self.pairs = pairs[asked]
        component = connected_components(edges.graph.adjacency, directed=False)[1][self.nodes]
        component = np.unique(component, return_inverse=True)[1]
        self.unit = component if select_by == "graph_accuracy" else np.arange(len(self.nodes))
        count = int(self.unit.max(initial=-1)) + 1
        self.component = component if MANY <= component.max(initial=0) < count - 1 else np.arange(count)

    @torch.no_grad()
    def score(self, theta: Tensor, W: Tensor) -> Score:
        """Of unaries (nodes, 1, classes) and compatibilities of edges in one direction."""
        edges, y = self.edges, self.y[self.nodes]
        labels = beliefs(edges, theta, W, self.known, maximise=True)[self.nodes, 0].argmax(dim=-1)
        wrong = np.bincount(self.unit, weights=(labels != y).numpy())
        return Score(wrong == 0, self.component, self.log_likelihood(theta, W))

    def log_likelihood(self, theta: Tensor, W: Tensor) -> float:
        evidence, propagation = clamped(theta, self.known), EdgePropagation(self.edges, both_ways(self.edges, W))
        messages = propagation.propagate(evidence, propagation.silence(theta), most_iterations(self.edges, theta))
        log_b = propagation.total(evidence, messages)[:, 0].log_softmax(dim=-1)
        of_node = log_b.gather(1, self.y.clamp_min(0).unsqueeze(1)).squeeze(1)
        s, t = self.edges.leaves[self.pairs], self.edges.arrives[self.pairs]
        log_pair = propagation.pair_beliefs(evidence, messages, self.pairs)[:, 0]
        of_pair = log_pair[torch.arange(len(s)), self.y[s], self.y[t]] - of_node[s] - of_node[t]
        return float(of_node[self.nodes].sum() + of_pair.sum()) / len(self.nodes)


class Moments:
    """The gradient of the log-likelihood of labels by potentials: moments with the labels less those without.

    Where nodes without a label are joined to labelled ones, their moments are those given the labels.
    """

    def __init__(self, edges: Edges, known: Tensor) -> None:
        self.edges, self.known, self.size = edges, known, int(known.sum())
        self.messages: list[Tensor] | None = None

    def surrogate(self, theta: Tensor, W: Tensor) -> Tensor:
        """A number whose gradient is that of -log p(known) a label, by unaries and compatibilities in one direction."""
        (b, pair_b), (given_b, given_pair_b) = self.moments(theta.detach(), W.detach())
        return (((b - given_b) * theta).sum() + ((pair_b - given_pair_b) * W).sum()) / self.size

    @torch.no_grad()
    def moments(self, theta: Tensor, W: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Marginals of nodes and of edges, without and with the labels."""
        propagation, fields = EdgePropagation(self.edges, both_ways(self.edges, W)), (theta, clamped(theta, self.known))
        iterations = WARM_ITERATIONS if self.messages else most_iterations(self.edges, theta)
        before = self.messages or [propagation.silence(theta)] * 2
        self.messages = [propagation.propagate(field, old, iterations) for field, old in zip(fields, before)]
        found = []
        for field, messages in zip(fields, self.messages):
            pairs = propagation.pair_beliefs(field, messages, once(self.edges)).exp()
            found.append((propagation.total(field, messages).softmax(dim=-1), pairs.squeeze(1)))
        return found


def edge_potentials(logits: Tensor, g: float, c: float) -> Tensor:
    """theta_st = log T - c (log sum_t T + log sum_s T), T = softmax(g logits), shaped (pairs, classes, classes)."""
    log_T = (g * logits).flatten(1).log_softmax(dim=1).view_as(logits)
    return log_T - c * (log_T.logsumexp(dim=2, keepdim=True) + log_T.logsumexp(dim=1, keepdim=True))


@torch.no_grad()
def beliefs(edges: Edges, theta: Tensor, W: Tensor, known: Tensor, maximise: bool = False) -> Tensor:
    """Logits (nodes, 1, classes) given one-hot labels, from compatibilities of edges in one direction."""
    propagation = EdgePropagation(edges, both_ways(edges, W), maximise)
    return propagation.beliefs(theta, known, most_iterations(edges, theta))


def most_iterations(edges: Edges, theta: Tensor) -> int:
    """Iterations of belief propagation at most; a message takes so many steps as there are pairs of classes."""
    return asking_iterations(edges, theta.shape[-1] ** 2)


METHODS["spn"] = Method(partial(seeded, SPN))
