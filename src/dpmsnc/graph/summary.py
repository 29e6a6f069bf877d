"""What a graph is like, for a person to read before fitting: sizes, labels, homophily, components, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.graph.graph import UNKNOWN, Graph


@dataclass(frozen=True)
class Summary:
    """What `Graph.summary` found; `print` it."""

    num_nodes: int
    num_edges: int
    num_features: int
    feature_density: float
    """Share of the features that are not zero."""
    class_counts: dict[Any, int]
    """How often each class or tag is known."""
    num_known: int
    num_unknown: int
    homophily: float | None
    """Share of edges that join equal labels, among edges with both labels known; None where there are none."""
    num_labelled_edges: int
    num_components: int
    num_isolated: int
    memory_mb: float
    notes: tuple[str, ...] = ()
    directed: bool = False
    num_graphs: int = 1
    weights: tuple[float, float, float] | None = None
    """Least, mean and largest weight of an edge; None where they have none."""
    columns: tuple[tuple[str, str], ...] = ()
    """Columns of the node table, and what was done to each."""

    def __str__(self) -> str:
        features = f"{self.num_features:,} ({self.feature_density:.1%} non-zero)" if self.num_features else "none"
        if self.homophily is None:
            homophily = "no edge with both labels known"
        else:
            homophily = f"{self.homophily:.2f} over {self.num_labelled_edges:,} edges with both labels known"
        rows = {
            "nodes": f"{self.num_nodes:,}",
            "edges": f"{self.num_edges:,}{' directed' if self.directed else ''}",
            "features": features,
            "labels": f"{self.num_known:,} known, {self.num_unknown:,} unknown",
            "classes": ", ".join(f"{name} ({count:,})" for name, count in self.class_counts.items()) or "none",
            "homophily": homophily,
            "components": f"{self.num_components:,} ({self.num_isolated:,} isolated nodes)",
            "memory": f"about {self.memory_mb:,.0f} MB to fit",
        }
        if self.weights is not None:
            least, mean, most = self.weights
            rows["edges"] += f", weights {least:g} to {most:g} (mean {mean:g})"
        if self.num_graphs > 1:
            rows = {"graphs": f"{self.num_graphs:,}"} | rows
        lines = ["Graph", *(f"  {name:<12}{value}" for name, value in rows.items())]
        lines += [f"  {'column':<12}{name}: {done}" for name, done in self.columns]
        return "\n".join([*lines, *(f"  {'note':<12}{note}" for note in self.notes)])


def summarise(graph: Graph, hidden_channels: int, num_layers: int, draws: int) -> Summary:
    """`Graph.summary`.

    The memory of a fit is estimated as 4 bytes * nodes * draws * hidden_channels * num_layers * 6 (values, gradients,
    dropout masks and scratch of each layer) plus the bytes of the features.
    """
    components, isolated = graph.connectivity
    labelled = _node_classes(graph)[graph.edge_index]
    both_known = (labelled != UNKNOWN).all(axis=0)
    x: Any = graph.x
    filled = 0 if x is None else x.nnz if sp.issparse(x) else np.count_nonzero(x)
    return Summary(
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        num_features=graph.num_features,
        feature_density=filled / max(1, graph.num_nodes * graph.num_features),
        class_counts={name: int(_has(graph.y, k).sum()) for k, name in enumerate(graph.classes)},
        num_known=int(graph.known.sum()),
        num_unknown=int((~graph.known).sum()),
        homophily=float((labelled[0] == labelled[1])[both_known].mean()) if both_known.any() else None,
        num_labelled_edges=int(both_known.sum()),
        num_components=components,
        num_isolated=isolated,
        memory_mb=(24 * graph.num_nodes * draws * hidden_channels * num_layers + _num_bytes(x)) / 1e6,
        notes=graph.notes,
        directed=graph.directed,
        weights=_weights(graph.edge_weight),
        columns=() if graph.columns is None else graph.columns.report,
        num_graphs=1 if graph.member is None else len(np.unique(graph.member)),
    )


def _weights(weight: NDArray[np.float32] | None) -> tuple[float, float, float] | None:
    return None if weight is None or not len(weight) else (weight.min(), weight.mean(), weight.max())


def _has(y: NDArray[Any], k: int) -> NDArray[np.bool_]:
    """Which labels are or include class k."""
    return y == k if y.ndim == 1 else y[:, k] == 1


def _node_classes(graph: Graph) -> NDArray[Any]:
    """The class of every node, unknown where labels are something else than classes of nodes."""
    one_class = graph.y.ndim == 1 and graph.classes and getattr(graph.target, "on", "node") == "node"
    return graph.y if one_class else np.full(graph.num_nodes, UNKNOWN)


def _num_bytes(x: Any) -> int:
    if x is None:
        return 0
    return x.data.nbytes + x.indices.nbytes + x.indptr.nbytes if sp.issparse(x) else x.nbytes
