"""Time that a comparison may take, by the clock on the wall."""

from __future__ import annotations

import re
import time
from math import inf

from dpmsnc.errors import InputError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class Budget:
    """Begins when it is made."""

    def __init__(self, length: float | str | None) -> None:
        self.ends = time.monotonic() + seconds(length)

    def allows(self, expected: float) -> bool:
        """Whether so many seconds more would still fit; with nothing left, nothing does."""
        left = self.ends - time.monotonic()
        return left > 0 and expected <= left

    def share(self, parts: int) -> float:
        """The moment, by `time.monotonic`, at which the first of so many equally long parts has to be done."""
        now = time.monotonic()
        return now + (self.ends - now) / parts


def seconds(length: float | str | None) -> float:
    """A number of seconds, or a text such as "90s", "5m" or "1.5h"; None is as long as it takes.

    Example:
        >>> seconds("5m"), seconds(30), seconds(None)
        (300.0, 30.0, inf)
    """
    if length is None:
        return inf
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([smh]?)\s*", str(length))
    found = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not found > 0:
        raise InputError(f"budget={length!r} is no length of time; write for example 90s, 5m or 1h")
    return found
