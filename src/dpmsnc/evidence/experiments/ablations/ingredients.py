"""What single choices are worth: DPM-SNC as it is, and with one of its settings as the paper has it, or another way.

Rows are named after what takes the place of ours. Differences are paired: the same seed with and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpmsnc.config import Sampling, Training
from dpmsnc.evidence.experiments.aggregate import CITATION, SEEDS, datasets_with_runs, mean_std, paired_difference
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.table import Table
from dpmsnc.presets import FROM_RANDOM

OURS = "dpm-snc"


def _with(**changed: Any) -> Row:
    return Row("dpm-snc", FROM_RANDOM | changed)


def _training(**changed: Any) -> Row:
    return _with(training=Training(**changed))


ROWS = {
    OURS: _with(),
    "initialiser: plain gcn (paper)": _with(initialiser="gnn"),
    "initialiser: grand": _with(initialiser="grand"),
    "initialiser: g3nn": _with(initialiser="g3nn"),
    "guided conditioning (paper)": _with(conditioning="guided"),
    "predicts the noise (paper)": _with(parameterisation="epsilon"),
    "hard pseudo-labels (paper)": _training(fill="hard"),
    "unlabelled weight 1 (paper)": _training(unlabelled_weight=1.0),
    "no unlabelled loss": _training(unlabelled_weight=0.0),
    "shows true labels alone": _training(show_unlabelled=False),
    "features never hidden (paper)": _training(hide_features=0.0),
    "times uniform (paper)": _training(time_power=1.0),
    "weights not averaged (paper)": _training(averaging=0.0),
    "learning rate constant (paper)": _training(decay=False),
    "no progressive rounds (paper)": _with(sampling=Sampling(progressive=0.0)),
    "features scaled to sum 1": _with(scaling="rows"),
    "features binary (paper)": _with(scaling="binary"),
}
NOTES = (
    "Test accuracy in %, mean±std over seeds, weights selected on validation; diff: points over the first line of the",
    "data set, mean±std of the differences between same seeds. Backbone GCN. (paper): as the paper has it. Test sets",
    "of a thousand nodes have a standard error of one point, which pairing lessens and does not remove.",
)


def table(documents: Sequence[Document]) -> Table:
    """A line per data set and choice."""
    rows = []
    for dataset, name in datasets_with_runs(documents):
        ours = by_seed(documents, dataset, OURS)
        for label in ROWS:
            if found := by_seed(documents, dataset, label):
                pairs = [(ours[seed], value) for seed, value in found.items() if seed in ours and label != OURS]
                rows.append([name, label, mean_std(list(found.values())), paired_difference(pairs), str(len(found))])
    return Table("What single choices are worth", ["data set", "with", "accuracy", "diff", "seeds"], rows, NOTES)


def by_seed(documents: Sequence[Document], dataset: str, row: str) -> dict[int, float]:
    """Test accuracy of every seed of a row on a data set."""
    runs = [d for d in documents if d["dataset"] == dataset and d["row"] == row]
    return {run["seed"]: run["metrics"]["selected"]["accuracy"] for run in runs}


INGREDIENTS = Experiment("ingredients", tuple(CITATION), ROWS, SEEDS, table)
