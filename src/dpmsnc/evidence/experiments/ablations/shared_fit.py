"""Experiments that only differ in how one default model is asked: one fit per data set and seed serves them all.

Whichever of them is run first does the work for the others, which find its runs in the store.
"""

from __future__ import annotations

from typing import Any

from dpmsnc.data import Task
from dpmsnc.evidence.experiments.ablations import over_steps, pairs, votes
from dpmsnc.evidence.experiments.ablations.samplers import joint_samples, with_sampler
from dpmsnc.evidence.experiments.aggregate import CITATION, SEEDS
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.presets import FROM_RANDOM

STORED_AS = "one-fit"
ROWS = {"dpm-snc": Row("dpm-snc", FROM_RANDOM)}


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """All that the experiments below show.

    Samples are those of single runs, because progressive rounds cost as many times more as there are rounds; pairs
    are also scored with them where the fit chose them.
    """
    samples = joint_samples(with_sampler(model), max(pairs.NUM_SAMPLES, *votes.COUNTS), seed)
    found = {"single": pairs.record(samples[: pairs.NUM_SAMPLES], task)}
    if model.progressive_:
        found["fitted"] = pairs.record(joint_samples(model, pairs.NUM_SAMPLES, seed), task)
    return {
        "progressive": model.progressive_,
        "over_steps": over_steps.record(model, task),
        "number_of_samples": votes.record(model, task, samples),
        "pairs": found,
    }


ACCURACY_OVER_STEPS = Experiment(
    "accuracy-over-steps",
    tuple(CITATION),
    ROWS,
    SEEDS,
    over_steps.table,
    figure=over_steps.figure,
    measure=measure,
    stored_as=STORED_AS,
)
NUMBER_OF_SAMPLES = Experiment(
    "number-of-samples",
    tuple(CITATION),
    ROWS,
    SEEDS,
    votes.table,
    figure=votes.figure,
    measure=measure,
    stored_as=STORED_AS,
)
PAIRS = Experiment(
    "pairs",
    tuple(pairs.DATASETS),
    {
        "dpm-snc": Row("dpm-snc"),
        "masked-labels": Row("masked-labels"),
        **{f"{name} (random start)": Row(name, FROM_RANDOM) for name in ("dpm-snc", "masked-labels")},
    },
    SEEDS,
    pairs.table,
    measure=measure,
    stored_as=STORED_AS,
)
