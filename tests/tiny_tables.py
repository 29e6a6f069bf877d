"""A small graph as the tables a user would have: text ids, some labels missing, and the truth beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd

NUM_NODES = 40


def write_tables(folder: Path, lefts: int = 10) -> list[str]:
    """A ring with `lefts` nodes of class "left" in every 20, the others "right"; the flags of `fit` that read it."""
    ids = [f"n{k:02}" for k in range(NUM_NODES)]
    truth = ["left" if k % 20 < lefts else "right" for k in range(NUM_NODES)]
    given = [label if k % 2 else "" for k, label in enumerate(truth)]
    heat = [float(k % 3) for k in range(NUM_NODES)]
    pd.DataFrame({"name": ids, "side": given, "heat": heat, "rank": range(NUM_NODES)}).to_csv(
        folder / "nodes.csv", index=False
    )
    pd.DataFrame({"a": ids, "b": [*ids[1:], ids[0]]}).to_csv(folder / "edges.csv", index=False)
    pd.DataFrame({"name": ids, "side": truth}).to_csv(folder / "truth.csv", index=False)
    tables = ["--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv"]
    return [str(word) for word in (*tables, "--id", "name", "--label", "side", "--features", "heat")]


def fast(steps: int = 20) -> list[str]:
    """Flags of a model that is trained in a moment."""
    flags = {
        "hidden-channels": 16,
        "dropout": 0,
        "initialiser": "lp",
        "training.steps": steps,
        "training.evaluate-every": 5,
        "training.refresh-every": 5,
        "training.initialiser-refreshes": 1,
        "training.patience": 1000,
        "schedule.num-steps": 8,
        "sampling.steps": 4,
    }
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def command(*words: object) -> list[str]:
    """`dpmsnc` as a process of its own."""
    return [sys.executable, "-c", "import sys; from dpmsnc.cli.main import main; sys.exit(main())", *map(str, words)]


def run_to_end(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
