r"""How right a labelling is: node by node, neighbourhood by neighbourhood, and as a statement of probability.

With truth y, prediction p and the nodes M asked about (those of the mask that have a true label),

    accuracy            share of i in M with p_i = y_i,
    subgraph accuracy   share of i in M with p_j = y_j for i itself and every neighbour j of i, in whatever split,
    macro F1            unweighted mean of the classes' F1 on M,
    calibration error   sum_b |B_b| / |M| |accuracy(B_b) - confidence(B_b)|, with M divided into bins B_b by the
                        confidence max_c P(c) of its nodes.

Pairs of nodes e = (i, j) are scored by tables of probabilities Q_e(a, b), which S joint samples give by counting. With
p_e(a, b) the share of samples in which i is a and j is b, p_i and p_j its marginals, C classes, and alpha samples of
noise, e = alpha / (S + alpha),

    Q_e(a, b)           (1 - e)^2 p_e(a, b) + e (1 - e) (p_i(a) + p_j(b)) / C + e^2 / C^2,
    product             Q_e(a, .) Q_e(., b), what is left of Q_e when each node is asked on its own,
    log-score           log Q_e(y_i, y_j), in nats; the higher the better, and in expectation best for the truth.

Q_e is p_e with each label, on its own, replaced by any class with probability e: its marginals are the usual smoothed
frequencies (n + alpha / C) / (S + alpha), and where samples show no dependence smoothing makes none up. So the two
scores differ by the dependence within the samples alone.

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


def pair_tables(
    samples: Labels, pairs: NDArray[np.integer], num_classes: int, alpha: float = 1.0
) -> NDArray[np.float64]:
    """Q (pairs, classes, classes) from joint samples (samples, nodes) for pairs (2, pairs) of nodes."""
    first, second = samples[:, pairs[0]].astype(np.int64), samples[:, pairs[1]]
    cells, count = num_classes**2, pairs.shape[1]
    cell = np.arange(count) * cells + first * num_classes + second
    counts = np.bincount(cell.ravel(), minlength=count * cells).reshape(count, num_classes, num_classes)
    shares, noise = counts / len(samples), alpha / (len(samples) + alpha)
    one_end = shares.sum(axis=2, keepdims=True) + shares.sum(axis=1, keepdims=True)
    return np.asarray((1 - noise) ** 2 * shares + noise * (1 - noise) * one_end / num_classes + noise**2 / cells)


def product_of_marginals(tables: NDArray[np.floating]) -> NDArray[np.floating]:
    """The tables of pairs whose labels are drawn apart, each from its own marginal."""
    return tables.sum(axis=2, keepdims=True) * tables.sum(axis=1, keepdims=True)


def pair_log_score(tables: NDArray[np.floating], truth: Labels, pairs: NDArray[np.integer]) -> NDArray[np.floating]:
    """log Q of the true labels of each pair, all of which must be known."""
    return np.log(tables[np.arange(len(tables)), truth[pairs[0]], truth[pairs[1]]])


def pair_calibration_error(
    tables: NDArray[np.floating], truth: Labels, pairs: NDArray[np.integer], bins: int = 15
) -> float:
    """Expected calibration error of the most probable pair of labels."""
    cell = truth[pairs[0]] * tables.shape[-1] + truth[pairs[1]]
    return calibration_error(tables.reshape(len(tables), -1), cell, np.ones(len(tables), dtype=bool), bins)


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
