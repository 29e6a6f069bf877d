r"""Base models of tags in a pool: what starts a diffusion model of tags, as `CRF` starts one of classes.

With q_m,ik what base model m says of tag k of node i, the pool says

    logit p_ik = b + sum_m w_m logit q_m,ik,

where w and b make training labels likely that the base models have not seen, in folds (`dpmsnc.baselines.folds`). A
base model that knows nothing gets a weight near 0, so that nothing has to be chosen. A weak prior draws the weights to
1 / (number of base models). Validation labels are not used.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from torch import Tensor

from dpmsnc.baselines.base import NOT_PROBABILITIES, Baseline, check_probabilities
from dpmsnc.baselines.choice import Builders
from dpmsnc.baselines.folds import answers, assign_folds, fitted
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.spectral import Spectral
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.graph import Graph
from dpmsnc.training.tag_chains import TagChains, TagDenoiser

LEAST = 1e-3
"""Probabilities of base models below count as this, and 1 less it above: a count of few labels is never sure."""
PRIOR_WIDTH = 1.0
"""Standard deviation of the prior of weights and bias."""


def bases(graph: Graph, seed: int) -> Builders:
    """Base models that are pooled: features are read where there are some, else places in the graph, which several
    graphs do not have in common."""
    lp: Builders = {"lp": LabelPropagation}
    if graph.x is None and graph.member is not None:
        return lp
    if graph.x is None:
        return {**lp, "spectral": Spectral}
    return {**lp, **{name: partial(GNN, name, seed=seed) for name in ("gcn", "sage")}}


@dataclass(eq=False, repr=False)
class TagPool(Baseline):
    """Base models of tags, weighted by labels that they have not seen.

    Args:
        base: A baseline that answers for tags; None pools label propagation with GCN and SAGE, or with a spectral
            embedding where the graph has no features, which then answers for the fitted graph alone.

    Example:
        >>> graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=[{"a"}, {"a"}, {"b"}, None], kind="tags")
        >>> TagPool(LabelPropagation()).fit(graph).predict_proba().shape
        (4, 2)
    """

    base: Any = None
    seed: int = 0

    kinds = ("tags",)

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        builders: Builders = bases(graph, self.seed) if self.base is None else {"given": self._given_base}
        fold = assign_folds(y_train, self.seed)
        unseen = np.stack([[log_odds(q) for q in answers(b, graph, y_train, fold)] for b in builders.values()])
        if not np.isfinite(unseen).all():
            raise InputError(NOT_PROBABILITIES)
        nodes = np.flatnonzero(fold >= 0)
        asked, y = unseen[:, fold[nodes], nodes], y_train[nodes]
        self.weights_, self.bias_ = learn(asked, y)
        self.bases_ = [fitted(build(), graph, y_train) for build in builders.values()]
        scores = [-loss_of(z, y) / len(y) for z in asked]
        self.choices_ = [
            {"base": name, "coupling": "none", "score": score, "weight": weight}
            for name, score, weight in zip(builders, scores, self.weights_.tolist())
        ]
        self._unseen, self._fold = self._pooled(unseen), fold

    def _given_base(self) -> Baseline:
        return copy.deepcopy(self.base)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.base is not None:
            if not isinstance(self.base, Baseline):
                raise InputError(f"base={self.base!r} is no baseline; give one that answers for tags, or None")
            self.base._check_settings()

    def _pooled(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """b + sum_m w_m z_m, over the first axis."""
        return np.tensordot(self.weights_, z, axes=1) + self.bias_

    def _log_odds(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        said = [base._marginals(graph, y) for base in self.bases_]
        for q in said:
            check_probabilities(q, self.target_, graph.num_nodes)
        return self._pooled(np.stack([log_odds(q) for q in said]))

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return expit(self._log_odds(graph, y))

    def chains(self, y_train: NDArray[np.int64]) -> TagChains:
        """Labellings of the fitted graph for a model that is to learn from them; only right after `fit`."""
        return TagChains(_tensor(self._unseen).transpose(0, 1), y_train, self._fold)

    def denoiser(self, graph: Graph, *labels: NDArray[np.int64]) -> TagDenoiser:
        """The denoiser of independent tags on a graph, an entry of the batch for each of some known labels."""
        return TagDenoiser(torch.stack([_tensor(self._log_odds(graph, y)) for y in labels], dim=1))

    def asked_denoiser(self, graph: Graph) -> TagDenoiser:
        """The denoiser for the questions of users."""
        return self.denoiser(graph, graph.y)

    def _check_state(self) -> None:
        super()._check_state()
        sound = isinstance(self.bases_, list) and all(isinstance(base, Baseline) for base in self.bases_)
        if not sound or self.weights_.shape != (len(self.bases_),) or not np.isfinite(float(self.bias_)):
            raise ModelFileError("what was saved of the pool of base models is damaged; fit again")

    @classmethod
    def _from_state(cls, params: dict[str, Any], *parts: Any) -> Any:
        # of a base that was given the settings are lost, but not the one that was fitted
        model = super()._from_state({**params, "base": None}, *parts)
        if params["base"] is not None:
            model.base = model.bases_[0]
        return model


def log_odds(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """logit q, kept away from certainty."""
    return logit(np.clip(q, LEAST, 1 - LEAST))


def loss_of(z: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Minus the log-likelihood of tags under log-odds z."""
    return float((np.logaddexp(0, z) - y * z).sum())


def learn(z: NDArray[np.float64], y: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """w and b from log-odds (base models, rows, tags); a convex problem."""
    prior = np.append(np.full(len(z), 1 / len(z)), 0.0)

    def objective(v: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        pooled = np.tensordot(v[:-1], z, axes=1) + v[-1]
        error, away = expit(pooled) - y, v - prior
        gradient = np.append(np.tensordot(z, error, axes=2), error.sum())
        penalty = float(away @ away) / (2 * PRIOR_WIDTH**2)
        return loss_of(pooled, y) + penalty, gradient + away / PRIOR_WIDTH**2

    v = minimize(objective, prior, jac=True, method="BFGS").x
    return v[:-1], float(v[-1])


def _tensor(array: NDArray[np.float64]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))
