"""The folder of a model: what `save` writes and `load` reads, and where `dpmsnc fit` works.

    model.json               settings, values, and the checksums of the two files below
    weights-<checksum>.safetensors, graph-<checksum>.npz
    run.json                 how `dpmsnc fit` came by the model
    checkpoint.safetensors   the state of training; gone once it has ended

Files are named by what they hold, so a new model never touches those of the old one: `model.json`, which is written
last and in one move, is what turns one into the other, and only then are the files deleted that it does not name. A
kill at any moment leaves the old model or the new one. A folder with anything else in it belongs to somebody else and
is not touched.

An estimator is saved by two methods of its own, `_state` and `_from_state`, beside its parameters and its graph;
nothing here knows what else it consists of.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.base import KINDS
from dpmsnc.estimators.several import divided
from dpmsnc.files import (
    SCRATCH,
    json_text,
    json_value,
    make_folder,
    pack_arrays,
    parse_json,
    read_bounded,
    read_json,
    storable,
    with_infinities,
    write_json,
    write_whole,
)
from dpmsnc.graph.clean import short_list

if TYPE_CHECKING:
    from torch import Tensor

    from dpmsnc.estimators.base import Estimator
    from dpmsnc.graph import Graph


Kind = TypeVar("Kind", bound="Estimator")

FORMAT_VERSION = 4
CHECKPOINT = "checkpoint.safetensors"
DESCRIPTION = "model.json"
RUN = "run.json"
PARTS = {"weights": ".safetensors", "graph": ".npz"}
PART = r"(weights-[0-9a-f]{16}\.safetensors|graph-[0-9a-f]{16}\.npz)"
WORK = re.compile(rf"{PART}|{re.escape(CHECKPOINT)}|\.({PART}|[a-z]+\.json|{re.escape(CHECKPOINT)}){SCRATCH}")
"""Names that a fit leaves behind when it is killed."""


def write_model(estimator: Estimator, folder: Path, document: Any = None, keep_checkpoint: bool = False) -> None:
    """Put the model in place of the one that `folder` holds, if any, with the document of its run."""
    from dpmsnc.graph.npz import npz_parts
    from dpmsnc.training.checkpoint import pack_state

    check_ours(folder)
    tensors, values = estimator._state()
    if broken := not_finite(tensors):
        raise InputError(f"{broken} holds NaN or infinity, so there is nothing to save; fit with a lower learning rate")
    parts = {"weights": pack_state(tensors, {}), "graph": pack_arrays(npz_parts(estimator.graph_))}
    make_folder(folder)
    checksums = {part: hashlib.sha256(data).hexdigest() for part, data in parts.items()}
    names = {part: part_name(part, checksum) for part, checksum in checksums.items()}
    for part, data in parts.items():
        write_whole(folder / names[part], data)
    (folder / RUN).unlink(missing_ok=True)  # it tells of the old model
    write_json(folder / DESCRIPTION, describe(estimator, values, checksums))
    if document is not None:
        write_json(folder / RUN, document)
    clear(folder, {*names.values(), *([CHECKPOINT] if keep_checkpoint else [])})


def read_model(kind: type[Kind], folder: Path) -> Kind:
    """The fitted estimator that `write_model` wrote."""
    description = read_description(folder)
    try:
        return restored(kind, folder, description)
    except ModelFileError:
        # another process may have put a new model there meanwhile
        if (newer := read_description(folder)) == description:
            raise
        return restored(kind, folder, newer)


def restored(kind: type[Kind], folder: Path, description: dict[str, Any]) -> Kind:
    """The estimator that a description and the files it names hold."""
    from dpmsnc.baselines import initialiser  # noqa: F401 (the kinds of all baselines are known then)
    from dpmsnc.graph import Graph
    from dpmsnc.reasoning import methods  # noqa: F401 (and those of edges)
    from dpmsnc.training.checkpoint import load_state

    found = KINDS.get(str(name := description.get("kind")))
    if found is None or not issubclass(found, kind) or (found is not kind and kind.__abstractmethods__ == frozenset()):
        raise ModelFileError(f"{folder} holds another kind of model ({name}); load it with its own class")
    weights, graph_file = (checked_part(folder, part, description) for part in PARTS)
    tensors, _ = load_state(weights)
    if broken := not_finite(tensors):
        raise ModelFileError(f"{broken} in {weights} holds NaN or infinity; fit again with a lower learning rate")
    try:
        graph = Graph.from_npz(graph_file)
        params = usable_device(arguments(found, description["params"]))
        return found._from_state(params, tensors, description["values"], graph)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        message = f"settings, weights and graph in {folder} do not fit together ({error}); fit again"
        raise ModelFileError(message) from error


def describe(estimator: Estimator, values: dict[str, Any], checksums: dict[str, str]) -> dict[str, Any]:
    """The content of model.json."""
    from dpmsnc import __version__

    description = {
        "format": FORMAT_VERSION,
        "dpmsnc": __version__,
        "kind": type(estimator).__name__,
        "params": {name: storable(value) for name, value in estimator.nested_params().items()},
        "values": values,
        "sha256": checksums,
    }
    return sealed(json_value(description))


def sealed(description: dict[str, Any]) -> dict[str, Any]:
    """The description with its own checksum."""
    content = {name: value for name, value in description.items() if name != "checksum"}
    text = json.dumps(content, sort_keys=True)
    return content | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


def read_description(folder: Path) -> dict[str, Any]:
    """The content of model.json, which must be ours and undamaged."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise ModelFileError(f"{folder} holds no {DESCRIPTION}; give the folder that `fit` or `save` wrote")
    try:
        content = read_bounded(path)
        description = parse_json(content)
        version = description["format"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ModelFileError(f"{path} is truncated or was not written by dpmsnc ({error}); fit again") from error
    if version != FORMAT_VERSION:
        advice = "fit again, into a new folder"
        raise ModelFileError(f"{path} has format {version}, this version reads format {FORMAT_VERSION}; {advice}")
    if content != json_text(sealed(description)).encode():  # as text, since two texts can be the same number
        raise ModelFileError(f"{path} is damaged: it does not have its own checksum; fit again")
    return description


def checked_part(folder: Path, part: str, description: dict[str, Any]) -> Path:
    """The file that a description names, which must have the checksum that it states."""
    try:
        checksum = description["sha256"][part]
        path = folder / part_name(part, checksum)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{DESCRIPTION} in {folder} does not say what its {part} are; fit again") from error
    if not path.is_file():
        raise ModelFileError(f"{path} does not exist; give the folder that `fit` or `save` wrote, or fit again")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != checksum:
            raise ModelFileError(f"{path} is damaged or belongs to another model; fit again, or take it from a backup")
    return path


def part_name(part: str, checksum: str) -> str:
    """The name of a file of the model, such as graph-0123456789abcdef.npz."""
    if not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise TypeError(f"{checksum!r} is not a checksum")
    return f"{part}-{checksum[:16]}{PARTS[part]}"


def not_finite(tensors: dict[str, Tensor]) -> str | None:
    """The name of a tensor with an entry that is NaN or infinite."""
    return next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None)


