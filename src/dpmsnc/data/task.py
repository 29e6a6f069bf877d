"""A graph with a split: what a method may see, and what it is scored on.

A method is given `task.graph` and `task.validation` and nothing else. Test labels are not in `task.graph` at all, so no
mistake in a method can reach them; they are only in `task.truth`, which the scorer reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph


@dataclass(frozen=True, eq=False)
class Task:
    """One graph, its true labels, and disjoint masks of training, validation and test nodes.

    Example:
        >>> from dpmsnc.data import grid_localized
        >>> task = grid_localized(columns=10)
        >>> int(task.graph.known.sum()), int(task.test.sum()), task.num_classes
        (12, 8, 2)
    """

    name: str
    graph: Graph
    """Its `y` holds the training and validation labels only."""
    truth: NDArray[np.int64]
    """Every label as an index into `graph.classes`; -1 where the data set has none."""
    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        overlap = self.train.astype(int) + self.validation + self.test
        if overlap.max(initial=0) > 1:
            raise InputError(f"{self.name}: {int((overlap > 1).sum())} nodes are in more than one of the three splits")
        visible = np.where(self.train | self.validation, self.truth, UNKNOWN)
        if not np.array_equal(self.graph.y, visible):
            raise InputError(f"{self.name}: the graph must show the training and validation labels and no others")

    @classmethod
    def hiding(
        cls,
        name: str,
        graph: Graph,
        train: NDArray[np.bool_],
        validation: NDArray[np.bool_],
        test: NDArray[np.bool_],
    ) -> Task:
        """The task on a fully labelled graph, whose labels outside training and validation are taken away.

        Nodes for which the data set itself has no label are taken out of all three splits.
        """
        train, validation, test = (mask & graph.known for mask in (train, validation, test))
        # a copy has an empty cache; with one shared, what is cached would hold the fully labelled graph
        visible = replace(graph, y=np.where(train | validation, graph.y, UNKNOWN))
        return cls(name, visible, graph.y, train, validation, test)

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes
