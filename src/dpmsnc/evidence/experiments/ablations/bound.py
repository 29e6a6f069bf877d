r"""The lower bound of equation 1 over training, and how far the buffer is from the fixed point q = p_theta(y_U | y_L).

Algorithm 1 alternates two updates that should raise the bound, and is done where the labellings of the buffer cannot be
told from samples of the model. The distance between both is that of the labels of neighbours: with p_e and q_e the
distributions of the two labels at an edge e between unlabelled nodes,

    gap = mean over e of |p_e - q_e|^2  =  A(q, q) + A(p, p) - 2 A(p, q),

where A is the share of edges on which two labellings agree. Pairs of different labellings make it free of bias, so it
is zero on average at the fixed point and may be below. Models are as the paper prints them, trained for a shorter time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from dpmsnc.baselines import METHODS
from dpmsnc.diffusion.bound import buffer_entropy, lower_bound
from dpmsnc.evidence.experiments.aggregate import SEEDS, metrics, num_seeds
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.plots import figures
from dpmsnc.presets import preset
from dpmsnc.training.trainer import Trainer

DATASETS = {"grid_scattered": "Scattered grid", "cora": "Cora"}
PRINTED, AVERAGED = "as printed", "averaged weights"
STEPS, REFRESHES, DRAWS, SAMPLES = 2000, 5, 4, 16
NOTES = (
    f"The paper's settings, but {STEPS} training steps; averaged weights: the same with these, and a rate that decays.",
    f"bound: equation 1 in nats a node, of {DRAWS} labellings of the buffer at every evaluation; rose: share of the",
    "evaluations at which it was higher than at the one before. gap: squared distance between the labels of neighbours",
    f"in the buffer and in {SAMPLES} samples of the model, both at the buffer's temperature; 0 at the fixed point.",
    "Means over seeds, at the first evaluation and at the last.",
)


def watch(trainer: Trainer) -> dict[str, float]:
    """The bound, and the gap between buffer and model samples, of the weights that sample."""
    source: Any = trainer.source
    generator = torch.Generator().manual_seed(trainer.step)  # not the run's own, which goes on as it would
    posterior = source.posterior(source.known, share=0.0)
    entries = source.buffer.entries
    y_0 = source.target.field(source.buffer.draw(DRAWS, generator).transpose(0, 1)).to(source.initial)
    bound = lower_bound(posterior.eps, trainer.objective.schedule, y_0, buffer_entropy(entries), generator)
    samples = posterior.sample(SAMPLES, trainer.options.temperature, generator).transpose(0, 1)
    i, j = source.graph.graph.edge_index
    kept = ~(source.train.cpu().numpy()[i] | source.train.cpu().numpy()[j]) & (i < j)
    ends = torch.as_tensor(np.stack([i[kept], j[kept]]))
    gap = squared_distance(entries.cpu()[:, ends], samples.cpu()[:, ends])
    return {"bound": round(bound.total / len(source.train), 5), "gap": round(gap, 5)}


def squared_distance(first: Tensor, second: Tensor) -> float:
    """Mean over edges of |p_e - q_e|^2, from labellings (count, 2, edges) of the ends of edges."""
    return agreement(first) + agreement(second) - 2 * agreement(first, second)


def agreement(first: Tensor, second: Tensor | None = None) -> float:
    """The share of edges on which two labellings agree at both ends; of one sample, two different labellings."""
    others = first if second is None else second
    agree = torch.stack([(entry == others).all(dim=1).double().mean(dim=1) for entry in first])
    if second is not None:
        return agree.mean().item()
    count = len(first)
    return ((agree.sum() - agree.trace()) / (count * (count - 1))).item()


def table(documents: Sequence[Document]) -> Table:
    """One line per data set and row."""
    rows = []
    for (dataset, name), row in product(DATASETS.items(), ROWS):
        if curves := [found["training"] for found in metrics(documents, dataset, row)]:
            bounds, gaps = (np.array([[point[part] for point in c] for c in curves]) for part in ("bound", "gap"))
            ends = [f"{values[:, k].mean():.3f}" for values in (bounds, gaps) for k in (0, -1)]
            rose = f"{100 * (np.diff(bounds) > 0).mean():.0f} %"
            rows.append([name, row, *ends[:2], rose, *ends[2:], num_seeds(documents, dataset, row)])
    header = ["data set", "model", "bound, first", "last", "rose", "gap, first", "last", "seeds"]
    return Table("The lower bound over training", header, rows, NOTES)


def figure(documents: Sequence[Document]) -> Figure:
    """The bound and the gap of every data set, each in a panel of its own."""
    parts = {"bound": "lower bound, nats a node", "gap": "gap between buffer and model"}
    panels = {
        f"{name}: {words}": {row: curve(found, part) for row in ROWS if (found := metrics(documents, dataset, row))}
        for dataset, name in DATASETS.items()
        for part, words in parts.items()
        if any(document["dataset"] == dataset for document in documents)
    }
    return figures.curves(panels, "training step", "", title="The lower bound over training")


def curve(found: Sequence[dict[str, Any]], part: str) -> figures.Curve:
    """Of one part at every evaluation, over seeds."""
    points = list(zip(*(run["training"] for run in found)))
    return figures.Curve([of[0]["step"] for of in points], [[point[part] for point in of] for of in points])


def shorter(setting: str, **changed: Any) -> dict[str, Any]:
    """The paper's settings, trained for a shorter time."""
    training = replace(preset("paper", setting)["training"], steps=STEPS, initialiser_refreshes=REFRESHES, **changed)
    return {"setting": setting, "training": training}


def trained(**changed: Any) -> Row:
    """The paper's model for either data set, with some settings of training changed."""
    grid = METHODS["dpm-snc-paper"].build(0, **shorter("synthetic", **changed)).method_params()
    return Row("dpm-snc-paper", shorter("homophilic", **changed), {"grid_scattered": grid})


ROWS = {PRINTED: trained(), AVERAGED: trained(averaging=0.995, decay=True)}
BOUND = Experiment("bound", tuple(DATASETS), ROWS, SEEDS, table, figure=figure, watch=watch)
