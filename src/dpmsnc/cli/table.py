"""The commands `table` and `report`: what the store holds, beside the paper's figures. They run no experiment."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


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
    further: bool = False
    """Instead of the table, runs with settings that are not in it: what else was tried."""
    below: bool = False
    """Instead of the table, its rows that stay below the paper's, each with what else was tried there."""

    def run(self) -> int:
        from dpmsnc.errors import InputError
        from dpmsnc.evidence.experiments import datasets
        from dpmsnc.evidence.experiments.registry import find
        from dpmsnc.evidence.search.config_files import require_configuration
        from dpmsnc.evidence.show import below, further
        from dpmsnc.evidence.show.stored import Stored

        if self.further and self.below:
            raise InputError("--further and --below are two tables; ask for one of them")
        if self.name == "datasets":
            if self.further or self.below:
                raise InputError("data sets have no runs; --further and --below go with an experiment")
            table = datasets.table()
        else:
            stored = Stored.of(find(self.name), self.results, self.configs)
            if self.configs is not None:
                require_configuration([stored.experiment], self.configs)
            if self.further:
                table = further.table(stored)
            elif self.below:
                table = below.table(stored)
            else:
                table = stored.table()
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
    configs: Path | None = None
    """Folder of configurations, if `reproduce` was given one."""

    def run(self) -> int:
        from dpmsnc.evidence.show.page import results_page

        out = self.out or self.results / "report.html"
        results_page(self.results, self.configs).write(out)
        print(f"Open {out} in a browser.")
        return 0
