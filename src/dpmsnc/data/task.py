"""A graph with a split: what a method may see, and what it is scored on.

A method is given `task.graph` and `task.validation` and nothing else. Test labels are not in `task.graph` at all, so no
mistake in a method can reach them; they are only in `task.truth`, which the scorer reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph


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
    truth: NDArray[Any]
    """Every label as `graph.target` has them: indices into the classes, 0/1 or numbers; unknown where there is none."""
    train: NDArray[np.bool_]
    validation: NDArray[np.bool_]
    test: NDArray[np.bool_]

    def __post_init__(self) -> None:
        hidden = ~(self.train | self.validation)
        overlap = self.train.astype(int) + self.validation + self.test
        if overlap.max(initial=0) > 1:
            raise InputError(f"{self.name}: {int((overlap > 1).sum())} nodes are in more than one of the three splits")
        visible = self.truth.copy()
        visible[hidden] = self.graph.target.unknown(int(hidden.sum()))
        if not np.array_equal(self.graph.y, visible, equal_nan=self.truth.dtype.kind == "f"):
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
        return cls(name, graph.hide(~(train | validation)), graph.y, train, validation, test)

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes
