"""What `predict` and `sample` are asked about: the fitted graph, graphs that were not fitted, or the fitted one grown.

New tables are read as the model knows them. Its features are looked for by name, so that their columns may stand in any
order, and other columns are left out with a note. Labels are matched by their text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpmsnc.cli.answer_tables import GRAPH, in_graph, read_labels
from dpmsnc.cli.graph_files import MOST_NOTES, GraphFiles, in_folder, naming
from dpmsnc.errors import InputError
from dpmsnc.estimators.several import check_names_fitted
from dpmsnc.graph import Graph
from dpmsnc.graph.cells import WHOLE
from dpmsnc.graph.derived import with_feature_order
from dpmsnc.graph.readers import edge_columns, id_column, weight_column
from dpmsnc.targets import Tags

if TYPE_CHECKING:
    from dpmsnc.cli.answer import AnswerFlags
    from dpmsnc.estimators.base import Estimator

Known = dict[Any, Any]
TOLD = ("ignored", "new levels", "gaps")
"""How notes begin that are printed with an answer."""


@dataclass(frozen=True)
class Question:
    """Arguments of the verbs: a graph, several, or None for the fitted one, and labels known since."""

    graph: Any = None
    known: Any = None
    names: Sequence[str] | None = None
    """What the graphs of several are called."""

    def first_columns(self, clf: Estimator) -> dict[str, Any]:
        """The columns that say which row is whose: id, and before it graph where there are several."""
        if clf.on == "edge":
            return self.ends(clf)
        if self.names is None:
            return {"id": (clf.graph_ if self.graph is None else self.graph).ids}
        ids = [graph.ids for graph in self.graph]
        if len({names.dtype for names in ids}) > 1:  # a column of numbers and text is no column
            ids = [names.astype(str).astype(object) for names in ids]
        return {GRAPH: np.repeat(self.names, [len(names) for names in ids]), "id": np.concatenate(ids)}

    def ends(self, clf: Estimator) -> dict[str, Any]:
        """Which row is which edge: its two nodes."""
        graphs = [clf.graph_ if self.graph is None else self.graph] if self.names is None else self.graph
        ends = [[graph.ids[row] for graph in graphs for row in [graph.edge_index[k]]] for k in (0, 1)]
        of_graph = {} if self.names is None else {GRAPH: np.repeat(self.names, [len(names) for names in ends[0]])}
        return of_graph | {name: np.concatenate(names) for name, names in zip(("source", "target"), ends)}

    def rows(self, answer: Any, axis: int = 0) -> NDArray[Any]:
        """One array of an answer, which has a list of them for several graphs."""
        return answer if self.names is None else np.concatenate(answer, axis=axis)


def check_flags(flags: AnswerFlags) -> None:
    """Raise `InputError` where flags contradict each other."""
    given = [name for name in ("edges", "graph", "graphs") if getattr(flags, name) is not None]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} are two ways to give a new graph; keep one")
    if flags.nodes is not None and flags.edges is None:
        raise InputError("--nodes goes with --edges; an edge table may be a header alone")
    if flags.grow and (flags.edges is None or flags.nodes is None):
        raise InputError("--grow needs the new nodes as --nodes, and as --edges those that came with them")
    if flags.known is not None and (flags.nodes is not None or flags.graphs is not None):
        raise InputError("labels of new nodes stand in their node table, in the column --label; leave --known out")
    if flags.known is None and flags.nodes is None and flags.graphs is None:
        for name in ("id", "label"):
            if getattr(flags, name):
                raise InputError(f"--{name} is a column of --nodes or of --known; give one of them, or leave it out")


def read_question(flags: AnswerFlags, clf: Estimator) -> Question:
    """What the flags ask about."""
    if clf.on == "edge" and (flags.known is not None or flags.grow):
        raise InputError("known numbers of edges stand in a column of --edges; name it with --target-column")
    if flags.graphs is not None:
        return _several(flags, clf, in_folder(flags.graphs))
    if flags.grow:
        return Question(_grown(flags, clf))
    graph: Graph | None = None
    known: Known | None = None
    if flags.edges is not None or flags.graph is not None:
        graph, known = _new_graph(GraphFiles("", flags.graph, flags.edges, flags.nodes), flags, clf)
        _print_notes([graph])
    elif clf.graph_.member is not None:
        raise InputError(
            "the model was fitted on several graphs and does not keep their names; "
            "say what to answer for with --graphs, --graph or --edges"
        )
    if flags.known is not None:
        labels = read_labels(flags.known, "known", flags.id, flags.label, flags.tag_separator)
        known = in_graph(labels, clf.graph_ if graph is None else graph, flags.tag_separator)
    return Question(graph, known)


def _several(flags: AnswerFlags, clf: Estimator, files: Sequence[GraphFiles]) -> Question:
    graphs, known = [], []
    for one in files:
        with naming(one.name):
            graph, labels = _new_graph(one, flags, clf)
        graphs.append(graph)
        known.append(labels)
    _print_notes(graphs)
    return Question(graphs, known, [one.name for one in files])


def _new_graph(files: GraphFiles, flags: AnswerFlags, clf: Estimator) -> tuple[Graph, Known | None]:
    """A graph with the model's features and target, and the labels that its node table has."""
    ends = {
        "source": flags.source,
        "target": flags.target,
        "directed": clf.graph_.directed,
        "edge_weight": flags.weight,
    }
    if clf.on == "edge":
        names = clf.features_.names if clf.features_.num_features else ()
        of_nodes = {"features": names} if clf.graph_.columns is None else {"columns_like": clf}
        of_edges = {"edge_features": flags.edge_features, "edge_label": flags.target_column}
        return clf._adapted(files.read({"id": flags.id, **of_nodes, **of_edges, **ends})), None
    graph = files.read(_node_columns(flags, clf) | ends)
    graph = clf._adapted(with_feature_order(graph, clf.features_.names) if files.npz else _without_labels(graph, clf))
    return graph, _table_labels(files, flags, graph)


