r"""How right a labelling is: node by node, neighbourhood by neighbourhood, and as a statement of probability.

With truth y, prediction p and the nodes M asked about (those of the mask that have a true label),

    accuracy            share of i in M with p_i = y_i,
    subgraph accuracy   share of i in M with p_j = y_j for i itself and every neighbour j of i, in whatever split,
    macro F1            unweighted mean of the classes' F1 on M,
    calibration error   sum_b |B_b| / |M| |accuracy(B_b) - confidence(B_b)|, with M divided into bins B_b by the
                        confidence max_c P(c) of its nodes.

Labels are class indices. A node without a true label (-1) is in no metric: it is not asked about, and as a neighbour it
is ignored. A metric of no nodes at all is nan.

Reference: expected calibration error as in Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmsnc.graph import UNKNOWN, Graph

Labels = NDArray[np.integer]
Mask = NDArray[np.bool_]


def accuracy(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Share of the masked nodes that are right."""
    return _mean((predicted == truth)[_asked(truth, mask)])


def subgraph_accuracy(predicted: Labels, truth: Labels, mask: Mask, graph: Graph) -> float:
    """Share of the masked nodes that are right together with all their neighbours, by the given prediction on each."""
    wrong = ((predicted != truth) & (truth != UNKNOWN)).astype(np.float32)
    spoilt = wrong + graph.adjacency @ wrong > 0
    return _mean(~spoilt[_asked(truth, mask)])


def macro_f1(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Mean F1 over the classes that are true or predicted somewhere in the mask."""
    from sklearn.metrics import f1_score

    asked = _asked(truth, mask)
    return float(f1_score(truth[asked], predicted[asked], average="macro", zero_division=0)) if asked.any() else np.nan


def calibration_error(probabilities: NDArray[np.floating], truth: Labels, mask: Mask, bins: int = 15) -> float:
    """Expected calibration error of the most probable class, over equally wide bins of its probability."""
    chosen = probabilities[_asked(truth, mask)]
    right = chosen.argmax(axis=1) == truth[_asked(truth, mask)]
    return confidence_gap(chosen.max(axis=1), right, bins)


def confidence_gap(confidence: NDArray[np.floating], right: Mask, bins: int = 15) -> float:
    """The calibration error of answers given with a confidence each, whether or not they were the most probable."""
    if not len(right):
        return np.nan
    of_bin = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gap = np.bincount(of_bin, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(right))


def scores(
    predicted: Labels,
    truth: Labels,
    mask: Mask,
    graph: Graph,
    probabilities: NDArray[np.floating] | None = None,
) -> dict[str, float]:
    """All of the above by name; the calibration error only where probabilities are given."""
    result = {
        "accuracy": accuracy(predicted, truth, mask),
        "subgraph_accuracy": subgraph_accuracy(predicted, truth, mask, graph),
        "macro_f1": macro_f1(predicted, truth, mask),
    }
    if probabilities is not None:
        result["calibration_error"] = calibration_error(probabilities, truth, mask)
    return result


def _asked(truth: Labels, mask: Mask) -> Mask:
    return mask & (truth != UNKNOWN)


def _mean(right: Mask) -> float:
    return float(right.mean()) if right.size else np.nan
