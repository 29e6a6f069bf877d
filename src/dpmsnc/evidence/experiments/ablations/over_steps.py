"""Accuracy over reverse steps (section 6.3): what the model would answer at each step of a single run."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from dpmsnc.data import Task
from dpmsnc.diffusion.objective import Estimate
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments.ablations.samplers import with_sampler
from dpmsnc.evidence.experiments.aggregate import (
    CITATION,
    SPAN,
    datasets_with_runs,
    mean_std,
    metrics,
    num_seeds,
    per_cent,
)
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy
from dpmsnc.plots import figures

ROW = "dpm-snc"
# shares of the way from noise to labels
STOPS = {"first": 0.0, "1/8": 1 / 8, "1/4": 1 / 4, "1/2": 1 / 2, "last": 1.0}
TITLE = "Accuracy over reverse steps"
NOTES = (
    "Test accuracy in % of the estimate of the labels at a step of the reverse process, mean±std over seeds; columns:",
    "the first of all T steps, the step after that share of them, and the last. Deterministic, a single run.",
)


def record(model: NodeClassifier, task: Task) -> list[float]:
    """Test accuracy of the estimate at each of all T steps."""
    found: list[float] = []

    def note(t: int, y_t: Tensor, estimate: Estimate) -> None:
        labels = estimate.y0[:, 0].argmax(dim=-1).cpu().numpy()
        found.append(round(accuracy(labels, task.truth, task.test), 6))

    with_sampler(model, steps=None, temperature=0.0).predict(condition_on="train", callback=note)
    return found


def table(documents: Sequence[Document], title: str = TITLE) -> Table:
    """One line per data set, at some of the steps."""
    rows = []
    for dataset, name in CITATION.items():
        runs = curves(documents, dataset)
        at_stops = [mean_std([run[round(share * (len(run) - 1))] for run in runs]) for share in STOPS.values()]
        rows.append([name, *at_stops, num_seeds(documents, dataset, ROW)])
    return Table(title, ["data set", *STOPS, "seeds"], rows, NOTES)


def figure(documents: Sequence[Document], title: str = TITLE) -> Figure:
    """A curve per data set."""
    panels = {
        name: {"DPM-SNC": figures.Curve(range(1, len(runs[0]) + 1), per_cent(zip(*runs)))}
        for dataset, name in datasets_with_runs(documents)
        if (runs := curves(documents, dataset))
    }
    return figures.curves(panels, "reverse step", "test accuracy (%)", title=title, least_span=SPAN)


def curves(documents: Sequence[Document], dataset: str) -> list[list[float]]:
    return [found["over_steps"] for found in metrics(documents, dataset, ROW)]
