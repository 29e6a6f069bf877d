"""The base model that knows nothing: every class is as likely as any other at every node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.graph import Graph


class Uniform(Baseline):
    """Knows nothing, of whatever a label is."""

    kinds = ()
    learns_answers = False

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> None:
        """There is nothing to learn."""

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return graph.target.ignorance(graph.num_nodes)
