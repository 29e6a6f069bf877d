"""The commands `table` and `report`: what the store holds, beside the paper's figures. They run no experiment."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

CONFIGS = Path("configs")
"""Where searched configurations are committed."""


@dataclass(frozen=True)
class Table:
    """Print a table of stored runs beside the paper's figures; nothing is run."""

    name: tyro.conf.Positional[str]
    """The experiment, for example synthetic; or datasets, for their statistics."""
    format: Literal["text", "markdown", "latex", "json"] = "text"
    """How to print it."""
    results: Path = Path("results")
    """Folder of stored runs."""
    configs: Path | None = None
    """Folder of configurations, if `reproduce` was given one."""
    tried: bool = False
    """Instead of the table, what else was tried: stored runs with settings that are not in it, each beside the row that
    it is most like, and the rows that stay below the paper's."""

    def run(self) -> int:
        from dpmsnc.errors import InputError
        from dpmsnc.evidence.experiments import datasets
        from dpmsnc.evidence.experiments.registry import EXPERIMENTS
        from dpmsnc.evidence.search.config_files import require_configuration
        from dpmsnc.evidence.show import tried
        from dpmsnc.evidence.show.stored_runs import StoredRuns

        if self.name == "datasets":
            if self.tried:
                raise InputError("data sets have no runs; --tried goes with an experiment")
            table = datasets.table()
        else:
            stored = StoredRuns.of(EXPERIMENTS.find(self.name), self.results, self.configs)
            if self.configs is not None:
                require_configuration([stored.experiment], self.configs)
            table = tried.table(stored) if self.tried else stored.table()
        print(table.show(self.format))
        if self.format == "json":
            # records have no place for what is missing or old
            print(*table.notes, sep="\n", file=sys.stderr)
        return 0


@dataclass(frozen=True)
class Report:
    """Write all tables and figures of stored runs as one page; nothing is run."""

    out: Path | None = None
    """The page; by default report.html in the folder of stored runs."""
    results: Path = Path("results")
    """Folder of stored runs."""
    configs: Path | None = CONFIGS
    """Folder of configurations that `reproduce` was given, if any; None shows runs at their defaults."""

    def run(self) -> int:
        from dpmsnc.evidence.show.page import results_page

        out = self.out or self.results / "report.html"
        committed = self.configs == CONFIGS
        configs = None if committed and not CONFIGS.is_dir() else self.configs
        results_page(self.results, configs, required=not committed).write(out)
        print(f"Open {out} in a browser.")
        return 0
