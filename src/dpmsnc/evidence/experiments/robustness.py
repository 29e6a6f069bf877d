r"""How far each method stays behind the best one, on graphs that differ in what can be found out about their labels.

Every method has one configuration for all data sets. Data sets are

    <graph>-<k>               k known labels a class, for k = 5 and 20, a fifth of them for validation;
    <graph>                   the official splits, or 50/25/25 % at random where there are none;
    <graph>-nofeat[-<k>]      the same graph without its features;
    <graph>-5pct, -10pct, -30pct, -region
                              generated graphs (`dpmsnc.data.generated`) with so many per cent of the nodes labelled at
                              random, or a fifth of them in one region.

The score is ROC-AUC where two classes are unbalanced, and accuracy elsewhere. On the seeds that all rows of a data set
have,

    regret of a row           best mean score of any row, less its own;
    excess log-loss           its mean log-loss, less the least of any row.

Regret is small, too, where every row fails: two-colourings can be solved to 100 %, and Potts models have a reference.
`minesweeper-nofeat` is a control: mines are placed at random, so there is nothing to find, and log-loss and calibration
show whether a method knows that. On Potts models probabilities are compared with those of belief propagation with the
true coupling given the same labels: TV = mean over test nodes of sum_c |P_i(c) - p_i(c)| / 2.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmsnc.data import Task
from dpmsnc.data import load as load_benchmark
from dpmsnc.data.benchmarks import per_class
from dpmsnc.data.generated import GRAPHS, POTTS, SPLITS, generated, potts_reference
from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.aggregate import mean_std
from dpmsnc.evidence.run.estimators import own_probabilities
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import runs_of
from dpmsnc.evidence.show.summary import MISSING, cpu
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import UNKNOWN
from dpmsnc.graph.clean import counted
from dpmsnc.metrics import calibration_error, log_loss, roc_auc, simulated_calibration_error

METHOD_NAMES = ("lp", "pta", "gcn", "sage", "neighbourhood", "crf", "masked-labels", "dpm-snc")
SETTINGS: dict[str, dict[str, Any]] = {"lp": {"clamp": True, "num_layers": 50}}
ROWS = {name: Row(name, SETTINGS.get(name, {})) for name in METHOD_NAMES}
OURS = "dpm-snc"
TOLERANCE = 1.0
"""Points of regret that count as none, also where seeds agree with each other more closely."""
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class RealGraph:
    """A benchmark as a task of the suite."""

    source: str
    """A key of `BENCHMARKS`."""
    labels_a_class: int | None = None
    """Known labels of every class, those for validation included; None for the benchmark's own split."""
    features: bool = True

    @property
    def name(self) -> str:
        known = None if self.labels_a_class is None else str(self.labels_a_class)
        return "-".join(filter(None, (self.source.removesuffix("_nofeat"), None if self.features else "nofeat", known)))

    def load(self, seed: int) -> Task:
        task = load_benchmark(self.source, seed=seed)
        graph, splits = task.graph.with_labels(task.truth), (task.train, task.validation, task.test)
        if not self.features:
            graph = replace(graph, x=None, feature_names=None)
        if self.labels_a_class is not None:
            held_back = max(1, round(VALIDATION_SHARE * self.labels_a_class))
            splits = per_class(self.labels_a_class - held_back, held_back)(task.truth, {}, seed)
        return Task.hiding(self.name, graph, *splits)


@dataclass(frozen=True)
class GeneratedGraph:
    """A generated graph as a task of the suite."""

    graph: str
    """A key of `GRAPHS`."""
    split: str
    """A key of `SPLITS`."""

    @property
    def name(self) -> str:
        return f"{self.graph}-{self.split}"

    def load(self, seed: int) -> Task:
        return generated(self.graph, self.split, seed)


