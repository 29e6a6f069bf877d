"""The disjoint union of graphs, and which row belongs to which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.graph import Graph


@dataclass(frozen=True)
class GraphBatch:
    graph: Graph
    member: NDArray[np.int64]

    @classmethod
    def of(cls, graphs: Sequence[Graph]) -> GraphBatch:
        if len({(graph.classes, graph.num_features) for graph in graphs}) != 1:
            raise InputError(
                "graphs to train on together need the same classes, in the same order, and the same features"
            )
        sizes = np.array([graph.num_nodes for graph in graphs])
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        x = None
        if graphs[0].x is not None:
            sparse = any(sp.issparse(graph.x) for graph in graphs)
            x = (
                sp.csr_array(sp.vstack([graph.x for graph in graphs]))
                if sparse
                else np.concatenate([g.x for g in graphs])
            )
        union = Graph(
            num_nodes=int(sizes.sum()),
            edge_index=np.concatenate([graph.edge_index + start for graph, start in zip(graphs, first)], axis=1),
            x=x,
            y=np.concatenate([graph.y for graph in graphs]),
            target=graphs[0].target,
            ids=np.arange(sizes.sum()),
        )
        return cls(union, np.repeat(np.arange(len(graphs)), sizes))
