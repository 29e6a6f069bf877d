"""A brief way to learn the couplings of the pairwise model, which take most of a short fit that begins as a CRF."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def shorten(put: Callable[[object, str, Any], None]) -> None:
    """Learn as ever, for a few steps through a few iterations of propagation, and compare fewer couplings.

    `put` is `setattr`, or that of a `MonkeyPatch`.
    """
    from dpmsnc.baselines import couplings
    from dpmsnc.pairwise import learning

    put(couplings, "LEAST_STEPS", 3)
    put(couplings, "MOST_STEPS", 5)
    put(couplings, "STRENGTHS", (0.0, 0.5))
    put(couplings, "FACTORS", (1.0,))
    put(learning, "TRIAL_STEPS", 2)
    put(learning, "LEARNING", learning.LEARNING | {"most": 4})
