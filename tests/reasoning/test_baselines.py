"""The baselines of table 5: they learn, and answer the same for the same seed."""

import numpy as np
import pytest

from dpmsnc.estimators.base import METHODS, Estimator
from dpmsnc.reasoning import methods  # noqa: F401 (which registers them)
from dpmsnc.reasoning.tasks import TASKS, TaskStream, generator

BASELINES = ("feedforward", "recurrent-tied", "recurrent-lstm", "pondernet", "iterative-feedforward", "irem")
STREAM = TaskStream("shortest_path", num_validation=4)
SMALL = {"hidden_channels": 16}


def fitted(name, steps=40, **settings):
    changed = {"training__batch_size": 16, "training__evaluate_every": 10, "training__averaging": 0.9}
    changed |= {"training__learning_rate": 0.01}
    return METHODS[name].build(0, steps=steps, **SMALL, **settings).set_params(**changed).fit(STREAM)


@pytest.mark.parametrize("name", BASELINES)
def test_a_few_steps_lower_the_error(name):
    (first,), *scores = (fitted(name, steps=1).history_.validation_score, *fitted(name).history_.validation_score)
    assert max(scores) > first and np.isfinite(scores).all()


@pytest.mark.parametrize("name", BASELINES)
def test_the_same_seed_gives_the_same_answer_in_the_shape_of_the_question(name, tmp_path):
    attributes, _ = TASKS["shortest_path"].draw(3, 5, generator(0, "test"))
    model, again = (fitted(name, steps=3) for _ in range(2))
    answer = model.predict(attributes)
    np.testing.assert_array_equal(answer, again.predict(attributes))
    assert answer.shape == (3, 5, 5) and model.sample(2, attributes).shape == (2, 3, 5, 5)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(Estimator.load(tmp_path / "model").predict(attributes), answer)


@pytest.mark.parametrize("name", BASELINES)
def test_known_edges_come_back_unchanged(name):
    attributes, truth = TASKS["shortest_path"].draw(2, 4, generator(0, "test"))
    known = np.where(np.random.default_rng(0).random(truth.shape) < 0.5, truth.numpy() + 7, np.nan)
    for conditioning in ("amortised", "guided") if name != "irem" else ("amortised",):
        answer = fitted(name, steps=2, conditioning=conditioning).predict(attributes, known)
        np.testing.assert_array_equal(answer[~np.isnan(known)], known[~np.isnan(known)])
