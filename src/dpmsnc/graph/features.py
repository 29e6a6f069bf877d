r"""How node features become the input of a network: decided once, on the fitted graph, and applied to any other.

    unit     rows brought to length 1, so that a node with many words weighs no more than one with few
    rows     rows brought to sum 1
    binary   1 where an entry is positive, else 0
    raw      as they are

Dense features that are measurements and not words are standardised by column for "unit" and "rows": if there are
negative entries, or a column that is hardly ever 0 and varies where it is not. Rows of such have no scale of their own,
dividing by a sum that happens to cancel would blow up, and a year would drown everything beside it.

A graph without features may have columns made of its structure instead (`structure=True`), standardised likewise.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.config import ScalingName
from dpmsnc.errors import InputError
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.columns import READ_ALIKE
from dpmsnc.graph.graph import Graph
from dpmsnc.graph.structure import WALKS, longest_walk, num_columns, structure_features

MEASURED = 0.9
"""Share of nodes from which on a column that is not 0 there is no word's."""
SPARSE_BELOW = 0.2
"""Share of entries that are not 0 below which a sparse product is the faster one."""


@dataclass(frozen=True, eq=False)
class Features:
    """A fitted scaling. Graphs without features have `num_features` 0."""

    scaling: ScalingName
    num_features: int
    names: tuple[str, ...] | None = None
    mean: NDArray[np.float64] | None = None
    """Of every column, where columns are standardised; else None."""
    std: NDArray[np.float64] | None = None
    """Of every column; infinite where a column does not vary, which makes it 0."""
    longest_walk: int | None = None
    """K of `structure_features`, where these stand in for features that the graph does not have; else None."""
    coding: str | None = None
    """The key of the columns that the features were made of, where they come from a table; else None."""

    @classmethod
    def fit(cls, graph: Graph, scaling: ScalingName, structure: bool = False) -> Features:
        """The scaling of the features of a graph; with `structure`, a graph without any has those of its structure."""
        x: Any = graph.x
        if structure and not graph.num_features:
            walk = longest_walk(graph)
            return cls(scaling, 0, None, *moments(structure_features(graph, walk)), walk)
        measured = x is not None and scaling in ("unit", "rows") and not sp.issparse(x) and is_measured(x)
        mean, std = moments(x) if measured else (None, None)
        coding = None if graph.columns is None else graph.columns.key
        return cls(scaling, graph.num_features, graph.feature_names, mean, std, coding=coding)

    @property
    def width(self) -> int:
        """Columns of a network's input; a graph that has none is given one of ones."""
        return self.num_features or (1 if self.longest_walk is None else num_columns(self.longest_walk))

    def transform(self, graph: Graph) -> sp.csr_array | NDArray[np.float32] | None:
        """The input of a network on a graph that has the same features, or an `InputError` that names what differs."""
        self.check(graph)
        x: Any = graph.x if self.longest_walk is None else structure_features(graph, self.longest_walk)
        if x is None:
            return None
        if self.mean is not None:
            x = x.toarray() if sp.issparse(x) else x
            return compact(((x - self.mean) / self.std).astype(np.float32))
        return compact(scale(x, self.scaling))

    def check(self, graph: Graph) -> None:
        """Raise `InputError` unless the graph has the features that were fitted, in their order."""
        check_same_names(self.names, graph.feature_names, "" if self.coding is None else f"; {READ_ALIKE}")
        if graph.num_features != self.num_features:
            raise InputError(
                f"the graph has {graph.num_features} features a node, the fitted one {self.num_features}; give the same"
            )
        if self.coding is not None and graph.columns is not None and self.coding != graph.columns.key:
            raise InputError(f"the columns of the graph were encoded in another way than at the fit; {READ_ALIKE}")

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """All of it as JSON values and arrays, which `from_state` reads."""
        names = None if self.names is None else list(self.names)
        values = {"scaling": self.scaling, "num_features": self.num_features, "names": names}
        values |= {name: getattr(self, name) for name in ("longest_walk", "coding") if getattr(self, name) is not None}
        if self.mean is None or self.std is None:
            return values, {}
        # 0 stands for an infinite deviation, since infinity in a file is taken for damage
        return values, {"mean": self.mean, "std": np.where(np.isinf(self.std), 0, self.std)}

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Features:
        """What `state` gave."""
        names = None if values["names"] is None else tuple(values["names"])
        mean, std = arrays.get("mean"), arrays.get("std")
        std = None if std is None else np.where(std == 0, np.inf, std)
        walk = values.get("longest_walk")
        if walk is not None and (walk not in WALKS or mean is None or mean.shape != (num_columns(walk),)):
            raise ValueError(f"the moments of structure features with walks of {walk} steps are missing or others")
        return cls(values["scaling"], values["num_features"], names, mean, std, walk, values.get("coding"))

    @cached_property
    def key(self) -> str:
        """Names the scaling among others on one graph."""
        if self.mean is None or self.std is None:
            return self.scaling
        return hashlib.sha256(self.mean.tobytes() + self.std.tobytes()).hexdigest()[:16]


def check_same_names(
    fitted: tuple[str, ...] | None, names: tuple[str, ...] | None, advice: str = "", what: str = "features"
) -> None:
    """Raise `InputError` where features have other names than those of the fit, or another order."""
    if not fitted or not names or names == fitted:
        return
    lacking, extra = ([name for name in a if name not in b] for a, b in ((fitted, names), (names, fitted)))
    parts = [f"{word} {short_list(found)}" for word, found in (("lacks", lacking), ("adds", extra)) if found]
    said = " and ".join(parts) or "has them in another order"
    raise InputError(f"the graph {said}: its {what} must be those of the fit, {short_list(fitted)}{advice}")


def is_measured(x: Any) -> bool:
    """Whether dense features hold negative entries or a column that is hardly ever 0 and varies where it is not, as a
    year does and a word or a flag does not."""
    if x.min(initial=0) < 0:
        return True
    varies = np.where(x != 0, x, np.inf).min(axis=0, initial=np.inf) < x.max(axis=0, initial=0)
    return bool(((np.count_nonzero(x, axis=0) > MEASURED * len(x)) & varies).any())


def moments(x: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of every column, the latter infinite where the column does not vary."""
    mean, std = (moment(axis=0, dtype=np.float64) for moment in (x.mean, x.std))  # sums of many, exactly
    return mean, np.where(std > 1e-6 * np.abs(x).max(axis=0), std, np.inf)


def scale(x: Any, scaling: ScalingName) -> Any:
    """Features that are no measurements, scaled."""
    if scaling == "raw":
        return x
    if scaling == "binary":
        return sp.csr_array((x > 0).astype(np.float32)) if sp.issparse(x) else (x > 0).astype(np.float32)
    size = np.abs(x).sum(axis=1) if scaling == "rows" else np.sqrt((x * x).sum(axis=1))
    factor = np.divide(1.0, size, out=np.zeros(len(size)), where=size > 0)
    return sp.csr_array(sp.diags_array(factor) @ x) if sp.issparse(x) else x * factor[:, None]


def compact(x: Any) -> Any:
    """Sparse where few entries are not zero, else dense: whichever multiplies faster."""
    filled = (x.nnz if sp.issparse(x) else np.count_nonzero(x)) / max(int(np.prod(x.shape)), 1)
    if filled < SPARSE_BELOW:
        return sp.csr_array(x)
    return x.toarray() if sp.issparse(x) else x
