"""One side of one case in a process of its own, so that neither memory peaks nor allocator settings mix.

`python -m benchmarks.worker SIDE CASE REPEATS` prints what it measured as JSON: the side `reference`, or `ours` and
with it the floor, which is measured under the same allocator settings. `check CASE ...` says where the two disagree.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks.cases import Case
from benchmarks.problem import Problem

ENOUGH_S = 6.0
"""No more repeats once they have taken so long together,"""
AT_LEAST = 3
"""and there are so many."""
WARM_UP_STEPS = 3
"""Training steps, and for samples then steps of a reverse process, before anything is timed. So many does the system's
allocator take to stop returning memory after every use. Samples are drawn between training steps in Algorithm 1; a
process that only samples would burden the reference with half of its time again."""


class Side(Protocol):
    def train_step(self) -> object: ...

    def sample(self, steps: int | None = None) -> object: ...


def cpu_s(work: Callable[[], object], repeats: int) -> float:
    """The least CPU time of a piece of work: what else the machine does can only add to it."""
    times: list[float] = []
    while len(times) < repeats and (sum(times) < ENOUGH_S or len(times) < AT_LEAST):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return min(times)


def peak_mb(work: Callable[[], object]) -> float:
    """Memory that a piece of work takes above what the process has, by the kernel's high-water mark (Linux).

    It is done in a forked child, so that the memory it leaves behind helps or hinders nothing that is timed.
    """

    def tell() -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the mark falls back to what is in use now
        before = resident_mb("VmRSS")
        work()
        send.send(resident_mb("VmHWM") - before)

    fork = multiprocessing.get_context("fork")
    receive, send = fork.Pipe(duplex=False)
    child = fork.Process(target=tell)
    child.start()
    send.close()
    peak = receive.recv()
    child.join()
    return peak


def resident_mb(field: str) -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def measure(case: Case, side: Side, repeats: int, rehearsal: int | None = None) -> dict[str, float]:
    """Time and peak of a side that is loaded; `rehearsal` shortens the reverse process whose peak is measured."""
    trains = case.work == "train_step"
    peak = peak_mb(side.train_step if trains else lambda: side.sample(rehearsal))
    for _ in range(WARM_UP_STEPS):
        side.train_step()
    if not trains:
        side.sample(WARM_UP_STEPS)
    return {"cpu_s": cpu_s(side.train_step if trains else side.sample, repeats), "peak_mb": peak}


def reference(case: Case, repeats: int) -> dict[str, float]:
    from benchmarks.reference import Reference

    # all steps of its reverse process ask for the same memory
    return measure(case, Reference(Problem.of(case)), repeats, rehearsal=WARM_UP_STEPS)


def ours(case: Case, repeats: int) -> dict[str, float]:
    from benchmarks.ours import Ours
    from dpmsnc.nn.process import keep_freed_memory

    with keep_freed_memory():  # as the command line does
        return measure(case, Ours(Problem.of(case)), repeats) | {"floor_cpu_s": floor(case, repeats)}


def floor(case: Case, repeats: int) -> float:
    from benchmarks.floor import sample, train_step

    run = (train_step if case.work == "train_step" else sample)(Problem.of(case))
    run()
    return cpu_s(run, repeats)


def check(cases: list[Case]) -> dict[str, str]:
    """Where reference and package disagree, by case."""
    from benchmarks.equality import Unequal, check_sample, check_train_step

    found = {}
    for case in cases:
        try:
            if case.work == "train_step":
                check_train_step(Problem.of(case))
            else:
                check_sample(Problem.of(case), case.check_steps)
        except Unequal as error:
            found[case.name] = str(error)
    return found


def main(side: str, *arguments: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if side == "check":
        result: dict[str, Any] = check([Case(name) for name in arguments])
    else:
        name, repeats = arguments
        result = {"reference": reference, "ours": ours}[side](Case(name), int(repeats))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
