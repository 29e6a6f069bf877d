r"""Stacking: several baselines answer, and validation labels say how much to believe each.

With p_m the class probabilities of member m, and V the validation nodes,

    q_m = softmax(a_m log p_m),   a_m = argmax sum_{i in V} log q_m(y_i)     (one temperature a member),
    q   = sum_m w_m q_m,          w   = argmax sum_{i in V} log q(y_i)       (weights of sum 1).

Likelihood tells members apart that accuracy on a few hundred nodes cannot, a mixture need not choose at all, and its
probabilities mean what they say, which matters to whoever learns from them. Both problems are concave; the second is
solved by EM. Members vote equally, as they are, where there are no validation labels.

Validation nodes that were drawn evenly, so many of every class, do not say how frequent the classes are. They do say
how answers and classes go together, and if that is the same everywhere, then with U all nodes without a training label

    mean_{i in U} q_i = sum_c pi_c mean_{i in V, y_i = c} q_i,       r_i(c) ~ q_i(c) pi_c / pi^0_c,

where pi are the shares of the classes in U, found by non-negative least squares and never below what V itself makes of
U, and pi^0 those in V. The answer is then r.

References: Wolpert, "Stacked generalization", 1992; Guo et al., "On Calibration of Modern Neural Networks", ICML 2017;
Lipton et al., "Detecting and Correcting for Label Shift with Black Box Predictors", ICML 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, nnls
from scipy.special import log_softmax

from dpmsnc.baselines import g3nn, gmnn, gnn, grand  # noqa: F401 (each registers its methods)
from dpmsnc.baselines.base import Baseline, Ranges
from dpmsnc.baselines.scaled_pta import scaled_pta
from dpmsnc.config import ClassShares, estimates_shares
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import METHODS
from dpmsnc.graph import UNKNOWN, Graph

MEMBERS: dict[str, Callable[..., Baseline]] = {
    "pta": scaled_pta,
    **{name: METHODS[name].build for name in ("grand", "g3nn", "gmnn", "gcn", "gat", "sage")},
}
"""By name: methods of the tables, but for PTA, which chooses a scaling of its own."""
SHARPEST = 20.0
FLOOR = 1e-9
"""Probabilities below count as this: no member may rule a class out for all of them."""
ROUNDS = 300
SEEDS_APART = 1000
"""Between the seeds of a member's fits, so that stacks with neighbouring seeds share none."""