LABELS_A_CLASS = (5, 20)
REAL = (
    *(RealGraph(name, k, features=False) for name in ("cora", "citeseer", "amazon_photo") for k in LABELS_A_CLASS),
    *(RealGraph(name, features=False) for name in ("roman_empire_nofeat", "minesweeper")),
    *(RealGraph(name, k) for name in ("cora", "citeseer", "pubmed", "amazon_photo") for k in LABELS_A_CLASS),
    *(RealGraph(name) for name in ("chameleon_filtered", "tolokers", "twitch_ptbr")),
)
GENERATED = tuple(GeneratedGraph(graph, split) for graph in GRAPHS for split in SPLITS)
DATASETS: dict[str, RealGraph | GeneratedGraph] = {
    **{dataset.name: dataset for dataset in REAL},
    **{dataset.name: dataset for dataset in GENERATED},
}
SMALL = ("cora", "citeseer", "chameleon_filtered", "twitch_ptbr")
"""Benchmarks of less than 4,000 nodes."""
FAST = (*(dataset.name for dataset in REAL if dataset.source in SMALL), *(dataset.name for dataset in GENERATED))
SCORED_BY_ROC_AUC = ("minesweeper-nofeat", "tolokers", "twitch_ptbr")
HEADER = ("data set", "method", "score", "regret", "log-loss", "ECE", "ideal ECE", "TV", "CPU s", "seeds")
NOTES = (
    f"score: test accuracy in %, ROC-AUC in % on {', '.join(SCORED_BY_ROC_AUC)}; mean±std over seeds.",
    "regret: points behind the best row, on the seeds that all rows of the data set have.",
    "log-loss: in nats, with probabilities of at least 1e-12. ECE: calibration error in %. ideal ECE: what it would be",
    "on average if labels were drawn from the row's own probabilities.",
    "TV: mean total variation from belief propagation with the true coupling, on Potts models.",
    "CPU s: fit and prediction. All rows are at one configuration for all data sets.",
)


def load(dataset: str, seed: int = 0) -> Task:
    """The data set of the suite by that name."""
    if dataset not in DATASETS:
        raise InputError(f"the suite has no data set {dataset!r}; there are {', '.join(DATASETS)}")
    return DATASETS[dataset].load(seed)


def measure(model: Any, task: Task, seed: int) -> dict[str, Any]:
    """How good the probabilities of test nodes are, given the training labels."""
    p, truth, test = own_probabilities(model), task.truth, task.test
    found: dict[str, float] = {
        "log_loss": log_loss(p, truth, test),
        "calibration_error": calibration_error(p, truth, test),
        "simulated_calibration": simulated_calibration_error(p, test, seed),
        "majority_share": float(np.bincount(truth[test]).max() / test.sum()),
        "num_test": int(test.sum()),
    }
    if task.num_classes == 2:
        found["roc_auc"] = roc_auc(p, truth, test)
    data = DATASETS.get(task.name)
    if isinstance(data, GeneratedGraph) and data.graph in POTTS:
        y_known = np.where(task.train, truth, UNKNOWN)
        reference = potts_reference(task.graph, POTTS[data.graph].coupling, y_known)
        found["total_variation"] = float(abs(p - reference)[test].sum(axis=1).mean() / 2)
    return {"probabilities": {name: round(value, 6) for name, value in found.items()}}


@dataclass(frozen=True)
class Cell:
    """A row on a data set."""

    dataset: str
    row: str
    runs: Sequence[Document]
    regrets: Sequence[float]
    """Seed by seed, in points: score of the best row less that of this one."""
    excess: float | None
    """Mean log-loss over that of the row which has the least."""

    @property
    def regret(self) -> float | None:
        return statistics.fmean(self.regrets) if self.regrets else None

    @property
    def allowed(self) -> float:
        """Regret that may be chance: a point, or two standard errors of the paired differences."""
        spread = statistics.stdev(self.regrets) if len(self.regrets) > 1 else 0.0
        return max(TOLERANCE, 2 * spread / math.sqrt(max(1, len(self.regrets))))

    @property
    def within(self) -> bool | None:
        return None if self.regret is None else self.regret <= self.allowed

    def mean(self, metric: str) -> float | None:
        """Of a measure of the probabilities, over seeds."""
        values = [run["metrics"]["probabilities"].get(metric) for run in self.runs]
        return None if None in values else statistics.fmean(values)

    def line(self) -> list[str]:
        return [
            self.dataset,
            self.row,
            mean_std([score(run) for run in self.runs]),
            _shown(self.regret),
            _shown(self.mean("log_loss"), digits=3),
            _shown(self.mean("calibration_error"), 100),
            _shown(self.mean("simulated_calibration"), 100),
            _shown(self.mean("total_variation"), digits=3),
            cpu(self.runs),
            str(len(self.runs)),
        ]

    def record(self) -> dict[str, Any]:
        measures = ("log_loss", "calibration_error", "simulated_calibration", "majority_share", "total_variation")
        return {
            "dataset": self.dataset,
            "method": self.row,
            "metric": metric_of(self.dataset),
            "mean": 100 * statistics.fmean(map(score, self.runs)),
            "seeds": len(self.runs),
            "regret": self.regret,
            "within": self.within,
            "excess_log_loss": self.excess,
            **{name: self.mean(name) for name in measures},
            "cpu_s": statistics.fmean(run["cpu_s"] for run in self.runs),
        }


