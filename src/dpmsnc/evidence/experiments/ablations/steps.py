"""How many steps a prediction needs: few-step samplers against the paper's T ancestral ones, on the same weights.

Each model is trained once, with ten steps of DDIM, and then asked with every sampler and number of steps, at
temperature 0, so that answers differ by the sampler alone. Joint samples, not these answers, are
what separates the samplers (`exact`).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Literal

from dpmsnc.config import Sampling
from dpmsnc.data import Task
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.run.estimators import own_labels
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import MISSING, percent
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy
from dpmsnc.presets import FROM_RANDOM

DATASETS = ("cora", "citeseer", "grid_scattered", "grid_localized")
SAMPLERS: tuple[Literal["ddim", "multistep"], ...] = ("ddim", "multistep")
STEPS = (5, 10, 20, 40, 80)
YARDSTICK: Literal["ancestral"] = "ancestral"
TOLERANCE = 0.003
# predictions of a few milliseconds are timed again, as long as all of them together take less than this
TIMES, TIMING_S = 5, 0.5
SHOWN = {"validation": "validation, decides", "test": "test", "cpu_s": "CPU ms"}
NOTES = (
    "Accuracy in %, and CPU milliseconds of one prediction: means over seeds. Each model is trained once, with ten",
    "steps of DDIM, and asked at temperature 0. progressive: rounds as fitted, or a single run (0).",
    f"full: all T {YARDSTICK} steps, the yardstick. Weights and rounds were selected on validation with that sampler,",
    "which favours it a little in the rows that decide.",
)

Answer = dict[str, Any]


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """What each sampler answers, with progressive rounds as fitted and without."""
    shares = dict.fromkeys([model.progressive_, 0.0])
    answers = [ask(model, task, sampling, share) for share in shares for sampling in samplings(model)]
    return {"steps": {"progressive": model.progressive_, "answers": answers}}


def samplings(model: NodeClassifier) -> Iterator[Sampling]:
    """The yardstick, and every sampler with every number of steps."""
    still = replace(model.sampling, temperature=0.0)
    yield replace(still, method=YARDSTICK, steps=model.schedule.num_steps)
    for sampler in SAMPLERS:
        for steps in STEPS:
            yield replace(still, method=sampler, steps=steps)


def ask(model: NodeClassifier, task: Task, sampling: Sampling, progressive: float) -> Answer:
    """The accuracy and the cost of one prediction by the model's weights with another sampler."""
    asked = copy(model)
    asked.sampling, asked.progressive_ = sampling, progressive
    cpu_s: list[float] = []
    while not cpu_s or (len(cpu_s) < TIMES and sum(cpu_s) < TIMING_S):
        started = time.process_time()
        labels = own_labels(asked, task)
        cpu_s.append(time.process_time() - started)
    return {
        "sampler": sampling.method,
        "steps": sampling.steps,
        "progressive": progressive,
        "validation": round(accuracy(labels, task.truth, task.validation), 6),
        "test": round(accuracy(labels, task.truth, task.test), 6),
        "cpu_s": round(statistics.median(cpu_s), 5),
    }


def table(documents: Sequence[Document]) -> Table:
    """Validation accuracy, test accuracy and cost, one row per data set, kind of rounds and sampler."""
    header = ["", "data set", "progressive", "sampler", *map(str, STEPS), "full", "seeds"]
    rows = [row for metric in SHOWN for dataset in DATASETS for row in _rows(documents, dataset, metric)]
    return Table("Accuracy against steps", header, rows, [*NOTES, *conclusion(documents)])


def _rows(documents: Sequence[Document], dataset: str, metric: str) -> Iterator[list[str]]:
    runs = [d for d in documents if d["dataset"] == dataset]
    for fitted in (True, False) if runs else ():
        for sampler in SAMPLERS:
            values = [mean(runs, metric, sampler, steps, fitted) for steps in STEPS]
            values.append(mean(runs, metric, YARDSTICK, None, fitted))
            cells = [_show(metric, value) for value in values]
            yield [SHOWN[metric], dataset, "fitted" if fitted else "0", sampler, *cells, str(len(runs))]


def _show(metric: str, value: float | None) -> str:
    if metric != "cpu_s":
        return percent(value, digits=2)
    return MISSING if value is None else f"{1000 * value:.0f}"


def mean(runs: Sequence[Document], metric: str, sampler: str, steps: int | None, fitted: bool = True) -> float | None:
    """A metric of one sampler over seeds; `steps` None stands for any. None where there are no runs."""
    values = [
        answer[metric]
        for measured in (run["metrics"]["steps"] for run in runs)
        for answer in measured["answers"]
        if answer["sampler"] == sampler
        and steps in (None, answer["steps"])
        and answer["progressive"] == (measured["progressive"] if fitted else 0)
    ]
    return statistics.fmean(values) if values else None


def choose(documents: Sequence[Document]) -> tuple[str, int] | None:
    """The fewest steps, and the simplest sampler, that lose at most `TOLERANCE` of the yardstick's validation accuracy
    on every data set; None where none does."""
    datasets = {d["dataset"] for d in documents}
    for steps in STEPS:
        for sampler in SAMPLERS:
            losses = [
                (mean(runs, "validation", YARDSTICK, None) or 0) - (mean(runs, "validation", sampler, steps) or 0)
                for runs in ([d for d in documents if d["dataset"] == dataset] for dataset in datasets)
            ]
            if max(losses, default=1) <= TOLERANCE + 1e-9:
                return sampler, steps
    return None


def conclusion(documents: Sequence[Document]) -> Iterator[str]:
    """The choice in a sentence, where there is something to choose from."""
    if not documents:
        return
    chosen = choose(documents)
    answer = "none" if chosen is None else f"{chosen[0]}, {chosen[1]} steps"
    yield (
        f"Fewest steps within {100 * TOLERANCE:.1f} points of full in validation accuracy on every data set: {answer}."
    )


FEW_STEPS = Experiment(
    "steps",
    DATASETS,
    {"dpm-snc": Row("dpm-snc", FROM_RANDOM | {"sampling": Sampling(method="ddim")})},
    seeds=tuple(range(5)),
    table=table,
    measure=measure,
)
