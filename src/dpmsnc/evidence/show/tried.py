"""`dpmsnc table NAME --tried`: what else was tried, and which rows stay below the paper's (`Cell.below`).

A row is followed by the settings that were tried in place of its own (`reproduce --fix`, or an earlier configuration)
beside what the row has on the same seeds, so that nobody has to take it on trust that a choice was made among
alternatives. Validation accuracy stands first: test figures may not choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from dpmsnc.baselines import METHODS
from dpmsnc.data.benchmarks import split_version
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.evidence.run.store import Document, Key
from dpmsnc.evidence.search.config_files import search_behind
from dpmsnc.evidence.show.compare import Cell, Outcome, mean_std
from dpmsnc.evidence.show.paper import Figure, paper_names
from dpmsnc.evidence.show.stored_runs import SIGN, StoredRuns, defaults, options_of, versions
from dpmsnc.evidence.show.summary import cpu, initialiser
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph.clean import counted

METRICS = {"validation_accuracy": "validation", "accuracy": "accuracy", "subgraph_accuracy": "sub-acc"}
BELOW = "‡"
NOTES = (
    "Means±std over seeds in %. A row stands first as it is in the table, then what was tried in its place; row's: the",
    "mean of the row on the same seeds; paper: the paper's mean.",
    "settings: what differs from the row of the same method with the fewest differences, as it is run now, or from",
    "the method's defaults. older: of an earlier version of the method, or on other splits. Experiments that share",
    "their runs list each other's rows here.",
    "validation: plain accuracy on validation nodes; where those were drawn evenly by class, searches weigh them. A",
    "search goes by accuracy or by the likelihood of their labels.",
    f"{BELOW} below the paper's: dpm-snc with any mean, a baseline by more than a point of accuracy.",
)
NOTHING = "No other settings are stored, and no row with stored runs is below the paper's."

Line = dict[str, Any]
"""Runs with the same settings on a data set, as a record for machines; metrics are in per cent."""


def table(stored: StoredRuns) -> Table:
    """Rows with alternatives or below the paper's, each with what else was tried."""
    paper, datasets = stored.experiment.paper, stored.experiment.datasets
    lines = sorted(all_lines(stored), key=lambda found: datasets.index(found[0]["dataset"]))
    shown = paper.metrics if paper else []
    header = ["data set", "method", "settings"]
    for metric, words in METRICS.items():
        header += [words, "row's", "paper"] if metric in shown else [words, "row's"]
    rows = [_cells(record, runs, shown, paper.digits if paper else 1) for record, runs in lines]
    notes = [*(NOTES if lines else [NOTHING]), *stored.shortcomings()]
    title = f"What else was tried: {stored.experiment.name}"
    below = {(record["dataset"], record["row"]) for record, _ in lines if record["below"]}
    records = [{k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()} for record, _ in lines]
    found = Table(title, [*header, "initialiser", "CPU s", "seeds"], rows, notes, 3, grouped=True, records=records)
    signs = {cell: SIGN * (cell in stored.older) + BELOW * (cell in below) for cell in {*stored.older, *below}}
    return found.marked(signs)


def all_lines(stored: StoredRuns) -> Iterator[tuple[Line, Sequence[Document]]]:
    """Rows, each followed by its alternatives, then alternatives of methods without a row; each with its runs."""
    found = alternatives(stored)
    for cell in stored.cells():
        others = found.pop((cell.dataset, cell.line.label), [])
        if cell.runs and (others or cell.below):
            yield line(cell.line.label, cell.runs, cell=cell, search=search_in_words(stored, cell)), cell.runs
        for settings, runs in others:
            seeds = {run["seed"] for run in cell.runs}
            common = [run for run in runs if run["seed"] in seeds]
            alone = [run for run in runs if run["seed"] not in seeds]
            for part in filter(None, (common, alone)):
                yield line(cell.line.label, part, settings, cell), part
    for (_, label), others in found.items():
        for settings, runs in others:
            yield line(label, runs, settings), runs


