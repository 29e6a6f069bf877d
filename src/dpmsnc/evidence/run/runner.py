"""`dpmsnc reproduce NAME`: run what the store lacks, then print the table and draw the figure.

Only this module writes to the store, wherever runs execute. Each run is stored as soon as it ends, so an interrupt
costs the runs that were going and nothing else.
"""

from __future__ import annotations

import io
import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.registry import find
from dpmsnc.evidence.run.experiment import Experiment, Row, Run
from dpmsnc.evidence.run.store import Document, Store
from dpmsnc.evidence.run.workers import Failure, Workers, workers
from dpmsnc.evidence.search.config_files import Nested, configured, flat, require_configuration, with_fixed
from dpmsnc.evidence.show.stored import older_runs
from dpmsnc.plots.html import make_folder, write_whole


def reproduce(
    name: str,
    seeds: list[int] | None = None,
    results: Path = Path("results"),
    force: bool = False,
    methods: list[str] | None = None,
    datasets: list[str] | None = None,
    jobs: int | None = None,
    ray: str | None = None,
    configs: Path | None = None,
    fix: Nested | None = None,
) -> dict[Run, Failure]:
    """Run the missing runs of an experiment, print its table and draw its figure; the runs that failed.

    Args:
        name: A key of `EXPERIMENTS`.
        seeds: By default those of the experiment.
        results: Folder of the store.
        force: Run again what is stored.
        methods: By default all of the experiment.
        datasets: By default all of the experiment.
        jobs: Runs at a time in worker processes; by default one in this process.
        ray: Address of a Ray cluster to run on instead.
        configs: Folder of configurations that `tune` wrote; a cell that has one there is run with it.
        fix: Settings over all others in every row that is run, by name in their groups; the figure is not drawn then.
    """
    experiment, where, store = find(name), workers(jobs, ray), Store(results)
    if configs is not None:
        experiment = configured(experiment, configs)
        require_configuration([experiment], configs)
    as_configured = experiment.rows
    if fix:
        experiment = with_fixed(experiment, fix, chosen(name, "method", experiment.rows, methods))
    runs, left_out = buildable(plan(experiment, seeds, methods, datasets))
    if fix:
        check_distinct(runs)
    stored = {} if force else {run: document for run in runs if (document := store.get(run.key)) is not None}
    missing, without_data = loadable([run for run in runs if run not in stored])
    left_out |= without_data
    announce(name, stored, missing, results, left_out)
    announce_settings(as_configured, runs, configs)
    if count := older_runs(runs, store):
        print(f"  kept, but not shown here: {count} runs from before the method, its options or the split changed")
    if not stored and not missing:
        raise InputError(f"nothing of {name} can be run: " + "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    finished, failed = dict(stored), {}
    if missing:
        make_folder(results)
        try:
            failed = run_missing(missing, where, store, finished)
        except KeyboardInterrupt:
            again = "without --force the same command" if force else "the same command"
            count = sum(run in finished for run in runs)
            print(f"\ninterrupted: {count} of {len(runs)} runs are stored; {again} goes on from here")
            raise
    show(experiment, [finished[run] | {"row": run.row} for run in runs if run in finished], results, fix or {})
    for run, failure in failed.items():
        print(f"failed: {run}: {failure.reason}")
    return failed


def run_missing(
    missing: Sequence[Run], where: Workers, store: Store, finished: dict[Run, Document]
) -> dict[Run, Failure]:
    """Execute runs and store them; adds them to `finished` as they end, and gives back those that failed."""
    failed: dict[Run, Failure] = {}
    pending = list(missing)
    print(f"  left: {in_words(time_left(finished, pending, where.count))}", flush=True)
    with closing(where.execute(missing)) as outcomes:
        for run, result in outcomes:
            pending.remove(run)
            if isinstance(result, Failure):
                failed[run] = result
                print(result.details, file=sys.stderr, end="")
            else:
                store.put(result)
                finished[run] = result
            words = f"failed: {result.reason}" if isinstance(result, Failure) else outcome(result)
            left = in_words(time_left(finished, pending, where.count)) if pending else "nothing"
            print(f"[{len(missing) - len(pending)}/{len(missing)}] {run}: {words} (left: {left})", flush=True)
    return failed


def plan(
    experiment: Experiment,
    seeds: Sequence[int] | None = None,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
) -> list[Run]:
    """Every run asked for; the first seed of all cells comes first, so that a whole table is there early."""
    return [
        Run(experiment, dataset, row, seed)
        for seed in dict.fromkeys(experiment.seeds if seeds is None else seeds)
        for row in chosen(experiment.name, "method", experiment.rows, methods)
        for dataset in chosen(experiment.name, "data set", experiment.datasets, datasets)
    ]


def chosen(name: str, kind: str, there_are: Collection[str], asked_for: Sequence[str] | None) -> list[str]:
    """What was asked for, by default everything there is."""
    unknown = [choice for choice in asked_for or () if choice not in there_are]
    if unknown:
        raise InputError(f"{name} has no {kind} {', '.join(unknown)}; there are {', '.join(there_are)}")
    return list(dict.fromkeys(asked_for or there_are))


def buildable(runs: Sequence[Run]) -> tuple[list[Run], dict[str, str]]:
    """The runs whose method is there, and why the other rows are left out."""
    reasons: dict[str, str] = {}
    for run in runs:
        try:
            run.build()
        except InputError as error:
            reasons[run.row] = str(error)
    return [run for run in runs if run.row not in reasons], reasons


def check_distinct(runs: Sequence[Run]) -> None:
    """Complain where settings that were fixed make two rows the same run."""
    labels: dict[Path, Run] = {}
    for run in runs:
        other = labels.setdefault(run.key.path, run)
        if other.row != run.row:
            raise InputError(
                f"--fix makes {other.row} and {run.row} the same run on {run.dataset}; choose with --methods"
            )


def loadable(runs: Sequence[Run]) -> tuple[list[Run], dict[str, str]]:
    """The runs whose data set is there, and why the other data sets are left out."""
    reasons: dict[str, str] = {}
    for dataset, run in {run.dataset: run for run in runs}.items():
        try:
            run.experiment.load(dataset, seed=run.seed)
        except InputError as error:
            reasons[dataset] = str(error)
    return [run for run in runs if run.dataset not in reasons], reasons


def show(experiment: Experiment, documents: list[Document], results: Path, fix: Nested) -> None:
    """Print the table and write the figure, of as many runs as there are; what was fixed stands below the table, and
    the figure is left as it was."""
    if not documents:
        return
    print(f"\n{experiment.table(documents)}")
    if fix:
        print(f"All of ours with {', '.join(f'{name}={value}' for name, value in flat(fix).items())}.")
    elif experiment.figure is not None:
        path, image = results / "figures" / f"{experiment.name}.png", io.BytesIO()
        experiment.figure(documents).savefig(image, format="png")
        write_whole(path, image.getvalue())
        print(f"figure: {path}")


def announce(
    name: str, stored: Collection[Run], missing: Sequence[Run], results: Path, left_out: Mapping[str, str]
) -> None:
    """Say which runs are stored, which are to run, and what cannot be run."""
    print(f"{name}: {len(stored)} runs stored in {results}, {len(missing)} to run")
    for word, runs in (("stored", list(stored)), ("to run", list(missing))):
        cells: dict[tuple[str, str], list[str]] = {}
        for run in runs:
            cells.setdefault((run.row, run.dataset), []).append(str(run.seed))
        for (row, dataset), seeds in cells.items():
            print(f"  {word}: {row} on {dataset}, seed {', '.join(seeds)}")
    for what, why in left_out.items():
        print(f"  left out: {what}: {why}")


def announce_settings(rows: Mapping[str, Row], runs: Sequence[Run], configs: Path | None) -> None:
    """Say which cells have settings that were found by a search."""
    cells = {(run.row, run.dataset) for run in runs}
    for label, row in rows.items():
        if there := [dataset for dataset in row.by_dataset if (label, dataset) in cells]:
            print(f"  settings from {configs}: {label} on {', '.join(there)}")


def time_left(finished: Mapping[Run, Document], missing: Collection[Run], at_a_time: int = 1) -> float | None:
    """Wall seconds that the missing runs will take, by those finished runs that are most like each of them."""
    if not finished:
        return None
    total = 0.0
    for run in missing:
        likeness = {other: 2 * (other.row == run.row) + (other.dataset == run.dataset) for other in finished}
        closest = max(likeness.values())
        total += statistics.fmean(finished[other]["wall_s"] for other in finished if likeness[other] == closest)
    return total / max(1, min(at_a_time, len(missing)))


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
