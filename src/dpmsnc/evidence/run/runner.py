"""`dpmsnc reproduce NAME`: run what the store lacks, then print the table and draw the figure.

Only this module writes to the store, wherever runs execute. Each run is stored as soon as it ends, so an interrupt
costs the runs that were going and nothing else.
"""

from __future__ import annotations

import io
import statistics
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.registry import EXPERIMENTS
from dpmsnc.evidence.run.experiment import Experiment, Run
from dpmsnc.evidence.run.fix import with_fixed
from dpmsnc.evidence.run.ray import RayWorkers
from dpmsnc.evidence.run.settings import Nested, flat
from dpmsnc.evidence.run.store import Document, Store
from dpmsnc.evidence.run.workers import Failure, ThisProcess, WorkerProcesses
from dpmsnc.evidence.search.config_files import configured, require_configuration
from dpmsnc.evidence.show.stored_runs import StoredRuns, count_older, made_of
from dpmsnc.evidence.show.summary import percent
from dpmsnc.plots.html import make_folder, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    fast: bool = False,
) -> dict[Run, Failure]:
    """Run the missing runs of an experiment, print its table and draw its figure; the runs that failed.

    Args:
        name: A key of `EXPERIMENTS`; seeds, methods and datasets are by default those of the experiment.
        force: Run again what is stored.
        jobs: Runs at a time in worker processes; by default one in this process.
        ray: Address of a Ray cluster to run on instead.
        configs: Folder of configurations that `tune` wrote; a cell that has one there is run with it.
        fix: Settings over all others in every row that is run, by name in their groups; the figure is not drawn then.
        fast: By default run the first seed on the data sets of the experiment's fast variant alone.
    """
    where, store, searched = workers(jobs, ray), Store(results), EXPERIMENTS.find(name)
    if fast:
        if not searched.fast:
            raise InputError(
                f"{name} has no fast variant; without --fast, choose with --datasets, --methods and --seeds"
            )
        seeds, datasets = seeds or list(searched.seeds[:1]), datasets or list(searched.fast)
    if configs is not None:
        searched = configured(searched, configs)
        require_configuration([searched], configs)
    experiment = with_fixed(searched, fix, chosen(name, "method", searched.rows, methods)) if fix else searched
    planned = plan(experiment, seeds, methods, datasets)
    left_out = failures(planned, "row", Run.build)
    runs = [run for run in planned if run.row not in left_out]
    if fix:
        check_distinct(runs)
    finished = {} if force else {run: document for run in runs if (document := store.get(run.key)) is not None}
    missing = [run for run in runs if run not in finished]
    left_out |= failures({run.dataset: run for run in missing}.values(), "dataset", Run.load)
    missing = [run for run in missing if run.dataset not in left_out]
    announce(name, finished, missing, results, left_out)
    if configs is not None:
        announce_settings(searched, runs, configs)
    if count := count_older(runs, store):
        print(f"  kept, but not shown here: {count} runs from before the method, its options or the split changed")
    if not finished and not missing:
        raise InputError(f"nothing of {name} can be run: " + "; ".join(f"{k}: {v}" for k, v in left_out.items()))
    try:
        failed = run_missing(missing, where, store, finished)
    except KeyboardInterrupt:
        again = "without --force the same command" if force else "the same command"
        # one that was stored when the interrupt came may not be in `finished` yet
        done = len(finished) if force else sum(store.get(run.key) is not None for run in runs)
        print(f"\ninterrupted: {done} of {len(runs)} runs are stored; {again} goes on from here")
        raise
    show(experiment, [finished[run] | {"row": run.row} for run in runs if run in finished], results, fix or {})
    for run, failure in failed.items():
        print(f"failed: {run}: {failure.reason}")
    return failed


def announce_settings(experiment: Experiment, runs: Sequence[Run], configs: Path) -> None:
    """Say which rows have settings from a folder of configurations, and on which data sets."""
    asked = {(run.row, run.dataset) for run in runs}
    for label, row in experiment.rows.items():
        if there := [name for name in row.by_dataset if (label, name) in asked]:
            print(f"  settings from {configs}: {label} on {', '.join(there)}")


