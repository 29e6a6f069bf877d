"""What concerns the whole process: changed inside a block, and only where a program or a long computation asks for it.

A library call that changed it for good would change the program around it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
"""glibc's numbers of its settings."""
KEEPING = {M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1}
USUAL = {M_MMAP_MAX: 2**16, M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26}
"""What glibc arrives at by itself in a process that frees large blocks; where it began cannot be asked for."""
_open_blocks = 0


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Inside the block torch works on so many threads; after it, on as many as before."""
    import torch  # here, so that the command line can ask for the rest of this module without waiting for torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Inside the block glibc keeps freed memory for the next use; after it, the memory goes back to the system.

    Tall intermediate results are freed and asked for again at each step, and faulting their pages in anew costs as much
    as the products that fill them. Without this, a training step on Cora takes 1.4 times the CPU time with GCN and 1.15
    times with GAT; samples take the same. Elsewhere than on Linux with glibc this does nothing.
    """
    global _open_blocks
    mallopt = _glibc("mallopt")
    if _open_blocks == 0:
        _set(mallopt, KEEPING)
    _open_blocks += 1
    try:
        yield
    finally:
        _open_blocks -= 1
        if _open_blocks == 0:
            _set(mallopt, USUAL)
            _glibc("malloc_trim")(0)


def _set(mallopt: Callable[..., object], settings: dict[int, int]) -> None:
    for name, value in settings.items():
        mallopt(name, value)


def _glibc(name: str) -> Callable[..., object]:
    """A function of glibc, or one that does nothing where there is none."""
    if sys.platform.startswith("linux"):
        try:
            return getattr(ctypes.CDLL(None), name)
        except (OSError, AttributeError):
            pass
    return lambda *arguments: None
