"""Temperature (appendix F): accuracy of single answers drawn at a temperature tau, for models trained at several.

The paper varies the tau of prediction, and searches that of the labels that enter the buffer among .1, .3 and 1; here
the rows are the tau of the buffer, and each model is asked at every tau of prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dpmsnc.config import Training
from dpmsnc.data import Task
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments.ablations.samplers import joint_samples, with_sampler
from dpmsnc.evidence.experiments.aggregate import (
    CITATION,
    SEEDS,
    SPAN,
    datasets_with_runs,
    mean_std,
    metrics,
    num_seeds,
    per_cent,
)
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy
from dpmsnc.plots import figures
from dpmsnc.presets import FROM_RANDOM

BUFFER = {f"buffer-{tau:g}": tau for tau in (0.1, 0.3, 1.0)}
ROWS = {label: Row("dpm-snc", FROM_RANDOM | {"training": Training(temperature=tau)}) for label, tau in BUFFER.items()}
PREDICTION = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
DRAWS = 8
SAMPLERS: dict[str, dict[str, Any]] = {
    "ancestral": {"method": "ancestral", "steps": None},
    "multistep": {"method": "multistep"},
}
NOTES = (
    f"Test accuracy in % of one answer drawn at temperature tau (columns), mean of {DRAWS} draws, mean±std over seeds;",
    "no progressive rounds. buffer: tau of the labels that enter the buffer during training. ancestral: all T steps,",
    "tau scales the noise of each and of the first y (the paper's); multistep: the default, tau scales the first y.",
)


def measure(model: NodeClassifier, task: Task, seed: int) -> dict[str, Any]:
    """Mean accuracy of single answers, by sampler and temperature."""
    return {
        "temperature": {
            name: {f"{tau:g}": _mean_accuracy(with_sampler(model, **sampling), task, seed, tau) for tau in PREDICTION}
            for name, sampling in SAMPLERS.items()
        }
    }


def _mean_accuracy(model: NodeClassifier, task: Task, seed: int, tau: float) -> float:
    samples = joint_samples(model, DRAWS if tau else 1, seed, tau)
    return round(float(np.mean([accuracy(labels, task.truth, task.test) for labels in samples])), 6)


def table(documents: Sequence[Document]) -> Table:
    """One line per data set, temperature of the buffer and sampler."""
    header = ["data set", "buffer", "sampler", *(f"{tau:g}" for tau in PREDICTION), "seeds"]
    rows = [
        [
            name,
            f"{tau:g}",
            sampler,
            *map(mean_std, zip(*values(documents, dataset, label, sampler))),
            num_seeds(documents, dataset, label),
        ]
        for dataset, name in CITATION.items()
        for label, tau in BUFFER.items()
        for sampler in SAMPLERS
        if metrics(documents, dataset, label)
    ]
    return Table("Accuracy at a temperature", header, rows, NOTES)


def figure(documents: Sequence[Document]) -> Figure:
    """A panel per data set, a curve per temperature of the buffer, by the paper's sampler."""
    panels = {
        name: {
            f"buffer at {tau:g}": figures.Curve(PREDICTION, per_cent(zip(*found)))
            for label, tau in BUFFER.items()
            if (found := values(documents, dataset, label, "ancestral"))
        }
        for dataset, name in datasets_with_runs(documents)
    }
    return figures.curves(
        panels, "temperature of prediction", "test accuracy (%)", title="Accuracy at a temperature", least_span=SPAN
    )


def values(documents: Sequence[Document], dataset: str, label: str, sampler: str) -> list[list[float]]:
    """Accuracies over temperatures, one list per seed."""
    found = [run["temperature"][sampler] for run in metrics(documents, dataset, label)]
    return [[run[f"{tau:g}"] for tau in PREDICTION] for run in found]


TEMPERATURE = Experiment("temperature", tuple(CITATION), ROWS, SEEDS, table, figure=figure, measure=measure)
