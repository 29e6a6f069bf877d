r"""Stacking: several baselines answer, and validation labels say how much to believe each.

With p_m the class probabilities of member m, and V the validation nodes,

    q_m = softmax(a_m log p_m),   a_m = argmax sum_{i in V} log q_m(y_i)     (one temperature a member),
    q   = sum_m w_m q_m,          w   = argmax sum_{i in V} log q(y_i)       (weights of sum 1).

Likelihood tells members apart that accuracy on a few hundred nodes cannot, a mixture need not choose at all, and its
probabilities mean what they say, which matters to whoever learns from them. Both problems are concave; the second is
solved by EM. Members vote equally, as they are, where there are no validation labels.

References: Wolpert, "Stacked generalization", 1992; Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.g3nn import G3NN
from dpmsnc.baselines.gmnn import GMNN
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.grand import GRAND
from dpmsnc.baselines.scaled_pta import scaled_pta
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph

MEMBERS: dict[str, Callable[..., Baseline]] = {
    "pta": scaled_pta,
    "grand": GRAND,
    "g3nn": G3NN,
    "gmnn": GMNN,
    "gcn": GNN,
}
SHARPEST = 20.0
FLOOR = 1e-9
"""Probabilities below count as this: no member may rule a class out for all of them."""
ROUNDS = 300


@dataclass(eq=False)
class Stack(Baseline):
    """A mixture of calibrated baselines, weighted by their likelihood on validation nodes.

    Args:
        members: The settings of each member, by name.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> stack = Stack({"gcn": {"epochs": 10}, "g3nn": {"epochs": 10}}).fit(task.graph, validation=task.validation)
        >>> round(sum(stack.weights_.values()), 6)
        1.0
    """

    members: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"pta": {}, "grand": {}, "g3nn": {}})
    seed: int = 0

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        answers = [baseline._fit(graph, y_train, y_validation) for baseline in self._baselines()]
        nodes = np.flatnonzero(y_validation != UNKNOWN)
        weights = np.full(len(answers), 1 / len(answers))
        if len(nodes):
            answers = [calibrated(p, nodes, y_validation[nodes]) for p in answers]
            weights = mixture([p[nodes, y_validation[nodes]] for p in answers])
        self.weights_ = dict(zip(self.members, weights.tolist()))
        return np.tensordot(weights, np.stack(answers), axes=1)

    def _baselines(self) -> list[Baseline]:
        if not isinstance(self.members, Mapping) or not self.members:
            raise InputError(
                f"a stack has settings by member, as in {{'pta': {{}}, 'grand': {{}}}}, not {self.members!r}; there "
                f"are {', '.join(MEMBERS)}"
            )
        return [self._baseline(name, settings) for name, settings in self.members.items()]

    def _baseline(self, name: str, settings: Any) -> Baseline:
        if name not in MEMBERS:
            raise InputError(f"no member of a stack is called {name}; there are {', '.join(MEMBERS)}")
        try:
            return MEMBERS[name](seed=self.seed, **settings)
        except TypeError as error:
            raise InputError(f"the member {name!r} does not take the settings {settings!r} ({error})") from error


def calibrated(p: NDArray[np.float64], nodes: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """softmax(a log p) with the a under which the labels y of `nodes` are most likely."""
    log_p = np.log(np.maximum(p, FLOOR))

    def loss(a: float) -> float:
        return -float(log_softmax(a * log_p[nodes], axis=1)[np.arange(len(y)), y].mean())

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
