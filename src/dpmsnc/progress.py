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
def shown(verbose: bool = True, part: str = "") -> Iterator[None]:
    """While it lasts, lines of the library, or of a part of it, are printed, unless the program handles them itself."""
    logger = LOGGER.getChild(part) if part else LOGGER
    if not verbose or (logger.hasHandlers() and logger.isEnabledFor(logging.INFO)):
        yield
        return
    handler, level, propagate = logging.StreamHandler(sys.stderr), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def spelled(length: float) -> str:
    """Seconds for people.

    Example:
        >>> spelled(0.04), spelled(12.3), spelled(200)
        ('0.04 s', '12 s', '3.3 min')
    """
    if length < 10:
        return f"{length:.2g} s"
    return f"{length:.0f} s" if length < 120 else f"{length / 60:.1f} min"
