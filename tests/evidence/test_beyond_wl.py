"""Beyond 1-WL with a trained model: its samples find triangles, everything without noise stays at chance."""

import pytest

from dpmsnc.evidence.experiments.expressiveness import EXPRESSIVENESS, ROWS, measure, table
from dpmsnc.evidence.run.experiment import Run


@pytest.mark.slow
def test_a_plain_gin_is_at_chance():
    run = Run(EXPRESSIVENESS, "triangles", "gin", 0)
    document = run.execute()
    assert document["metrics"]["selected"]["accuracy"] == 0.5
    assert table([document | {"row": "gin"}]).rows[0][3] == "50.0"


@pytest.mark.slow
def test_samples_of_a_diffusion_model_find_what_its_deterministic_prediction_cannot():
    run = Run(EXPRESSIVENESS, "triangles", "dpm-snc (gin)", 0)
    task, model = run.load(), ROWS[run.row].build(0)
    found = measure(model.fit(task.train, validation=task.validation), task, 0)["expressiveness"]
    assert found["majority"] > 0.95 and found["deterministic"] == pytest.approx(0.5, abs=0.02)
