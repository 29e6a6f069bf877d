import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import tiny_experiments
from dpmsnc import InputError
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run import ray as ray_workers
from dpmsnc.evidence.run.runner import plan, reproduce, workers
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.run.workers import RETRIES, Failure, ThisProcess
from tiny_experiments import TINY

# the revision too: a worker asks for it anew, and somebody may have committed in between
DIFFERENT_EACH_TIME = ("cpu_s", "wall_s", "peak_mb", "timestamp", "revision")


def documents(outcomes):
    """By row and seed, without what no two executions have in common."""
    return {
        (run.row, run.seed): {name: value for name, value in document.items() if name not in DIFFERENT_EACH_TIME}
        for run, document in outcomes
    }


def alive(pid):
    """Whether a process runs; one that ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(folder):
    return [int(path.name.split("-")[2]) for path in folder.glob("run-*")]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def reference():
    return documents(ThisProcess().execute(plan(TINY)))


def test_worker_processes_give_the_documents_of_this_process(reference):
    assert len(reference) == 4
    assert documents(workers(jobs=2).execute(plan(TINY))) == reference


def test_a_killed_worker_costs_its_run_a_second_try_and_the_others_nothing(reference, tmp_path):
    experiment = replace(TINY, measure=partial(tiny_experiments.die, str(tmp_path), 1))
    assert documents(workers(jobs=2).execute(plan(experiment))) == reference
    assert len(list(tmp_path.iterdir())) == 1


def test_a_run_that_kills_every_worker_is_given_up_and_named(tmp_path, monkeypatch, capsys):
    experiment = replace(TINY, measure=partial(tiny_experiments.die, str(tmp_path / "deaths"), 99))
    (tmp_path / "deaths").mkdir()
    monkeypatch.setitem(registry.EXPERIMENTS, "tiny", experiment)
    failed = reproduce("tiny", results=tmp_path, methods=["gcn"], jobs=2)
    assert [str(run) for run in failed] == ["gcn on grid_scattered, seed 0"]
    assert len(list((tmp_path / "deaths").iterdir())) == 1 + RETRIES
    assert [d["seed"] for d in Store(tmp_path).all("tiny")] == [1]
    assert "failed: gcn on grid_scattered, seed 0: its process ended with exit code -9" in capsys.readouterr().out


@pytest.mark.parametrize("jobs", [None, 2])
def test_an_error_in_a_run_is_its_outcome_and_the_others_go_on(jobs):
    runs = plan(replace(TINY, measure=tiny_experiments.fail), methods=["gcn"])
    outcomes = dict(workers(jobs).execute(runs))
    failure = outcomes[runs[0]]
    assert isinstance(failure, Failure) and failure.reason == "RuntimeError: no luck with seed 0"
    assert "in fail" in failure.details and outcomes[runs[1]]["seed"] == 1


def test_closing_ends_the_runs_that_go(tmp_path):
    experiment = replace(TINY, measure=partial(tiny_experiments.wait, str(tmp_path)))
    with closing(workers(jobs=2).execute(plan(experiment, methods=["gcn"]))) as outcomes:
        assert next(outcomes)[0].seed == 0
        until(lambda: len(pids(tmp_path)) == 2)
    assert not any(map(alive, pids(tmp_path)))


def test_a_corrupt_document_costs_one_run_in_workers_too(tmp_path, monkeypatch):
    monkeypatch.setitem(registry.EXPERIMENTS, "tiny", TINY)
    reproduce("tiny", results=tmp_path, methods=["gcn"], jobs=2)
    path = next(tmp_path.glob("*/*/gcn-*-seed1.json"))
    times = {other: other.stat().st_mtime_ns for other in path.parent.glob("*.json") if other != path}
    path.write_text("{")
    with pytest.warns(UserWarning, match="is left out"):
        reproduce("tiny", results=tmp_path, methods=["gcn"], jobs=2)
    assert path.stat().st_size > 500 and all(other.stat().st_mtime_ns == time for other, time in times.items())


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_every_run_can_be_sent_to_a_worker(name):
    here, there = multiprocessing.Pipe()
    for run in plan(registry.EXPERIMENTS[name], seeds=[0]):
        try:
            key = run.key
        except InputError:
            continue  # its method is not there yet
        here.send(run)
        assert there.recv().key == key


def test_wrong_flags_are_said_before_anything_runs(monkeypatch):
    with pytest.raises(InputError, match="--jobs is 0"):
        workers(jobs=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'dpmsnc\[ray\]'"):
        next(workers(ray="auto").execute(plan(TINY)))


class FakeRay:
    """Notes what it is started with and how its folder is kept."""

    def __init__(self, version="2.52.0"):
        self.__version__, self.started, self.mode = version, {}, 0

    def init(self, **arguments):
        self.started = arguments
        self.mode = Path(arguments["_temp_dir"]).parent.stat().st_mode & 0o777
        raise OSError("enough")

    def shutdown(self):
        pass


@pytest.fixture
def quiet(monkeypatch):
    """Keeps what a local Ray is told through the environment from the other tests."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"):
        monkeypatch.setenv(name, "")
        os.environ.pop(name)


