"""What colour refinement can tell apart: 1-WL, AGG-WL, and graphs to try them on."""

from dpmsnc.theory.graph6 import read_graph6
from dpmsnc.theory.wl import agg_wl_colours, agg_wl_round, single_marks, subset_marks, wl_colours, wl_round

__all__ = [
    "agg_wl_colours",
    "agg_wl_round",
    "read_graph6",
    "single_marks",
    "subset_marks",
    "wl_colours",
    "wl_round",
]
