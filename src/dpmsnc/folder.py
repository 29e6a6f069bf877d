"""The folder that `dpmsnc fit` works in: first a checkpoint, in the end a model.

    checkpoint.safetensors   the state of training; gone once it has ended
    model.json, weights.safetensors, graph.npz   what `NodeClassifier.save` writes
    run.json                 how the model came about

A folder with anything else in it belongs to somebody else and is not touched.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpmsnc.cleaning import short_list
from dpmsnc.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from dpmsnc.classifier import NodeClassifier

CHECKPOINT = "checkpoint.safetensors"
OURS = {CHECKPOINT, "model.json", "weights.safetensors", "graph.npz", "run.json"}


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `InputError` unless a fit may write into `folder`."""
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise InputError(f"{folder} is not a folder; give the name of a folder for the model")
        return
    names = {path.name for path in folder.iterdir()}
    # a kill while the checkpoint was written leaves a hidden half of it
    if strange := sorted(name for name in names - OURS if not name.startswith(f".{CHECKPOINT}.")):
        raise InputError(f"{folder} holds other files ({short_list(strange)}); give a new folder for the model")
    if names and not resume and not overwrite:
        what = "a model" if "model.json" in names else "an unfinished fit (go on with --resume)"
        raise InputError(f"{folder} holds {what}; give another folder, or replace it with --overwrite")


def is_finished(folder: Path, clf: NodeClassifier) -> bool:
    """Whether `folder` holds the finished model of the same settings, so that there is nothing to resume."""
    if not (folder / "model.json").is_file() or (folder / CHECKPOINT).is_file():
        return False
    try:
        description = json.loads((folder / "model.json").read_text())
        stored, interrupted = description["config"], description["interrupted"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{folder / 'model.json'} was not written by dpmsnc; give another folder") from error
    if stored != json.loads(json.dumps(clf.config())):
        raise InputError(f"{folder} holds a model with other settings; give another folder, or use --overwrite")
    return not interrupted


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """`folder` exists and can be written to inside the block; what it created is removed again if it stays empty."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for needed in (folder, folder.absolute().parent):
                tempfile.TemporaryFile(dir=needed).close()
        except OSError as error:
            raise InputError(f"cannot write to {folder} ({error}); name a folder that you may write to") from error
        yield
    finally:
        for path in created:
            with suppress(OSError):
                path.rmdir()


def save_model(clf: NodeClassifier, folder: Path, document: dict[str, Any]) -> None:
    """Put the model in place of whatever `folder` held; an interrupted one keeps its checkpoint to go on from."""
    from dpmsnc.training.checkpoint import replacing_folder

    with replacing_folder(folder) as temporary:
        clf.save(temporary)
        (temporary / "run.json").write_text(json.dumps(document, indent=1) + "\n")
        if clf.interrupted_ and (folder / CHECKPOINT).is_file():
            shutil.copy2(folder / CHECKPOINT, temporary / CHECKPOINT)
