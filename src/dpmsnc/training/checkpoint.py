"""Files that are either whole or absent: tensors and plain values in one safetensors file, folders moved into place.

Nothing is ever unpickled. A file that was cut short, or that another program wrote, is refused with a `ModelFileError`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.graph import UNKNOWN, Graph

VERSION = 2
"""Goes up when the same settings would go on in another way than before."""


def save_state(path: Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write tensors and JSON values to one file; a kill at any moment leaves the old file or the new one."""
    data = save({name: tensor.contiguous() for name, tensor in tensors.items()}, {"values": json.dumps(values)})
    with _writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)  # mkstemp's files are for their owner alone
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def load_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_state` wrote."""
    if not path.is_file():
        raise ModelFileError(f"{path} does not exist; give the folder that `fit` or `save` wrote")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return tensors, json.loads(metadata["values"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise ModelFileError(
            f"{path} is truncated or was not written by dpmsnc ({error}); fit again, or take it from a backup"
        ) from error


def identity(value: Any) -> Any:
    """What JSON can hold of a setting that it does not know: of an initialiser that is an object, its class and, where
    these are declared, its settings."""
    if isinstance(value, np.generic):
        return str(value)
    if is_dataclass(value):
        return [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}]
    return type(value).__name__


def fingerprint(config: dict[str, Any], graph: Graph, train: np.ndarray, held_back: np.ndarray) -> str:
    """What must be the same for a checkpoint to be continued: settings, graph, names, visible labels and split."""
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=identity).encode())
    digest.update(repr((VERSION, graph.ids.tolist(), graph.classes)).encode())
    x: Any = graph.x
    features = [] if x is None else [x.indptr, x.indices, x.data] if hasattr(x, "indptr") else [x]
    for part in (graph.edge_index, np.where(train | held_back, graph.y, UNKNOWN), train, held_back, *features):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A fresh folder to write into, which takes the place of `folder` only when the block ends well."""
    folder = folder.resolve()  # what a link points to is replaced, not the link
    with _writable(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; give the name of a folder")
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
            os.replace(folder, old)
            try:
                os.replace(temporary, folder)
            except BaseException:
                os.replace(old, folder)
                raise
            shutil.rmtree(old)
        else:
            os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (PermissionError, FileExistsError, NotADirectoryError) as error:
        raise InputError(f"cannot write into {folder} ({error}); name a folder that you may write to") from error
