"""One thread for every test: several on shared cores are slower, and sums in another order are other numbers."""

import gc
import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from brief import shorten

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")


def pytest_collection_finish() -> None:
    """What was imported stays to the end, so the garbage collector need not look through it again and again.

    Nor need it look after every 700 new objects, which autograd makes in a few steps.
    """
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(scope="module")
def brief_couplings() -> Iterator[pytest.MonkeyPatch]:
    """For tests of models that begin as a CRF and whose facts do not depend on how good it is.

    A module takes it as a whole, by `pytestmark`; its slow tests learn to the end.
    """
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        yield patch


@pytest.fixture
def full_couplings(brief_couplings: pytest.MonkeyPatch) -> Iterator[None]:
    """For a test of such a module that does depend on it."""
    brief_couplings.undo()
    yield
    shorten(brief_couplings.setattr)


@pytest.fixture(autouse=True)
def full_couplings_in_slow_tests(request: pytest.FixtureRequest) -> None:
    if "brief_couplings" in request.fixturenames and request.node.get_closest_marker("slow"):
        request.getfixturevalue("full_couplings")
