"""One graph or several, as users pass them to the verbs, and answers in the same form.

Several graphs are learned from, and answered for, as their disjoint union: no edge leads from one into another, so
nothing that works along edges can tell the difference. `Graph.member` says which of them a node belongs to. Graphs for
validation are components of the same union, of which no label is learned from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.split import Mask, as_array, named, split_known

if TYPE_CHECKING:
    from dpmsnc.graph.features import Features
    from dpmsnc.targets import Target

READERS = {
    "pandas": "Graph.from_tables(edges, nodes)",
    "networkx": "Graph.from_networkx(graph)",
    "torch_geometric": "Graph.from_pyg(data)",
    "scipy": "Graph.from_scipy(adjacency, x, y)",
    "builtins.str": "Graph.from_npz(path), or dpmsnc.data.load(name).graph for a benchmark",
}
"""How to make a graph of what other packages have, by the beginning of a type's full name."""


def are_graphs(value: Any) -> bool:
    """Whether it is a sequence of graphs, and not one graph, labels or ids."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(part, Graph) for part in value)


def listed(value: Any, asker: str) -> list[Graph]:
    """The graphs, one or several, or an `InputError` that says how to build one."""
    if isinstance(value, Graph) or are_graphs(value):
        graphs = [value] if isinstance(value, Graph) else list(value)
        if empty := [k for k, graph in enumerate(graphs) if graph.num_nodes == 0]:
            raise InputError(f"graph {empty[0]} has no nodes; leave it out")
        return graphs
    if isinstance(value, dict):
        raise InputError("a graph comes first; labels that were learned since go in by name: known={...}")
    if isinstance(value, (list, tuple)):
        if not value:
            raise InputError(
                f"{asker} was given an empty list; pass at least one graph, made with Graph.build(edges, x=x, y=y)"
            )
        value = next(part for part in value if not isinstance(part, Graph))
    if isinstance(value, Iterator):
        raise InputError(f"{asker} takes a graph or a list of them; pass list(...) of what yields them")
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    advice = next((how for start, how in READERS.items() if name.startswith(start)), "Graph.build(edges, x=x, y=y)")
    raise InputError(f"{asker} takes a Graph, not a {type(value).__name__}; build one with {advice}")


def divided(graph: Any, validation: Any, seed: int, asker: str) -> tuple[Graph, Mask, Mask]:
    """The graph to learn from, and which of its labels are trained on and which are held back.

    `validation` is one of the ways to divide the labels of the graph (`split_known`), of several graphs a list with ids
    or a mask for each, or graphs of their own.
    """
    graphs = listed(graph, asker)
    whole = union(graphs)
    whole.check_trainable()
    if not isinstance(validation, Graph) and not are_graphs(validation):
        many = len(graphs) > 1 or (not isinstance(graph, Graph) and _is_for_each(validation, graphs))
        if many and (isinstance(validation, str) or not _is_share(validation)):
            validation = held_back_of(graphs, validation)
        return scaled_by_training(whole, *split_known(whole, validation, seed))
    target, others = whole.target, listed(validation, asker)
    if target.names and (new := sorted({str(n) for g in others for n in g.classes if n not in target.names})):
        raise InputError(f"no graph to learn from has the label {new[0]}, which a validation graph has; add one")
    whole = union([*graphs, *others], target if target.names else None)
    member = whole.row_member
    assert member is not None
    held_back = whole.known & (member >= len(graphs))
    if not held_back.any():
        raise InputError("the validation graphs have no label to compare with; label some, or pass validation=None")
    return scaled_by_training(whole, whole.known & ~held_back, held_back)


def held_back_of(graphs: Sequence[Graph], validation: Any) -> Mask:
    """The rows of all graphs that ids or masks, one for each graph, name; or one mask of all rows."""
    sizes = [len(graph.y) for graph in graphs]
    if _is_for_each(validation, graphs):
        parts: Sequence[Any] = validation
    else:
        try:
            mask = np.asarray(as_array(validation))
        except ValueError:  # lists of different lengths
            mask = np.empty(0)
        if mask.dtype != bool or mask.shape != (sum(sizes),):
            raise InputError(
                f"validation names rows of {len(graphs)} graphs, and a name may occur in several of them; pass a list "
                f"of {len(graphs)} with ids, a mask or None for each graph, or graphs of their own"
            )
        parts = np.split(mask, np.cumsum(sizes)[:-1])
    found = []
    for k, (graph, part) in enumerate(zip(graphs, parts)):
        try:
            found.append(np.zeros(sizes[k], dtype=bool) if part is None else named(graph, as_array(part)))
        except InputError as error:
            raise InputError(f"validation of graph {k} of {len(graphs)}: {error}") from error
    return np.concatenate(found)


def _is_share(validation: Any) -> bool:
    """Whether labels are to be drawn, or none is held back."""
    array = isinstance(as_array(validation), np.ndarray)
    return validation is None or isinstance(validation, (int, float, np.number)) or (array and not validation.ndim)


def _is_for_each(validation: Any, graphs: Sequence[Graph]) -> bool:
    """Whether it is a list with ids, a mask or None for each of the graphs."""
    listed = isinstance(validation, (list, tuple)) and len(validation) == len(graphs)
    return listed and not any(map(_is_one, validation))


def _is_one(part: Any) -> bool:
    """Whether it is a single id or number, and neither ids nor a mask."""
    return part is not None and (isinstance(part, (str, bytes)) or not isinstance(part, Iterable))


def scaled_by_training(graph: Graph, train: Mask, held_back: Mask) -> tuple[Graph, Mask, Mask]:
    """The same, where the scale of numbers is that of training labels alone."""
    if not graph.target.names and held_back.any():
        graph = graph.with_labels(graph.y, graph.hide(held_back).target)
    return graph, train, held_back


def union(graphs: Sequence[Graph], target: Target | None = None) -> Graph:
    """The disjoint union; of one graph, that graph."""
    from dpmsnc.graph.batch import disjoint_union  # which imports scipy

    return disjoint_union(graphs, target)


def revealed(graphs: Sequence[Graph], known: Any) -> list[Graph]:
    """The graphs with more labels known, of which `known` has a mapping, or None, for each."""
    if known is None:
        return list(graphs)
    if not isinstance(known, (list, tuple)) or len(known) != len(graphs):
        raise InputError(f"known of {len(graphs)} graphs is a list with a mapping, or None, for each of them")
    return [graph if labels is None else graph.reveal(labels) for graph, labels in zip(graphs, known)]


def check_fits(graph: Graph, fitted: Graph, features: Features) -> None:
    """Raise `InputError` unless the graph has the features of the fitted one, and weights if that has any."""
    features.check(graph)
    if (graph.edge_weight is None) != (fitted.edge_weight is None):
        ours, theirs = ("has", "no") if fitted.edge_weight is None else ("has no", "")
        raise InputError(
            f"the graph {ours} edge weights and the fitted one has {theirs or 'some'}; name the column of the weights "
            "(edge_weight=, --weight) in both or in none"
        )


def check_names_fitted(names: Iterable[Any], target: Target) -> None:
    """Raise `InputError` where one of these classes or tags is not among those that were fitted."""
    from dpmsnc.graph.clean import short_list

    if target.names and (new := [name for name in names if name not in target.names]):
        raise InputError(
            f"the model was not fitted with {short_list(new)}, only with {short_list(target.names)}; "
            "fit again on a graph that has the new ones, or leave those labels blank"
        )


def by_graph(rows: NDArray[Any], union: Graph, axis: int = 0) -> list[NDArray[Any]]:
    """The rows of every graph, from those of the union of several."""
    member = union.row_member
    assert union.member is not None and member is not None
    sizes = np.bincount(member, minlength=int(union.member[-1]) + 1)
    return np.split(rows, np.cumsum(sizes)[:-1], axis=axis)


def only(graph: Graph, mask: NDArray[np.bool_]) -> NDArray[Any]:
    """The labels of a graph within a mask, unknown elsewhere."""
    y = graph.target.unknown(len(graph.y))
    y[mask] = graph.y[mask]
    return y


def same_features(x: Any, other: Any) -> bool:
    """Whether two matrices of features, sparse or dense, hold the same numbers."""
    if x is None or other is None or x.shape != other.shape:
        return x is other
    return not (x != other).sum()


def described(target: Target) -> str:
    """What a label is, in words: "class of a node"."""
    return f"{target.kind} of {'an edge' if getattr(target, 'on', 'node') == 'edge' else 'a node'}"
