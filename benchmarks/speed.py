"""`python -m benchmarks.speed`: measures the cases, prints a table and writes it to `latest.json`.

Before anything is timed, reference and package are checked to give the same results in every case. A reference that
does not cost what the authors' code costs makes the ratio void. `--check` writes nothing: it measures again, and fails
where the ratio has fallen by more than 30 % below the recorded one. Ratios are compared, not seconds, so the machine
may be another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.cases import AUTHORS_CPU_S, HONEST_WITHIN, Case, chosen, honest

LATEST = Path(__file__).with_name("latest.json")
LARGEST_LOSS = 0.3
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
COLUMNS = ("reference", "ours", "ratio", "floor", "ours/floor", "reference MB", "ours MB")

Entry = dict[str, Any]
"""What is recorded of a case."""


def work(*arguments: str) -> dict[str, Any]:
    """What a worker process says."""
    command = [sys.executable, "-m", "benchmarks.worker", *arguments]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root, env=os.environ | ONE_THREAD)
    return json.loads(done.stdout)


class Bench:
    """Measures case after case; the reference of a guided sample serves two of them."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.references: dict[str, dict[str, float]] = {}

    def run(self, case: Case) -> Entry:
        if case.reference not in self.references:
            self.references[case.reference] = work("reference", case.reference, str(self.repeats))
        return entry(case, self.references[case.reference], work("ours", case.name, str(self.repeats)))


def entry(case: Case, reference: dict[str, float], ours: dict[str, float]) -> Entry:
    return {
        "reference_cpu_s": round(reference["cpu_s"], 4),
        "ours_cpu_s": round(ours["cpu_s"], 4),
        "ratio": round(reference["cpu_s"] / ours["cpu_s"], 2),
        "floor_cpu_s": round(ours["floor_cpu_s"], 4),
        "reference_peak_mb": round(reference["peak_mb"], 1),
        "ours_peak_mb": round(ours["peak_mb"], 1),
        "reference_honest": honest(case.reference, reference["cpu_s"]),
    }


def heading() -> str:
    return f"{'CPU seconds':32}" + "".join(f"{column:>14}" for column in COLUMNS)


def row(name: str, entry: Entry) -> str:
    cells = (
        f"{entry['reference_cpu_s']:.3f}",
        f"{entry['ours_cpu_s']:.4f}",
        f"{entry['ratio']:.1f}" if entry["reference_honest"] is not False else "void",
        f"{entry['floor_cpu_s']:.4f}",
        f"{entry['ours_cpu_s'] / entry['floor_cpu_s']:.2f}",
        f"{entry['reference_peak_mb']:.0f}",
        f"{entry['ours_peak_mb']:.0f}",
    )
    return f"{name:32}" + "".join(f"{cell:>14}" for cell in cells)


def void(name: str, entry: Entry) -> str:
    """Why a ratio is void."""
    reference = Case(name).reference
    return (
        f"{name}: the ratio {entry['ratio']} is void: the reference takes {entry['reference_cpu_s']:.2f} CPU-s, and the"
        f" authors' code {AUTHORS_CPU_S[reference]} (allowed: within {HONEST_WITHIN:.0%})"
    )


def losses(recorded: dict[str, Entry], measured: dict[str, Entry]) -> list[str]:
    """The cases whose ratio fell by more than is allowed, or has nothing to be compared with, in words."""
    found = []
    for name, ratio in ((name, entry["ratio"]) for name, entry in measured.items()):
        before = recorded[name]["ratio"] if name in recorded else None
        if before is None:
            found.append(f"{name}: nothing is recorded; run `make bench`")
        elif ratio < (1 - LARGEST_LOSS) * before:
            found.append(f"{name}: ratio {ratio} is {1 - ratio / before:.0%} below the recorded {before}")
    return found


def read(path: Path) -> dict[str, Entry]:
    return json.loads(path.read_text()) if path.is_file() else {}


def write(path: Path, measured: dict[str, Entry]) -> None:
    """Replace the entries that were measured and keep the others."""
    path.write_text(json.dumps(dict(sorted((read(path) | measured).items())), indent=2) + "\n")


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__)
    parser.add_argument("--cases", nargs="+", default=["*"], metavar="PATTERN", help="such as 'cora/gcn/*'")
    parser.add_argument("--repeats", type=int, default=15, help="at most so many; the fastest counts")
    parser.add_argument("--check", action="store_true", help="compare with the recorded ratios, write nothing")
    options = parser.parse_args(None if arguments is None else list(arguments))
    cases = chosen(options.cases)
    if not cases:
        parser.error(f"no case matches {' '.join(options.cases)}")
    unequal = work("check", *(case.name for case in cases))
    if unequal:
        print("\n".join(f"{name}: {difference}" for name, difference in unequal.items()))
        return 1
    bench, measured = Bench(options.repeats), {}
    print(heading(), flush=True)
    for case in cases:
        measured[case.name] = bench.run(case)
        print(row(case.name, measured[case.name]), flush=True)
        if not options.check:
            write(LATEST, measured)
    for name, result in measured.items():
        if result["reference_honest"] is False:
            print(void(name, result))
    if not options.check:
        return 0
    lost = losses(read(LATEST), measured)
    print("\n".join(lost) or "no ratio has fallen by more than 30 %")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