def _grown(flags: AnswerFlags, clf: Estimator) -> Graph:
    """The fitted graph with the nodes and edges of the tables."""
    fitted = clf.graph_
    no_edges = pd.DataFrame({"source": [], "target": []})
    nodes = _without_labels(Graph.from_tables(no_edges, flags.nodes, **_node_columns(flags, clf)), clf)
    _print_notes([nodes])
    known = _table_labels(GraphFiles("", nodes=flags.nodes), flags, nodes) or {}
    table, *ends = edge_columns(flags.edges, flags.source, flags.target, [flags.weight] if flags.weight else [])
    new = nodes.ids.tolist() if fitted.ids.dtype == object else [_number(name) for name in nodes.ids.tolist()]
    by_text = {str(name): name for name in (*fitted.ids.tolist(), *new)}
    pairs = zip(*([by_text.get(str(name), str(name)) for name in id_column(table, end, "edge")] for end in ends))
    labels = [known.get(name) for name in nodes.ids.tolist()]
    weight = None if flags.weight is None else weight_column(table, flags.weight)
    return fitted.grown(new, list(pairs), x=nodes.x, y=labels, edge_weight=weight)


def _number(name: Any) -> Any:
    """An id of a text file as a number, which those of the fitted graph are."""
    return int(name) if isinstance(name, str) and WHOLE.fullmatch(name) and "." not in name else name


def _node_columns(flags: AnswerFlags, clf: Estimator) -> dict[str, Any]:
    """How a new node table is read: with the features that the model has by name."""
    features = clf.features_.names if clf.features_.num_features else ()
    label = flags.label[0] if len(flags.label) == 1 else list(flags.label) or None
    like = {"features": features} if clf.graph_.columns is None else {"columns_like": clf}
    columns = {"id": flags.id, "label": label, **like}
    return columns | {"kind": clf.target_.kind, "tag_separator": flags.tag_separator}


def _without_labels(graph: Graph, clf: Estimator) -> Graph:
    """The graph as one of the model's, whose labels are read again by text."""
    return graph.with_labels(clf.target_.unknown(graph.num_nodes), clf.target_)


def _table_labels(files: GraphFiles, flags: AnswerFlags, graph: Graph) -> Known | None:
    """The labels in the column --label of a node table."""
    if files.nodes is None or not flags.label:
        return None
    labels = read_labels(files.nodes, "node", flags.id, flags.label, flags.tag_separator)
    known = in_graph(labels, graph, flags.tag_separator)
    of_tags = isinstance(graph.target, Tags)
    check_names_fitted({name for value in known.values() for name in (value if of_tags else [value])}, graph.target)
    return known


def _print_notes(graphs: Sequence[Graph]) -> None:
    """Columns that were left out or filled, on standard error, since standard output may be the table."""
    notes = dict.fromkeys(note for graph in graphs for note in graph.notes if note.startswith(TOLD))
    for note in list(notes)[:MOST_NOTES]:
        print(f"note: {note}", file=sys.stderr)
