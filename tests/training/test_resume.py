"""`dpmsnc fit` that is killed or interrupted: nothing is lost, and going on ends where it would have ended."""

import multiprocessing
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from dpmsnc import InputError, NodeClassifier
from dpmsnc.cli.main import main
from dpmsnc.estimators.model_folder import CHECKPOINT, is_finished
from dpmsnc.graph import UNKNOWN
from dpmsnc.targets import OneClass
from tiny_tables import fast, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
STEPS = 40


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    return ["fit", *write_tables(tmp_path_factory.mktemp("tables")), *fast(STEPS), "--dropout", "0.3"]


@pytest.fixture(scope="module")
def whole(words, tmp_path_factory):
    """The weights of a fit that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "model"
    assert main([*words, "--out", str(out)]) == 0
    return load_file(weights(out))


def weights(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.safetensors")
    return path


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


class Killed(BaseException):
    pass


def stop_at(monkeypatch, step: int, error: type[BaseException]) -> None:
    """Make training fall over when it has done `step` steps in all."""
    from dpmsnc.training.trainer import Trainer

    update = Trainer.update

    def update_or_stop(self: Trainer, draw: Any) -> None:
        if self.step == step:
            raise error
        update(self, draw)

    monkeypatch.setattr(Trainer, "update", update_or_stop)


@pytest.mark.parametrize("step", [0, 3, 5, 31, STEPS - 1])
def test_a_fit_that_died_goes_on_to_the_same_weights(words, whole, tmp_path, monkeypatch, step):
    out = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        stop_at(patch, step, Killed)
        main([*words, "--out", str(out)])
    assert (out / CHECKPOINT).is_file() == (step >= 5)
    assert main([*words, "--out", str(out), "--resume"]) == 0
    assert same(load_file(weights(out)), whole)
    assert not (out / CHECKPOINT).exists()


def test_rare_classes_do_not_change_what_a_resumed_fit_takes_for_a_collapse(tmp_path, monkeypatch):
    words = ["fit", *write_tables(tmp_path, lefts=18), *fast(STEPS)]
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as patch, pytest.raises(Killed):
        stop_at(patch, 31, Killed)
        main([*words, "--out", str(tmp_path / "model")])
    assert main([*words, "--out", str(tmp_path / "model"), "--resume"]) == 0
    whole, resumed = (load_file(weights(tmp_path / name)) for name in ("whole", "model"))
    assert same(whole, resumed)


def start(words: list[str]) -> multiprocessing.process.BaseProcess:
    """`dpmsnc` in a copy of this process, which has imported torch already."""

    def run() -> None:
        # tests that run in the background are deaf to SIGINT, and their children would be too
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.exit(main(words))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    return process


def wait_for_checkpoint(out: Path, process: multiprocessing.process.BaseProcess, before: int = 0) -> int:
    """Wait until training has written a checkpoint since `before`; when it did."""
    deadline = time.monotonic() + 60
    while process.is_alive() and time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if (written := (out / CHECKPOINT).stat().st_mtime_ns) != before:
                return written
        time.sleep(0.002)
    pytest.fail("no checkpoint was written")


def test_sigkill_in_the_middle_of_training(words, whole, tmp_path):
    out = tmp_path / "model"
    process, written = start([*words, "--out", str(out)]), 0
    for delay in (0.0, 0.03):
        written = wait_for_checkpoint(out, process, written)
        time.sleep(delay)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL and not (out / "model.json").exists()
        process = start([*words, "--out", str(out), "--resume"])
    process.join(timeout=120)
    assert process.exitcode == 0
    assert same(load_file(weights(out)), whole)
    assert sorted(p.name.partition("-")[0] for p in out.iterdir()) == ["graph", "model.json", "run.json", "weights"]


def test_sigint_leaves_a_model_that_loads(words, tmp_path, capfd):
    out = tmp_path / "model"
    process = start([*words, "--training.steps", "100000", "--out", str(out)])
    wait_for_checkpoint(out, process)
    os.kill(process.pid, signal.SIGINT)
    process.join(timeout=120)
    errors = capfd.readouterr().err
    assert process.exitcode == 130, errors
    assert "interrupted" in errors and "--resume" in errors and "Traceback" not in errors
    clf = NodeClassifier.load(out)
    assert clf.interrupted_ and clf.history_.step[-1] > 0
    assert set(clf.predict()) <= {"left", "right"}
    assert (out / CHECKPOINT).is_file()


def test_an_interrupted_fit_goes_on_to_the_same_weights(words, whole, tmp_path, monkeypatch):
    out = tmp_path / "model"
    with monkeypatch.context() as patch:
        stop_at(patch, 33, KeyboardInterrupt)
        assert main([*words, "--out", str(out)]) == 130
    assert NodeClassifier.load(out).history_.step[-1] == 30
    assert main([*words, "--out", str(out), "--resume"]) == 0
    assert same(load_file(weights(out)), whole)


def test_going_on_from_a_random_start_ends_where_it_would_have_ended(words, tmp_path, monkeypatch):
    random, (whole, stopped) = [*words, "--start", "random"], (tmp_path / name for name in ("whole", "stopped"))
    assert main([*random, "--out", str(whole)]) == 0
    with monkeypatch.context() as patch:
        stop_at(patch, 33, Killed)
        with suppress(Killed):
            main([*random, "--out", str(stopped)])
    assert main([*random, "--out", str(stopped), "--resume"]) == 0
    assert same(load_file(weights(stopped)), load_file(weights(whole)))


def test_an_interrupt_before_the_first_evaluation_leaves_what_was_learned(words, tmp_path, monkeypatch, capsys):
    stop_at(monkeypatch, 4, KeyboardInterrupt)
    assert main([*words, "--out", str(tmp_path / "model")]) == 130
    assert "--resume" in capsys.readouterr().err
    assert NodeClassifier.load(tmp_path / "model").interrupted_


def test_an_interrupt_before_training_leaves_nothing(words, tmp_path, monkeypatch):
    def interrupt(self, graph, *labels):
        raise KeyboardInterrupt

    for start, first in {"random": "_initial_probabilities", "initialiser": "_fit_initialiser"}.items():
        monkeypatch.setattr(NodeClassifier, first, interrupt)
        assert main([*words, "--start", start, "--out", str(tmp_path / "new" / "model")]) == 130
        assert list(tmp_path.iterdir()) == []


def test_resuming_a_finished_fit_does_nothing(words, tmp_path, capsys):
    out = tmp_path / "model"
    assert main([*words, "--out", str(out)]) == 0
    before = weights(out).stat().st_mtime_ns
    assert main([*words, "--out", str(out), "--resume"]) == 0
    assert "nothing to resume" in capsys.readouterr().out
    assert weights(out).stat().st_mtime_ns == before
    assert main([*words, "--out", str(out), "--resume", "--seed", "1"]) == 2
    assert "other settings" in capsys.readouterr().err
    assert main([*words, "--out", str(out), "--resume", "--validation", "0.4"]) == 2
    assert "other data" in capsys.readouterr().err
    graph = NodeClassifier.load(out).graph_
    features = np.zeros((graph.num_nodes, 1)) if graph.x is None else graph.x + 1
    for other in (
        replace(graph, ids=np.array([f"node {name}" for name in graph.ids])),
        replace(graph, target=OneClass(tuple(f"class {name}" for name in graph.classes))),
        replace(graph, x=features.astype(np.float32)),
        replace(graph, edge_index=graph.edge_index[:, 1:]),
        replace(graph, y=np.where(np.arange(graph.num_nodes) == graph.known.argmax(), UNKNOWN, graph.y)),
    ):
        with pytest.raises(InputError, match="other data"):
            is_finished(out, NodeClassifier.load(out), other, 0.2)
    assert is_finished(out, NodeClassifier.load(out), graph, 0.2)


def test_a_checkpoint_of_other_data_is_refused(words, tmp_path, monkeypatch, capsys):
    out = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        stop_at(patch, 31, Killed)
        main([*words, "--out", str(out)])
    before = (out / CHECKPOINT).read_bytes()
    for other in (["--seed", "1"], ["--features", "rank"]):
        assert main([*words, *other, "--out", str(out), "--resume"]) == 2
        assert "other data or settings" in capsys.readouterr().err
    assert (out / CHECKPOINT).read_bytes() == before


def test_a_model_is_replaced_only_on_request(words, tmp_path, capsys):
    out = tmp_path / "model"
    assert main([*words, "--training.steps", "5", "--out", str(out)]) == 0
    before = weights(out).read_bytes()
    assert main([*words, "--out", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert weights(out).read_bytes() == before
    assert main([*words, "--out", str(out), "--overwrite"]) == 0
    assert weights(out).read_bytes() != before


def test_an_unfinished_fit_is_not_started_again_by_accident(words, tmp_path, monkeypatch, capsys):
    out = tmp_path / "model"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        stop_at(patch, 31, Killed)
        main([*words, "--out", str(out)])
    assert main([*words, "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--out", str(out), "--overwrite"]) == 0
