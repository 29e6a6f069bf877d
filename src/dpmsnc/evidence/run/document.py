"""The JSON document of a run: what was fitted, how good it is, what it cost, and on which versions."""

from __future__ import annotations

import math
import platform
import resource
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from dpmsnc import __version__
from dpmsnc.evidence.run.estimators import backbone_of
from dpmsnc.evidence.run.store import Document, Key
from dpmsnc.files import json_value

FORMAT_VERSION = 1
DEPENDENCIES = ("torch", "numpy", "scipy", "torch_geometric")
NEAR_BEST = 0.01


class Cost:
    """CPU seconds, wall seconds and peak memory of a `with` block."""

    def __enter__(self) -> Self:
        # without this (Linux only) the peak of an earlier run in the same process would be counted again
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        self._started = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        cpu, wall = self._started
        self.cpu_s, self.wall_s = time.process_time() - cpu, time.perf_counter() - wall
        unit = 2**20 if platform.system() == "Darwin" else 2**10
        self.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def run_document(key: Key, model: Any, cost: Cost, metrics: dict[str, Any]) -> Document:
    """The document of a run with its fitted `model`. Metrics are of the "selected" weights and, where a model has them,
    of the "last" ones and of its "initialiser"; an experiment may add its own."""
    history = getattr(model, "history_", None)
    accuracies = [round(value, 6) for value in history.validation_score] if history else []
    document = {
        "format": FORMAT_VERSION,
        **vars(key),
        "backbone": backbone_of(model),
        "metrics": metrics,
        "validation_curve": {"steps": history.step if history else [], "accuracy": accuracies},
        "stability": largest_fall(accuracies),
        "cpu_s": round(cost.cpu_s, 2),
        "wall_s": round(cost.wall_s, 2),
        "peak_mb": round(cost.peak_mb),
        "versions": versions(),
        "revision": revision(),
        "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json_value(document)


def largest_fall(accuracies: list[float]) -> float | None:
    """How far validation accuracy fell below its best, from the first evaluation within a point of the best on."""
    if not accuracies or not all(map(math.isfinite, accuracies)):
        return None
    best = max(accuracies)
    first = next(k for k, value in enumerate(accuracies) if value >= best - NEAR_BEST - 1e-9)
    return round(best - min(accuracies[first:]), 6)


def versions() -> dict[str, str]:
    """Versions of this package, of Python and of what the numbers depend on."""
    installed = {name: version(name) for name in DEPENDENCIES}
    return {"dpmsnc": __version__, "python": platform.python_version(), **installed}


@cache
def revision() -> str | None:
    """`git describe` of this package's own checkout; None where it was installed otherwise."""
    git = ["git", "-C", str(Path(__file__).parents[2])]
    # asking for a tracked file keeps us from naming the repository that an installed copy happens to lie in
    commands = [
        [*git, "ls-files", "--error-unmatch", "__init__.py"],
        [*git, "describe", "--always", "--dirty", "--tags"],
    ]
    try:
        answers = [subprocess.run(words, capture_output=True, text=True, check=True, timeout=10) for words in commands]
    except (OSError, subprocess.SubprocessError):
        return None
    return answers[-1].stdout.strip() or None
