"""`dpmsnc report`: the tables and figures of all stored runs as one page."""

from __future__ import annotations

from pathlib import Path

from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.registry import EXPERIMENTS
from dpmsnc.evidence.search.config_files import require_configuration
from dpmsnc.evidence.show.stored_runs import StoredRuns, made_of
from dpmsnc.evidence.show.table import Table
from dpmsnc.plots import figures
from dpmsnc.plots.html import Page, Picture


def results_page(results: Path, configs: Path | None = None, required: bool = True) -> Page:
    """A section for every experiment with at least one stored run; those without a configuration at their defaults.

    Unless configurations are `required`, so are experiments that were not run with theirs.
    """
    everything = [StoredRuns.of(experiment, results, configs) for experiment in EXPERIMENTS.values()]
    if configs is not None and required:
        require_configuration((found.experiment for found in everything), configs)
    elif configs is not None:
        everything = [
            found if found.documents else StoredRuns.of(EXPERIMENTS[name], results, None)
            for name, found in zip(EXPERIMENTS, everything)
        ]
    stored = [found for found in everything if found.documents]
    if not stored:
        raise InputError(f"no runs are stored in {results}; `dpmsnc reproduce {next(iter(EXPERIMENTS))}` makes some")
    page = Page("Results beside the paper's", broad=True, contents=True)
    page.paragraph("Diffusion probabilistic models for structured node classification, as implemented in dpmsnc.")
    for found in stored:
        table, draw = found.table(), found.experiment.figure
        page.heading(table.title)
        add_table(page, table)
        if draw is not None and (figure := made_of(found.documents, draw)) is not None:
            page.image(Picture(figures.svg(figure), f"Figure: {table.title}"))
        page.notes(table.remarks())
    return page


def add_table(page: Page, table: Table) -> None:
    """A grouped table becomes one table per group, which leaves the first column to the names of its rows."""
    if not table.grouped:
        page.table(table.header, table.rows)
    for group in table.groups() if table.grouped else ():
        page.subheading(group[0][0]).table(table.header[1:], [row[1:] for row in group])
