"""An experiment of seconds that other processes can import, and measures that get in the way of a run."""

import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from dpmsnc import Sampling, Training
from dpmsnc.data import grid_localized, grid_scattered
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run.experiment import Experiment, Row

SHORT = {
    "initialiser": "uniform",
    "sampling": Sampling(steps=2),
    "training": Training(steps=4, evaluate_every=2, refresh_every=2, initialiser_refreshes=1),
}
GRIDS = {"grid_scattered": grid_scattered, "grid_localized": grid_localized}


def small(name, seed):
    return GRIDS[name](columns=20, seed=seed)


def table(documents):
    lines = [f"{d['row']} {d['dataset']} {d['seed']}: {d['metrics']['selected']['accuracy']}" for d in documents]
    return "\n".join(["a tiny table", *lines])


TINY = Experiment(
    "tiny",
    ("grid_scattered",),
    {"gcn": Row("gcn", {"epochs": 2}), "dpm-snc": Row("dpm-snc", SHORT)},
    (0, 1),
    table=table,
    load=small,
)


def die(folder, times, model, task, seed):
    """The process of seed 0 kills itself, the first so many times."""
    deaths = len(list(Path(folder).glob("death-*")))
    if seed == 0 and deaths < times:
        Path(folder, f"death-{deaths}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {}


def fail(model, task, seed):
    if seed == 0:
        raise RuntimeError("no luck with seed 0")
    return {}


def wait(folder, model, task, seed):
    """Leaves its process id behind; runs of all seeds but 0 wait until they are let through."""
    Path(folder, f"run-{seed}-{os.getpid()}").touch()
    while seed != 0 and not Path(folder, "go").exists():
        time.sleep(0.05)
    return {}


def command():
    """`dpmsnc` with the experiment `tiny`, whose runs wait in the folder that the environment names."""
    from dpmsnc.cli.main import main

    registry.EXPERIMENTS["tiny"] = replace(TINY, measure=partial(wait, os.environ["TINY_FOLDER"]))
    return main(sys.argv[1:])


if __name__ == "__main__":
    import tiny_experiments

    sys.exit(tiny_experiments.command())