@pytest.mark.parametrize("version", ["2.51.2", "2.9.0", "1.13.0"])
def test_a_ray_that_knows_no_token_is_refused_on_this_machine(version, quiet, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", FakeRay(version))
    with pytest.raises(InputError, match=f"Ray {version} would let others in"):
        next(workers(ray="local").execute(plan(TINY)))


def test_nobody_else_enters_the_folder_of_a_local_ray(quiet, monkeypatch):
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    with pytest.raises(InputError, match="enough"):
        next(workers(ray="local").execute(plan(TINY)))
    folder = Path(ray.started["_temp_dir"])
    assert ray.mode == 0o700 and folder.parent.parent == Path(tempfile.gettempdir()) and len(folder.name) == 1
    assert not folder.parent.exists() and len(os.environ["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_said_at_once(address):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="no Ray cluster at"):
        next(workers(ray=address).execute(plan(TINY)))


class Command:
    """`dpmsnc` as a user runs it, in a process of its own, with the experiment `tiny` whose runs wait."""

    def __init__(self, folder, *flags):
        self.folder, self.results, self.flags = folder / "runs", folder / "results", flags
        self.folder.mkdir()

    def start(self):
        tests = Path(__file__).parents[1]
        arguments = ["reproduce", "tiny", "--seeds", "0-2", "--methods", "gcn", "--results", str(self.results)]
        return subprocess.Popen(
            [sys.executable, "-m", "tiny_experiments", *arguments, *self.flags],
            cwd=tests,
            env=os.environ | {"TINY_FOLDER": str(self.folder)},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # deaf to it in the background
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_and_wait(self):
        """Until seed 0 is stored and as many others wait as can go at a time."""
        process = self.start()
        until(lambda: self.stored() == {0} and len(pids(self.folder)) >= 2)
        return process

    def finish(self):
        """Let all runs through and run the command to its end; what it printed."""
        (self.folder / "go").touch()
        process = self.start()
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output

    def stored(self):
        return {int(path.stem[-1]) for path in self.results.glob("*/*/gcn-*-seed?.json")}


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--jobs", "2")])
def test_killed_half_way_it_finishes_with_exactly_the_missing_runs(flags, tmp_path):
    command = Command(tmp_path, *flags)
    process = command.start_and_wait()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    until(lambda: not any(map(alive, pids(command.folder))), seconds=20)
    before = set(pids(command.folder))
    for path in command.folder.glob("run-*"):
        path.unlink()
    output = command.finish()
    assert "1 runs stored" in output and "2 to run" in output and command.stored() == {0, 1, 2}
    assert sorted(path.name.split("-")[1] for path in command.folder.glob("run-*")) == ["1", "2"]
    assert not before & set(pids(command.folder))
    again = command.finish()
    assert "3 runs stored" in again and ", 0 to run" in again and len(pids(command.folder)) == 2
    assert again.partition("a tiny table")[2] == output.partition("a tiny table")[2] != ""


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--jobs", "2")])
def test_ctrl_c_ends_workers_promptly_and_keeps_what_is_stored(flags, tmp_path):
    command = Command(tmp_path, *flags)
    process = command.start_and_wait()
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 130 and "1 of 3 runs are stored; the same command goes on" in output
    assert command.stored() == {0} and not any(map(alive, pids(command.folder)))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder of its own, and a place that Ray's workers import the tiny experiment from."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.slow
def test_ray_gives_the_same_documents_though_a_worker_is_killed(reference, tmp_path, home, monkeypatch):
    (tmp_path / "deaths").mkdir()
    experiment = replace(TINY, measure=partial(tiny_experiments.die, str(tmp_path / "deaths"), 1))
    folders = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(ray_workers.tempfile, "mkdtemp", lambda **k: folders.append(make(**k)) or folders[-1])
    assert documents(workers(jobs=2, ray="local").execute(plan(experiment))) == reference
    assert len(list((tmp_path / "deaths").iterdir())) == 1
    assert not list(home.iterdir()) and len(folders) == 1 and not Path(folders[0]).exists()
