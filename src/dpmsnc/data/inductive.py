"""Data sets of many graphs by name, each with its one split into training, validation and test graphs.

    cora_ego, citeseer_ego, pubmed_ego   the neighbourhood of every node of the public split of a citation graph, whose
                                         file is read; nodes keep its ids, and one may be in graphs of several parts
    twitch                               social networks of seven languages, on one vocabulary of features
    ppi                                  protein interactions in 24 tissues, with 50 features and 121 tags; one file per
                                         graph in the folder `ppi`: train_00.npz, ..., val_00.npz, ..., test_01.npz

All files are as `Graph.to_npz` writes them and hold all labels; what is hidden is hidden by `InductiveTask`. They are
looked for where `data.benchmarks` looks.

References: Qu et al., "Neural Structured Prediction for Inductive Node Classification", ICLR 2022 (neighbourhoods);
Rozemberczki et al., "Multi-scale Attributed Node Embedding", 2021 (twitch); Zitnik & Leskovec, "Predicting
multicellular function through multi-layer tissue networks", 2017 (ppi).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dpmsnc.data import benchmarks
from dpmsnc.data.ego import ego_graphs
from dpmsnc.data.task import InductiveTask
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

Graphs = Sequence[Graph]
Parts = tuple[Graphs, Graphs, Graphs]
"""Training, validation and test graphs, with all their labels."""
TWITCH = (("de", "engb", "es", "fr"), ("ptbr",), ("ru", "zhtw"))
PPI = {"train": 20, "val": 2, "test": 2}
"""Number of graphs in every part, by the names that PyG has for them."""


@dataclass(frozen=True)
class GraphSet:
    """A data set of many graphs: its files in the data folder, and how they are read."""

    files: tuple[str, ...]
    read: Callable[[Path, bool], Parts]
    """Of the data folder and whether to download what is missing."""


def load_graphs(name: str, root: str | os.PathLike[str] | None = None, download: bool = False) -> InductiveTask:
    """The task of a key of `INDUCTIVE`; `data.load` has these arguments too."""
    return InductiveTask.hiding(name, *INDUCTIVE[name].read(benchmarks.data_folder(root), download))


def read_ego(source: str, folder: Path, download: bool) -> Parts:
    """The neighbourhoods of the nodes of the official split of a citation graph."""
    graph, masks = benchmarks.read(source, folder, download)
    train, validation, test = (ego_graphs(graph, mask) for mask in benchmarks.official(graph.y, masks, 0))
    return train, validation, test


def read_twitch(folder: Path, download: bool) -> Parts:
    """PyG has these graphs with other features, so that there is nothing to download."""
    train, validation, test = ([_twitch_graph(folder, language) for language in part] for part in TWITCH)
    return train, validation, test


def read_ppi(folder: Path, download: bool) -> Parts:
    """The graphs of the folder `ppi`, each with all its tags."""
    missing = [path for file in ppi_files() if not (path := folder / file).is_file()]
    if missing and download:
        download_ppi(folder)
    elif missing:
        advice = 'load("ppi", download=True) fetches it, or write your own with Graph.to_npz'
        raise InputError(benchmarks.missing_file(missing[0], advice))
    train, validation, test = ([Graph.from_npz(folder / file) for file in ppi_files(part)] for part in PPI)
    return train, validation, test


def ppi_files(*parts: str) -> list[str]:
    """The files of these parts, by default of all."""
    return [f"ppi/{part}_{k:02d}.npz" for part in parts or PPI for k in range(PPI[part])]


def download_ppi(folder: Path) -> None:
    """Write the files of `ppi` from PyG's data set."""
    from torch_geometric import datasets

    try:
        parts = {part: datasets.PPI(str(folder / "downloads" / "ppi"), split=part) for part in PPI}
    except OSError as error:
        path = folder / "ppi"
        raise InputError(f"could not download PPI: {error}; put the files {path}/*.npz there by hand") from error
    for part, graphs in parts.items():
        for file, data in zip(ppi_files(part), graphs, strict=True):
            Graph.from_pyg(data, kind="tags").to_npz(folder / file)


def _twitch_graph(folder: Path, language: str) -> Graph:
    path = folder / f"twitch_{language}.npz"
    if not path.is_file():
        where = f"the graph {language.upper()} of snap.stanford.edu/data/twitch-social-networks.html"
        raise InputError(benchmarks.missing_file(path, f"it is {where}"))
    return Graph.from_npz(path, all_labels=True)


INDUCTIVE: dict[str, GraphSet] = {
    **{f"{name}_ego": GraphSet((f"{name}.npz",), partial(read_ego, name)) for name in ("cora", "citeseer", "pubmed")},
    "twitch": GraphSet(tuple(f"twitch_{language}.npz" for part in TWITCH for language in part), read_twitch),
    "ppi": GraphSet(tuple(ppi_files()), read_ppi),
}
