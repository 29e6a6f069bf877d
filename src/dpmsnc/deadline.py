"""A moment at which work is to stop, for loops anywhere below who asks.

A comparison says `with until(moment)`, and loops that may be long call `check_time` in every round. So a fit stops
within a step of the moment, whatever method it is, and no method has an argument for it. Without a deadline a check
costs a fraction of a microsecond. Other threads do not see it, and work in another library is not interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

_END: ContextVar[float] = ContextVar("deadline", default=inf)


class OutOfTime(Exception):
    """The deadline has passed; whoever set it says what that means."""


@contextmanager
def until(moment: float) -> Iterator[None]:
    """Work within ends at this moment of `time.monotonic`, or at that of a deadline around it if that is earlier."""
    token = _END.set(min(moment, _END.get()))
    try:
        yield
    finally:
        _END.reset(token)


def check_time() -> None:
    """Raise `OutOfTime` where the deadline has passed."""
    if (end := _END.get()) < inf and time.monotonic() >= end:
        raise OutOfTime
