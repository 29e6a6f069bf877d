"""A fitted model, another of the same sizes, and the folder of the first, for the tests of model folders."""

import pytest

from dpmsnc.data.grids import grid_scattered
from saved_models import TASK, quick


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(TASK.graph, validation=TASK.validation)


@pytest.fixture(scope="module")
def other():
    """A model with the same sizes throughout."""
    task = grid_scattered(columns=20, seed=1)
    return quick(seed=1).fit(task.graph, validation=task.validation)


@pytest.fixture
def model(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return tmp_path / "model"