def metric_of(dataset: str) -> str:
    """What the score of a data set is."""
    return "roc_auc" if dataset in SCORED_BY_ROC_AUC else "accuracy"


def score(run: Document) -> float:
    """The score of a run, as a share of 1."""
    part = "probabilities" if run["dataset"] in SCORED_BY_ROC_AUC else "selected"
    return run["metrics"][part][metric_of(run["dataset"])]


def cells(documents: Sequence[Document]) -> list[Cell]:
    """Every row on every data set for which there are runs."""
    return [cell for dataset in DATASETS for cell in _cells_of(documents, dataset)]


def _cells_of(documents: Sequence[Document], dataset: str) -> list[Cell]:
    runs = {row: found for row in ROWS if (found := runs_of(documents, dataset, row))}
    by_seed = {row: {run["seed"]: run for run in found} for row, found in runs.items()}
    seeds = sorted(set.intersection(*map(set, by_seed.values()))) if by_seed else []
    scores = {row: [100 * score(found[seed]) for seed in seeds] for row, found in by_seed.items()}
    losses = {row: _mean_loss(found, seeds) for row, found in by_seed.items()} if seeds else {}
    best = max(scores.values(), key=sum, default=[])
    return [
        Cell(
            dataset,
            row,
            found,
            [first - own for first, own in zip(best, scores[row])],
            losses[row] - min(losses.values()) if losses else None,
        )
        for row, found in runs.items()
    ]


def _mean_loss(by_seed: Mapping[int, Document], seeds: Sequence[int]) -> float:
    return statistics.fmean(by_seed[seed]["metrics"]["probabilities"]["log_loss"] for seed in seeds)


def table(documents: Sequence[Document]) -> Table:
    """A line per data set and row; below, what each row loses on average and at worst."""
    shown = cells(documents)
    summaries = [note for row in ROWS for note in _summary([cell for cell in shown if cell.row == row])]
    ours = _ours([cell for cell in shown if cell.row == OURS])
    return Table(
        "Robustness: one configuration of every method on all data sets",
        HEADER,
        [cell.line() for cell in shown],
        [*NOTES, *summaries, *ours],
        labels=2,
        grouped=True,
        records=[cell.record() for cell in shown],
    )


def _summary(of_row: Sequence[Cell]) -> list[str]:
    regrets = {cell.dataset: cell.regret for cell in of_row if cell.regret is not None}
    excesses = [cell.excess for cell in of_row if cell.excess is not None]
    if not regrets:
        return []
    worst = max(regrets, key=lambda dataset: regrets[dataset])
    mean, excess = statistics.fmean(regrets.values()), statistics.fmean(excesses)
    return [
        f"{of_row[0].row} on {counted(len(regrets), 'data set')}: mean regret {mean:.1f}, worst regret "
        f"{regrets[worst]:.1f} on {worst}, mean excess log-loss {excess:.3f}."
    ]


def _ours(of_row: Sequence[Cell]) -> list[str]:
    decided = [cell for cell in of_row if cell.within is not None]
    if not decided:
        return []
    behind = [f"{cell.dataset} ({cell.regret:.1f} > {cell.allowed:.1f})" for cell in decided if not cell.within]
    where = f"; it is not on {', '.join(behind)}" if behind else ""
    return [
        f"{OURS} is within max({TOLERANCE:g} point, 2 paired standard errors) of the best row on "
        f"{len(decided) - len(behind)} of {len(decided)} data sets{where}."
    ]


def _shown(value: float | None, unit: float = 1, digits: int = 1) -> str:
    return MISSING if value is None else f"{unit * value:.{digits}f}"


ROBUSTNESS = Experiment(
    "robustness", tuple(DATASETS), ROWS, seeds=(0, 1, 2), table=table, measure=measure, load=load, fast=FAST
)