def workers(jobs: int | None = None, ray: str | None = None) -> ThisProcess:
    """Where to run: in this process; in so many worker processes at a time; or at the address of a Ray cluster, by
    default on all its CPUs."""
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs is {jobs}; it must be at least 1")
    if ray is not None:
        return RayWorkers(ray, jobs)
    return ThisProcess() if jobs is None else WorkerProcesses(jobs)


def run_missing(
    missing: Sequence[Run], where: ThisProcess, store: Store, finished: dict[Run, Document]
) -> dict[Run, Failure]:
    """Execute runs and store them; adds them to `finished` as they end, and gives back those that failed."""
    failed: dict[Run, Failure] = {}
    pending = list(missing)
    if not pending:
        return failed
    make_folder(store.results)
    print(f"  left: {time_left(finished, pending, where.count)}", flush=True)
    with closing(where.execute(missing)) as outcomes:
        for run, result in outcomes:
            pending.remove(run)
            if isinstance(result, Failure):
                failed[run], words = result, f"failed: {result.reason}"
                print(result.details, file=sys.stderr, end="")
            else:
                store.put(result)
                finished[run], words = result, outcome(result)
            left = time_left(finished, pending, where.count) if pending else "nothing"
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


def failures(runs: Iterable[Run], part: str, check: Callable[[Run], object]) -> dict[str, str]:
    """Why a check refuses runs, by the row or data set that is then left out."""
    reasons: dict[str, str] = {}
    for run in runs:
        try:
            check(run)
        except InputError as error:
            reasons[getattr(run, part)] = str(error)
    return reasons


def check_distinct(runs: Sequence[Run]) -> None:
    """Complain where settings that were fixed make two rows the same run."""
    labels: dict[Path, Run] = {}
    for run in runs:
        other = labels.setdefault(run.key.path, run)
        if other.row != run.row:
            which = f"{other.row} and {run.row} the same run on {run.dataset}"
            raise InputError(f"--fix makes {which}; choose with --methods")


def show(experiment: Experiment, documents: list[Document], results: Path, fix: Nested) -> None:
    """Print the table and draw the figure; with something fixed, that stands below and the figure stays as it was."""
    if (table := made_of(documents, experiment.table)) is None:
        return
    print(f"\n{table}")
    if fix:
        print(f"All of ours with {', '.join(f'{name}={value}' for name, value in flat(fix).items())}.")
    elif experiment.figure is not None:
        draw(StoredRuns.of(experiment, results), experiment.figure)


def draw(stored: StoredRuns, make: Callable[[list[Document]], Figure]) -> None:
    """Write the figure of all stored runs of an experiment, so that one of a few runs never replaces a fuller one."""
    if (figure := made_of(stored.current, make)) is None:
        return
    path, image = stored.results / "figures" / f"{stored.experiment.name}.png", io.BytesIO()
    figure.savefig(image, format="png")
    write_whole(path, image.getvalue())
    missing = f"; {stored.missing} of {stored.asked_for} runs are not there yet" if stored.missing else ""
    print(f"figure: {path}{missing}")


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


def time_left(finished: Mapping[Run, Document], missing: Collection[Run], at_a_time: int = 1) -> str:
    """Wall time that the missing runs will take, by those finished runs that are most like each of them."""
    known = {run: document["wall_s"] for run, document in finished.items() if document.get("wall_s") is not None}
    if not known:
        return "not known yet"
    total = 0.0
    for run in missing:
        likeness = {other: 2 * (other.row == run.row) + (other.dataset == run.dataset) for other in known}
        closest = max(likeness.values())
        total += statistics.fmean(known[other] for other in known if likeness[other] == closest)
    return tqdm.format_interval(total / max(1, min(at_a_time, len(missing))))


def outcome(document: Document) -> str:
    """The run just finished, in a line."""
    selected = document["metrics"]["selected"]
    if "mse" in selected:
        parts = [f"test error {selected['mse']:.5f}"]
    else:
        metric = "accuracy" if "accuracy" in selected else "micro_f1"
        validation = selected.get(f"validation_{metric}")
        parts = [f"test {metric.replace('_', '-')} {percent(selected[metric])} %"]
        parts += [] if validation is None else [f"validation {percent(validation)} %"]
    return ", ".join([*parts, f"{document['cpu_s']:.0f} CPU-seconds", f"{document['peak_mb']:.0f} MB"])
