"""Small models that are fitted in a moment, and what tests do to their folders."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from dpmsnc import NodeClassifier, Sampling, Schedule, Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.estimators.model_folder import part_name, sealed
from dpmsnc.files import write_json

QUICK = Training(steps=20, refresh_every=10, initialiser_refreshes=1, evaluate_every=10)
TASK = grid_scattered(columns=20, seed=0)


def quick(kind: type[NodeClassifier] = NodeClassifier, **arguments) -> NodeClassifier:
    defaults = {"hidden_channels": 8, "training": QUICK, "sampling": Sampling(steps=5), "schedule": Schedule(10)}
    return kind(**(defaults | {"initialiser": "lp"} | arguments))


def part(folder: Path, name: str) -> Path:
    (path,) = folder.glob(f"{name}-*")
    return path


def names(folder: Path) -> list[str]:
    """Of the files, without the checksums in them."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir())


def same(a: NodeClassifier, b: NodeClassifier) -> bool:
    first, second = a._state()[0], b._state()[0]
    graphs = np.array_equal(a.graph_.y, b.graph_.y) and not (a.graph_.adjacency != b.graph_.adjacency).nnz
    return graphs and first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def describe(folder: Path, change: Callable[[dict], None]) -> None:
    """Change a model.json as somebody would who knows how checksums are made."""
    description = json.loads((folder / "model.json").read_text())
    change(description)
    write_json(folder / "model.json", sealed(description))


def forge(folder: Path, name: str, data: bytes) -> None:
    """Put another file into a model, with all checksums right."""
    checksum = hashlib.sha256(data).hexdigest()
    part(folder, name).unlink()
    (folder / part_name(name, checksum)).write_bytes(data)
    describe(folder, lambda d: d["sha256"].update({name: checksum}))
