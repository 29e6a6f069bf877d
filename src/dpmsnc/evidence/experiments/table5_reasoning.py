"""Table 5: algorithmic reasoning with numbers on edges; ours beside the paper's, and larger graphs than the paper has.

Weights are chosen by graphs of the validation stream. `dpm-snc` is the preset of the paper, `dpm-snc (triples)`
ours, `direct (triples)` the same network without diffusion, `trivial rule` what needs no learning; the others are the
baselines that the paper takes from Du et al. 2022. On these tasks the answer is a function of the graph, so that a
direct network may do as well as a diffusion model.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import Column, compare
from dpmsnc.evidence.show.paper import Printed, columns
from dpmsnc.evidence.show.summary import MISSING, cpu
from dpmsnc.evidence.show.table import Table
from dpmsnc.reasoning import methods  # noqa: F401 (which registers them)
from dpmsnc.reasoning.scoring import BEYOND, StreamedTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# element-wise squared error on graphs of 10 nodes (mse) and of 15 (mse_large)
PAPER = Printed(
    number=5,
    columns=columns(("edge_copy", "connected_components", "shortest_path"), ("mse", "mse_large")),
    seeds=None,
    digits=4,
    rows={
        ("feedforward", None): "0.3016 0.3124 0.1796 0.3460 0.1233 1.4089",
        ("recurrent", None): "0.3015 0.3113 0.1794 0.2766 0.1259 0.1083",
        ("programmatic", None): "0.3053 0.4409 0.2338 3.1381 0.1375 0.1290",
        ("iterative-feedforward", None): "0.6163 0.6498 0.4908 1.2064 0.4588 0.7688",
        ("irem", None): "0.0019 0.0019 0.1424 0.2171 0.0274 0.0464",
        ("dpm-snc", None): "0.0011 0.0038 0.0724 0.1884 0.0138 0.0286",
    },
)

DATASETS = ("edge_copy", "connected_components", "shortest_path")
DIGITS = 5
"""Errors of ours are smaller than what the paper prints."""
# the authors' weight decay
DECAYED = {"edge_copy": {"training": {"weight_decay": 1e-5}}}
ROWS = {
    "dpm-snc": Row("dpm-snc-edges", by_dataset=DECAYED),
    "dpm-snc (triples)": Row("dpm-snc-triples"),
    "direct (triples)": Row("direct-triples"),
    # steps that take about as long as each other
    "feedforward": Row("feedforward", {"steps": 25000}),
    "recurrent (tied)": Row("recurrent-tied", {"steps": 15000}),
    "recurrent (lstm)": Row("recurrent-lstm", {"steps": 7500}),
    "programmatic (PonderNet)": Row("pondernet", {"steps": 9000}),
    "iterative-feedforward": Row("iterative-feedforward", {"steps": 25000}),
    "irem": Row("irem", {"steps": 4000}),
    "trivial rule": Row("trivial-rule"),
}
METRICS = {"mse": "n=10", "mse_large": "n=15"}
NOTES = (
    "Mean squared errors, not in %: mean over seeds, with the spread over seeds where there are several.",
    "se: standard error over the test graphs of a seed; n=20, 30, 50: errors on larger graphs.",
    "2048 test graphs of 10 and of 15 nodes; 512 where the answer is the mean of 16 samples.",
    "trivial rule: the edge's own attribute, reachable within two hops, one min-plus step.",
)


def load(dataset: str, seed: int = 0) -> StreamedTask:
    """The task of that seed."""
    return StreamedTask(dataset, seed)


def measure(model: Any, task: StreamedTask, seed: int) -> dict[str, Any]:
    """For the picture: one graph along the reverse steps."""
    diffuses = getattr(model, "process", None) == "gaussian"
    return {"trajectory": task.trajectory(model)} if diffuses and seed == REASONING.seeds[0] else {}


def number(metric: str) -> Column:
    """A column with the mean of another metric over seeds."""

    def cell(runs: Sequence[Document]) -> str:
        found = [value for run in runs if (value := run["metrics"]["selected"].get(metric)) is not None]
        return f"{statistics.fmean(found):.{DIGITS}f}" if found else MISSING

    return cell


def table(documents: Sequence[Document]) -> Table:
    """Errors on both sizes beside the paper's, and on larger graphs."""
    extra = {"se 10": number("mse_se"), "se 15": number("mse_large_se")}
    extra |= {f"n={n}": number(f"mse_{n}") for n in BEYOND} | {"CPU s": cpu}
    title, paper = "Table 5: algorithmic reasoning", replace(PAPER, digits=DIGITS)
    return compare(title, documents, DATASETS, ROWS, paper=paper, metrics=METRICS, extra=extra, notes=NOTES)


def figure(documents: Sequence[Document]) -> Figure:
    """One graph of every task with its answer, and what our network estimates along the reverse steps."""
    from dpmsnc.plots.matrices import draw_trajectories

    runs = [run for run in documents if "trajectory" in run["metrics"]]
    names = {f"{run['dataset'].replace('_', ' ')}, {run['row']}": run["metrics"]["trajectory"] for run in runs}
    return draw_trajectories(names)


REASONING = Experiment(
    "reasoning", DATASETS, ROWS, seeds=(0, 1, 2), table=table, figure=figure, measure=measure, load=load, paper=PAPER
)
