"""Every data set by its name: `load("cora")`.

Grids are generated and need no file; data sets of one graph are in `BENCHMARKS`, those of many graphs in `INDUCTIVE`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpmsnc.data.benchmarks import BENCHMARKS, data_folder, load_graph
from dpmsnc.data.grids import grid_localized, grid_scattered
from dpmsnc.data.inductive import INDUCTIVE, load_graphs
from dpmsnc.data.task import Task
from dpmsnc.errors import InputError

GENERATED: dict[str, Callable[..., Task]] = {"grid_scattered": grid_scattered, "grid_localized": grid_localized}


def load(
    name: str,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
    largest_component: bool = False,
) -> Task | Any:  # an InductiveTask for a key of INDUCTIVE, which type checkers cannot tell by a name
    """The task of that name: a `Task` on one graph, or an `InductiveTask` on many.

    Args:
        name: A key of `BENCHMARKS` or `INDUCTIVE`, or `grid_scattered` or `grid_localized`.
        seed: Which official split, or the seed of the draw; data sets of many graphs have one split.
        root: Folder of the .npz files.
        download: Whether to fetch the data set if its file is missing.
        largest_component: Whether to keep only the largest connected component of a data set of one graph.
    """
    if name in GENERATED:
        return GENERATED[name](seed=seed)
    if name in BENCHMARKS:
        return load_graph(name, seed, root, download, largest_component)
    if name not in INDUCTIVE:
        names = ", ".join([*BENCHMARKS, *INDUCTIVE, *GENERATED])
        raise InputError(f"unknown data set {name!r}; choose one of {names}")
    if largest_component:
        raise InputError(f"{name} has many graphs; largest_component=True is for data sets of one")
    return load_graphs(name, root, download)


def missing_files(name: str, root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The files that `load` would look for in vain."""
    files = INDUCTIVE[name].files if name in INDUCTIVE else (f"{name}.npz",) if name in BENCHMARKS else ()
    return [path for file in files if not (path := data_folder(root) / file).is_file()]
