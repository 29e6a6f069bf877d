"""Runs on a Ray cluster: one that is there, or one on this machine that lives as long as the runs."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Collection
from importlib import import_module
from typing import Any

from dpmsnc.errors import InputError
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.evidence.run.workers import ONE_THREAD, Failure, Outcome, Pool, attempt

LEAST_RAY = (2, 52)
"""Older ones ignore the token, and anybody who reaches their ports can run programs."""
LOCAL = "local"
"""Address of a Ray cluster on this machine that lives as long as the runs."""


class RayWorkers(Pool):
    """The CPUs of a Ray cluster; the package and the data sets have to be on all its machines."""

    def __init__(self, address: str, count: int | None = None) -> None:
        self._address, self._limit = address, count
        self._folder: str | None = None
        self._ray: Any = None
        self._remote: Any = None
        self.count = count or 1

    def _open(self) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": {"env_vars": ONE_THREAD}}
        local = self._local_arguments() if self._address == LOCAL else {}
        self._ray = _import_ray(LEAST_RAY if local else (0, 0))
        try:
            _check_answers(self._address)
            self._ray.init(address=self._address, **quiet, **local)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"no Ray cluster at {self._address} ({error}); start one, or name another") from error
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self.count = min(cpus, self._limit or cpus)
        # a worker that ran before would count its memory again; which runs to try again is for `execute` to say
        self._remote = self._ray.remote(num_cpus=1, max_calls=1, max_retries=0)(attempt)

    def _local_arguments(self) -> dict[str, Any]:
        _keep_to_ourselves()
        # Ray opens its folder to all users, so it gets one within ours, which only we may enter; the names are short
        # because sockets lie there, and their paths may have a hundred characters
        self._folder = tempfile.mkdtemp(prefix="ray-")
        cpus, folder = self._limit or os.cpu_count(), os.path.join(self._folder, "r")
        return {"num_cpus": cpus, "include_dashboard": False, "_temp_dir": folder}

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
        needed = f"--ray without an address needs {least[0]}.{least[1]} or later: pip install 'dpmsnc[ray]'"
        raise InputError(f"Ray {ray.__version__} would let others in; {needed}")
    return ray
