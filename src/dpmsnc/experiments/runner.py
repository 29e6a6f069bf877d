"""`dpmsnc reproduce NAME`: run what the store lacks, one run after the other, then print the table.

Each run is stored as soon as it ends, so an interrupt costs the run that was going and nothing else.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from dpmsnc.errors import InputError
from dpmsnc.experiments.registry import find
from dpmsnc.experiments.run import Experiment, Run
from dpmsnc.experiments.store import Document, Store
from dpmsnc.report import make_folder


def reproduce(
    name: str,
    seeds: list[int] | None = None,
    results: Path = Path("results"),
    force: bool = False,
    methods: list[str] | None = None,
) -> None:
    """Run the missing runs of an experiment and print its table.

    Args:
        name: A key of `EXPERIMENTS`.
        seeds: By default those of the experiment.
        results: Folder of the store.
        force: Run again what is stored.
        methods: By default all of the experiment.
    """
    experiment = find(name)
    runs = plan(experiment, seeds, methods)
    store = Store(results)
    stored = {} if force else {run: document for run in runs if (document := store.get(run.key)) is not None}
    missing = [run for run in runs if run not in stored]
    announce(name, stored, missing, results)
    if missing:
        make_folder(results)
    finished = dict(stored)
    try:
        for position, run in enumerate(missing):
            left = in_words(time_left(list(finished.values()), missing[position:]))
            print(f"[{position + 1}/{len(missing)}] {run} (left: {left})", flush=True)
            finished[run] = run.execute()
            store.put(finished[run])
            print(f"    {outcome(finished[run])}", flush=True)
    except KeyboardInterrupt:
        print(f"\ninterrupted: {len(finished)} of {len(runs)} runs are stored; the same command goes on from here")
        raise
    print(f"\n{experiment.table([finished[run] | {'row': run.row} for run in runs])}")


def plan(experiment: Experiment, seeds: Sequence[int] | None, methods: Sequence[str] | None) -> list[Run]:
    """Every run asked for; the first seed of all cells comes first, so that a whole table is there early."""
    chosen = list(dict.fromkeys(methods or experiment.rows))
    unknown = [row for row in chosen if row not in experiment.rows]
    if unknown:
        there_are = ", ".join(experiment.rows)
        raise InputError(f"{experiment.name} has no method {', '.join(unknown)}; there are {there_are}")
    return [
        Run(experiment, dataset, row, seed)
        for seed in dict.fromkeys(experiment.seeds if seeds is None else seeds)
        for row in chosen
        for dataset in experiment.datasets
    ]


def announce(name: str, stored: dict[Run, Document], missing: Sequence[Run], results: Path) -> None:
    """Say which runs are stored and which are to run."""
    print(f"{name}: {len(stored)} runs stored in {results}, {len(missing)} to run")
    for word, runs in (("stored", list(stored)), ("to run", list(missing))):
        cells: dict[tuple[str, str], list[str]] = {}
        for run in runs:
            cells.setdefault((run.row, run.dataset), []).append(str(run.seed))
        for (row, dataset), seeds in cells.items():
            print(f"  {word}: {row} on {dataset}, seed {', '.join(seeds)}")


def time_left(finished: Sequence[Document], missing: Sequence[Run]) -> float | None:
    """Wall seconds that the missing runs will take, by finished runs of the same cell, method or experiment."""
    if not finished:
        return None
    total = 0.0
    for run in missing:
        same_method = [d for d in finished if d["method"] == run.experiment.rows[run.row].method]
        same_cell = [d for d in same_method if d["dataset"] == run.dataset]
        total += statistics.fmean(d["wall_s"] for d in same_cell or same_method or finished)
    return total


def in_words(seconds: float | None) -> str:
    """A duration to be read, not computed with."""
    if seconds is None:
        return "not known yet"
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def outcome(document: Document) -> str:
    """The run just finished, in a line."""
    selected = document["metrics"]["selected"]
    return (
        f"test accuracy {100 * selected['accuracy']:.1f} %, validation {100 * selected['validation_accuracy']:.1f} %, "
        f"{document['cpu_s']:.0f} CPU-seconds, {document['peak_mb']:.0f} MB"
    )
