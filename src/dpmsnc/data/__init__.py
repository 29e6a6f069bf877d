"""Data sets as tasks: generated grids and named benchmarks."""

from dpmsnc.data.benchmarks import BENCHMARKS, load
from dpmsnc.data.grids import cyclic_grid, grid_localized, grid_positions, grid_scattered
from dpmsnc.data.task import Task

__all__ = ["BENCHMARKS", "Task", "cyclic_grid", "grid_localized", "grid_positions", "grid_scattered", "load"]
