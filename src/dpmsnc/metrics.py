r"""How right a labelling is: node by node, neighbourhood by neighbourhood, and as a statement of probability.

With truth y, prediction p and the nodes M asked about (those of the mask that have a true label),

    accuracy            share of i in M with p_i = y_i,
    subgraph accuracy   share of i in M with p_j = y_j for i itself and every neighbour j of i, in whatever split,
    graph accuracy      share of graphs of which every i in M is right,
    macro, micro F1     unweighted mean of the F1 of classes or tags on M; F1 of all of them together,
    ROC AUC             chance that a node of a class is given it with more probability than one of another class,
    MSE, MAE            mean of (p_i - y_i)^2 and of |p_i - y_i|, of real values,
    R^2                 1 - MSE / variance of y_i; it is 0 where the mean of all y_i is the answer,
    calibration error   sum_b |B_b| / |M| |accuracy(B_b) - confidence(B_b)|, with M divided into bins B_b by the
                        confidence max_c P(c) of its nodes; finite M have one above 0 though P were the truth,
    log-loss            mean of -log max(P_i(y_i), 1e-12), in nats.

Pairs of nodes e = (i, j) are scored by tables of probabilities Q_e(a, b), which S joint samples give by counting. With
p_e(a, b) the share of samples in which i is a and j is b, p_i and p_j its marginals, C classes, and alpha samples of
noise, e = alpha / (S + alpha),

    Q_e(a, b)           (1 - e)^2 p_e(a, b) + e (1 - e) (p_i(a) + p_j(b)) / C + e^2 / C^2,
    product             Q_e(a, .) Q_e(., b), what is left of Q_e when each node is asked on its own,
    log-score           log Q_e(y_i, y_j), in nats; the higher the better, and in expectation best for the truth.

Q_e is p_e with each label, on its own, replaced by any class with probability e: its marginals are the usual smoothed
frequencies (n + alpha / C) / (S + alpha), and where samples show no dependence smoothing makes none up. So the two
scores differ by the dependence within the samples alone.

Labels are as a target has them: class indices, rows of 0/1 or numbers. A node without a true label (-1 or NaN) is in no
metric: it is not asked about, and as a neighbour it is ignored. A metric of no nodes at all is nan. `METRICS` says
which targets a metric fits, what it needs, its unit, and whether more or less is better.

Reference: expected calibration error as in Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.registry import Registry

Labels = NDArray[Any]
Mask = NDArray[np.bool_]
Need = Literal["labels", "graph", "probabilities", "member"]


@dataclass(frozen=True)
class Metric:
    """A metric, and what a table has to know about it."""

    function: Callable[..., float]
    """Of (predicted, truth, mask), or with `needs` in the place of `predicted` ("probabilities") or behind them."""
    fits: tuple[str, ...] = ("class",)
    """Kinds of targets."""
    needs: Need = "labels"
    higher_is_better: bool = True
    unit: Literal["%", ""] = "%"
    """Shares are shown in per cent, errors as they are."""

    def gain(self, predicted: Labels, truth: Labels, mask: Mask, *needed: Any) -> float:
        """The metric of labels, with the sign that makes more better; `needed` is what else it needs."""
        value = self.function(predicted, truth, mask, *needed)
        return value if self.higher_is_better else -value


METRICS: Registry[Metric] = Registry("metric")


def selecting(name: str, kind: str, *needs: Need) -> Metric:
    """The metric of that name, to choose weights by where labels are of that kind and there is what it needs, or an
    `InputError` where it cannot."""
    metric = METRICS.find(name)
    if kind not in metric.fits or metric.needs not in needs:
        raise InputError(f"select_by={name!r} does not score predicted labels that are a {kind}")
    return metric


FLOOR = 1e-12
"""Least probability that a log-loss counts: frequencies among a few samples may be 0."""


def accuracy(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Share of the masked nodes that are right."""
    return _mean((predicted == truth)[_asked(truth, mask)])


def subgraph_accuracy(predicted: Labels, truth: Labels, mask: Mask, graph: Graph) -> float:
    """Share of the masked nodes that are right together with all their neighbours, by the given prediction on each."""
    wrong = ((predicted != truth) & (truth != UNKNOWN)).astype(np.float32)
    spoilt = wrong + graph.adjacency @ wrong > 0
    return _mean(~spoilt[_asked(truth, mask)])


def graph_accuracy(predicted: Labels, truth: Labels, mask: Mask, member: NDArray[np.integer]) -> float:
    """Share of graphs whose masked nodes are all right; `member` says which graph a node belongs to."""
    asked = _asked(truth, mask)
    graphs, of_node = np.unique(member[asked], return_inverse=True)
    wrong = np.bincount(of_node, weights=(predicted != truth)[asked], minlength=len(graphs))
    return _mean(wrong == 0)


