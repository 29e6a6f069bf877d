"""What a trained model can tell apart beyond 1-WL: is a node on a triangle, where all nodes look alike?

The graphs are those of `dpmsnc.data.triangles`.
A plain GIN is bounded by 1-WL and stays at chance. The noise that a diffusion model removes tells nodes apart, so its
samples can find triangles. Its deterministic prediction starts from a field that is the same at all nodes, and is
bounded again; so is a network without diffusion that is shown no label.

    majority        accuracy of the most frequent label of every node in 32 joint samples at temperature 1,
    single          accuracy of one of them,
    deterministic   accuracy of the prediction without noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmsnc.config import Sampling, Training
from dpmsnc.data import InductiveTask
from dpmsnc.data.triangles import triangles
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.evidence.experiments.ablations.samplers import with_sampler
from dpmsnc.evidence.experiments.aggregate import SEEDS
from dpmsnc.evidence.run.estimators import own_labels
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import MISSING, cpu, percent
from dpmsnc.evidence.show.table import Table
from dpmsnc.metrics import accuracy

NUM_SAMPLES = 32
NETWORK: dict[str, Any] = {
    **{"backbone": "gin", "num_layers": 3, "head_layers": 2, "dropout": 0.0, "scaling": "raw"},
    # nothing that breaks the symmetry but noise
    **{"start": "random", "initialiser": "uniform"},
    "training": Training(
        steps=2500, learning_rate=0.003, weight_decay=0.0, time_power=1.0, hide_features=0.0, patience=25
    ),
}
DIFFUSION: dict[str, Any] = {
    **NETWORK,
    **{"conditioning": "guided", "parameterisation": "epsilon", "schedule": Schedule(50)},
    "sampling": Sampling("ancestral", None, temperature=1.0),
}
ROWS = {
    "gin": Row("gin", {"num_layers": 3, "scaling": "raw"}),
    "masked-labels (gin)": Row("masked-labels", NETWORK),
    "dpm-snc (gin)": Row("dpm-snc", DIFFUSION),
}
PARTS = ("majority", "single", "deterministic")
HEADER = ("method", *PARTS, "CPU s", "seeds")
NOTES = (
    "Test accuracy in %, mean±std over seeds, on larger graphs than those that were trained on; half of the nodes are",
    f"on a triangle. majority: of {NUM_SAMPLES} joint samples; single: one sample; deterministic: without noise,",
    "which is bounded by 1-WL again. gin and masked-labels, which is shown no label, are bounded by 1-WL as they are.",
)


def load(dataset: str, seed: int = 0) -> InductiveTask:
    """The task of that seed; there is but one data set."""
    return triangles(seed)


def measure(model: Any, task: InductiveTask, seed: int) -> dict[str, Any]:
    """Accuracy on test graphs, by votes of samples and without noise."""
    asked = task.tested
    samples = [task.target.encode(s.ravel()).reshape(s.shape) for s in model.sample(NUM_SAMPLES, task.test, seed=seed)]
    votes = np.concatenate([(labels.mean(axis=0) > 0.5).astype(np.int64) for labels in samples])
    single = np.concatenate([labels[0] for labels in samples])
    still = with_sampler(model, temperature=0.0) if hasattr(model, "sampling") else model
    found = {"majority": votes, "single": single, "deterministic": own_labels(still, task)}
    scores = {name: round(accuracy(labels, asked.truth, asked.test), 6) for name, labels in found.items()}
    return {"expressiveness": scores}


def table(documents: Sequence[Document]) -> Table:
    """A line per method."""
    rows = [[row, *_cells(runs)] for row in ROWS if (runs := [d for d in documents if d["row"] == row])]
    return Table("On a triangle or not, where all nodes look alike to 1-WL", HEADER, rows, NOTES)


def _cells(runs: Sequence[Document]) -> list[str]:
    found = [[run["metrics"]["expressiveness"][part] for run in runs] for part in PARTS]
    shown = [percent(statistics.fmean(v), statistics.stdev(v) if len(v) > 1 else None) for v in found]
    return [*(cell or MISSING for cell in shown), cpu(runs), str(len(runs))]


EXPRESSIVENESS = Experiment("triangles", ("triangles",), ROWS, SEEDS, table=table, measure=measure, load=load)
