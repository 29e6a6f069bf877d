"""What was run: one JSON document of a few kB per run, found again by what the run was asked to do.

A run is asked for by experiment, data set, version of its splits, method, its version, full configuration and seed. All
but the seed are hashed into the name of the file, `<results>/<experiment>/<dataset>/<method>-<hash>-seed<k>.json`, so
that files that differ only in their seed stand side by side and a change of any default is another run. Files are whole
or absent; one that cannot be read is set aside with a warning.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import resource
import subprocess
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from dpmsnc import __version__
from dpmsnc.errors import InputError
from dpmsnc.json_values import json_value

FORMAT_VERSION = 1
DEPENDENCIES = ("torch", "numpy", "scipy", "torch_geometric")
NEAR_BEST = 0.01

Document = dict[str, Any]


@dataclass(frozen=True)
class Key:
    """What a run was asked to do. The seed within `config` does not count: `seed` says it."""

    experiment: str
    dataset: str
    method: str
    config: dict[str, Any]
    seed: int
    method_version: int = 1
    split_version: int = 1

    @classmethod
    def of(cls, document: Document) -> Key:
        """The key under which a document is stored."""
        known: Document = {"split_version": 1} | document  # which documents did not say as long as there was no other
        return cls(**{name: known[name] for name in cls.__dataclass_fields__})

    @property
    def digest(self) -> str:
        """Ten hexadecimal digits that are the same for all seeds of one configuration."""
        config = {name: value for name, value in json_value(self.config).items() if name != "seed"}
        parts: list[Any] = [self.experiment, self.dataset, self.method, self.method_version, config]
        if self.split_version > 1:
            parts.append(self.split_version)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def path(self) -> Path:
        """Where the document lies, relative to the folder of results."""
        return Path(self.experiment, self.dataset, f"{self.method}-{self.digest}-seed{self.seed}.json")


class Store:
    """A folder of run documents."""

    def __init__(self, results: str | os.PathLike[str]) -> None:
        self.results = Path(results)

    def get(self, key: Key) -> Document | None:
        """The stored document of that run, or None."""
        path = self.results / key.path
        return self._read(path) if path.is_file() else None

    def put(self, document: Document) -> Path:
        """Store a document in place of any older one of the same key."""
        path = self.results / Key.of(document).path
        write_document(path, document)
        return path

    def all(self, experiment: str) -> list[Document]:
        """Every readable document of an experiment, whatever its configuration."""
        documents = (self._read(path) for path in sorted((self.results / experiment).glob("*/*.json")))
        return [document for document in documents if document is not None]

    def _read(self, path: Path) -> Document | None:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            Key.of(document)
        except (ValueError, KeyError, TypeError) as error:
            aside = path.with_name(path.name + ".corrupt")
            path.replace(aside)
            warnings.warn(f"{path} is not a run document ({error!r}); it is now {aside.name}", stacklevel=3)
            return None
        return document


def write_document(path: Path, document: Document) -> None:
    """Write a document to a file, all or nothing."""
    text = json.dumps(json_value(document), indent=1, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise InputError(f"cannot write {path} ({error}); name a folder that you may write to") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


class Cost:
    """CPU seconds, wall seconds and peak memory of a `with` block."""

    cpu_s: float
    wall_s: float
    peak_mb: float

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


def run_document(
    *,
    experiment: str,
    dataset: str,
    method: str,
    model: Any,
    seed: int,
    cost: Cost,
    method_version: int = 1,
    split_version: int = 1,
    metrics: dict[str, Any] | None = None,
) -> Document:
    """The document of a run whose fitted `model` is a `NodeClassifier` or a baseline.

    `metrics` has the parts "selected" and, for classifiers, "last" and "initialiser"; an experiment may add its own.
    """
    history = getattr(model, "history_", None)
    accuracies = [round(value, 6) for value in history.validation_score] if history else []
    document = {
        "format": FORMAT_VERSION,
        "experiment": experiment,
        "dataset": dataset,
        "method": method,
        "method_version": method_version,
        "split_version": split_version,
        "backbone": backbone_of(model),
        "seed": seed,
        "config": configuration(model),
        "metrics": metrics or {},
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


def configuration(model: Any) -> dict[str, Any]:
    """The constructor's arguments of a classifier or a baseline as plain values."""
    if hasattr(model, "config"):
        return json_value(model.config())
    return json_value({name: value for name, value in vars(model).items() if not name.endswith("_")})


def backbone_of(model: Any) -> str | None:
    """The network of a classifier or a baseline; None where it has none."""
    return getattr(model, "backbone", None)


def largest_fall(accuracies: list[float]) -> float | None:
    """How far validation accuracy fell below its best, from the first evaluation within a point of the best on."""
    if not accuracies or not all(map(math.isfinite, accuracies)):
        return None
    best = max(accuracies)
    first = next(k for k, value in enumerate(accuracies) if value >= best - NEAR_BEST - 1e-9)
    return round(best - min(accuracies[first:]), 6)


def versions() -> dict[str, str | None]:
    """Versions of this package, of Python and of what the numbers depend on."""
    return {
        "dpmsnc": __version__,
        "python": platform.python_version(),
        **{name: _installed(name) for name in DEPENDENCIES},
    }


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


@cache
def revision() -> str | None:
    """`git describe` of this package's own checkout; None where it was installed otherwise."""
    folder = Path(__file__).parents[2]
    # asking for a tracked file keeps us from naming the repository that an installed copy happens to lie in
    commands = [["ls-files", "--error-unmatch", "__init__.py"], ["describe", "--always", "--dirty", "--tags"]]
    try:
        answers = [
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10)
            for words in commands
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return answers[-1].stdout.strip() or None
