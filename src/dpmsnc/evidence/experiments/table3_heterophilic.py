"""Table 3: graphs where neighbours mostly differ; the paper's figures, which no experiment reproduces yet."""

from __future__ import annotations

from dpmsnc.evidence.show.paper import Printed, columns

# the text does not say how many seeds; the data sets come with ten splits
PAPER = Printed(
    number=3,
    columns=columns(("roman_empire", "amazon_ratings"), ("accuracy",)),
    digits=2,
    rows={
        ("h2gcn", "h2gcn"): "60.11±0.52 36.47±0.23",
        ("cpgnn", "cpgnn"): "63.96±0.62 39.79±0.77",
        ("gpr-gnn", "gpr-gnn"): "64.85±0.27 44.88±0.34",
        ("fsgnn", "fsgnn"): "79.92±0.56 52.74±0.83",
        ("glognn", "glognn"): "59.63±0.69 36.89±0.14",
        ("fagcn", "fagcn"): "65.22±0.56 44.12±0.30",
        ("gbk-gnn", "gbk-gnn"): "74.57±0.47 45.98±0.71",
        ("jacobiconv", "jacobiconv"): "71.14±0.42 43.55±0.48",
        ("gcn", "gcn"): "73.69±0.74 48.70±0.63",
        ("sage", "sage"): "85.74±0.67 53.63±0.39",
        ("gat", "gat"): "80.87±0.30 49.09±0.63",
        ("gat-sep", "gat-sep"): "88.75±0.41 52.70±0.62",
        ("gt", "gt"): "86.51±0.73 51.17±0.66",
        ("gt-sep", "gt-sep"): "87.32±0.39 52.18±0.80",
        ("dpm-snc", "gat-sep"): "89.52±0.46 54.66±0.39",
    },
)
