"""What the library says while it works: lines of the standard logger "dpmsnc", printed where a user asks for them.

A program that handles log records itself decides where they go; otherwise `verbose=True` prints them on standard error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("dpmsnc")


@contextmanager
def shown(verbose: bool = True) -> Iterator[None]:
    """While it lasts, lines are printed, unless a handler of the program has them already."""
    if not verbose or (LOGGER.hasHandlers() and LOGGER.isEnabledFor(logging.INFO)):
        yield
        return
    handler, level, propagate = logging.StreamHandler(sys.stderr), LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
