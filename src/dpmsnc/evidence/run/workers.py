"""Where runs execute: in this process, in worker processes, or on a Ray cluster.

All three take the same runs and give back each one's document as it ends, or why there is none; nobody here writes to
the store. A run is pickled to reach a worker, so the functions of its experiment have to be importable there (no
lambdas). Every run has a process of its own and one thread, so that it depends on its seed alone and its peak memory is
its own. A worker that dies loses only its run, which is tried again after the others.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import shutil
import signal
import socket
import tempfile
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

RETRIES = 2
"""How often a run is tried again whose worker died."""
LEAST_RAY = (2, 52)
"""Older ones ignore the token, and anybody who reaches their ports can run programs."""
LOCAL = "local"
"""Address of a Ray cluster on this machine that lives as long as the runs."""
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


def workers(jobs: int | None = None, ray: str | None = None) -> Workers:
    """Where to run.

    Args:
        jobs: Runs at a time; by default one in this process, or as many as the Ray cluster has CPUs.
        ray: Address of a Ray cluster, or `LOCAL`; None for worker processes of this machine.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs is {jobs}; it must be at least 1")
    if ray is not None:
        return RayWorkers(ray, jobs)
    return ThisProcess() if jobs is None else WorkerProcesses(jobs)


def attempt(run: Run) -> Outcome:
    """Execute a run; an error in it is its outcome, so that the others go on."""
    for module in IMPORTED_LATE:
        import_module(module)
    try:
        return run.execute()
    except InputError as error:
        return Failure(str(error))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}", traceback.format_exc())


class Workers(ABC):
    """Something that executes runs."""

    count: int = 1
    """Runs that go at a time."""

    @abstractmethod
    def execute(self, runs: Sequence[Run]) -> Generator[tuple[Run, Outcome]]:
        """Every run with its outcome, in the order in which they end; closing the generator ends the runs that go."""


class ThisProcess(Workers):
    """One run after the other, here."""

    def execute(self, runs: Sequence[Run]) -> Generator[tuple[Run, Outcome]]:
        for run in runs:
            yield run, attempt(run)


class Pool(Workers):
    """The loop that worker processes and Ray share; a handle stands for a run that goes."""

    def execute(self, runs: Sequence[Run]) -> Generator[tuple[Run, Outcome]]:
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
            process.join()
        except (EOFError, OSError):
            process.join()
            outcome = Failure(f"its process ended with exit code {process.exitcode}", worker_died=True)
        connection.close()
        return connection, outcome

    def _close(self, going: Collection[Connection]) -> None:
        for process in self._processes.values():
            process.kill()
        for connection, process in self._processes.items():
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


class RayWorkers(Pool):
    """The CPUs of a Ray cluster; the package and the data sets have to be on all its machines."""

    def __init__(self, address: str, count: int | None = None) -> None:
        self._address, self._limit = address, count
        self._folder: str | None = None
        self._ray: Any = None
        self._remote: Any = None
        self.count = count or 1

    def _open(self) -> None:
        arguments: dict[str, Any] = {}
        if self._address == LOCAL:
            _keep_to_ourselves()
            arguments = self._local_arguments()
        self._ray = _import_ray(LEAST_RAY if self._address == LOCAL else (0, 0))
        try:
            _check_answers(self._address)
            self._ray.init(
                address=self._address,
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"env_vars": ONE_THREAD},
                **arguments,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"no Ray cluster at {self._address} ({error}); start one, or name another") from error
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self.count = min(cpus, self._limit or cpus)
        # a worker that ran before would count its memory again; which runs to try again is for `execute` to say
        self._remote = self._ray.remote(num_cpus=1, max_calls=1, max_retries=0)(attempt)

    def _local_arguments(self) -> dict[str, Any]:
        # Ray opens its folder to all users, so it gets one within ours, which only we may enter; the names are short
        # because sockets lie there, and their paths may have a hundred characters
        self._folder = tempfile.mkdtemp(prefix="ray-")
        return {
            "num_cpus": self._limit or os.cpu_count(),
            "include_dashboard": False,
            "_temp_dir": os.path.join(self._folder, "r"),
        }

    def _start(self, run: Run) -> Any:
        return self._remote.remote(run)

    def _next(self, going: Collection[Any]) -> tuple[Any, Outcome]:
        (handle, *_), _ = self._ray.wait(list(going), num_returns=1)
        try:
            return handle, self._ray.get(handle)
        except self._ray.exceptions.RayError as error:
            reason = str(error).strip().partition("\n")[0]
            return handle, Failure(f"{type(error).__name__}: {reason}", str(error), worker_died=True)

    def _close(self, going: Collection[Any]) -> None:
        if self._ray is not None:
            for handle in going:
                self._ray.cancel(handle, force=True)
            self._ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _keep_to_ourselves() -> None:
    """Ray listens on the network, would put a token into the home folder, and reports its use to its makers. It would
    also run its workers at the least priority: beside anything else they would hardly go on.

    A token that only our processes know keeps others out; who has chosen another `RAY_AUTH_MODE` keeps it.
    """
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes where nobody listens."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def _import_ray(least: tuple[int, int]) -> Any:
    try:
        ray = import_module("ray")
    except ImportError as error:
        raise InputError("--ray needs the package ray: pip install 'dpmsnc[ray]'") from error
    if tuple(map(int, ray.__version__.split(".")[:2])) < least:
        raise InputError(
            f"Ray {ray.__version__} would let others in; --ray without an address needs {least[0]}.{least[1]} or later:"
            " pip install 'dpmsnc[ray]'"
        )
    return ray
