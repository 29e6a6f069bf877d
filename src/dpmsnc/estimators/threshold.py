r"""From the marginals of tags to an answer: tag k of node i is answered where p_ik > threshold.

Tags are rare, so that few marginals exceed 1/2 and the labels nearest to them would hardly have a tag. After a fit with
validation labels the threshold is the one that gives them the largest micro-F1, by the estimator's own marginals given
the training labels (`dpmsnc.metrics.best_threshold`); without, it is 1/2. It belongs to the estimator and not to the
target: targets of a fitted and another graph are compared, and joint samples are draws that know no threshold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpmsnc.estimators.base import Estimator

DEFAULT = 0.5


def choose_threshold(estimator: Estimator) -> None:
    """Set `threshold_` of an estimator that was just fitted to tags, if there are validation labels."""
    from dpmsnc.metrics import best_threshold
    from dpmsnc.targets import Tags

    if isinstance(estimator.target_, Tags) and estimator.validation_.any():
        asked = estimator._asked(None, None, "train")
        marginals = estimator._marginals(asked, asked.y)
        estimator.threshold_, _ = best_threshold(marginals, estimator.graph_.y, estimator.validation_)


def most_probable(estimator: Estimator, marginals: NDArray[np.float64]) -> NDArray[Any]:
    """The labels that marginals are answered with: tags above the threshold, else the nearest labels."""
    import torch

    from dpmsnc.targets import Tags

    target = estimator.target_
    if isinstance(target, Tags):
        return (marginals > getattr(estimator, "threshold_", DEFAULT)).astype(np.int64)
    return target.nearest(torch.from_numpy(target.mean_field(marginals))).numpy()
