"""Accuracy against steps: what a run stores, how it is shown, and what follows from it."""

from dataclasses import replace

import numpy as np
import pytest

from dpmsnc import Sampling, Training
from dpmsnc.data import grid_scattered
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.experiments.ablations import steps
from dpmsnc.evidence.experiments.ablations.steps import SAMPLERS, STEPS
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.evidence.run.runner import reproduce
from dpmsnc.evidence.run.store import Store

SHORT = {"initialiser": "uniform", "training": Training(steps=50, evaluate_every=50)}


def small(name, seed):
    return grid_scattered(columns=20, seed=seed)


@pytest.fixture
def experiment(monkeypatch):
    monkeypatch.setattr(steps, "TIMES", 1)
    rows = {label: Row(row.method, {**row.settings, **SHORT}) for label, row in steps.FEW_STEPS.rows.items()}
    short = replace(steps.FEW_STEPS, datasets=("grid_scattered",), rows=rows, load=small)
    monkeypatch.setitem(registry.EXPERIMENTS, "steps", short)
    return short


def test_a_run_is_trained_once_and_asked_with_every_sampler(experiment, tmp_path, capsys):
    reproduce("steps", [0], tmp_path)
    (document,) = Store(tmp_path).all("steps")
    measured = document["metrics"]["steps"]
    shares = {measured["progressive"], 0.0}
    asked = [(a["progressive"], a["sampler"], a["steps"]) for a in measured["answers"]]
    each = [("ancestral", 80), *((sampler, count) for sampler in SAMPLERS for count in STEPS)]
    assert sorted(asked) == sorted((share, *pair) for share in shares for pair in each)
    for answer in measured["answers"]:
        assert 0 <= answer["validation"] <= 1 and 0 <= answer["test"] <= 1 and answer["cpu_s"] > 0
    (as_trained,) = [
        a
        for a in measured["answers"]
        if (a["progressive"], a["sampler"], a["steps"]) == (measured["progressive"], "ddim", Sampling().steps)
    ]
    assert as_trained["test"] == document["metrics"]["selected"]["accuracy"]
    assert (
        document["config"]["sampling"]["method"] == "ddim"
        and document["config"]["sampling"]["steps"] == Sampling().steps
    )

    table = steps.table([document])
    kinds = [("fitted", "ddim"), ("fitted", "multistep"), ("0", "ddim"), ("0", "multistep")]
    assert [tuple(row[2:4]) for row in table.rows] == kinds * 3
    assert {len(row) for row in table.rows} == {len(table.header)} and str(table) in capsys.readouterr().out
    assert table.rows[0][table.header.index(str(Sampling().steps))] == f"{100 * as_trained['validation']:.2f}"


def test_asking_leaves_the_model_as_it_was(experiment):
    task, model = small("grid_scattered", 0), Run(experiment, "grid_scattered", "dpm-snc", 0).build()
    model.fit(task.graph, validation=task.validation)
    before, sampling, adopt = model.predict(), model.sampling, model.progressive_
    answers = [steps.ask(model, task, replace(sampling, steps=count), adopt) for count in (1, 20)]
    assert (model.sampling, model.progressive_) == (sampling, adopt) and np.array_equal(model.predict(), before)
    assert [answer["steps"] for answer in answers] == [1, 20]


def fake(dataset, full, **accuracies):
    """A run whose yardstick has `full`, and whose samplers have the accuracies listed, one for each of `STEPS`."""
    pairs = [("ancestral", 80, full)]
    pairs += [(name, count, value) for name, values in accuracies.items() for count, value in zip(STEPS, values)]
    answers = [
        {
            "sampler": name,
            "steps": count,
            "progressive": share,
            "validation": value - share,
            "test": 1 - value,
            "cpu_s": 0.02,
        }
        for name, count, value in pairs
        for share in (0.0, 0.1)
    ]
    return {"dataset": dataset, "metrics": {"steps": {"progressive": 0.1, "answers": answers}}}


def test_the_choice_is_the_fewest_steps_good_enough_on_every_data_set():
    falls = {"ddim": [0.80, 0.80, 0.898, 0.90, 0.90], "multistep": [0.80, 0.899, 0.898, 0.90, 0.90]}
    assert steps.choose([fake("cora", 0.90, **falls)]) == ("multistep", 10)
    slow = {"ddim": [0.5, 0.5, 0.700, 0.7, 0.7], "multistep": [0.5, 0.5, 0.700, 0.7, 0.7]}
    both = [fake("cora", 0.90, **falls), fake("citeseer", 0.70, **slow)]
    assert steps.choose(both) == ("ddim", 20) and "ddim, 20 steps" in str(steps.table(both))
    poor = fake("citeseer", 0.75, **slow)
    assert steps.choose([poor]) is None and steps.choose([]) is None and "none" in next(steps.conclusion([poor]))


def test_the_table_has_means_over_seeds_and_tells_adopting_apart():
    values = {"ddim": [0.8] * 5, "multistep": [0.6] * 5}
    rows = steps.table([fake("cora", 0.9, **values), fake("cora", 0.7, **values)]).rows
    assert len(rows) == 12 and [row[0] for row in rows[::4]] == ["validation, decides", "test", "CPU ms"]
    assert rows[0][1:] == ["cora", "fitted", "ddim", *["70.00"] * 5, "70.00", "2"]
    assert rows[3][1:] == ["cora", "0", "multistep", *["60.00"] * 5, "80.00", "2"]
    assert rows[4][4:] == [*["20.00"] * 5, "20.00", "2"] and rows[8][4] == "20"
