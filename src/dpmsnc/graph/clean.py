"""Features, labels and names as users have them, checked and cleaned for `Graph.build`; edges are in `graph.edges`.

Every check that fails raises an `InputError` that names the node, edge or value and says what to do about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.graph import UNKNOWN, Graph
from dpmsnc.graph.sparse import checked

if TYPE_CHECKING:
    from dpmsnc.targets import Target

Array = NDArray[Any]


def is_missing(value: Any) -> bool:
    """Whether a cell says nothing: None, NaN, pandas' NA or NaT, or blank text."""
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    # By name, so that asking does not import pandas.
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def plain_array(values: Any) -> Array:
    """Ids as an int64 array where all are whole numbers, else as an array of Python objects."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return values.astype(np.int64)
    items = [v.item() if isinstance(v, np.generic) else v for v in to_list(values)]
    if all(is_whole(v) for v in items):
        return np.array(items, dtype=np.int64)
    return np.fromiter(items, dtype=object, count=len(items))


def clean_features(x: Any, ids: Array) -> sp.csr_array | NDArray[np.float32] | None:
    """Features as float32, sparse where given sparse; every value must be finite."""
    if x is None:
        return None
    clean: Any = numbers(checked(x, "features") if sp.issparse(x) else x, "features")
    if clean.ndim != 2:
        raise InputError(
            f"features have shape {clean.shape}; pass an N x F array, x.reshape(-1, 1) for a single feature"
        )
    if clean.shape[0] != len(ids):
        raise InputError(f"features have {clean.shape[0]} rows for {len(ids)} nodes; pass one row per node, in order")
    if sp.issparse(clean):
        clean.sum_duplicates()
    if not np.isfinite(clean.data if sp.issparse(clean) else clean).all():
        bad = clean.tocoo() if sp.issparse(clean) else sp.coo_array(np.where(np.isfinite(clean), 0, clean))
        k = int(np.argmin(np.isfinite(bad.data)))
        raise InputError(
            f"feature column {bad.col[k]} of node {short(ids[bad.row[k]])} is NaN or infinite; "
            "fill such values in (for example with the column's mean) or drop the column"
        )
    return clean if clean.shape[1] else None


def clean_feature_names(names: Iterable[Any] | None, features: Any, what: str = "x") -> tuple[str, ...] | None:
    """Names of the features as text, one for every column; `what` is the argument that has them."""
    if names is None or features is None:
        return None
    names = tuple(map(str, names))
    if len(names) != features.shape[1]:
        raise InputError(f"{len(names)} feature names for {features.shape[1]} features; pass one per column of {what}")
    return names


def numbers(values: Any, what: str) -> Any:
    """A copy in float32, sparse where given sparse; numbers too large for it become infinite."""
    try:
        with np.errstate(over="ignore"):
            if sp.issparse(values):
                return sp.csr_array(values, dtype=np.float32, copy=True)
            return np.array(values.detach().cpu() if hasattr(values, "detach") else values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be an array of numbers ({error}); encode text columns first") from error


def clean_mask(mask: Any, count: int, what: str, row: str) -> NDArray[np.bool_]:
    """A mask with a boolean for each of `count` nodes or edges; 0 and 1 are none, since they could be positions."""
    given = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if given.dtype != bool or given.shape != (count,):
        raise InputError(
            f"{what} is a mask of {count:,} booleans, one for every {row}, not an array of shape {given.shape} and "
            f"type {given.dtype}; of positions make one with numpy.isin(numpy.arange({count}), positions)"
        )
    return given


def label_values(labels: Any, classes: Sequence[Any] | None = None) -> list[Any]:
    """Labels as Python values, None where unknown; in whole numbers -1 is unknown unless `classes` lists it."""
    if getattr(labels, "ndim", 1) > 1:
        if labels.shape[1:] != (1,):
            shape = tuple(labels.shape)
            raise InputError(f"labels have shape {shape}; pass one label per node, or kind='tags' for several")
        labels = labels.reshape(-1)
    values: list[Any] = [
        None if is_missing(v) else v.item() if isinstance(v, np.generic) else v for v in to_list(labels)
    ]
    try:
        present = set(values) - {None}
    except TypeError as error:
        raise InputError(f"a label must be a single value such as text or a number ({error})") from error
    if not all(map(is_whole, present)):
        return values
    unknown = {None} if classes is not None and UNKNOWN in classes else {None, UNKNOWN}
    return [None if v in unknown else int(v) for v in values]


def encode_labels(values: list[Any], classes: Sequence[Any]) -> NDArray[np.int64]:
    """Labels to indices into `classes`; -1 for None."""
    lookup: dict[Any, int] = {name: k for k, name in enumerate(classes)} | {None: UNKNOWN}
    if strange := list(dict.fromkeys(v for v in values if v not in lookup)):
        raise InputError(
            f"labels outside the classes: {short_list(strange)}; the classes are {short_list(classes)}: "
            "correct the labels, leave them blank, or list every class in classes="
        )
    return np.array([lookup[v] for v in values], dtype=np.int64)


def clean_labels(y: Any, num_nodes: int, classes: Sequence[Any] | None) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
    """Labels as indices into classes, and the classes."""
    values = [None] * num_nodes if y is None else label_values(y, classes)
    if len(values) != num_nodes:
        raise InputError(f"{len(values)} labels for {num_nodes} nodes; pass one per node, None where it is unknown")
    present = set(values) - {None}
    if classes is None:
        return encode_labels(values, names := ordered(present)), names
    names = tuple(v.item() if isinstance(v, np.generic) else v for v in classes)
    if len(set(names)) < len(names):
        raise InputError("a class is listed twice in classes=; list each once")
    if not any(is_whole(name) for name in names) and all(is_whole(v) and 0 <= v < len(names) for v in present):
        values = [None if v is None else names[v] for v in values]
    return encode_labels(values, names), names


def labels_of(kind: str, y: Any, num_nodes: int, classes: Sequence[Any] | None) -> tuple[Target, Array]:
    """What a label is and the labels of all nodes, unknown where y is None."""
    from dpmsnc.targets import TARGETS

    values = [None] * num_nodes if y is None else y.to_numpy() if hasattr(y, "columns") else y
    target, labels = TARGETS.find(str(kind)).from_values(values, num_nodes, classes)
    if classes is not None and not target.names and len(classes):
        raise InputError(f"classes= names classes or tags, and kind={kind!r} has none; leave it out")
    return target, labels


def refitted(target: Target, values: Any, num_rows: int, names: Sequence[Any] | None = None) -> tuple[Target, Array]:
    """A target of the same kind and place for other values, and their labels."""
    fitted, labels = target.from_values(values, num_rows, names)
    return replace(cast(Any, fitted), on=target.on), labels


def check_sequence(values: Any, name: str) -> None:
    """Raise `InputError` where an argument that holds one value per node or class is a single one."""
    if isinstance(values, (str, bytes)) or not (
        values is None or hasattr(values, "shape") or isinstance(values, Iterable)
    ):
        raise InputError(f"{name} is {short(values)}; pass a sequence or an array")


def check_names(names: Array, what: str) -> None:
    """Raise `InputError` where a node has no name, or one that cannot be looked up."""
    for k, name in enumerate(names if names.dtype == object else ()):
        if is_missing(name):
            raise InputError(f"{what} {k} is missing; name every node, or drop what has no name")
        if isinstance(name, (list, dict, set, np.ndarray)):
            raise InputError(f"{what} {k} is {short(name)}; a node is called by text, a number or a tuple")


def check_unique(ids: Array) -> None:
    """Raise `InputError` where two nodes have the same id."""
    names = ids.tolist()
    if len(set(names)) < len(names):
        twice = next(name for name, number in Counter(names).items() if number > 1)
        raise InputError(f"node id {short(twice)} occurs more than once; keep one row per node")


def ordered(names: Iterable[Any]) -> tuple[Any, ...]:
    """The names sorted, those of one type together where types do not compare."""
    names = list(names)
    try:
        return tuple(sorted(names))
    except TypeError:
        return tuple(sorted(names, key=lambda name: (type(name).__name__, str(name))))


def to_list(values: Any) -> list[Any]:
    """The values as Python's own."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number that fits into 64 bits."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-(2**63) < value < 2**63) and value == int(value)


def noted(graph: Graph, *notes: str | None) -> Graph:
    """The graph with more notes; None is none."""
    return replace(graph, notes=(*graph.notes, *filter(None, notes)))


def counted(number: int, thing: str) -> str:
    """ "1 edge", "1,200 edges"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def short(value: Any) -> str:
    """A value in a message."""
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def short_list(values: Iterable[Any]) -> str:
    """The first few values in a message."""
    shown = [short(value) for value in values]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "") if shown else "none"
