"""`dpmsnc compare`: all methods at their defaults on one's own graph, and which of them to trust."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from dpmsnc.cli.graph_files import GraphFlags
from dpmsnc.cli.words import check_label
from dpmsnc.errors import InputError


@dataclass(frozen=True)
class Compare:
    """Compare all methods at their defaults on the known labels of a graph, and say which one to take."""

    data: Annotated[GraphFlags, tyro.conf.arg(name="")] = field(default_factory=GraphFlags)
    out: Path | None = None
    """A page (.html) with the leaderboard and pictures; the leaderboard is printed in any case."""
    budget: str | None = None
    """How long it may take, such as 90s, 5m or 1h; methods that do not fit are stopped or left out, and named."""
    splits: int = 5
    """How often the known labels are divided into seen ones and ones that are asked for."""
    by: Literal["accuracy", "macro_f1", "log_loss", "calibration_error"] = "accuracy"
    """What the recommendation goes by; macro_f1 counts rare classes as much as frequent ones."""
    methods: tuple[str, ...] | None = None
    """Methods, for example lp gcn dpm-snc; by default all that are worth their time on the graph."""
    seed: int = 0
    """Fixes the splits and what methods draw."""

    def run(self) -> int:
        from dpmsnc.comparison.compare import compare
        from dpmsnc.graph import Graph

        check_label(self.data)
        if self.out is not None and self.out.suffix not in (".html", ".htm"):
            raise InputError(f"--out {self.out} is to be a page; end it with .html")
        graph = self.data.read()
        if not isinstance(graph, Graph):
            raise InputError(
                "--graphs has several graphs; compare divides the labels of one, given as --edges or --graph"
            )
        print(graph.summary(), flush=True)
        choices = {"splits": self.splits, "by": self.by, "budget": self.budget, "seed": self.seed}
        found = compare(graph, methods=self.methods, verbose=True, **choices)  # type: ignore[arg-type]
        print(f"\n{found}")
        if self.out is not None:
            found.write_html(self.out)
            print(f"\nOpen {self.out} in a browser.")
        return 0
