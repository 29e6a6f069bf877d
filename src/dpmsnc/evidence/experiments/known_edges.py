"""Known edges given: a third of the answers is known, are the others found better for it?

The networks are trained to be shown a random share of the answers (amortised conditioning), by diffusion and directly.
The error is that of edges whose answer is not known, on the same graphs with and without the third that is. The answers
that are known are drawn at random, the diagonal among them.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dpmsnc.evidence.experiments.table5_reasoning import DATASETS, DIGITS
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import cpu
from dpmsnc.evidence.show.table import Table
from dpmsnc.reasoning.scoring import NAMES, StreamedTask
from dpmsnc.reasoning.tasks import TASKS, generator

SHARE, GRAPHS = 1 / 3, 128
SETTINGS = {"conditioning": "amortised", "steps": 10000}
ROWS = {
    "dpm-snc (triples)": Row("dpm-snc-triples", SETTINGS),
    "direct (triples)": Row("direct-triples", SETTINGS),
}
HEADER = ("data set", "method", *(f"n={n}{what}" for n in NAMES for what in ("", ", a third known")), "CPU s", "seeds")
NOTES = (
    "Mean squared error of edges whose answer is not known, mean over seeds;",
    f"{GRAPHS} test graphs of each size, the same without any answer known and with a third of them.",
)


def measure(model: Any, task: StreamedTask, seed: int) -> dict[str, Any]:
    """Errors without and with known edges, by size."""
    rng, found = np.random.default_rng(seed), {}
    for n in NAMES:
        attributes, answers = TASKS.find(task.name).draw(task.most_graphs, n, generator(seed, "test", n, 1))
        truth, given = answers.double().numpy(), rng.random(answers.shape) < SHARE
        for name, known in (("none", None), ("third", np.where(given, truth, np.nan))):
            error = np.square(model.predict(attributes, known) - truth)[~given]
            found[f"{name}_{n}"] = round(float(error.mean()), 8)
    return {"known_edges": found}


def table(documents: Sequence[Document]) -> Table:
    """A line per task and method."""
    rows = []
    for dataset in DATASETS:
        for row in ROWS:
            runs = [run for run in documents if (run["dataset"], run["row"]) == (dataset, row)]
            names = [f"{which}_{n}" for n in NAMES for which in ("none", "third")]
            means = [statistics.fmean(run["metrics"]["known_edges"][name] for run in runs) for name in names if runs]
            if runs:
                rows.append([dataset, row, *(f"{mean:.{DIGITS}f}" for mean in means), cpu(runs), str(len(runs))])
    return Table("Algorithmic reasoning with known edges", HEADER, rows, NOTES, labels=2, grouped=True)


KNOWN_EDGES = Experiment(
    "known-edges", DATASETS, ROWS, (0,), table=table, measure=measure, load=partial(StreamedTask, most_graphs=GRAPHS)
)
