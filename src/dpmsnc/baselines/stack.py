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
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, nnls
from scipy.special import log_softmax

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.g3nn import G3NN
from dpmsnc.baselines.gmnn import GMNN
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.grand import GRAND
from dpmsnc.baselines.scaled_pta import scaled_pta
from dpmsnc.config import ClassShares, check_choices, check_range, estimates_shares
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph

MEMBERS: dict[str, Callable[..., Baseline]] = {
    "pta": scaled_pta,
    "grand": GRAND,
    "g3nn": G3NN,
    "gmnn": GMNN,
    "gcn": GNN,
    "gat": partial(GNN, "gat-dropout"),
    "sage": partial(GNN, "sage"),
}
SHARPEST = 20.0
FLOOR = 1e-9
"""Probabilities below count as this: no member may rule a class out for all of them."""
ROUNDS = 300
SEEDS_APART = 1000
"""Between the seeds of a member's fits, so that stacks with neighbouring seeds share none."""


@dataclass(eq=False)
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

    def check_common(self) -> None:
        """Of the stack and of its members."""
        check_choices(self)
        check_range(self, repeats=(1, inf))
        self._baselines()

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        answers = [
            np.mean([baseline._fit(graph, y_train, y_validation) for baseline in baselines], axis=0)
            for baselines in self._baselines()
        ]
        nodes = np.flatnonzero(y_validation != UNKNOWN)
        weights = np.full(len(answers), 1 / len(answers))
        if len(nodes):
            answers = [calibrated(p, nodes, y_validation[nodes]) for p in answers]
            weights = mixture([p[nodes, y_validation[nodes]] for p in answers])
        self.weights_ = dict(zip(self.members, weights.tolist()))
        q = np.tensordot(weights, np.stack(answers), axes=1)
        counts = np.bincount(y_validation[nodes], minlength=graph.num_classes)
        if estimates_shares(self.class_shares, counts.tolist()):
            return reweighted(q, nodes, y_validation[nodes], y_train == UNKNOWN)
        return q

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
        check_choices(member)
        member.check_common()
        return member


def calibrated(
    p: NDArray[np.float64],
    nodes: NDArray[np.int64],
    y: NDArray[np.int64],
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """softmax(a log p) with the a under which the labels y of `nodes`, which may be weighed, are most likely."""
    log_p = np.log(np.maximum(p, FLOOR))

    def loss(a: float) -> float:
        return -float(np.average(log_softmax(a * log_p[nodes], axis=1)[np.arange(len(y)), y], weights=weight))

    a = minimize_scalar(loss, bounds=(0, SHARPEST), method="bounded").x
    return np.exp(log_softmax(a * log_p, axis=1))


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
    classes = np.arange(q.shape[1])
    answers = np.stack([q[nodes[y == c]].mean(axis=0) for c in classes], axis=1)
    pi, _ = nnls(answers, q[among].mean(axis=0))
    counts = np.bincount(y, minlength=len(classes))
    r = q * np.maximum(pi / pi.sum(), counts / among.sum()) / counts
    return r / r.sum(axis=1, keepdims=True)
