"""Table 2: citation and co-purchase graphs, where neighbours mostly share a label.

Our rows are at their defaults on every data set, unless a folder of configurations says otherwise; the paper chose
learning rate, weight decay, layers, width and temperature for each method and data set by a search.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.compare import compare
from dpmsnc.evidence.show.paper import Printed, columns
from dpmsnc.evidence.show.summary import cpu, initialiser, last, worst
from dpmsnc.evidence.show.table import Table

DATASETS = ("cora", "citeseer", "pubmed", "amazon_photo", "amazon_computers")
PAPER = Printed(
    number=2,
    columns=columns(
        ("pubmed", "cora", "citeseer", "amazon_photo", "amazon_computers"), ("accuracy", "subgraph_accuracy")
    ),
    rows={
        ("lp", None): "69.1±0.0 45.7±0.0 68.1±0.0 46.9±0.0 46.1±0.0 29.8±0.0 81.0±2.0 37.2±1.7 69.9±2.9 15.1±1.1",
        ("pta", None): "80.1±0.2 55.2±0.4 82.9±0.4 62.6±0.8 71.3±0.4 51.4±0.7 91.1±1.5 51.0±1.5 81.6±1.7 26.3±1.0",
        ("gcn", "gcn"): "79.7±0.3 55.8±0.6 81.4±0.8 59.3±1.1 70.9±0.8 49.8±0.6 91.0±1.2 52.0±1.0 82.4±1.5 27.0±1.5",
        ("gcn-lpa", "gcn"): "79.6±0.6 53.5±0.9 81.7±0.7 60.3±1.5 71.0±0.6 50.2±1.0 91.3±1.2 52.9±2.0 83.7±1.4 28.5±2.4",
        ("gmnn", "gcn"): "82.6±1.0 58.1±1.4 82.6±0.9 61.8±1.3 72.8±0.7 52.0±0.8 91.2±1.2 54.3±1.4 82.0±1.0 28.0±1.6",
        ("g3nn", "gcn"): "80.9±0.7 56.9±1.1 82.5±0.4 62.3±0.8 73.9±0.7 53.1±1.0 90.7±1.1 53.0±2.0 82.1±1.2 28.1±2.1",
        ("clgnn", "gcn"): "81.7±0.5 57.8±0.7 81.9±0.5 61.8±0.8 72.0±0.7 51.6±0.9 91.1±1.0 53.4±1.8 83.3±1.2 28.5±1.4",
        ("dpm-snc", "gcn"): "83.0±0.9 59.2±1.2 83.2±0.5 63.1±0.9 74.4±0.5 53.6±0.6 92.2±0.8 55.3±2.1 84.1±1.3 29.7±1.8",
        ("gat", "gat"): "79.1±0.5 55.8±0.5 81.5±0.6 61.3±0.9 71.0±0.8 50.8±1.0 90.8±1.0 50.8±1.9 83.1±1.6 27.8±2.2",
        ("gcn-lpa", "gat"): "78.7±1.1 56.0±1.2 81.5±0.9 60.7±0.8 71.3±0.9 50.1±0.9 91.3±0.8 52.7±2.1 84.4±1.0 29.4±2.6",
        ("gmnn", "gat"): "79.6±0.8 57.0±0.7 82.3±0.7 62.2±0.8 71.7±0.9 51.4±0.9 91.4±1.0 53.1±1.6 83.3±2.0 29.1±1.8",
        ("g3nn", "gat"): "77.9±0.4 55.9±0.5 82.7±1.3 62.7±1.3 74.0±0.8 53.7±0.5 91.5±0.9 52.6±2.2 83.1±1.7 28.8±2.4",
        ("clgnn", "gat"): "80.0±0.6 57.5±1.2 81.8±0.6 61.5±0.9 72.1±0.8 52.1±0.8 90.6±0.8 51.9±1.8 82.6±1.2 28.4±1.8",
        ("dpm-snc", "gat"): "81.7±0.8 59.0±1.1 83.8±0.7 63.8±0.7 74.3±0.7 54.0±0.9 92.0±0.8 54.0±2.4 84.2±1.2 30.0±2.0",
        ("gcnii", "gcnii"): "82.0±0.8 57.2±1.1 84.0±0.6 63.4±0.8 72.9±0.5 52.1±0.7 91.2±1.2 53.2±1.5 82.5±1.4 26.6±1.3",
        ("dpm-snc", "gcnii"): (
            "83.8±0.7 61.6±0.9 85.3±0.6 65.8±0.7 74.1±0.5 54.1±0.9 92.8±1.1 54.2±1.2 84.4±1.8 29.2±1.1"
        ),
    },
)
PLAIN = ("lp", "pta", "gcn", "gat", "gcnii", "sage")
BACKBONES = {"gcn": "gcn", "gat": "gat", "gcnii": "gcnii(time=False)"}
"""Of dpm-snc; the authors' GCNII is not told the time either."""
STRUCTURED = ("gcn-lpa", "gmnn", "g3nn", "clgnn", "entropy")
STRUCTURED_ON = {"gcn": "gcn", "gat": "gat(attention_dropout=True)"}
"""Of baselines, whose GAT drops attention as the plain one and the original do."""
ROWS = {
    **{name: Row(name) for name in PLAIN},
    "appnp": Row("appnp"),
    "correct-and-smooth (mlp)": Row("correct-and-smooth", {"backbone": "mlp"}),
    # the authors' advice for a base that has smoothed its features itself
    "correct-and-smooth (gcn)": Row("correct-and-smooth", {"backbone": "gcn", "correct": False}),
    "grand": Row("grand"),
    **{
        f"{name} ({on})": Row(name, {"backbone": backbone})
        for name in STRUCTURED
        for on, backbone in STRUCTURED_ON.items()
    },
    "masked-labels": Row("masked-labels"),
    **{f"dpm-snc ({name})": Row("dpm-snc", {"backbone": network}) for name, network in BACKBONES.items()},
}
EXTRA = {"worst": worst, "last": last, "initialiser": initialiser, "CPU s": cpu}
NOTES = (
    "sub-acc: share of test nodes that are right together with all their neighbours, by the model's own labels.",
    "worst: accuracy of the worst seed; last: mean accuracy at the last checkpoint; initialiser: that of the baseline",
    "that filled the first buffer. CPU s: fit and prediction, the initialiser's included.",
    "Without --configs, ours are at their defaults on every data set; with it, in cells without a configuration. Each",
    "configuration says how many trials its search had; on a backbone without a search of its own, dpm-snc and the",
    "structured methods have what was found with gcn, but for the depth of gcnii. The paper searched every cell.",
    "gat: of baselines it drops attention as its authors' does, in dpm-snc it does not, as in the authors' code.",
    "gcnii: 16 layers as a plain classifier, 8 or 32 where a search says so, 8 in dpm-snc (the paper's has 16 on",
    "Citeseer, at twice the cost), where no layer is told the time, as in the authors' code.",
    "dpm-snc and masked-labels start from pta or a stack of baselines, with what searches of those had found by then:",
    "that of dpm-snc comes on top. A stack fits a temperature and a weight a member, and on two sets the shares of the",
    "classes, to validation labels: a few numbers, but more than a choice. These sets are amazon_photo and",
    "amazon_computers, with 30 validation nodes of every class; training weighs those by the estimated shares, too.",
    "correct-and-smooth (gcn): a gcn that ends in a linear map, smoothed only; (mlp): corrected and smoothed.",
    "masked-labels: the same network, training and progressive rounds as dpm-snc (gcn), without diffusion; with the",
    "settings of dpm-snc on sets where masked-labels had no search.",
)


def table(documents: Sequence[Document]) -> Table:
    """Node and subgraph accuracy beside the paper's."""
    title = "Table 2: homophilic graphs, 20 training labels a class"
    return compare(title, documents, DATASETS, ROWS, paper=PAPER, extra=EXTRA, notes=NOTES)


HOMOPHILIC = Experiment("homophilic", DATASETS, ROWS, seeds=tuple(range(10)), table=table, paper=PAPER)
