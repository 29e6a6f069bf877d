"""`python -m benchmarks.scale`: how time and memory of a training step and of a sample grow with the graph.

Graphs are stochastic block models of constant mean degree; the model is `NodeClassifier` as it comes. Each size is
measured in a process of its own. The bars: from the size before the largest to the largest, time grows no faster than
size^1.1, and all fits into 20 GB. `--threads-check` measures instead what a second thread does to wall time: at most
5 % may be lost. Both are written to `scale.json`, with the load of the machine, which has to be idle for the latter. A
bar that is missed is named, and ends the command with an error.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dpmsnc.nn.process import keep_freed_memory

RECORD = Path(__file__).with_name("scale.json")
NUM_CLASSES, NUM_FEATURES, MEAN_DEGREE = 10, 64, 10
HOMOPHILY = 0.8
"""Share of edges that join equal labels."""
KNOWN = 0.1
LARGEST_SLOPE, LARGEST_GB, LARGEST_LOSS = 1.1, 20, 1.05
WORKS = ("step", "sample")
COLUMNS = ("build s", "step CPU s", "step s", "step MB", "sample CPU s", "sample s", "sample MB", "peak MB")

Entry = dict[str, Any]
"""What is recorded of one size."""


def block_model(num_nodes: int, seed: int = 0) -> dict[str, Any]:
    """The arguments of `Graph.build`: edges, features about the mean of their class, and labels, -1 where unknown.

    Edges are drawn one by one, with a source from all nodes and a target from those of the same class or of another, so
    that the work is linear in their number. Those drawn twice, a vanishing share, count once.
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(num_nodes) % NUM_CLASSES)
    by_class = np.argsort(y, kind="stable")
    size = np.bincount(y, minlength=NUM_CLASSES)
    first = np.cumsum(size) - size
    source = rng.integers(num_nodes, size=num_nodes * MEAN_DEGREE // 2)
    other = (y[source] + rng.integers(1, NUM_CLASSES, size=len(source))) % NUM_CLASSES
    of = np.where(rng.random(len(source)) < HOMOPHILY, y[source], other)
    target = by_class[first[of] + rng.integers(size[of])]
    means = rng.standard_normal((NUM_CLASSES, NUM_FEATURES), dtype=np.float32)
    x = means[y] + 2 * rng.standard_normal((num_nodes, NUM_FEATURES), dtype=np.float32)
    known = np.where(rng.random(num_nodes) < KNOWN, y, -1)
    return {"edges": np.stack([source, target]), "x": x, "y": known}


def resident_mb(field: str) -> float:
    """Memory of this process (Linux): VmRSS is what it has, VmHWM the most it had since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1]) / 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def measure(work: Callable[[], object], loaded_mb: float, repeats: int, enough_s: float = 60.0) -> dict[str, float]:
    """Median times, and the peak in all and above `loaded_mb`; the first time is a rehearsal and is not counted."""
    forget_peak()
    work()
    peak = resident_mb("VmHWM")
    cpu, wall = [], []
    while len(wall) < repeats and sum(wall) < enough_s:
        before = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    return {
        "cpu_s": round(statistics.median(cpu), 4),
        "wall_s": round(statistics.median(wall), 4),
        "peak_mb": round(peak),
        "above_mb": round(peak - loaded_mb),
    }


def measure_size(num_nodes: int, threads: int, repeats: int) -> Entry:
    """All that is recorded of one size; `held_mb` is the memory after each stage."""
    import torch

    from dpmsnc import Graph, NodeClassifier
    from dpmsnc.estimators.base import only
    from dpmsnc.graph.features import Features
    from dpmsnc.graph.split import split_known

    held = {"imported": resident_mb("VmRSS")}
    arguments = block_model(num_nodes)
    began = time.process_time()
    graph = Graph.build(**arguments)
    build_s = time.process_time() - began
    build_peak = resident_mb("VmHWM")
    del arguments
    held["loaded"] = resident_mb("VmRSS")
    torch.set_num_threads(threads)
    clf = NodeClassifier(initialiser="uniform", threads=threads)
    clf.train_, clf.validation_ = split_known(graph, 0.2, seed=0)
    clf._take(graph, Features.fit(graph, clf.scaling))
    trainer = clf._trainer(graph, only(graph, clf.train_), only(graph, clf.validation_))
    source = trainer.source
    source.refresh(0)
    held["prepared"] = resident_mb("VmRSS")
    step = measure(lambda: trainer.update(source.draw()), held["loaded"], repeats)
    held["trained"] = resident_mb("VmRSS")

    def sample() -> None:
        source.sample(source.known, 0.0, 1, 1.0)

    drawn = measure(sample, held["loaded"], repeats)
    forget_peak()
    for _ in range(math.ceil(source.buffer.size / clf.training.samples_per_refresh)):
        source.refresh(0)
    buffer_peak = resident_mb("VmHWM")
    held["buffer full"] = resident_mb("VmRSS")
    return {
        "num_edges": graph.num_edges,
        "threads": torch.get_num_threads(),
        "build_cpu_s": round(build_s, 3),
        "step": step,
        "sample": drawn,
        "peak_mb": round(max(build_peak, step["peak_mb"], drawn["peak_mb"], buffer_peak)),
        "build_peak_mb": round(build_peak),
        "buffer_peak_mb": round(buffer_peak),
        "held_mb": {stage: round(mb) for stage, mb in held.items()},
    }


def in_a_process(num_nodes: int, threads: int, repeats: int) -> Entry:
    """`measure_size` in a process of its own, and the load of the machine before it began."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", "--worker", str(threads)]
    command += ["--sizes", str(num_nodes), "--repeats", str(repeats)]
    load = os.getloadavg()[0]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[1])
    return json.loads(done.stdout) | {"load_before": round(load, 2)}


