"""What each of our departures from the paper is worth: DPM-SNC at its defaults, and with one of them taken back.

Rows are named after what takes the place of the default. Differences are paired: the same seed with and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpmsnc.experiments.run import Experiment, Row
from dpmsnc.experiments.shown import CITATION, SEEDS, cell, difference, present
from dpmsnc.experiments.store import Document
from dpmsnc.experiments.table import MISSING, Table
from dpmsnc.options import Training

DEFAULT = "defaults"


def _training(**changed: Any) -> Row:
    return Row("dpm-snc", {"training": Training(**changed)})


ROWS = {
    DEFAULT: Row("dpm-snc"),
    "start: plain gcn (paper)": Row("dpm-snc", {"start": "gnn"}),
    "start: grand": Row("dpm-snc", {"start": "grand"}),
    "start: g3nn": Row("dpm-snc", {"start": "g3nn"}),
    "guided conditioning (paper)": Row("dpm-snc", {"conditioning": "guided"}),
    "predicts the noise (paper)": Row("dpm-snc", {"parameterisation": "epsilon"}),
    "hard pseudo-labels (paper)": _training(fill="hard"),
    "unlabelled weight 1 (paper)": _training(unlabelled_weight=1.0),
    "no unlabelled loss": _training(unlabelled_weight=0.0),
    "shows true labels alone": _training(show_unlabelled=False),
    "features never hidden (paper)": _training(hide_features=0.0),
    "times uniform (paper)": _training(time_power=1.0),
    "weights not averaged (paper)": _training(averaging=0.0),
    "features scaled to sum 1": Row("dpm-snc", {"scaling": "rows"}),
    "features binary (paper)": Row("dpm-snc", {"scaling": "binary"}),
}
NOTES = (
    "Test accuracy in %, mean±std over seeds, weights selected on validation; diff: points over the defaults, mean±std",
    "of the paired differences. Backbone GCN. (paper): as the paper has it. Test sets of a thousand nodes have a",
    "standard error of one point, which pairing lessens and does not remove.",
)


def table(documents: Sequence[Document]) -> Table:
    """A line per ingredient, two columns per data set."""
    there = present(documents)
    rows = []
    for label in ROWS:
        found = [by_seed(documents, dataset, label) for dataset, _ in there]
        if any(found):
            defaults = [by_seed(documents, dataset, DEFAULT) for dataset, _ in there]
            cells = [text for pair in zip(found, defaults) for text in _cells(label, *pair)]
            rows.append([label, *cells, str(max(map(len, found)))])
    header = ["dpm-snc with", *(column for _, name in there for column in (name, "diff")), "seeds"]
    return Table("What each ingredient is worth", header, rows, NOTES)


def by_seed(documents: Sequence[Document], dataset: str, row: str) -> dict[int, float]:
    """Test accuracy of every seed of a row on a data set."""
    runs = [d for d in documents if d["dataset"] == dataset and d["row"] == row]
    return {run["seed"]: run["metrics"]["selected"]["accuracy"] for run in runs}


def _cells(label: str, found: dict[int, float], defaults: dict[int, float]) -> tuple[str, str]:
    pairs = [(defaults[seed], value) for seed, value in found.items() if seed in defaults]
    return cell(list(found.values())), MISSING if label == DEFAULT else difference(pairs)


INGREDIENTS = Experiment("ingredients", tuple(CITATION), ROWS, SEEDS, table)
