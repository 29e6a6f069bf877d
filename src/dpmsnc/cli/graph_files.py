"""Graphs in files, as flags name them: an edge table and a node table, an .npz file, or a folder of several graphs.

In a folder, a graph is NAME.npz, or NAME.edges.csv with NAME.nodes.csv beside it where its nodes have labels or
features. Graphs are taken in the order of their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from dpmsnc.errors import InputError

if TYPE_CHECKING:
    from dpmsnc.graph import Graph

IN_FOLDER = re.compile(r"(?P<name>.+)\.((?P<table>edges|nodes)\.(csv|tsv|csv\.gz|tsv\.gz|parquet|pq)|npz)")
"""What the name of a file in a folder says; all others are left alone."""
OF_NODES = ("id", "label", "features", "columns", "columns_like")
"""Columns that are those of a node table."""
OF_EDGES = ("source", "target", "edge_weight", "edge_features", "edge_label", "directed")
"""Columns that are those of an edge table."""
MOST_NOTES = 5
"""Notes on several graphs that are printed."""


@dataclass(frozen=True)
class GraphFiles:
    """Where a graph is: an .npz file, or an edge table and, where there is one, a node table."""

    name: str
    npz: Path | None = None
    edges: Path | None = None
    nodes: Path | None = None

    def read(self, columns: dict[str, Any]) -> Graph:
        """The graph; `columns` are those of tables, and other arguments of `Graph.from_tables`."""
        from dpmsnc.graph import Graph

        if self.npz is not None:
            return Graph.from_npz(self.npz)
        if self.nodes is None:
            columns = {name: value for name, value in columns.items() if name not in OF_NODES}
        return Graph.from_tables(self.edges, self.nodes, **columns)


def in_folder(folder: Path) -> list[GraphFiles]:
    """The graphs in a folder, by name."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; name one that holds graphs")
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = IN_FOLDER.fullmatch(path.name)
        if match is None or not path.is_file():
            continue
        parts = found.setdefault(match["name"], {})
        kind = match["table"] or "npz"
        if kind in parts or (parts and "npz" in (kind, *parts)):
            other = next(iter(parts.values())).name
            raise InputError(f"{folder} holds the graph {match['name']} twice, in {other} and {path.name}; keep one")
        parts[kind] = path
    if not found:
        raise InputError(f"{folder} holds no graph; put NAME.npz there, or NAME.edges.csv and NAME.nodes.csv")
    for name, parts in found.items():
        if "nodes" in parts and "edges" not in parts:
            raise InputError(
                f"{parts['nodes']} has no edge table {name}.edges.csv beside it; add one, which may be a header alone"
            )
    return [GraphFiles(name, **found[name]) for name in sorted(found)]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """What is wrong inside the block is said of the graph `name`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def read_alike(files: Sequence[GraphFiles], columns: dict[str, Any], first: Graph | None = None) -> list[Graph]:
    """The graphs, all with the features of the first, or an `InputError` that names the file that differs."""
    from dpmsnc.graph.batch import check_alike
    from dpmsnc.graph.derived import with_feature_order

    graphs: list[Graph] = []
    columns = _encoded_alike(files, columns, first)
    for one in files:
        with naming(one.name):
            graph = one.read(columns)
        like = first or (graphs[0] if graphs else graph)
        graphs.append(with_feature_order(graph, like.feature_names))
        check_alike([like, graphs[-1]], ["the first graph" if first else files[0].name, one.name])
    return graphs


def _encoded_alike(files: Sequence[GraphFiles], columns: dict[str, Any], first: Graph | None) -> dict[str, Any]:
    """How all tables are read: with the columns of the first graph, or with what all tables together make of them."""
    from dpmsnc.graph.readers import NodeTable, common_columns

    of_nodes = {name: value for name, value in columns.items() if name not in OF_EDGES}
    like = None if first is None else first.columns
    if like is None and first is None:
        tables = [(one.name, NodeTable(one.nodes, **of_nodes)) for one in files if one.nodes is not None]
        like = common_columns(dict(tables), naming) if tables else None
    return columns if like is None else columns | {"features": None, "columns": None, "columns_like": like}


@dataclass(frozen=True)
class GraphFlags:
    """The graph: two tables (CSV, TSV or Parquet), or one .npz file; or a folder of several (docs/data.md)."""

    edges: Path | None = None
    """Table with one row per edge."""
    nodes: Path | None = None
    """Table with one row per node; a blank label is unknown."""
    graph: Path | None = None
    """An .npz file instead of the tables."""
    graphs: Path | None = None
    """A folder of graphs to learn from: NAME.npz, or NAME.edges.csv and NAME.nodes.csv."""
    id: str | None = None
    """Column of the node table with the node ids; by default the first."""
    label: tuple[str, ...] | None = None
    """Column of the node table with the labels; with --kind tags, a column such as a;b, or several of 0 and 1, one per
    tag."""
    source: str | None = None
    """Column of the edge table; by default the first that no flag names."""
    target: str | None = None
    """Column of the edge table; by default the second of those."""
    features: tuple[str, ...] | None = None
    """Columns of the node table; by default all that are left over but identifiers and free text."""
    column: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """What a column of the node table is, as name=kind: numeric, boolean, date, category, text or drop."""
    weight: str | None = None
    """Column of the edge table with positive weights; several rows between two nodes add up."""
    target_column: str | None = None
    """Column of the edge table with a number per edge, blank where unknown: edges are predicted then, and not nodes."""
    edge_features: tuple[str, ...] = ()
    """Numeric columns of the edge table, where edges are predicted."""
    directed: bool = False
    """Whether edges lead from source to target alone; networks mind if they are told to, as sage(directions=True)."""
    kind: str = "class"
    """What a label of the node table is: one class, several tags, or a real value."""
    tag_separator: str = ";"
    """Stands between the tags in one column; alone in a cell it says that there is none."""

    def read(self) -> Graph | list[Graph]:
        """The graph, or those of a folder."""
        if (self.edges, self.graph, self.graphs).count(None) != 2:
            raise InputError("give the graph either as --edges (and --nodes) or as --graph, or several as --graphs")
        if self.nodes is not None and self.edges is None:
            raise InputError("--nodes goes with --edges; a folder or an .npz file has what it says of its nodes")
        if self.graphs is not None:
            return self.read_folder(self.graphs)
        return self._one().read(self._columns([self._one()]))

    def read_folder(self, folder: Path, first: Graph | None = None) -> list[Graph]:
        """The graphs of a folder, in tables with the same columns; their features are those of `first`."""
        files = in_folder(folder)
        return read_alike(files, self._columns(files), first)

    @property
    def name(self) -> str:
        """What the graph is called by its file."""
        return (self.edges or self.graph or self.graphs or Path("graph")).stem

    def _one(self) -> GraphFiles:
        return GraphFiles(self.name, self.graph, self.edges, self.nodes)

    def _columns(self, files: Sequence[GraphFiles]) -> dict[str, Any]:
        """The arguments of `Graph.from_tables`."""
        of_nodes, of_edges = ("id", "label", "features", "column"), ("source", "target", "weight", "edge_features")
        names = (*of_nodes, *of_edges, "target_column", "directed", "kind", "tag_separator")
        columns = {name: getattr(self, name) for name in names}
        given = [name for name, value in columns.items() if value != getattr(GraphFlags, name)]
        if given and all(one.npz is not None for one in files):
            raise InputError(f"--{given[0].replace('_', '-')} is for tables; an .npz file says itself what it holds")
        columns["columns"], columns["edge_weight"] = _kinds(columns.pop("column")), columns.pop("weight")
        if self.label is not None and (self.kind != "tags" or len(self.label) == 1):
            if len(self.label) != 1:
                raise InputError(f"--label names {len(self.label)} columns; only --kind tags has several")
            columns["label"] = self.label[0]
        columns["edge_label"] = columns.pop("target_column")
        if columns["edge_label"] is None and columns["edge_features"]:
            raise InputError("--edge-features are for numbers on edges; name their --target-column")
        return columns


def _kinds(assignments: Sequence[str]) -> dict[str, str] | None:
    """What columns are, by name."""
    pairs = [text.rpartition("=") for text in assignments]
    if wrong := [text for text, (name, _, kind) in zip(assignments, pairs) if not name or not kind]:
        raise InputError(f"--column is {wrong[0]!r}; write name=kind, for example --column zip=category")
    return {name: kind for name, _, kind in pairs} or None


def union_of(graphs: Graph | Sequence[Graph]) -> Graph:
    """One graph as it is, or several as one, with the notes that most of them have."""
    from dpmsnc.graph import Graph
    from dpmsnc.graph.batch import GraphBatch

    if isinstance(graphs, Graph):
        return graphs
    union = GraphBatch.of(graphs).graph
    counts = Counter(note for graph in graphs for note in graph.notes).most_common(MOST_NOTES)
    return replace(union, notes=tuple(f"{note} (graphs: {count:,})" for note, count in counts))