def arguments(typed: type, values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a constructor from JSON: groups of settings are their classes again, infinities are numbers."""
    hints = get_type_hints(typed if is_dataclass(typed) else typed.__init__)  # type: ignore[misc]
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
    made = {name: groups[name](**arguments(groups[name], values[name])) for name in groups if name in values}
    return with_infinities(values) | made


def usable_device(params: dict[str, Any]) -> dict[str, Any]:
    """A model that was fitted on a device this machine lacks answers on the one it has."""
    import torch

    device = params.get("device", "auto")
    try:
        if device != "auto":
            torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        warnings.warn(f"the model was fitted on {device!r}, which is not there; using another device", stacklevel=5)
        return params | {"device": "auto"}
    return params


def is_model(folder: Path) -> bool:
    """Whether `folder` has a model.json that this package wrote, in whatever format."""
    with suppress(OSError, ValueError, TypeError):
        return {"format", "dpmsnc"} <= set(read_json(folder / DESCRIPTION))
    return False


def entries(folder: Path) -> list[Path]:
    """What is in a folder."""
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise InputError(f"cannot look into {folder} ({error}); name a folder that you may read") from error


def check_ours(folder: Path) -> None:
    """Raise `InputError` where putting a model into `folder` is impossible, or would destroy something else."""
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise InputError(f"{folder} is not a folder; give the name of a folder for the model")
        return
    known = {DESCRIPTION, RUN} if is_model(folder) else set()
    found = {path.name: path.is_file() or path.is_symlink() for path in entries(folder)}
    ours = {name for name, is_file in found.items() if is_file and (name in known or WORK.fullmatch(name))}
    if strange := sorted(found.keys() - ours):
        raise InputError(f"{folder} holds other files ({short_list(strange)}); give a new folder for the model")


def clear(folder: Path, keep: set[str]) -> None:
    """Delete what a replaced model or a killed fit left behind."""
    for path in entries(folder):
        if WORK.fullmatch(path.name) and path.name not in keep:
            with suppress(OSError):
                path.unlink()


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `InputError` unless a fit may write into `folder`."""
    check_ours(folder)
    names = {path.name for path in entries(folder)} if folder.is_dir() else set()
    if names and not resume and not overwrite:
        what = "a model" if DESCRIPTION in names else "an unfinished fit (go on with --resume)"
        raise InputError(f"{folder} holds {what}; give another folder, or replace it with --overwrite")


def is_finished(folder: Path, clf: Estimator, graph: Graph | list[Graph], validation: Any) -> bool:
    """Whether `folder` holds the finished model of the same settings and data, so that there is nothing to resume."""
    from dpmsnc.training.checkpoint import fingerprint

    if not (folder / DESCRIPTION).is_file() or (folder / CHECKPOINT).is_file():
        return False
    description = read_description(folder)
    if (description.get("kind"), description.get("params")) != (type(clf).__name__, json_value(clf.nested_params())):
        raise InputError(f"{folder} holds a model with other settings; give another folder, or use --overwrite")
    held = read_model(type(clf), folder)
    there = fingerprint({}, held.graph_, held.train_, held.validation_)
    if there != fingerprint({}, *divided(graph, validation, clf.seed, type(clf).__name__)):
        raise InputError(f"{folder} holds a model of other data; give another folder, or use --overwrite")
    return not getattr(held, "interrupted_", False)


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """`folder` exists and can be written to inside the block; what it created is removed again if it stays empty."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise InputError(f"cannot write to {folder} ({error}); name a folder that you may write to") from error
        yield
    finally:
        for path in created:
            with suppress(OSError):
                path.rmdir()


def save_model(clf: Estimator, folder: Path, document: dict[str, Any]) -> None:
    """Put model and document into `folder`; an interrupted fit keeps its checkpoint to go on from."""
    write_model(clf, folder, document, keep_checkpoint=getattr(clf, "interrupted_", False))
