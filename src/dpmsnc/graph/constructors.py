"""What a `Graph` is made of: tables, graphs of other libraries, files. The work is done where each of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpmsnc.graph.cells import Kind
    from dpmsnc.graph.graph import Graph


class Constructors:
    """The readers of `Graph`; `Graph.build` takes arrays."""

    @classmethod
    def from_tables(
        cls,
        edges: Any,
        nodes: Any = None,
        *,
        id: str | None = None,
        label: str | Sequence[str] | None = None,
        source: str | None = None,
        target: str | None = None,
        features: Sequence[str] | None = None,
        columns: Mapping[str, Kind] | None = None,
        columns_like: Any = None,
        x: Any = None,
        edge_weight: str | None = None,
        edge_features: Sequence[str] = (),
        edge_label: str | None = None,
        directed: bool = False,
        kind: str = "class",
        tag_separator: str = ";",
    ) -> Graph:
        """A graph from an edge table and a node table: CSV, TSV or Parquet files, or frames of pandas, polars, pyarrow.

        Columns of numbers, yes and no, dates and categories become features, and gaps in them are no obstacle;
        `print(graph.summary())` says what was done to each column.

        Args:
            edges: One row per edge; its ends are the columns `source` and `target`, by default the first two that are
                not named. Or a sparse matrix whose rows and columns are the rows of `nodes`; entries other than 1 are
                weights.
            nodes: One row per node, in any order. None: the nodes are those the edges mention.
            id: Column of `nodes` with the node ids, by default the first. Text files keep ids as written ("007").
            label: Column of `nodes` with the labels, blank where unknown; for tags "a;b" in one column, or a list of
                columns of 0 and 1, one per tag. None: every label is unknown.
            source: Column of `edges`.
            target: Column of `edges`.
            features: Columns of `nodes`; by default all that are left over but identifiers and free text.
            columns: What columns of `nodes` are, where it does not follow from their cells: "numeric", "boolean",
                "date", "category", "text" or "drop", by name.
            columns_like: A graph, or a classifier that was fitted to one: columns become the same features as there.
            x: Features N x F, dense or sparse, in the order of the rows of `nodes`, in place of its columns.
            edge_weight: Column of `edges` with positive weights, which methods on nodes use; several rows between two
                nodes add up. By default every edge weighs the same.
            edge_features: Numeric columns of `edges`; by default none.
            edge_label: Column of `edges` with a number per edge, blank where unknown; then nodes have no labels.
            directed: Whether an edge leads from `source` to `target` alone.
            kind: What a label is, as in `build`.
            tag_separator: Stands between tags in one column; alone in a cell it says that a node has no tag.
        """
        from dpmsnc.graph import readers

        table = readers.NodeTable(nodes, id, label, features, columns, columns_like, x, kind, tag_separator)
        ends: dict[str, Any] = {"source": source, "target": target, "directed": directed}
        of_edges: dict[str, Any] = {
            "edge_weight": edge_weight,
            "edge_features": edge_features,
            "edge_label": edge_label,
        }
        return readers.read_tables(edges, table, **ends, **of_edges)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        label: str | None = "label",
        features: str | Sequence[str] | None = None,
        *,
        edge_weight: str | None = "weight",
        edge_features: str | Sequence[str] | None = None,
        directed: bool = False,
        kind: str = "class",
    ) -> Graph:
        """A graph from NetworkX; nodes that lack the attribute `label` are unlabelled.

        Args:
            graph: Any NetworkX graph; weights of parallel edges add up, and of their features the first count.
            label: Node attribute that holds the label; None for a graph without labels.
            features: One or several node attributes, each a number or a vector; None for no features.
            edge_weight: Edge attribute with positive weights, used where edges have it; None to leave it out.
            edge_features: One or several edge attributes likewise.
            directed: Whether to keep directions; an undirected edge then becomes two.
            kind: What a label is, as in `build`.
        """
        from dpmsnc.graph import objects

        return objects.read_networkx(graph, label, features, edge_weight, edge_features, directed, kind)

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        all_labels: bool = False,
        split: int | None = None,
        directed: bool = False,
        kind: str = "class",
    ) -> Graph:
        """A graph from a PyTorch Geometric `Data`: `edge_index`, `x`, `edge_attr`, `edge_weight`, and `y` (-1 or NaN
        where unknown).

        Where there are masks, labels outside of `train_mask` and `val_mask` are hidden, so that none that a model is
        tested on is known to it. To choose weights on the validation nodes: `fit(graph, validation=data.val_mask)`.

        Args:
            data: The data, for example `dataset[0]`.
            all_labels: Whether to keep every label whatever the masks say.
            split: Which column to use of masks that are N x S.
            directed: Whether to keep directions.
            kind: What a label is, as in `build`.
        """
        from dpmsnc.graph import objects

        return objects.read_pyg(data, all_labels, split, directed, kind)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        x: Any = None,
        y: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        ids: Sequence[Any] | NDArray[Any] | None = None,
        directed: bool = False,
        kind: str = "class",
        weighted: bool = False,
    ) -> Graph:
        """A graph from an N x N matrix whose entry (i, j), if not 0, is an edge from i to j; the rest as in `build`.

        With `weighted`, entries are weights. A symmetric matrix has every undirected edge twice, which counts once.
        """
        from dpmsnc.graph import objects

        options: dict[str, Any] = {"classes": classes, "directed": directed, "kind": kind, "weighted": weighted}
        return objects.read_scipy(adjacency, x, y, ids=ids, **options)

    @classmethod
    def from_npz(cls, path: str | PathLike[str], *, all_labels: bool = False, split: int | None = None) -> Graph:
        """A graph from an .npz file, written by `to_npz` or in the format of docs/data.md; never unpickles.

        Masks in the file hide labels as in `from_pyg`; they are S x N here.
        """
        from dpmsnc.graph import npz

        return npz.load_npz(path, all_labels, split)
