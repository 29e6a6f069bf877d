"""Answers of an estimator against true labels: one number, or a report by class.

Only nodes count whose label is true and did not condition the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.estimators.class_report import ClassReport
from dpmsnc.estimators.number_report import NumberReport
from dpmsnc.estimators.several import listed
from dpmsnc.graph import Graph
from dpmsnc.metrics import METRICS, accuracy, calibration_error, log_loss, macro_f1

if TYPE_CHECKING:
    from dpmsnc.estimators.base import Estimator


def score(model: Estimator, graph: Any, asked: Graph, truth: Any, metric: str | None) -> float:
    """A metric of what the estimator answers, the higher the better."""
    name = metric or model.target_.metric
    chosen = METRICS.find(name)
    if model.target_.kind not in chosen.fits or (chosen.needs == "member" and asked.member is None):
        fitting = [n for n, m in METRICS.items() if model.target_.kind in m.fits]
        what = "several graphs" if model.target_.kind in chosen.fits else f"labels other than a {model.target_.kind}"
        raise InputError(f"metric={name!r} is one of {what}; take one of {', '.join(fitting)}")
    y, mask = compared(model, graph, asked, truth)
    if chosen.needs == "probabilities":
        return chosen.gain(model._marginals(asked, asked.y), y, mask)
    needed: dict[str, list[Any]] = {"graph": [asked], "member": [asked.member]}
    return chosen.gain(model._answer(asked), y, mask, *needed.get(chosen.needs, []))


def evaluate(model: Estimator, graph: Any, asked: Graph, truth: Any) -> ClassReport | NumberReport:
    """What the estimator is right about, class by class; of numbers, how far it is from them."""
    from dpmsnc.targets import OneClass, RealValue

    if isinstance(model.target_, RealValue):
        y, mask = compared(model, graph, asked, truth)
        return NumberReport.of(model._answer(asked), y, mask, asked.labels_on)
    if not isinstance(model.target_, OneClass):
        raise InputError(f"classes are compared one by one, and a label here is a {model.target_.kind}; use score")
    y, mask = compared(model, graph, asked, truth)
    predicted, proba = model._answer(asked), model._marginals(asked, asked.y)
    scores = {
        "accuracy": accuracy(predicted, y, mask),
        "macro_f1": macro_f1(predicted, y, mask),
        "log_loss": log_loss(proba, y, mask),
        "calibration_error": calibration_error(proba, y, mask),
    }
    return ClassReport.of(predicted, y, mask, model.target_.names, scores)


def compared(model: Estimator, graph: Any, asked: Graph, truth: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """True labels, and the nodes that are scored."""
    y = true_labels(model, graph, asked, truth)
    mask = model.target_.known(y) & ~model.target_.known(asked.y)
    if not mask.any():
        raise InputError("the truth has no label that the model was not given already; pass labels of other nodes")
    return y, mask


def true_labels(model: Estimator, graph: Any, asked: Graph, truth: Any) -> NDArray[Any]:
    """Labels to compare with, one for every row that is asked about."""
    if graph is not None and not isinstance(graph, Graph):
        graphs = listed(graph, type(model).__name__)
        if not isinstance(truth, (list, tuple)) or len(truth) != len(graphs):
            raise InputError(f"the truth of {len(graphs)} graphs is a list with one entry for each of them")
        parts = [true_labels(model, one, model._adapted(one), of_one) for one, of_one in zip(graphs, truth)]
        return np.concatenate(parts)
    if graph is None and asked.member is not None:
        raise InputError("several graphs were fitted; pass those that the truth belongs to: score(truths, graphs)")
    if isinstance(truth, Graph):
        if not np.array_equal(truth.ids, asked.ids):
            raise InputError("the graph with the truth has other nodes than the one asked about; give the same")
        if asked.labels_on == "edge" and not np.array_equal(truth.edge_index, asked.edge_index):
            raise InputError("the graph with the truth has other edges than the one asked about; give the same")
        return model._encoded(truth)
    return asked.with_labels(model.target_.unknown(len(asked.y))).reveal(truth).y
