"""Table 1: cyclic grids without features, where only the dependence between labels can be learnt."""

from __future__ import annotations

from collections.abc import Sequence

from dpmsnc.experiments.run import Experiment, Row
from dpmsnc.experiments.store import Document
from dpmsnc.experiments.table import MISSING, Table, percent, summarise

DATASETS = {"grid_scattered": "scattered", "grid_localized": "localized"}
# the paper's 30000 would take about 25 CPU-minutes a seed, these take about 8
PAPER_STEPS = 4000
ROWS = {
    "gcn": Row("gcn", {"hidden_channels": 16, "num_layers": 1}),
    "masked-labels": Row("masked-labels"),
    "dpm-snc": Row("dpm-snc"),
    "dpm-snc-paper": Row("dpm-snc-paper", {"setting": "synthetic", "steps": PAPER_STEPS}),
}
# accuracy in per cent, mean and standard deviation over seeds: scattered, localized
PUBLISHED = {
    "gcn": ("50.1±0.6", "51.3±1.4"),
    "gmnn": ("64.2±3.2", "48.2±4.8"),
    "g3nn": ("50.1±0.6", "51.3±1.4"),
    "clgnn": ("87.0±2.4", "53.4±2.1"),
    "dpm-snc": ("98.5±0.7", "90.9±3.4"),
    "dpm-snc-paper": ("98.5±0.7", "90.9±3.4"),
}
COLUMNS = ("worst", "last", "fall", "paper")
NOTES = (
    "Test accuracy in %, mean±std over seeds, weights selected on validation; then the worst seed, the mean at the",
    "last checkpoint, and the largest fall of validation accuracy after it first came within a point of its best.",
    "masked-labels: the same network, training and progressive rounds as dpm-snc, without diffusion.",
    f"dpm-snc-paper: the paper's settings, but {PAPER_STEPS} training steps instead of 30000.",
    "Rows without our figures are not implemented here. CPU s: fit and prediction, scattered / localized.",
)


def table(documents: Sequence[Document]) -> Table:
    """Our figures beside the paper's, one row per method."""
    ours = [name for name in ROWS if any(document["row"] == name for document in documents)]
    others = [name for name in PUBLISHED if name not in ROWS]
    header = ["method", *(column for label in DATASETS.values() for column in (label, *COLUMNS))]
    rows = [_row(documents, name) for name in [*ours, *others]]
    title = "Table 1: synthetic data, cyclic grids 2 x 1000 scattered and 2 x 100 localized"
    return Table(title, [*header, "CPU s", "seeds"], rows, NOTES)


def _row(documents: Sequence[Document], label: str) -> list[str]:
    summaries = [summarise(documents, dataset, label) for dataset in DATASETS]
    cells = [label]
    for summary, published in zip(summaries, PUBLISHED.get(label, (MISSING, MISSING))):
        if summary is None:
            cells += [MISSING] * len(COLUMNS)
        else:
            cells += [percent(summary.mean, summary.std), percent(summary.worst)]
            cells += [percent(summary.last_mean), percent(summary.largest_fall)]
        cells.append(published)
    cpu = [f"{summary.cpu_s:.0f}" if summary else MISSING for summary in summaries]
    seeds = [str(summary.seeds) if summary else MISSING for summary in summaries]
    return [*cells, " / ".join(cpu), seeds[0] if len(set(seeds)) == 1 else " / ".join(seeds)]


SYNTHETIC = Experiment("synthetic", tuple(DATASETS), ROWS, seeds=tuple(range(5)), table=table)
