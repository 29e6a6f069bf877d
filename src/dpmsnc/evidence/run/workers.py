"""Where runs execute: in this process or in worker processes; `ray.py` has a cluster.

All of them take the same runs and give back each one's document as it ends, or why there is none; nobody here writes to
the store. A run is pickled to reach a worker, so the functions of its experiment have to be importable there (no
lambdas). Every run has a process of its own and one thread, so that it depends on its seed alone and its peak memory is
its own. A worker that dies loses only its run, which is tried again after the others.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from dpmsnc.errors import InputError
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.evidence.run.store import Document
from dpmsnc.registry import load_plugins

RETRIES = 2
"""How often a run is tried again whose worker died."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
IMPORTED_LATE = ("torch._dynamo", "sklearn.metrics", "pandas")
"""What the first fit of a process would import, seconds that are no cost of that run."""


@dataclass(frozen=True)
class Failure:
    """Why a run has no document."""

    reason: str
    details: str = ""
    """The traceback, where the user cannot mend the cause."""
    worker_died: bool = False


Outcome = Document | Failure
Outcomes = Generator[tuple[Run, Outcome]]


def attempt(run: Run) -> Outcome:
    """Execute a run; an error in it is its outcome, so that the others go on."""
    load_plugins()
    for module in IMPORTED_LATE:
        import_module(module)
    try:
        return run.execute()
    except InputError as error:
        return Failure(str(error))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


class ThisProcess:
    """One run after the other, here."""

    count: int = 1
    """Runs that go at a time."""

    def execute(self, runs: Sequence[Run]) -> Outcomes:
        """Every run with its outcome, in the order in which they end; closing the generator ends the runs that go."""
        for run in runs:
            yield run, attempt(run)


class Pool(ThisProcess, ABC):
    """The loop that worker processes and Ray share; a handle stands for a run that goes."""

    def execute(self, runs: Sequence[Run]) -> Outcomes:
        waiting = deque((run, RETRIES) for run in runs)
        going: dict[Any, tuple[Run, int]] = {}
        try:
            self._open()
            while waiting or going:
                while waiting and len(going) < self.count:
                    run, retries = waiting.popleft()
                    going[self._start(run)] = run, retries
                handle, outcome = self._next(going)
                run, retries = going.pop(handle)
                if isinstance(outcome, Failure) and outcome.worker_died and retries:
                    waiting.append((run, retries - 1))
                else:
                    yield run, outcome
        finally:
            self._close(going)

    @abstractmethod
    def _open(self) -> None:
        """Called before the first run starts."""

    @abstractmethod
    def _start(self, run: Run) -> Any:
        """Let a run go; its handle."""

    @abstractmethod
    def _next(self, going: Collection[Any]) -> tuple[Any, Outcome]:
        """Wait until one of the runs that go has ended."""

    @abstractmethod
    def _close(self, going: Collection[Any]) -> None:
        """End the runs that still go."""


class WorkerProcesses(Pool):
    """Several processes of this machine, a new one for each run.

    They are forked from a server that has imported the package and done nothing else: quick, and free of the threads
    and the memory that this process may have.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._context = multiprocessing.get_context("forkserver")
        self._processes: dict[Connection, BaseProcess] = {}

    def _open(self) -> None:
        os.environ.update(ONE_THREAD)  # the server inherits it
        self._context.set_forkserver_preload(["dpmsnc.evidence.experiments.registry", *IMPORTED_LATE])

    def _start(self, run: Run) -> Connection:
        ours, theirs = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(run, theirs), daemon=True)
        process.start()
        theirs.close()  # so that we read the end of file when the worker dies
        self._processes[ours] = process
        return ours

    def _next(self, going: Collection[Connection]) -> tuple[Connection, Outcome]:
        connection = wait(going)[0]
        assert isinstance(connection, Connection)
        process = self._processes.pop(connection)
        try:
            outcome = connection.recv()
        except (EOFError, OSError):
            outcome = None
        process.join()
        connection.close()
        words = f"its process ended with exit code {process.exitcode}"
        return connection, Failure(words, worker_died=True) if outcome is None else outcome

    def _close(self, going: Collection[Connection]) -> None:
        for connection, process in self._processes.items():
            process.kill()
            process.join()
            connection.close()
        self._processes.clear()


def _work(run: Run, answer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer.send(attempt(run))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
