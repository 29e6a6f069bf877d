"""The state of a network in one file: named tensors and plain values, in the safetensors format.

Nothing is ever unpickled. A file that was cut short, or that another program wrote, is refused with a `ModelFileError`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.files import parse_json, write_whole
from dpmsnc.graph import Graph

if TYPE_CHECKING:
    from dpmsnc.training.trainer import Trainer

VERSION = 4
"""Goes up when the same settings would go on in another way than before."""


def pack_state(tensors: dict[str, Tensor], values: dict[str, Any]) -> bytes:
    """The content of a file that `load_state` reads."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(stored, {"values": json.dumps(values)})


def save_state(path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write tensors and JSON values to one file; a kill at any moment leaves the old file or the new one."""
    write_whole(path, pack_state(tensors, values))


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_state` wrote."""
    if not path.is_file():
        raise ModelFileError(f"{path} does not exist; give the folder that `fit` or `save` wrote")
    try:
        with safe_open(path, framework="pt") as file:
            values = parse_json((file.metadata() or {})["values"])
            if not isinstance(values, dict):
                raise ValueError("its values have no names")
            # clones: what is read must not change with the file, which the library only maps into memory
            return {name: file.get_tensor(name).clone() for name in file.keys()}, values  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise ModelFileError(
            f"{path} is truncated or was not written by dpmsnc ({error}); fit again, or take it from a backup"
        ) from error


def identity(value: Any) -> Any:
    """What JSON can hold of a setting that it does not know: the name of a class; of an initialiser that is an object,
    its class and, where these are declared, its settings."""
    if isinstance(value, np.generic):
        return str(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "get_params"):
        return [type(value).__name__, value.get_params(deep=False)]
    if is_dataclass(value):
        return [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}]
    return type(value).__name__


def fingerprint(config: dict[str, Any], graph: Graph, train: np.ndarray, held_back: np.ndarray) -> str:
    """What must be the same for a checkpoint to be continued: settings, graph, names, visible labels and split."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=identity).encode())
    digest.update(repr((VERSION, graph.ids.tolist(), graph.target)).encode())
    x: Any = graph.x
    features = [] if x is None else [x.indptr, x.indices, x.data] if hasattr(x, "indptr") else [x]
    visible = train | held_back
    member = [] if graph.member is None else [graph.member]
    weights = [] if graph.edge_weight is None else [graph.edge_weight, np.float64(graph.weight_unit)]
    attributes = [] if graph.edge_attr is None else [graph.edge_attr]
    directed = [np.bool_(True)] if graph.directed else []
    parts = [graph.edge_index, graph.y[visible], train, held_back, *features, *member, *weights, *attributes, *directed]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


class Checkpoint:
    """A file that holds the state of training, if it has a path; `mark` is the `fingerprint` of what is fitted."""

    def __init__(self, path: Path | None, mark: str) -> None:
        self.path, self.mark = path, mark

    @property
    def exists(self) -> bool:
        return self.path is not None and self.path.exists()

    def write(self, trainer: Trainer) -> None:
        if self.path is not None:
            tensors, values = trainer.state()
            save_state(self.path, tensors, values | {"mark": self.mark})

    def read(self, trainer: Trainer) -> None:
        """Let a trainer go on from here; it must have been built for the same data and settings."""
        assert self.path is not None
        tensors, values = load_state(self.path)
        if values.pop("mark", None) != self.mark:
            raise InputError(f"{self.path} belongs to other data or settings; remove it or give another file")
        trainer.load_state(tensors, values)