def line(
    label: str, runs: Sequence[Document], settings: Sequence[str] = (), cell: Cell | None = None, search: str = ""
) -> Line:
    """A line of runs that differ in some settings from the row of a cell; without settings, of that row itself."""
    seeds = {run["seed"] for run in runs} if settings and cell else set()
    row = [run for run in cell.runs if run["seed"] in seeds] if cell else []
    paper = {outcome.metric: outcome.paper for outcome in cell.outcomes} if cell else {}
    found = {
        "dataset": runs[0]["dataset"],
        "row": label,
        "method": runs[0]["method"],
        "backbone": runs[0].get("backbone"),
        "search": search,
        "differs_in": list(settings),
        "below": cell is not None and cell.below,
        "seeds": len(runs),
    }
    for metric in METRICS:
        ours, same = (Outcome.of(documents, metric, None).ours for documents in (runs, row))
        printed = paper.get(metric)
        found |= {metric: ours and ours.mean, f"{metric}_std": ours and ours.std}
        found |= {f"row_{metric}": same and same.mean, f"paper_{metric}": printed and printed.mean}
    return found


def _cells(record: Line, runs: Sequence[Document], printed: Sequence[str], digits: int) -> list[str]:
    words = ", ".join(record["differs_in"]) or f"as in the table ({record['search']})"
    cells = [record["dataset"], record["row"], words]
    for metric in METRICS:
        spread = [record[f"{metric}_std"], None, None]
        for name, std in zip([metric, f"row_{metric}", *[f"paper_{metric}"] * (metric in printed)], spread):
            cells.append(mean_std(None if record[name] is None else Figure(record[name], std, None), digits))
    return [*cells, initialiser(runs), cpu(runs), ranges({run["seed"] for run in runs})]


def search_in_words(stored: StoredRuns, cell: Cell) -> str:
    """How a row came to its settings."""
    row = stored.experiment.rows[cell.line.label]
    config = stored.configs and search_behind(row, cell.dataset, stored.configs)
    if not config:
        return "no search"
    on = "" if config.backbone == cell.line.backbone else f" on {config.backbone}"
    final = f", the best on {len(config.final_seeds)} more" if config.final_seeds else ""
    trials, seeds = counted(config.trials, "trial"), counted(len(config.seeds), "seed")
    return f"search of {trials}{on} on {seeds}{final}, by {config.score}"


def alternatives(stored: StoredRuns) -> dict[tuple[str, str], list[tuple[list[str], list[Document]]]]:
    """The runs that `stored` has no row for, by data set and most similar row: in which settings they differ from that,
    and all runs with these settings."""
    groups: dict[tuple[str, str], list[Document]] = {}
    for document in stored.unlisted:
        groups.setdefault((document["method"], Key.of(document).digest), []).append(document)
    found: dict[tuple[str, str], list[tuple[list[str], list[Document]]]] = {}
    for _, runs in sorted(groups.items()):
        label, settings = difference(stored, runs[0])
        found.setdefault((runs[0]["dataset"], label), []).append((settings, runs))
    return found


def difference(stored: StoredRuns, document: Document) -> tuple[str, list[str]]:
    """The row of its method that a run is most like, among those with its network if there are any, and the settings
    that it has otherwise; the method and its defaults where there is no row."""
    name, dataset = document["method"], document["dataset"]
    if name not in METHODS:
        return name, ["a method that is gone"]
    rows = {label: row for label, row in stored.experiment.rows.items() if row.method == name}
    network = paper_names(name, document.get("backbone"))
    same = [label for label, row in rows.items() if paper_names(name, row.backbone) == network]
    candidates = {label: options_of(vars(Run(stored.experiment, dataset, label, 0).key)) for label in same or rows}
    found = {label: _changed(document, now) for label, now in (candidates or {name: defaults(name)}).items()}
    label = min(found, key=lambda label: len(found[label]))
    older = versions(Key.of(document)) < (split_version(dataset), METHODS[name].version)
    return label, [*found[label], *(["older"] if older else [])] or ["nothing"]


def _changed(document: Document, now: Mapping[str, Any]) -> list[str]:
    was = options_of(document)
    changed = [f"{name}={_short(value)}" for name, value in was.items() if name not in now or value != now[name]]
    return changed + [f"no {name} yet" for name in now if name not in was]


def _short(value: Any) -> str:
    """A value in few words; an initialiser with its settings in brackets.

    Example:
        >>> _short(["stack", {"members": {"pta": {"lr": 0.1}, "gcn": {}}, "repeats": 3}])
        'stack(members=(pta=(lr=0.1), gcn), repeats=3)'
    """
    match value:
        case [str(name), Mapping() as settings]:
            return f"{name}{_short(settings)}"
        case Mapping():
            return f"({', '.join(f'{name}={_short(one)}' if one != {} else name for name, one in value.items())})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def ranges(seeds: set[int]) -> str:
    """As `--seeds` takes them.

    Example:
        >>> ranges({0, 1, 2, 5, 7, 8})
        '0-2,5,7-8'
    """
    runs = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    ends = [[seed for _, seed in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)
