"""Tables of the paper: figures as printed, under our names. Each stands with the experiment that reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

SAME_METHOD = {
    "dpm-snc-paper": "dpm-snc",
    "dpm-snc-edges": "dpm-snc",
    "recurrent-tied": "recurrent",
    "recurrent-lstm": "recurrent",
    "pondernet": "programmatic",
}
SAME_BACKBONE = {
    "gcn(improved=True)": "gcn",
    "gat(attention_dropout=True)": "gat",
    "gcnii(time=False)": "gcnii",
    "sage(normalize=True)": "sage",
}
"""Our names of what the paper calls by one name."""
NOT_PRINTED = "-"
"""A cell that is empty."""


class Figure(NamedTuple):
    """A mean over seeds, its spread and their number, of which the paper does not print all everywhere; accuracies and
    F1 in per cent, errors as they are."""

    mean: float
    std: float | None
    seeds: int | None


@dataclass(frozen=True)
class Printed:
    """A table of the paper: columns are (dataset, metric), rows are (method, backbone) with their printed cells.

    A plain network is its own backbone; methods without a network have none.
    """

    number: int
    columns: tuple[tuple[str, str], ...]
    rows: Mapping[tuple[str, str | None], str]
    seeds: int | None = 10
    digits: int = 1
    fewer_seeds: Mapping[str, int] | None = None
    """Of data sets, or methods, that were run with fewer."""

    @cached_property
    def figures(self) -> dict[tuple[str, str, str | None, str], Figure]:
        """Every cell, by data set, method, backbone and metric."""
        figures = {}
        for (method, backbone), line in self.rows.items():
            for (dataset, metric), cell in zip(self.columns, line.split(), strict=True):
                if cell == NOT_PRINTED:
                    continue
                mean, _, std = cell.partition("±")
                fewer = self.fewer_seeds or {}
                seeds = fewer.get(dataset, fewer.get(method, self.seeds))
                value = Figure(float(mean), float(std) if std else None, seeds)
                figures[dataset, method, backbone, metric] = value
        return figures

    def figure(self, dataset: str, method: str, backbone: str | None, metric: str) -> Figure | None:
        """The paper's figure for a method of ours; None where it has none."""
        return self.figures.get((dataset, *paper_names(method, backbone), metric))

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for _, metric in self.columns))


def columns(datasets: tuple[str, ...], metrics: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Of a table that prints the same metrics for all its data sets."""
    return tuple((dataset, metric) for dataset in datasets for metric in metrics)


def paper_names(method: str, backbone: str | None) -> tuple[str, str | None]:
    """What the paper calls a method and its network: "dpm-snc", "gcn" for our "dpm-snc-paper", "gcn(improved=True)"."""
    return SAME_METHOD.get(method, method), SAME_BACKBONE.get(backbone or "", backbone)