def macro_f1(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Mean F1 over the classes or tags that are true or predicted somewhere in the mask; no answer (-1) is no class."""
    return _f1(predicted, truth, mask, "macro")


def micro_f1(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """F1 of all classes or tags together; for one class a node it is the accuracy."""
    return _f1(predicted, truth, mask, "micro")


def best_threshold(probabilities: NDArray[np.floating], truth: Labels, mask: Mask) -> tuple[float, float]:
    """The threshold in [0, 1) above which tags are to be answered for the largest micro-F1, and that F1.

    F1 changes only where the threshold passes a score, so that all thresholds are tried by sorting the scores: with the
    k largest answered, of which c_k are right, and P tags true, F1 = 2 c_k / (k + P). A threshold lies halfway between
    two scores, or at .5 where that lies between them; of equally good ones the nearest to .5 is taken.
    """
    asked = _asked(truth, mask)
    score, true = probabilities[asked].ravel(), truth[asked].ravel()
    order = np.argsort(-score, kind="stable")
    upper, right = score[order], np.cumsum(true[order])
    lower = np.append(upper[1:], 0.0)
    cut = np.flatnonzero(lower < upper)  # equal scores are answered together
    if not len(cut) or not right[-1]:
        return 0.5, 0.0 if asked.any() else np.nan
    f1 = 2 * right[cut] / (cut + 1 + right[-1])
    best = cut[f1 == f1.max()]
    low, high = lower[best], upper[best]
    middle = (low + high) / 2
    threshold = np.where((low <= 0.5) & (high > 0.5), 0.5, np.where(middle < high, middle, low))
    return float(threshold[np.abs(threshold - 0.5).argmin()]), float(f1.max())


def roc_auc(probabilities: NDArray[np.floating], truth: Labels, mask: Mask) -> float:
    """Area under the ROC curve of marginals (nodes, channels); the mean over classes where there are more than two."""
    from sklearn.metrics import roc_auc_score

    asked = _asked(truth, mask)
    y, p = truth[asked], probabilities[asked]
    if len(np.unique(y, axis=0)) < 2:
        return np.nan
    if y.ndim == 1:
        y, p = (y, p[:, 1]) if p.shape[1] == 2 else (np.eye(p.shape[1])[y], p)
    return float(roc_auc_score(y, p, average="macro"))


def mse(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Mean squared error of the masked nodes."""
    return _mean((predicted - truth)[_asked(truth, mask)] ** 2)


def mae(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Mean absolute error of the masked nodes."""
    return _mean(np.abs(predicted - truth)[_asked(truth, mask)])


def r2(predicted: Labels, truth: Labels, mask: Mask) -> float:
    """Share of the variance of the masked nodes that is explained; nan where they do not vary."""
    y = truth[_asked(truth, mask)]
    varies = y.size > 0 and y.max() > y.min()
    return 1 - mse(predicted, truth, mask) / float(y.var()) if varies else np.nan


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


def simulated_calibration_error(
    probabilities: NDArray[np.floating], mask: Mask, seed: int = 0, draws: int = 200, bins: int = 15
) -> float:
    """What the calibration error would be on average if labels were drawn from the probabilities themselves."""
    confidence, rng = probabilities[mask].max(axis=1), np.random.default_rng(seed)
    # a label that is drawn so is the most probable one with just this confidence
    gaps = [confidence_gap(confidence, rng.random(len(confidence)) < confidence, bins) for _ in range(draws)]
    return float(np.mean(gaps))


def log_loss(probabilities: NDArray[np.floating], truth: Labels, mask: Mask) -> float:
    """Mean of -log of the probability of the true class of the masked nodes, in nats."""
    asked = np.flatnonzero(_asked(truth, mask))
    return _mean(-np.log(np.maximum(probabilities[asked, truth[asked]], FLOOR)))


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
    """Every metric that fits the graph's target, by name; those of probabilities only where they are given."""
    result = {}
    for name, metric in METRICS.items():
        if graph.target.kind not in metric.fits or (metric.needs == "member" and graph.member is None):
            continue
        if metric.needs == "labels":
            result[name] = metric.function(predicted, truth, mask)
        elif metric.needs == "graph":
            result[name] = metric.function(predicted, truth, mask, graph)
        elif metric.needs == "member":
            result[name] = metric.function(predicted, truth, mask, graph.member)
        elif probabilities is not None:
            result[name] = metric.function(probabilities, truth, mask)
    return result


def _f1(predicted: Labels, truth: Labels, mask: Mask, average: str) -> float:
    from sklearn.metrics import f1_score

    asked = _asked(truth, mask)
    if not asked.any():
        return np.nan
    y, p = truth[asked], predicted[asked]
    classes = np.setdiff1d(np.concatenate([y, p]), UNKNOWN) if average == "macro" and y.ndim == 1 else None
    return float(f1_score(y, p, labels=classes, average=average, zero_division=0))


def _asked(truth: Labels, mask: Mask) -> Mask:
    known = ~np.isnan(truth) if truth.dtype.kind == "f" else truth != UNKNOWN
    return mask & (known if known.ndim == 1 else known.all(axis=1))


def _mean(values: NDArray[Any]) -> float:
    return float(values.mean()) if values.size else np.nan


METRICS.update(
    accuracy=Metric(accuracy),
    subgraph_accuracy=Metric(subgraph_accuracy, needs="graph"),
    graph_accuracy=Metric(graph_accuracy, needs="member"),
    macro_f1=Metric(macro_f1, fits=("class", "tags")),
    micro_f1=Metric(micro_f1, fits=("class", "tags")),
    roc_auc=Metric(roc_auc, fits=("class", "tags"), needs="probabilities"),
    calibration_error=Metric(calibration_error, needs="probabilities", higher_is_better=False),
    mse=Metric(mse, fits=("value",), higher_is_better=False, unit=""),
    mae=Metric(mae, fits=("value",), higher_is_better=False, unit=""),
    r2=Metric(r2, fits=("value",), unit=""),
)
