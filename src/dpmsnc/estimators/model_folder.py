"""The folder of a model: what `NodeClassifier.save` writes and `load` reads, and where `dpmsnc fit` works.

    checkpoint.safetensors   the state of training; gone once it has ended
    model.json, weights.safetensors, graph.npz   the model
    run.json                 how `dpmsnc fit` came by it

A folder with anything else in it belongs to somebody else and is not touched.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpmsnc.config import Guidance, Sampling, Training
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.split import split_known
from dpmsnc.json_values import json_value, with_infinities, with_nan

if TYPE_CHECKING:
    from dpmsnc.estimators.node_classifier import NodeClassifier
    from dpmsnc.graph import Graph

Classifier = TypeVar("Classifier", bound="NodeClassifier")

FORMAT_VERSION = 2
CHECKPOINT = "checkpoint.safetensors"
OURS = {CHECKPOINT, "model.json", "weights.safetensors", "graph.npz", "run.json"}


def write_model(clf: NodeClassifier, folder: Path) -> None:
    """Put the model in place of the one that `folder` held, if any."""
    from dpmsnc.training.checkpoint import replacing_folder, save_state

    check_ours(folder)
    with replacing_folder(folder) as temporary:
        tensors = {name: value.detach().cpu() for name, value in clf.denoiser_.state_dict().items()}
        tensors |= {"train": clf._tensor(clf.train_), "validation": clf._tensor(clf.validation_)}
        save_state(temporary / "weights.safetensors", tensors | {"buffer": clf.buffer_}, {})
        (temporary / "model.json").write_text(json.dumps(describe(clf), indent=1, allow_nan=False))
        clf.graph_.to_npz(temporary / "graph.npz")


def read_model(kind: type[Classifier], folder: Path) -> Classifier:
    """The fitted classifier that `write_model` wrote."""
    from dpmsnc.graph import Graph
    from dpmsnc.training.checkpoint import load_state
    from dpmsnc.training.trainer import History

    description = read_description(folder)
    if description.get("process", "gaussian") != kind.process:
        raise ModelFileError(f"{folder} holds another kind of model than {kind.__name__}; load it with its own class")
    tensors, _ = load_state(folder / "weights.safetensors")
    try:
        clf = kind(**settings(description["config"]))
        clf.train_, clf.validation_ = (tensors.pop(name).numpy() for name in ("train", "validation"))
        clf.buffer_ = tensors.pop("buffer")
        clf.progressive_, clf.best_step_ = description["progressive"], description["best_step"]
        (clf.best_score_,), clf.interrupted_ = with_nan([description["best_score"]]), description["interrupted"]
        history = description["history"]
        losses, accuracies = (with_nan(history[name]) for name in ("loss", "validation_score"))
        clf.history_ = History(history["step"], losses, accuracies)
        clf._check_settings()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"model.json or weights.safetensors in {folder} was not written by dpmsnc ({error!r}); fit again"
        raise ModelFileError(message) from error
    use_device_here(clf)
    clf.graph_ = Graph.from_npz(folder / "graph.npz")
    if {len(clf.train_), len(clf.validation_), clf.buffer_.shape[1]} != {clf.graph_.num_nodes}:
        raise ModelFileError(f"graph.npz in {folder} is not the graph that the model was fitted on; fit again")
    clf.classes_ = clf.graph_.classes
    clf.denoiser_ = clf._denoiser(clf.graph_)
    try:
        clf.denoiser_.load_state_dict(tensors)
    except RuntimeError as error:
        raise ModelFileError(f"the weights in {folder} do not fit its model.json ({error})") from error
    return clf


def use_device_here(clf: NodeClassifier) -> None:
    """A model that was fitted on a device this machine lacks answers on the one it has."""
    try:
        clf._device()
    except InputError:
        warnings.warn(f"the model was fitted on {clf.device!r}, which is not there; using another device", stacklevel=4)
        clf.device = "auto"


def describe(clf: NodeClassifier) -> dict[str, Any]:
    """The content of model.json."""
    from dpmsnc import __version__

    named = isinstance(clf.initialiser, (str, tuple, list))
    initialiser = clf.initialiser if named else "uniform"  # only `fit` needs the object again
    description = {
        "format": FORMAT_VERSION,
        "dpmsnc": __version__,
        "process": clf.process,
        "config": clf.config() | {"initialiser": initialiser},
        "progressive": clf.progressive_,
        "best_step": clf.best_step_,
        "best_score": clf.best_score_,
        "interrupted": clf.interrupted_,
        "history": asdict(clf.history_),
    }
    return json_value(description)


def read_description(folder: Path) -> dict[str, Any]:
    """The content of model.json, which must be ours."""
    path = folder / "model.json"
    if not path.is_file():
        raise ModelFileError(f"{folder} holds no model.json; give the folder that `fit` or `save` wrote")
    try:
        description = json.loads(path.read_text())
        version = description["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is truncated or was not written by dpmsnc; fit again") from error
    if version != FORMAT_VERSION:
        raise ModelFileError(f"{path} has format {version}, this version reads format {FORMAT_VERSION}; fit again")
    return description


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the constructor from model.json."""
    sampling = config["sampling"] | {"guidance": Guidance(**with_infinities(config["sampling"]["guidance"]))}
    return config | {
        "schedule": Schedule(**config["schedule"]),
        "sampling": Sampling(**with_infinities(sampling)),
        "training": Training(**with_infinities(config["training"])),
    }


def check_ours(folder: Path) -> None:
    """Raise `InputError` where putting a model in place of `folder` is impossible, or would destroy something else."""
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise InputError(f"{folder} is not a folder; give the name of a folder for the model")
        return
    if os.path.ismount(folder) or Path.cwd().is_relative_to(folder.resolve()):
        raise InputError(f"{folder} cannot be replaced while it is in use; give a folder inside it for the model")
    # a kill while the checkpoint was written leaves a hidden half of it
    names = {path.name for path in folder.iterdir()}
    if strange := sorted(name for name in names - OURS if not name.startswith(f".{CHECKPOINT}.")):
        raise InputError(f"{folder} holds other files ({short_list(strange)}); give a new folder for the model")


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `InputError` unless a fit may write into `folder`."""
    check_ours(folder)
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names and not resume and not overwrite:
        what = "a model" if "model.json" in names else "an unfinished fit (go on with --resume)"
        raise InputError(f"{folder} holds {what}; give another folder, or replace it with --overwrite")


def is_finished(folder: Path, clf: NodeClassifier, graph: Graph, validation: Any) -> bool:
    """Whether `folder` holds the finished model of the same settings and data, so that there is nothing to resume."""
    from dpmsnc.training.checkpoint import fingerprint

    if not (folder / "model.json").is_file() or (folder / CHECKPOINT).is_file():
        return False
    description = read_description(folder)
    if (description.get("process"), json_value(description.get("config"))) != (clf.process, json_value(clf.config())):
        raise InputError(f"{folder} holds a model with other settings; give another folder, or use --overwrite")
    held = read_model(type(clf), folder)
    there = fingerprint({}, held.graph_, held.train_, held.validation_)
    if there != fingerprint({}, graph, *split_known(graph, validation, clf.seed)):
        raise InputError(f"{folder} holds a model of other data; give another folder, or use --overwrite")
    return not held.interrupted_


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """`folder` exists and can be written to inside the block; what it created is removed again if it stays empty."""
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for needed in (folder, folder.resolve().parent):
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
