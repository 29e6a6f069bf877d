"""Model folders: what is loaded is what was saved, a kill loses nothing, and foreign files stay where they are."""

import copy
import json
import os
import shutil
import signal
import sys
import traceback
from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

from dpmsnc import InputError, NodeClassifier, Training
from dpmsnc.baselines import LabelPropagation, MaskedLabels
from dpmsnc.baselines.initialiser import make_initialiser
from dpmsnc.cli.main import main
from dpmsnc.errors import ModelFileError
from dpmsnc.estimators import model_folder
from dpmsnc.estimators.model_folder import CHECKPOINT, write_model
from saved_models import QUICK, TASK, describe, names, part, quick, same

pytestmark = pytest.mark.usefixtures("brief_couplings")


def test_saved_and_loaded_gives_identical_samples(fitted, model):
    loaded = NodeClassifier.load(model)
    assert same(loaded, fitted)
    assert (loaded.sample(6, seed=3) == fitted.sample(6, seed=3)).all()
    assert (loaded.predict(condition_on="train") == fitted.predict(condition_on="train")).all()
    assert loaded.nested_params() == fitted.nested_params() and loaded.history_ == fitted.history_
    assert loaded.denoiser_.state_dict().keys() == fitted.denoiser_.state_dict().keys()
    assert names(model) == ["graph", "model.json", "weights"]


def test_a_loaded_model_is_saved_as_the_same_files(model, tmp_path):
    NodeClassifier.load(model).save(tmp_path / "again")
    NodeClassifier.load(tmp_path / "again").save(model)
    before, after = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in (model, tmp_path / "again"))
    assert before == after


def test_a_loaded_model_does_not_change_with_its_files(fitted, model):
    loaded = NodeClassifier.load(model)
    with part(model, "weights").open("r+b") as file:
        file.write(bytes(part(model, "weights").stat().st_size))
    assert same(loaded, fitted)


def test_loading_leaves_the_random_numbers_of_the_process_alone(model):
    before = torch.random.get_rng_state()
    NodeClassifier.load(model)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gcnii", "sage", "gin"])
def test_every_backbone_is_loaded_as_it_was_saved(backbone, tmp_path):
    clf = quick(backbone=backbone, training=Training(steps=2, evaluate_every=2)).fit(TASK.graph, validation=0.3)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert same(loaded, clf) and (loaded.sample(2, seed=1) == clf.sample(2, seed=1)).all()


def test_initialisers_are_saved_where_json_can_hold_them(tmp_path):
    quick(initialiser=("lp", {"num_layers": 3})).fit(TASK.graph, validation=0.3).save(tmp_path / "named")
    assert make_initialiser(NodeClassifier.load(tmp_path / "named")).num_layers == 3
    with pytest.raises(InputError, match="does not take the settings"):
        quick(initialiser=("lp", {"layers": 3})).fit(TASK.graph)
    clf = quick(initialiser=LabelPropagation()).fit(TASK.graph, validation=0.3)
    clf.save(tmp_path / "object")
    loaded = NodeClassifier.load(tmp_path / "object")
    assert loaded.initialiser == "uniform" and same(loaded, clf)


def test_without_validation_the_description_is_json_and_says_nan_again(tmp_path):
    clf = quick(training=replace(QUICK, steps=10, clip=float("inf"))).fit(TASK.graph, validation=None)
    clf.save(tmp_path / "model")
    json.loads((tmp_path / "model" / "model.json").read_text(), parse_constant=pytest.fail)
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.isnan(loaded.best_score_) and np.isnan(loaded.history_.validation_score).all()
    assert loaded.nested_params() == clf.nested_params() and loaded.training.clip == float("inf")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_a_model_fitted_on_a_device_that_is_not_here_can_be_asked(fitted, model):
    describe(model, lambda d: d["params"].update(device="cuda"))
    with pytest.warns(UserWarning, match="fitted on 'cuda'"):
        loaded = NodeClassifier.load(model)
    assert (loaded.predict() == fitted.predict()).all()


def test_a_model_without_diffusion_is_not_taken_for_one_with_it(tmp_path):
    masked = quick(MaskedLabels).fit(TASK.graph, validation=TASK.validation)
    masked.save(tmp_path / "model")
    assert (MaskedLabels.load(tmp_path / "model").predict() == masked.predict()).all()
    with pytest.raises(ModelFileError, match=r"another kind of model \(MaskedLabels\)"):
        NodeClassifier.load(tmp_path / "model")


def save_and_die(clf: NodeClassifier, folder: Path, moment: int, document: object = None) -> bool:
    """Save in a process of its own, which is killed before its file operation number `moment`; whether it was."""
    child = os.fork()
    if child == 0:
        operations, sync = count(), os.fsync

        def watch(event: str, arguments: tuple) -> None:
            touches = event in ("open", "os.mkdir", "os.rename", "os.remove", "fsync")
            if touches and str(folder) in str(arguments[0]) and next(operations) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        os.fsync = lambda descriptor: sys.audit("fsync", str(folder)) or sync(descriptor)
        sys.addaudithook(watch)
        try:
            write_model(clf, folder, document)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    assert killed or os.WEXITSTATUS(status) == 0
    return killed


def test_a_kill_at_any_moment_leaves_the_old_model_or_the_new_one(fitted, other, tmp_path):
    seen = []
    for moment in count():
        folder = tmp_path / str(moment)
        write_model(fitted, folder, {"run": "old"})
        killed = save_and_die(other, folder, moment, {"run": "new"})
        loaded = NodeClassifier.load(folder)
        seen.append("new" if same(loaded, other) else "old" if same(loaded, fitted) else "neither")
        if (folder / "run.json").exists():
            assert json.loads((folder / "run.json").read_text())["run"] == seen[-1]
        other.save(folder)  # goes on after the kill, and clears what it left
        assert names(folder) == ["graph", "model.json", "weights"] and same(NodeClassifier.load(folder), other)
        if not killed:
            break
    assert seen == sorted(seen, reverse=True) and set(seen) == {"old", "new"}
    assert seen.count("old") > 8 and seen.count("new") > 4  # so many operations come before and after


