"""Diffusion steps against layers, and running time against accuracy (section 6.3).

Each model is trained and asked with all T steps of its own schedule, in a single run, so that the diffusion's number of
steps is what varies. Both experiments show runs of one store: models with two layers stand in both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.figure import Figure

from dpmsnc.baselines import GNN
from dpmsnc.config import Sampling
from dpmsnc.data import Task
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.evidence.experiments.ablations.samplers import cpu_seconds
from dpmsnc.evidence.experiments.aggregate import (
    CITATION,
    SEEDS,
    SPAN,
    accuracies,
    datasets_with_runs,
    mean_std,
    metrics,
    num_seeds,
    per_cent,
)
from dpmsnc.evidence.run.estimators import own_labels
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import MISSING
from dpmsnc.evidence.show.table import Table
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.plots import figures
from dpmsnc.presets import FROM_RANDOM

STEPS, LAYERS = (5, 20, 80), (2, 4, 8)
TIMED_STEPS, TIMED_LAYERS = (5, 10, 20, 40, 80), (2, 4, 8, 16, 32)


def label(steps: int, layers: int) -> str:
    return f"{steps}-steps-{layers}-layers"


def diffusion(steps: int, layers: int) -> Row:
    settings = {
        "num_layers": layers,
        "schedule": Schedule(num_steps=steps),
        "sampling": Sampling(steps=None, progressive=0.0),
    }
    return Row("dpm-snc", FROM_RANDOM | settings)


def gcnii(layers: int) -> Row:
    return Row("gcnii", {"num_layers": layers})


GRID = {label(steps, layers): diffusion(steps, layers) for steps in STEPS for layers in LAYERS}
DPM = {label(steps, 2): steps for steps in TIMED_STEPS}
GCNII = {f"gcnii-{layers}-layers": layers for layers in TIMED_LAYERS}
TIMED = {name: diffusion(steps, 2) for name, steps in DPM.items()} | {
    name: gcnii(layers) for name, layers in GCNII.items()
}
GRID_TITLE = "Diffusion steps against layers"
GRID_NOTES = (
    "Test accuracy in %, mean±std over seeds, weights selected on validation. Columns: T, the number of diffusion",
    "steps of training and of prediction, with the multistep solver; a single deterministic run, without progressive",
    "rounds. Backbone GCN.",
)
TIMED_NOTES = (
    "Test accuracy in %, mean±std over seeds, against CPU milliseconds of one prediction for all nodes on one core.",
    "DPM-SNC: a two-layer GCN with a growing number T of diffusion steps, a single run; GCNII: growing depth, the",
    "input layer counted, one forward pass. fit: CPU seconds of training.",
)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """CPU seconds of one prediction."""
    return {"predict_s": forward_seconds(model, task) if isinstance(model, GNN) else predict_seconds(model, task)}


def predict_seconds(model: Any, task: Task) -> float:
    return cpu_seconds(lambda: own_labels(model, task))


def forward_seconds(model: GNN, task: Task) -> float:
    """A GNN keeps its answer and not its network; another of the same shape takes as long."""
    tensors = GraphTensors.of(task.graph, model.scaling)
    shape = (model.hidden_channels, model.num_layers, model.dropout, model.head)
    network = MeanField(model.backbone, tensors.num_features, task.num_classes, *shape)
    with torch.no_grad():
        return cpu_seconds(lambda: network(tensors).argmax(dim=-1))


def grid_table(documents: Sequence[Document], title: str = GRID_TITLE, notes: Sequence[str] = GRID_NOTES) -> Table:
    """Layers down, steps across, one block per data set."""
    rows = [
        [
            name,
            str(layers),
            *(mean_std(accuracies(documents, dataset, label(steps, layers))) for steps in STEPS),
            num_seeds(documents, dataset, label(STEPS[0], layers)),
        ]
        for dataset, name in CITATION.items()
        for layers in LAYERS
    ]
    header = ["data set", "layers", *(f"T = {steps}" for steps in STEPS), "seeds"]
    return Table(title, header, rows, notes)


def grid_figure(documents: Sequence[Document], title: str = GRID_TITLE) -> Figure:
    """A panel per data set, a curve over steps per number of layers."""
    panels = {
        name: {f"{layers} layers": _over_steps(documents, dataset, layers) for layers in LAYERS}
        for dataset, name in datasets_with_runs(documents)
    }
    return figures.curves(
        panels,
        "diffusion steps T",
        "test accuracy (%)",
        title=title,
        log_base=2,
        bars=True,
        least_span=SPAN,
    )


def _over_steps(documents: Sequence[Document], dataset: str, layers: int) -> figures.Curve:
    there = {steps: found for steps in STEPS if (found := accuracies(documents, dataset, label(steps, layers)))}
    return figures.Curve(list(there), per_cent(there.values()))


def time_table(documents: Sequence[Document]) -> Table:
    """One line per data set and model, slower ones further down."""
    rows = []
    for dataset, name in CITATION.items():
        for row, words in [*((r, f"DPM-SNC, T = {t}") for r, t in DPM.items()), *((r, r) for r in GCNII)]:
            times = [1000 * found["predict_s"] for found in metrics(documents, dataset, row)]
            costs = [d["cpu_s"] for d in documents if d["dataset"] == dataset and d["row"] == row]
            rows.append(
                [
                    words,
                    name,
                    mean_std(accuracies(documents, dataset, row)),
                    f"{statistics.fmean(times):.0f}" if times else MISSING,
                    f"{statistics.fmean(costs):.0f}" if costs else MISSING,
                    num_seeds(documents, dataset, row),
                ]
            )
    header = ["model", "data set", "accuracy", "prediction, CPU ms", "fit, CPU s", "seeds"]
    return Table("Running time against accuracy", header, rows, TIMED_NOTES)


def time_figure(documents: Sequence[Document]) -> Figure:
    """A panel per data set: accuracy over the time of one prediction, a point per number of steps or layers."""
    panels = {
        name: {
            "DPM-SNC, more steps": _timed(documents, dataset, list(DPM)),
            "GCNII, more layers": _timed(documents, dataset, list(GCNII)),
        }
        for dataset, name in datasets_with_runs(documents)
    }
    title = "Running time against accuracy"
    return figures.curves(
        panels,
        "CPU seconds of one prediction",
        "test accuracy (%)",
        title=title,
        log_base=10,
        bars=True,
        least_span=SPAN,
    )


def _timed(documents: Sequence[Document], dataset: str, rows: Sequence[str]) -> figures.Curve:
    there = [row for row in rows if accuracies(documents, dataset, row)]
    times = [statistics.fmean(found["predict_s"] for found in metrics(documents, dataset, row)) for row in there]
    return figures.Curve(times, per_cent(accuracies(documents, dataset, row) for row in there))


STEPS_VS_LAYERS = Experiment(
    "steps-vs-layers", tuple(CITATION), GRID, SEEDS, grid_table, figure=grid_figure, measure=measure
)
TIME_VS_ACCURACY = Experiment(
    "time-vs-accuracy",
    tuple(CITATION),
    TIMED,
    SEEDS,
    time_table,
    figure=time_figure,
    measure=measure,
    stored_as=STEPS_VS_LAYERS.name,
)
