"""What was run: one JSON document of a few kB per run, found again by what the run was asked to do.

A run is asked for by experiment, data set, version of its splits, method, its version, full configuration and seed. All
but the seed are hashed into the name of the file, `<results>/<experiment>/<dataset>/<method>-<hash>-seed<k>.json`, so
that files that differ only in their seed stand side by side and a change of any default is another run. Files are whole
or absent. One that cannot be read, or of which no table could be made, is named in a warning and left out.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from dpmsnc.files import json_value, write_whole
from dpmsnc.graph.clean import short

Document = dict[str, Any]

REQUIRED: Mapping[str, type] = {
    **dict.fromkeys(("experiment", "dataset", "method", "timestamp"), str),
    **dict.fromkeys(("method_version", "seed"), int),
    **dict.fromkeys(("config", "metrics"), dict),
    "cpu_s": float,
}
OPTIONAL: Mapping[str, type] = {"split_version": int, "backbone": str, "stability": float, "wall_s": float}
SCORES = ("selected", "last", "initialiser")
"""Parts of the metrics that are scores by name, as far as a run has them."""
LARGEST = 2**64


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
        parts: dict[str, Any] = {name: document.get(name) for name in cls.__dataclass_fields__}
        if parts["split_version"] is None:  # which documents did not say as long as there was no other
            parts["split_version"] = 1
        return cls(**parts)

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


@dataclass(frozen=True)
class Store:
    """A folder of run documents."""

    results: Path

    def get(self, key: Key) -> Document | None:
        """The stored document of that run, or None."""
        path = self.results / key.path
        return read_document(path) if path.exists() else None

    def put(self, document: Document) -> Path:
        """Store a document in place of any older one of the same key."""
        path = self.results / Key.of(document).path
        write_document(path, document)
        return path

    def all(self, experiment: str) -> list[Document]:
        """Every readable document of an experiment, whatever its configuration."""
        documents = map(read_document, sorted((self.results / experiment).glob("*/*.json")))
        return [document for document in documents if document is not None]


def write_document(path: Path, document: Document) -> None:
    """Write a document to a file, all or nothing."""
    write_whole(path, (json.dumps(json_value(document), indent=1, allow_nan=False) + "\n").encode())


def read_document(path: Path) -> Document | None:
    """The document in a file; None, with a warning, where there is none that tables could be made of."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_float=_finite, parse_constant=_finite)
        check_document(document)
    except (OSError, ValueError, RecursionError) as error:
        warnings.warn(f"{path} is no run document and is left out: {error}", stacklevel=3)
        return None
    return document


def check_document(document: Any) -> None:
    """Raise `ValueError` where something that tables read is missing or of another type."""
    if not isinstance(document, dict):
        raise ValueError("it holds no object")
    for name, kind in {**REQUIRED, **OPTIONAL}.items():
        value = document.get(name)
        if not _is(value, kind) and not (value is None and name in OPTIONAL):
            raise ValueError(f"{name} is {short(document.get(name, 'missing'))}")
    for part in SCORES:
        scores = document["metrics"].get(part) or {}
        if not isinstance(scores, dict) or not all(value is None or _is(value, float) for value in scores.values()):
            raise ValueError(f"metrics.{part} is {short(scores)}")
    _ = Key.of(document).digest  # settings can be nested too deeply to be compared


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a type; a whole number is a float, too, and numbers are of a size to compute with."""
    if kind not in (int, float):
        return isinstance(value, kind)
    return type(value) in (int, kind) and -LARGEST < value < LARGEST


def _finite(text: str) -> float:
    if not isfinite(number := float(text)):
        raise ValueError(f"{text} is no finite number")
    return number
