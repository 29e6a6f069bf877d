"""Model folders that are damaged, mixed up or made to harm are refused by name, before they cost memory."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dpmsnc import Graph, InputError, NodeClassifier
from dpmsnc.cli.main import main
from dpmsnc.errors import ModelFileError
from dpmsnc.estimators.model_folder import read_description
from dpmsnc.files import LARGEST_JSON, pack_arrays
from dpmsnc.training.checkpoint import load_state, pack_state
from saved_models import TASK, describe, forge, part, same

pytestmark = pytest.mark.usefixtures("brief_couplings")


def test_every_flipped_byte_is_noticed(model):
    path = model / "model.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ModelFileError, match=r"model\.json"):
            read_description(model)
    path.write_bytes(content)
    for name in ("weights", "graph"):
        path = part(model, name)
        content = path.read_bytes()
        for place in [*range(0, len(content), len(content) // 30), len(content) - 1]:
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(ModelFileError, match=f"{path.name} is damaged"):
                NodeClassifier.load(model)
        path.write_bytes(content)
    NodeClassifier.load(model)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
@pytest.mark.parametrize("name", ["model.json", "weights", "graph"])
def test_files_that_were_cut_short_are_named(model, name, share):
    path = next(model.glob(f"{name}*"))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFileError, match=path.name):
        NodeClassifier.load(model)


@pytest.mark.parametrize("name", ["weights", "graph"])
def test_a_file_of_another_model_of_the_same_sizes_is_refused(other, model, tmp_path, name):
    other.save(tmp_path / "other")
    shutil.copy(part(tmp_path / "other", name), part(model, name))
    with pytest.raises(ModelFileError, match=f"{part(model, name).name} is damaged or belongs to another model"):
        NodeClassifier.load(model)


def test_the_description_of_another_model_is_refused(other, model, tmp_path):
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.json", model)
    with pytest.raises(ModelFileError, match=r"weights-\w+\.safetensors does not exist"):
        NodeClassifier.load(model)


SPOIL = {
    "missing folder": (lambda m: shutil.rmtree(m), "no model.json"),
    "empty folder": (lambda m: [p.unlink() for p in m.iterdir()], "no model.json"),
    "no weights": (lambda m: part(m, "weights").unlink(), "does not exist"),
    "no graph": (lambda m: part(m, "graph").unlink(), "does not exist"),
    "foreign description": (lambda m: (m / "model.json").write_text('{"name": "bert"}'), "not written by dpmsnc"),
    "a list": (lambda m: (m / "model.json").write_text("[1]"), "not written by dpmsnc"),
    "only a version": (lambda m: (m / "model.json").write_text('{"format": 4}'), "does not have its own checksum"),
    "older format": (lambda m: describe(m, lambda d: d.update(format=2)), "has format 2.*fit again, into a new folder"),
    "newer format": (lambda m: describe(m, lambda d: d.update(format=99)), "has format 99"),
    "deep nesting": (lambda m: (m / "model.json").write_text("[" * 10**6), "nested too deeply"),
    "large description": (lambda m: (m / "model.json").write_bytes(b" " * (LARGEST_JSON + 9)), "bytes of JSON"),
    "no text": (lambda m: (m / "model.json").write_bytes(b"\xff" * 9), "not written by dpmsnc"),
}


@pytest.mark.parametrize("case", SPOIL)
def test_spoilt_models_are_refused_by_the_command_line_too(model, tmp_path, capsys, case):
    spoil, message = SPOIL[case]
    spoil(model)
    with pytest.raises(ModelFileError, match=message):
        NodeClassifier.load(model)
    assert main(["predict", str(model), "--out", str(tmp_path / "p.csv")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "Traceback" not in error
    assert not (tmp_path / "p.csv").exists()


def changed_tensor(folder: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> bytes:
    tensors, _ = load_state(part(folder, "weights"))
    return pack_state(tensors | {name: change(tensors[name])}, {})


HOSTILE = {
    "unknown settings": (lambda d: d.update(params={"colour": 1}), "do not fit together"),
    "settings that are no settings": (lambda d: d.update(params=[3]), "do not fit together"),
    "a group that is a word": (lambda d: d["params"].update(sampling="fast"), "do not fit together"),
    "a setting out of range": (lambda d: d["params"].update(num_layers=-1), "num_layers must be at least 1"),
    "another width": (lambda d: d["params"].update(hidden_channels=9), "do not fit together"),
    "another depth": (lambda d: d["params"].update(num_layers=3), "do not fit together"),
    "no values": (lambda d: d.update(values={}), "do not fit together"),
    "a share that is none": (lambda d: d["values"].update(progressive=7), "progressive must be"),
    "a history of words": (lambda d: d["values"]["history"].update(loss=["low"]), "do not fit together"),
    "a path for a checksum": (lambda d: d["sha256"].update(graph="../../secret"), "does not say"),
    "a number for a checksum": (lambda d: d["sha256"].update(graph=7), "does not say"),
    "no checksums": (lambda d: d.pop("sha256"), "does not say"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_crafted_descriptions_are_refused(model, case):
    change, message = HOSTILE[case]
    describe(model, change)
    with pytest.raises(ModelFileError, match=message):
        NodeClassifier.load(model)


def test_settings_cannot_make_us_allocate_more_than_the_weights_hold(model):
    describe(model, lambda d: d["params"].update(hidden_channels=20_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelFileError, match="size mismatch"):
        NodeClassifier.load(model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB; two layers would take 3 GB


def test_a_graph_of_another_size_is_refused(model):
    forge(model, "graph", pack_arrays({"edge_index": np.array([[0], [1]]), "y": np.array([0, 1])}))
    with pytest.raises(ModelFileError, match="not the graph that the model was fitted on"):
        NodeClassifier.load(model)


def test_a_graph_that_would_have_to_be_unpickled_is_refused(model):
    forge(model, "graph", pack_arrays({"edge_index": np.array([[0], [1]]), "y": np.array([0, print])}))
    with pytest.raises(ModelFileError, match="Python objects"):
        NodeClassifier.load(model)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(fitted, model, value):
    name = f"denoiser/{next(iter(fitted.denoiser_.state_dict()))}"
    forge(model, "weights", changed_tensor(model, name, lambda tensor: torch.full_like(tensor, value)))
    with pytest.raises(ModelFileError, match=rf"{name} in .*weights-\w+\.safetensors holds NaN or infinity"):
        NodeClassifier.load(model)


def test_weights_that_are_not_finite_do_not_replace_a_model(fitted, model):
    spoilt = NodeClassifier.load(model)
    next(spoilt.denoiser_.parameters()).data[0] = float("nan")
    with pytest.raises(InputError, match="holds NaN or infinity"):
        spoilt.save(model)
    assert same(NodeClassifier.load(model), fitted)


def test_weights_in_another_precision_are_read_as_ours(fitted, model):
    name = f"denoiser/{next(iter(fitted.denoiser_.state_dict()))}"
    forge(model, "weights", changed_tensor(model, name, torch.Tensor.double))
    assert same(NodeClassifier.load(model), fitted)


def test_weights_of_something_else_are_refused(model):
    forge(model, "weights", pack_state({"layer": torch.ones(3)}, {}))
    with pytest.raises(ModelFileError, match="do not fit together"):
        NodeClassifier.load(model)
    forge(model, "weights", (2**40).to_bytes(8, "little") + b"{}")  # a header of a terabyte
    with pytest.raises(ModelFileError, match=r"weights-\w+\.safetensors is truncated"):
        NodeClassifier.load(model)


def test_another_graph_in_the_file_of_the_same_name_is_noticed(fitted, model):
    flipped = fitted.graph_.edge_index[:, 1:]
    Graph.build(flipped, num_nodes=40, y=TASK.graph.y).to_npz(part(model, "graph"))
    with pytest.raises(ModelFileError, match="is damaged or belongs to another model"):
        NodeClassifier.load(model)
