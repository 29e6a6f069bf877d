"""CPU time of two states of the package side by side: `python benchmarks/old_new.py OLD_SRC NEW_SRC`.

Both folders hold a package `dpmsnc`. Each measurement is a process of its own with one thread; old and new alternate,
so that what else the machine does falls on both, and the median of the pairs' ratios is printed. It goes through the
public classifier alone, on Cora: a training step between two calls of `progress`, and a sample. As on the command line,
freed memory is kept; with `--plain` only by a package that does so unasked.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

LAYERS = {"gcn": 2, "gat": 2, "gcnii": 8}
WARM_UP = 5
WORKS = ("train_step", "sample")


def measure(backbone: str, steps: int, samples: int, plain: bool) -> dict[str, float]:
    """Median CPU seconds of a training step and of a sample, with the package that is importable here."""
    from dpmsnc import NodeClassifier, Sampling, Training
    from dpmsnc.data import load

    task = load("cora")
    settings: dict[str, Any] = {
        "num_layers": LAYERS[backbone],
        "training": Training(steps=steps, refresh_every=steps, evaluate_every=steps),
        "sampling": Sampling(**{known(Sampling, "progressive", "adopt"): 0.0}),
        known(NodeClassifier, "initialiser", "start"): "lp",
    }
    clf = NodeClassifier(backbone, **settings)
    clock: list[float] = []
    with nullcontext() if plain else kept_memory():
        clf.fit(task.graph, validation=task.validation, progress=lambda running: clock.append(time.process_time()))
        # the last step has an evaluation with it
        durations = [after - before for before, after in zip(clock[WARM_UP:-2], clock[WARM_UP + 1 : -1], strict=True)]
        return {"train_step": median(durations), "sample": median(sample_s(clf) for _ in range(samples + 1))}


def known(kind: type[Any], *names: str) -> str:
    """The present name of an argument, or the one that it had in an older package."""
    return next(name for name in names if name in inspect.signature(kind).parameters)


def sample_s(clf: Any) -> float:
    before = time.process_time()
    clf.sample(1)
    return time.process_time() - before


def kept_memory() -> AbstractContextManager[None]:
    try:
        from dpmsnc.nn.process import keep_freed_memory
    except ImportError:  # a package that did so unasked
        return nullcontext()
    return keep_freed_memory()


def measured(source: Path, backbone: str, options: argparse.Namespace) -> dict[str, float]:
    """`measure` in a process of its own, with the package of a folder."""
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", backbone, "--steps", str(options.steps)]
    command += ["--samples", str(options.samples), *(["--plain"] if options.plain else [])]
    environment = os.environ | {"PYTHONPATH": str(source.resolve()), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout)


def compare(backbone: str, options: argparse.Namespace) -> dict[str, tuple[float, float, float]]:
    """Of each work, the median seconds of old and new, and the median ratio of the pairs."""
    pairs = []
    for pair in range(options.pairs):
        order = [options.old, options.new] if pair % 2 == 0 else [options.new, options.old]
        found = {source: measured(source, backbone, options) for source in order}
        pairs.append((found[options.old], found[options.new]))
    return {
        work: (
            median(old[work] for old, _ in pairs),
            median(new[work] for _, new in pairs),
            median(new[work] / old[work] for old, new in pairs),
        )
        for work in WORKS
    }


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?", help="a folder src with the package as it was")
    parser.add_argument("new", type=Path, nargs="?", help="a folder src with the package as it is")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60, help="training steps in each process")
    parser.add_argument("--samples", type=int, default=8, help="samples in each process")
    parser.add_argument("--backbones", nargs="+", choices=list(LAYERS), default=list(LAYERS))
    parser.add_argument("--plain", action="store_true", help="do not ask for freed memory to be kept")
    parser.add_argument("--measure", choices=list(LAYERS), help=argparse.SUPPRESS)
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.measure:
        print(json.dumps(measure(options.measure, options.steps, options.samples, options.plain)))
        return 0
    if options.old is None or options.new is None:
        parser.error("give OLD_SRC and NEW_SRC")
    print(f"{'CPU time on Cora':<20}{'old ms':>9}{'new ms':>9}{'new/old':>9}", flush=True)
    for backbone in options.backbones:
        for work, (old, new, ratio) in compare(backbone, options).items():
            print(f"{backbone + ' ' + work:<20}{1000 * old:9.1f}{1000 * new:9.1f}{ratio:9.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