def slope(small: tuple[int, float], large: tuple[int, float]) -> float:
    """Of the line through two points (size, time) in a log-log plot."""
    return math.log(large[1] / small[1]) / math.log(large[0] / small[0])


def row(num_nodes: int, entry: Entry) -> str:
    step, sample = entry["step"], entry["sample"]
    cells = [f"{entry['build_cpu_s']:.2f}"]
    for work in (step, sample):
        cells += [f"{work['cpu_s']:.3f}", f"{work['wall_s']:.3f}", f"{work['above_mb']:,}"]
    return f"{num_nodes:>12,}" + "".join(f"{cell:>14}" for cell in [*cells, f"{entry['peak_mb']:,}"])


def sizes_check(sizes: list[int], repeats: int) -> dict[str, Any]:
    """One process a size, a table, and what of the bars is missed."""
    print(f"{'nodes':>12}" + "".join(f"{column:>14}" for column in COLUMNS), flush=True)
    entries: dict[int, Entry] = {}
    for size in sizes:
        entries[size] = in_a_process(size, 1, repeats)
        print(row(size, entries[size]), flush=True)
    slopes: dict[str, float] = {}
    missed: list[str] = []
    for small, large in list(pairwise(sizes))[-1:]:
        for work in WORKS:
            ends = [(size, entries[size][work]["cpu_s"]) for size in (small, large)]
            slopes[work] = round(slope(*ends), 3)
            if slopes[work] > LARGEST_SLOPE:
                missed.append(f"the time of a {work} grows like size^{slopes[work]}, above {LARGEST_SLOPE}")
        print(f"slope of CPU time from {small:,} to {large:,} nodes: {slopes}")
    for size, entry in entries.items():
        if entry["peak_mb"] > 1024 * LARGEST_GB:
            missed.append(f"{size:,} nodes take {entry['peak_mb']:,} MB; after each stage: {entry['held_mb']}")
    print("\n".join(missed) or "all bars met")
    return {"sizes": {str(size): entry for size, entry in entries.items()}, "slopes": slopes, "missed": missed}


def threads_check(sizes: list[int], repeats: int) -> dict[str, Any]:
    """Wall time on two threads over that on one, in each work and size."""
    found: dict[str, Any] = {}
    for size in sizes:
        one, two = (in_a_process(size, threads, repeats) for threads in (1, 2))
        found[str(size)] = {
            "ratios": {work: round(two[work]["wall_s"] / one[work]["wall_s"], 3) for work in WORKS},
            "load_before": [one["load_before"], two["load_before"]],
        }
        print(f"{size:>12,} nodes, wall time on 2 threads / on 1: {found[str(size)]}", flush=True)
    lost = [size for size, entry in found.items() if max(entry["ratios"].values()) > LARGEST_LOSS]
    print(f"more than {LARGEST_LOSS} x at {', '.join(lost)} nodes" if lost else "no time lost")
    return {"threads": found, "threads_missed": lost}


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10**4, 10**5, 10**6], metavar="NODES")
    parser.add_argument("--repeats", type=int, default=5, help="at most so many; the median counts")
    parser.add_argument("--threads-check", action="store_true", help="two threads against one, instead")
    parser.add_argument("--out", type=Path, default=RECORD, help="file for the figures")
    parser.add_argument("--worker", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.worker:
        with keep_freed_memory():  # as the command line does
            print(json.dumps(measure_size(options.sizes[0], options.worker, options.repeats)))
        return 0
    check = threads_check if options.threads_check else sizes_check
    record = json.loads(options.out.read_text()) if options.out.is_file() else {}
    found = check(sorted(options.sizes), options.repeats)
    options.out.write_text(json.dumps(record | found, indent=2) + "\n")
    return 1 if found.get("missed") or found.get("threads_missed") else 0


if __name__ == "__main__":
    sys.exit(main())
