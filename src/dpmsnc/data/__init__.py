"""Data sets as tasks: generated grids and named benchmarks of one graph or of many."""

from dpmsnc.data.benchmarks import BENCHMARKS
from dpmsnc.data.catalogue import load
from dpmsnc.data.ego import ego_graphs
from dpmsnc.data.grids import cyclic_grid, grid_localized, grid_positions, grid_scattered
from dpmsnc.data.inductive import INDUCTIVE
from dpmsnc.data.task import InductiveTask, Task

__all__ = [
    "BENCHMARKS",
    "INDUCTIVE",
    "InductiveTask",
    "Task",
    "cyclic_grid",
    "ego_graphs",
    "grid_localized",
    "grid_positions",
    "grid_scattered",
    "load",
]
