"""Data sets of one graph by name, with their splits.

A data set is one file `<name>.npz` in the folder `root`, else in the folder that the environment variable DPMSNC_DATA
names, else in ~/.cache/dpmsnc. The file is what `Graph.from_npz` reads, with the official splits, if there are any, as
S x N masks `train_mask`, `val_mask`, `test_mask`; heterophilous graphs also in the format of their authors.
`download=True` fetches a missing one through the data set classes of PyTorch Geometric and writes that file. Data sets
of many graphs are in `data.inductive`.

How each set is split is a column of `BENCHMARKS`; the seed picks among the official splits or draws one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from dpmsnc.data.task import Task
from dpmsnc.errors import InputError
from dpmsnc.files import pack_arrays, write_whole
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.masks import MASKS
from dpmsnc.graph.npz import npz_parts, read_parts

Mask = NDArray[np.bool_]
Split = tuple[Mask, Mask, Mask]
# above this share of non-zero entries a sparse matrix is neither smaller nor faster
DENSE_ABOVE = 0.5


def official(y: NDArray[Any], masks: dict[str, Mask], seed: int) -> Split:
    """The official split number `seed`, counted round."""
    missing = [name for name in MASKS if name not in masks]
    if missing:
        raise InputError(f"the file lacks {', '.join(missing)}: it must hold the data set's official splits, S x N")
    train, validation, test = (masks[name][seed % len(masks[name])] for name in MASKS)
    return train, validation, test


def per_class(num_train: int, num_validation: int) -> Callable[..., Split]:
    """So many training and validation nodes of every class at random; the rest are test nodes.

    The draws are those of the paper, as far as label propagation tells: class by class, the first of the shuffled nodes
    for validation and the last for training, from numpy's older generator, whose stream is frozen. With seeds 0 to 9
    its mean and standard deviation over all nodes without a training label are the paper's on both Amazon sets.
    """

    def draw(y: NDArray[Any], masks: dict[str, Mask], seed: int) -> Split:
        rng = np.random.RandomState(seed)
        split = np.full(len(y), 2)
        for label in np.unique(y[y != UNKNOWN]):
            members = rng.permutation(np.flatnonzero(y == label))
            split[members[:num_validation]] = 1
            split[members[len(members) - num_train :]] = 0
        return split == 0, split == 1, split == 2

    return draw


def at_random(train_share: float, validation_share: float) -> Callable[..., Split]:
    """Shares of all labelled nodes at random; the rest are test nodes."""

    def draw(y: NDArray[Any], masks: dict[str, Mask], seed: int) -> Split:
        known = (np.atleast_2d(y.T) != UNKNOWN).all(axis=0)  # a label is a number, or a row of tags
        nodes = np.random.default_rng(seed).permutation(np.flatnonzero(known))
        sizes = np.rint(np.cumsum([train_share, validation_share]) * len(nodes)).astype(int)
        train, validation, test = (np.isin(np.arange(len(y)), part) for part in np.split(nodes, sizes))
        return train, validation, test

    return draw


@dataclass(frozen=True)
class Benchmark:
    """How a data set is split, and where it comes from."""

    split: Callable[..., Split]
    source: tuple[str, str] | None = None
    """Class of torch_geometric.datasets and its name argument."""
    featureless_is_unlabelled: bool = False
    """Whether a node without features is one that the data set says nothing about, whatever label PyG gives it."""
    hint: str = ""
    """What to do where PyG has no such data set."""
    split_version: int = 1
    """Goes up when a seed gives another split than before: stored runs of earlier ones are then run again."""


BENCHMARKS: dict[str, Benchmark] = {
    "cora": Benchmark(official, ("Planetoid", "Cora")),
    "citeseer": Benchmark(official, ("Planetoid", "CiteSeer"), featureless_is_unlabelled=True),
    "pubmed": Benchmark(official, ("Planetoid", "PubMed")),
    "amazon_photo": Benchmark(per_class(20, 30), ("Amazon", "Photo"), split_version=2),
    "amazon_computers": Benchmark(per_class(20, 30), ("Amazon", "Computers"), split_version=2),
    "roman_empire": Benchmark(official, ("HeterophilousGraphDataset", "Roman-empire")),
    "amazon_ratings": Benchmark(official, ("HeterophilousGraphDataset", "Amazon-ratings")),
    "minesweeper": Benchmark(official, ("HeterophilousGraphDataset", "Minesweeper")),
    "tolokers": Benchmark(official, ("HeterophilousGraphDataset", "Tolokers")),
    "chameleon_filtered": Benchmark(
        official, hint="it is in the folder data of github.com/yandex-research/heterophilous-graphs"
    ),
    "roman_empire_nofeat": Benchmark(
        at_random(0.5, 0.25), hint="it is roman_empire without features, which can be downloaded by that name"
    ),
    "twitch_ptbr": Benchmark(
        at_random(0.5, 0.25), hint="it is the graph PTBR of snap.stanford.edu/data/twitch-social-networks.html"
    ),
    "blogcatalog": Benchmark(
        at_random(0.5, 0.25),
        hint="it is the graph BlogCatalog3 of datasets.syr.edu (10312 nodes, 39 groups), with groups as y_multi",
    ),
}


def load_graph(
    name: str,
    seed: int = 0,
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
    largest_component: bool = False,
) -> Task:
    """The task of a key of `BENCHMARKS`; `data.load` has these arguments too."""
    graph, masks = read(name, root, download)
    if largest_component:
        graph, masks = _largest_component(graph, masks)
    return Task.hiding(name, graph, *BENCHMARKS[name].split(graph.y, masks, seed))


def read(
    name: str, root: str | os.PathLike[str] | None = None, download: bool = False
) -> tuple[Graph, dict[str, Mask]]:
    """The graph of a key of `BENCHMARKS` with all its labels, and the masks (splits x nodes) of its official splits."""
    path = data_folder(root) / f"{name}.npz"
    if not path.is_file():
        if not download or BENCHMARKS[name].source is None:
            raise InputError(_how_to_get(name, path))
        _download(BENCHMARKS[name], path)
    parts = read_parts(path)
    return Graph.from_npz(path, all_labels=True), {mask: parts[mask] for mask in MASKS if mask in parts}


def split_version(name: str) -> int:
    """That of the benchmark, or 1 where there is none of that name."""
    return BENCHMARKS[name].split_version if name in BENCHMARKS else 1


def save_pyg(data: Any, path: Path, featureless_is_unlabelled: bool = False) -> None:
    """Write a PyG `Data` with its masks (N, or N x S for S splits) as an .npz that `load` reads."""
    graph = Graph.from_pyg(data, all_labels=True)
    y, x = graph.y, graph.x
    if x is not None:
        if featureless_is_unlabelled:
            y = np.where(np.asarray(abs(x).sum(axis=1)) == 0, UNKNOWN, y)
        sparse = sp.csr_array(x)
        x = sparse if sparse.nnz < DENSE_ABOVE * np.prod(x.shape) else x
    masks = {key: np.atleast_2d(data[key].numpy().T) for key in MASKS if key in data}
    write_whole(path, pack_arrays(npz_parts(replace(graph, x=x, y=y)) | masks))


def data_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """Where the .npz files are looked for."""
    return Path(root or os.environ.get("DPMSNC_DATA") or Path.home() / ".cache" / "dpmsnc")


def missing_file(path: Path, advice: str) -> str:
    """What to say of a file that is not there."""
    return f"{path} is missing: {advice}; if it lies elsewhere, pass the data folder as root or set DPMSNC_DATA to it"


def _how_to_get(name: str, path: Path) -> str:
    benchmark = BENCHMARKS[name]
    return missing_file(path, f'load("{name}", download=True) fetches it' if benchmark.source else benchmark.hint)


def _download(benchmark: Benchmark, path: Path) -> None:
    from torch_geometric import datasets

    assert benchmark.source is not None
    kind, name = benchmark.source
    try:
        data = getattr(datasets, kind)(str(path.parent / "downloads"), name=name)[0]
    except OSError as error:
        raise InputError(f"could not download {name}: {error}; put the file {path} there by hand") from error
    save_pyg(data, path, benchmark.featureless_is_unlabelled)


def _largest_component(graph: Graph, masks: dict[str, Mask]) -> tuple[Graph, dict[str, Mask]]:
    _, component = connected_components(graph.adjacency, directed=False)
    kept = component == np.bincount(component).argmax()
    return graph.subgraph(kept), {key: mask[:, kept] for key, mask in masks.items()}