def test_a_kill_during_the_first_save_leaves_no_model_or_the_whole_one(fitted, tmp_path):
    for moment in count():
        folder = tmp_path / str(moment)
        killed = save_and_die(fitted, folder, moment)
        if (folder / "model.json").exists():
            assert same(NodeClassifier.load(folder), fitted)
        fitted.save(folder)
        assert names(folder) == ["graph", "model.json", "weights"]
        if not killed:
            break


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(fitted, other, model, monkeypatch):
    checked = model_folder.checked_part

    def replace_first(*arguments):
        monkeypatch.setattr(model_folder, "checked_part", checked)
        other.save(model)
        return checked(*arguments)

    monkeypatch.setattr(model_folder, "checked_part", replace_first)
    assert same(NodeClassifier.load(model), other)


def test_a_save_that_fails_leaves_the_old_model(fitted, other, model, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(InputError, match="no space left"):
            other.save(model)
    assert same(NodeClassifier.load(model), fitted) and names(model) == ["graph", "model.json", "weights"]


def test_saving_never_replaces_anything_but_a_model(fitted, tmp_path):
    for name in ("thesis.tex", "run.json", "graph.npz", "weights.safetensors", ".model.json"):
        folder = tmp_path / f"with {name}"
        folder.mkdir()
        (folder / name).write_text("years of work")
        with pytest.raises(InputError, match=name):
            fitted.save(folder)
        assert [(p.name, p.read_text()) for p in folder.iterdir()] == [(name, "years of work")]


def test_a_model_json_of_another_program_is_not_replaced(fitted, tmp_path):
    for content in ('{"name": "bert"}', "[]", "{", '{"format": 3}'):
        (tmp_path / "model.json").write_text(content)
        with pytest.raises(InputError, match=r"other files \('model\.json'\)"):
            fitted.save(tmp_path)
        assert (tmp_path / "model.json").read_text() == content


def test_foreign_files_beside_a_model_keep_it_from_being_replaced(fitted, model):
    (model / "notes.txt").write_text("mine")
    (model / CHECKPOINT).mkdir()
    with pytest.raises(InputError, match=rf"'{CHECKPOINT}', 'notes.txt'"):
        fitted.save(model)
    assert same(NodeClassifier.load(model), fitted) and (model / "notes.txt").read_text() == "mine"


def test_a_folder_that_is_not_ours_is_refused_by_the_command_line(fitted, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    TASK.graph.to_npz(tmp_path / "graph.npz")
    for extra in ([], ["--overwrite"], ["--resume"]):
        assert main(["fit", "--graph", str(tmp_path / "graph.npz"), "--out", str(tmp_path), *extra]) == 2
        assert "thesis.tex" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"thesis.tex", "graph.npz"}


def test_a_model_can_be_saved_where_one_is(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fitted.save(".")
    fitted.save(Path())
    assert same(NodeClassifier.load("."), fitted)


def test_a_link_to_a_folder_stays_a_link(fitted, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "model").symlink_to(tmp_path / "disk")
    fitted.save(tmp_path / "model")
    assert (tmp_path / "model").is_symlink()
    assert same(NodeClassifier.load(tmp_path / "model"), fitted)
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    with pytest.raises(InputError, match="is not a folder"):
        fitted.save(tmp_path / "nowhere")


def test_links_in_a_folder_are_replaced_and_not_followed(fitted, other, model, tmp_path):
    outside = shutil.move(model / "model.json", tmp_path / "outside.json")
    (model / "model.json").symlink_to(outside)
    (model / CHECKPOINT).symlink_to(outside)
    before = outside.read_bytes()
    other.save(model)
    assert outside.read_bytes() == before and names(model) == ["graph", "model.json", "weights"]
    assert same(NodeClassifier.load(model), other)


def test_endless_files_are_not_read(model):
    (model / "model.json").unlink()
    (model / "model.json").symlink_to("/dev/zero")
    with pytest.raises(ModelFileError, match=r"no model\.json"):
        NodeClassifier.load(model)


def test_folders_that_cannot_be_written_are_named(fitted, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder, message in [(tmp_path / "file", "is not a folder"), (tmp_path / "file" / "model", "cannot create")]:
        with pytest.raises(InputError, match=message):
            fitted.save(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="not yours to write to"):
        fitted.save(tmp_path / "locked")
    assert list((tmp_path / "locked").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_and_its_model_loads(fitted, other, model):
    model.chmod(0o555)
    with pytest.raises(InputError, match="not yours to write to"):
        other.save(model)
    assert same(NodeClassifier.load(model), fitted)
    model.chmod(0o755)


def test_graphs_that_cannot_be_stored_leave_the_old_model(fitted, model):
    broken = NodeClassifier.load(model)
    broken.graph_ = replace(broken.graph_, ids=np.array([("a", k) for k in range(40)] + [None], dtype=object)[:40])
    with pytest.raises(InputError, match="node ids must be"):
        broken.save(model)
    assert same(NodeClassifier.load(model), fitted)


def test_a_model_whose_settings_were_changed_does_not_replace_a_good_one(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    changed = copy.deepcopy(fitted).set_params(num_layers=3)
    with pytest.raises(InputError, match="changed after the fit"):
        changed.save(tmp_path / "model")
    np.testing.assert_array_equal(NodeClassifier.load(tmp_path / "model").predict(), fitted.predict())
