r"""From marginals to an answer: tags above a threshold, classes by arg max_c w_c p_i(c).

Tags are rare, so that few marginals exceed 1/2 and the labels nearest to them would hardly have a tag. After a fit with
validation labels the threshold is the one that gives them the largest micro-F1, by the estimator's own marginals given
the training labels (`dpmsnc.metrics.best_threshold`); without, it is 1/2.

Classes are answered with the most probable one, which is best for accuracy, w_c = 1. Where macro-F1 is asked for
(`select_by="macro_f1"`) and there are validation labels, rare classes weigh more,

    w_c = s_c^(-a),    s_c = mean_i q_i(c),

over the nodes i whose labels were not trained on. Here q_i is all on a validation label, and elsewhere the estimator's
marginal given the training labels. The exponent a, between 0 and 1 ("balanced"), has the largest macro-F1 that these q
expect of the answers,

    F_a = mean_c 2 sum_{i: answered c} q_i(c) / (|{i: answered c}| + sum_i q_i(c)),

which are made of the marginals alone. So the validation labels speak for themselves, and where they are few, which is
usual of rare classes, the marginals, which a diffusion model calibrates on them, speak for all other nodes.

A rule belongs to the estimator and not to the target: targets of a fitted and another graph are compared, and joint
samples are draws that know no rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpmsnc.estimators.base import Estimator

THRESHOLD = 0.5
EXPONENTS = np.linspace(0, 1, 11)


def choose_decision(estimator: Estimator) -> None:
    """Set `threshold_` or `decision_weights_` of an estimator that was just fitted with validation labels."""
    from dpmsnc.metrics import best_threshold
    from dpmsnc.targets import OneClass, Tags

    of_tags = isinstance(estimator.target_, Tags)
    weighs = isinstance(estimator.target_, OneClass) and _selects_by(estimator) == "macro_f1"
    if not (of_tags or weighs) or not estimator.validation_.any():
        return
    asked = estimator._asked(None, None, "train")
    marginals = estimator._marginals(asked, asked.y)
    if of_tags:
        estimator.threshold_, _ = best_threshold(marginals, estimator.graph_.y, estimator.validation_)
        return
    rows = ~estimator.train_
    weights = best_decision_weights(marginals[rows], estimator._clamped(estimator.graph_, marginals)[rows])
    if not np.all(weights == 1):  # else the joint labelling is answered
        estimator.decision_weights_ = weights


def best_decision_weights(marginals: NDArray[np.floating], q: NDArray[np.floating]) -> NDArray[np.float64]:
    """The weights s_c^(-a) with the largest expected macro-F1; of equally good exponents the smallest.

    Example:
        >>> p = np.array([[0.9, 0.1]] * 8 + [[0.6, 0.4]] * 2)
        >>> best_decision_weights(p, p).round(2)
        array([1.05, 1.73])
    """
    share = q.mean(axis=0).clip(min=1 / len(q))  # a class that nobody has is no rarer than one of a single node
    candidates = share ** -EXPONENTS[:, None]
    return candidates[np.argmax([expected_macro_f1((w * marginals).argmax(axis=1), q) for w in candidates])]


def expected_macro_f1(labels: NDArray[np.integer], q: NDArray[np.floating]) -> float:
    """Macro-F1 of labels with the expected number of right answers in place of the true one."""
    answered = labels[:, None] == np.arange(q.shape[1])
    there = answered.sum(axis=0) + q.sum(axis=0)
    return float((2 * (answered * q).sum(axis=0)[there > 0] / there[there > 0]).mean())


def answers_by_marginals(estimator: Estimator) -> bool:
    """Whether the marginals of single nodes are answered, also of a method with joint labellings."""
    from dpmsnc.targets import Tags

    return isinstance(estimator.target_, Tags) or hasattr(estimator, "decision_weights_")


def most_probable(estimator: Estimator, marginals: NDArray[np.float64]) -> NDArray[Any]:
    """The labels that marginals are answered with: tags above the threshold, classes by weight, the nearest numbers."""
    import torch

    from dpmsnc.targets import Tags

    target = estimator.target_
    if isinstance(target, Tags):
        return (marginals > getattr(estimator, "threshold_", THRESHOLD)).astype(np.int64)
    weighted = marginals * getattr(estimator, "decision_weights_", 1.0)
    return target.nearest(torch.from_numpy(target.mean_field(weighted))).numpy()


def _selects_by(estimator: Any) -> str | None:
    return getattr(getattr(estimator, "training", estimator), "select_by", None)