@dataclass(eq=False, repr=False)
class Stack(Baseline):
    """A mixture of calibrated baselines, weighted by their likelihood on validation nodes.

    Args:
        members: The settings of each member, by name.
        class_shares: How frequent the classes are among unlabelled nodes: as among validation nodes, or as estimated
            from the answers, if every class has a validation node; "auto" estimates where validation nodes are equally
            many of every class, and at least ten.
        repeats: How often each member is fitted, with other seeds; its answer is the mean.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> stack = Stack({"gcn": {"epochs": 10}, "g3nn": {"epochs": 10}}).fit(task.graph, validation=task.validation)
        >>> round(sum(stack.weights_.values()), 6)
        1.0
    """

    members: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"pta": {}, "grand": {}, "g3nn": {}})
    class_shares: ClassShares = "auto"
    repeats: int = 1
    seed: int = 0

    ranges: ClassVar[Ranges] = {"repeats": (1, inf)}

    def _check_settings(self) -> None:
        """The settings of the stack and of its members."""
        super()._check_settings()
        self._baselines()

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        self.members_ = dict(zip(self.members, self._baselines()))
        for baseline in (one for fits in self.members_.values() for one in fits):
            baseline._learn(graph, y_train, y_validation)
        self.weights_ = dict.fromkeys(self.members_, 1 / len(self.members_))
        self.inverse_temperatures_: dict[str, float] | None = None
        self.class_weights_: NDArray[np.float64] | None = None
        nodes = np.flatnonzero(y_validation != UNKNOWN)
        labels = y_validation[nodes]
        if len(nodes):
            answers = {name: self._member_marginals(name, graph, y_train) for name in self.members_}
            found = {name: inverse_temperature(p, nodes, labels) for name, p in answers.items()}
            likelihoods = [sharpened(p, found[name])[nodes, labels] for name, p in answers.items()]
            self.inverse_temperatures_ = found
            self.weights_ = dict(zip(answers, mixture(likelihoods).tolist()))
        counts = np.bincount(labels, minlength=graph.num_classes)
        if estimates_shares(self.class_shares, counts.tolist()):
            self.class_weights_ = class_weights(self._mixture(graph, y_train), nodes, labels, y_train == UNKNOWN)

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """How frequent classes are was estimated for the fitted graph, and is used for no other."""
        q = self._mixture(graph, y)
        if self.class_weights_ is None or not self._is_fitted_graph(graph):
            return q
        return normalised(q * self.class_weights_)

    def _mixture(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        answers = {name: self._member_marginals(name, graph, y) for name in self.members_}
        if self.inverse_temperatures_ is not None:
            answers = {name: sharpened(p, self.inverse_temperatures_[name]) for name, p in answers.items()}
        return np.sum([self.weights_[name] * p for name, p in answers.items()], axis=0)

    def _member_marginals(self, name: str, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean over all fits of a member."""
        return np.mean([baseline._marginals(graph, y) for baseline in self.members_[name]], axis=0)

    def _baselines(self) -> list[list[Baseline]]:
        """All fits of every member."""
        if not isinstance(self.members, Mapping) or not self.members:
            raise InputError(
                f"a stack has settings by member, as in {{'pta': {{}}, 'grand': {{}}}}, not {self.members!r}; there "
                f"are {', '.join(MEMBERS)}"
            )
        seeds = [self.seed + SEEDS_APART * repeat for repeat in range(self.repeats)]
        return [[self._baseline(name, settings, seed) for seed in seeds] for name, settings in self.members.items()]

    def _baseline(self, name: str, settings: Any, seed: int) -> Baseline:
        if name not in MEMBERS:
            raise InputError(f"no member of a stack is called {name}; there are {', '.join(MEMBERS)}")
        try:
            member = MEMBERS[name](seed=seed, **settings)
        except TypeError as error:
            raise InputError(f"the member {name!r} does not take the settings {settings!r} ({error})") from error
        member._check_settings()
        return member


def calibrated(
    p: NDArray[np.float64],
    nodes: NDArray[np.int64],
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """softmax(a log p) with the a under which the labels y of `nodes`, which may be weighed, are most likely."""
    return sharpened(p, inverse_temperature(p, nodes, y, weight))


def inverse_temperature(
    p: NDArray[np.float64],
    nodes: NDArray[np.int64],
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None = None,
) -> float:
    """The a of `calibrated`."""
    log_p = np.log(np.maximum(p[nodes], FLOOR))

    def loss(a: float) -> float:
        return -float(np.average(log_softmax(a * log_p, axis=1)[np.arange(len(y)), y], weights=weight))

    return float(minimize_scalar(loss, bounds=(0, SHARPEST), method="bounded").x)


def sharpened(p: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """softmax(a log p)."""
    return np.exp(log_softmax(a * np.log(np.maximum(p, FLOOR)), axis=1))


def mixture(likelihoods: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The weights of sum 1 under which a mixture is most likely, given the likelihood of every label by member."""
    likelihood = np.stack(likelihoods, axis=1)
    weights = np.full(len(likelihoods), 1 / len(likelihoods))
    for _ in range(ROUNDS):
        share = weights * likelihood
        weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
    return weights


def reweighted(
    q: NDArray[np.float64], nodes: NDArray[np.int64], y: NDArray[np.int64], among: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """q, which is right where classes are as frequent as among labels y of `nodes`, for their shares `among` nodes."""
    return normalised(q * class_weights(q, nodes, y, among))


def class_weights(
    q: NDArray[np.float64], nodes: NDArray[np.int64], y: NDArray[np.int64], among: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """pi_c / pi^0_c of every class, up to a factor."""
    classes = np.arange(q.shape[1])
    answers = np.stack([q[nodes[y == c]].mean(axis=0) for c in classes], axis=1)
    pi, _ = nnls(answers, q[among].mean(axis=0))
    counts = np.bincount(y, minlength=len(classes))
    return np.maximum(pi / pi.sum(), counts / among.sum()) / counts


def normalised(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows brought to sum 1."""
    return r / r.sum(axis=1, keepdims=True)
