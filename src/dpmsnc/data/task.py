"""Graphs with a split: what a method may see, and what it is scored on.

`Task` has one graph, of whose nodes some are for training, some for validation and some for the test. A method is given
`task.graph` and `task.validation` and nothing else. `InductiveTask` has many graphs, each of which is for one purpose.
A method is fitted on `task.train` and `task.validation`, and asked about `task.test`.

Test labels are in none of these graphs, so no mistake in a method can reach them; they are only in `task.truth`, which
the scorer reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch, check_alike

if TYPE_CHECKING:
    from dpmsnc.targets import Target


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


@dataclass(frozen=True, eq=False)
class InductiveTask:
    """Graphs to train on, to validate on and to test on, and the true labels of the last.

    Example:
        >>> graphs = [Graph.build([(0, 1)], y=labels) for labels in (["a", "b"], ["b", "b"], ["c", None])]
        >>> task = InductiveTask.hiding("pairs", graphs[:1], graphs[1:2], graphs[2:])
        >>> task.num_classes, task.test[0].y.tolist(), task.truth[0].tolist()
        (3, [-1, -1], [2, -1])
    """

    name: str
    train: tuple[Graph, ...]
    validation: tuple[Graph, ...]
    test: tuple[Graph, ...]
    """All their labels are unknown."""
    truth: tuple[NDArray[Any], ...]
    """The labels of every test graph as `target` has them; unknown where the data set has none."""

    def __post_init__(self) -> None:
        for part in ("train", "validation", "test"):
            if not getattr(self, part):
                raise InputError(f"{self.name}: there is no graph in {part}; pass at least one")
        graphs = (*self.train, *self.validation, *self.test)
        check_alike(graphs)
        if any(graph.target != self.target for graph in graphs):
            raise InputError(
                f"{self.name}: graphs have different classes; InductiveTask.hiding gives them those of all"
            )
        for labelled in (self.train, self.validation):
            if not any(graph.known.any() for graph in labelled):
                raise InputError(f"{self.name}: training and validation graphs must have labels; add some")
        if any(graph.known.any() for graph in self.test):
            raise InputError(f"{self.name}: test graphs show labels; InductiveTask.hiding takes them away")
        if [labels.shape for labels in self.truth] != [graph.y.shape for graph in self.test]:
            raise InputError(f"{self.name}: truth must have one array per test graph, with as many labels as the graph")

    @classmethod
    def hiding(
        cls, name: str, train: Iterable[Graph], validation: Iterable[Graph], test: Iterable[Graph]
    ) -> InductiveTask:
        """The task on fully labelled graphs, whose labels are taken away where they are for the test.

        Graphs that know different classes get the classes of all; numbers are scaled by those that are left.
        """
        train, validation, test = tuple(train), tuple(validation), tuple(test)
        graphs, first = (*train, *validation, *test), len(train) + len(validation)
        batch = GraphBatch.of(graphs)
        on = batch.graph.target.on
        member = batch.member if on == "node" else batch.edge_member
        hidden = batch.graph.hide(member >= first)
        rows, truth = batch.split(hidden.y, on), batch.split(batch.graph.y, on)[first:]
        seen = [graph.with_labels(y, hidden.target) for graph, y in zip(graphs, rows)]
        middle = len(train)
        return cls(name, tuple(seen[:middle]), tuple(seen[middle:first]), tuple(seen[first:]), tuple(truth))

    @property
    def target(self) -> Target:
        """What a label is, in all graphs alike."""
        return self.train[0].target

    @property
    def num_classes(self) -> int:
        return len(self.target.names)

    @cached_property
    def tested(self) -> Task:
        """The test graphs as one task, their disjoint union, of which no label is known and all are asked for."""
        union, truth = GraphBatch.of(self.test).graph, np.concatenate(self.truth)
        nothing = np.zeros(len(truth), dtype=bool)
        return Task(self.name, union, truth, nothing, nothing, self.target.known(truth))
