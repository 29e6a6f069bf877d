"""Rows that stay below the paper's, and what else was tried there.

Each such row (`comparison.below` says which) is followed by the settings that were tried in place of its own and are
stored (`reproduce --fix`), beside what the row itself has on the same seeds. Validation accuracy stands first: test
figures may not choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpmsnc.errors import InputError
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.search.config_files import search_behind
from dpmsnc.evidence.show.compare import Cell, backbone, below
from dpmsnc.evidence.show.further import METRICS, means, tried
from dpmsnc.evidence.show.paper import TABLES
from dpmsnc.evidence.show.stored import Stored
from dpmsnc.evidence.show.table import MISSING, Table, percent, summary
from dpmsnc.graph.clean import counted

VALIDATION = "validation_accuracy"
NOTES = (
    "Means in % over seeds. First the row as it is in the table, then what was tried in its place; row's: of the row,",
    "on the same seeds.",
    "Listed are rows of dpm-snc with a mean below the paper's, and baselines whose accuracy is below it by more than a",
    "point.",
    "validation: plain accuracy on validation nodes; where those were drawn evenly by class, searches weigh them. A",
    "search goes by accuracy or by the likelihood of their labels.",
)


def table(stored: Stored) -> Table:
    """Of the rows that are below, each with what else was tried."""
    name = stored.experiment.name
    if name not in TABLES:
        raise InputError(f"--below goes with a table of the paper, such as homophilic; it has none of {name}")
    others: dict[tuple[str, str], list[tuple[list[str], list[Document]]]] = {}
    for (label, settings), runs in tried(stored):
        others.setdefault((runs[0]["dataset"], label), []).append((settings, runs))
    metrics = [metric for metric in METRICS if metric in {VALIDATION, *(metric for _, metric in TABLES[name].columns)}]
    digits = TABLES[name].digits
    rows, records = [], []
    for cell in below(stored.experiment, stored.documents):
        search = _search(stored, cell)
        words = f"as in the table ({search})"
        rows.append([cell.dataset, cell.label, words, *_cells(cell, metrics, cell.runs, [], digits)])
        records.append(_record(cell, cell.runs, [], search=search))
        for settings, runs in others.get((cell.dataset, cell.label), []):
            runs, same = _common(runs, cell.runs)
            rows.append([cell.dataset, cell.label, ", ".join(settings), *_cells(cell, metrics, runs, same, digits)])
            records.append(_record(cell, runs, same, differs_in=settings))
    notes = NOTES if rows else ("No row with stored runs is below the paper's.",)
    title = f"Below the paper: {name}"
    found = Table(
        title, list(_header(metrics)), rows, [*notes, *stored.shortcomings()], labels=3, grouped=True, records=records
    )
    return stored.marked(found)


def _header(metrics: Sequence[str]) -> Iterator[str]:
    yield from ("data set", "method", "settings")
    for metric in metrics:
        yield from (METRICS[metric], "row's")
        if metric != VALIDATION:
            yield "paper"
    yield "seeds"


def _search(stored: Stored, cell: Cell) -> str:
    """How the row came to its settings."""
    row = stored.experiment.rows[cell.label]
    config = stored.configs and search_behind(row, cell.dataset, stored.configs)
    if not config:
        return "no search"
    on = "" if config.backbone == backbone(row) else f" on {config.backbone}"
    final = f", the best on {len(config.final_seeds)} more" if config.final_seeds else ""
    trials, seeds = counted(config.trials, "trial"), counted(len(config.seeds), "seed")
    return f"search of {trials}{on} on {seeds}{final}, by {config.score}"


def _common(runs: list[Document], row: list[Document]) -> tuple[list[Document], list[Document]]:
    """Both with the seeds that both have; all of the first and none of the other where there are none."""
    seeds = {run["seed"] for run in runs} & {run["seed"] for run in row}
    if not seeds:
        return runs, []
    return [run for run in runs if run["seed"] in seeds], [run for run in row if run["seed"] in seeds]


def _cells(
    cell: Cell, metrics: Sequence[str], runs: Sequence[Document], same: Sequence[Document], digits: int
) -> Iterator[str]:
    paper = {outcome.metric: outcome.paper for outcome in cell.outcomes}
    for metric in metrics:
        for these in (runs, same):
            found = summary(these, metric)
            yield percent(found.mean if found else None, digits=digits)
        if metric != VALIDATION:
            figure = paper[metric]
            yield MISSING if figure is None else f"{figure.mean:.{digits}f}"
    yield _ranges({run["seed"] for run in runs})


def _ranges(seeds: set[int]) -> str:
    """As `--seeds` takes them.

    Example:
        >>> _ranges({0, 1, 2, 5, 7, 8})
        '0-2,5,7-8'
    """
    parts: list[list[int]] = []
    for seed in sorted(seeds):
        if parts and parts[-1][-1] == seed - 1:
            parts[-1].append(seed)
        else:
            parts.append([seed])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _record(
    cell: Cell, runs: Sequence[Document], same: Sequence[Document], differs_in: Sequence[str] = (), search: str = ""
) -> dict[str, Any]:
    """The same for machines; metrics are means in per cent."""
    paper = {f"paper_{outcome.metric}": outcome.paper and outcome.paper.mean for outcome in cell.outcomes}
    return {
        "dataset": cell.dataset,
        "row": cell.label,
        "search": search,
        "differs_in": list(differs_in),
        "seeds": len(runs),
        **means(runs),
        **means(same, "row_"),
        **paper,
    }
