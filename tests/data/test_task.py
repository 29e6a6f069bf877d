import numpy as np
import pytest

from dpmsnc.data import Task
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.targets import RealValue

TRAIN, VALIDATION, TEST = np.eye(4, dtype=bool)[[0, 1, 2]]


@pytest.mark.parametrize(
    ("target", "y"),
    [("class", ["a", "b", "a", None]), ("tags", [{"a"}, {"b"}, (), None]), ("value", [1.0, 3.0, 1e9, None])],
)
def test_test_labels_are_taken_away_whatever_a_label_is(target, y):
    graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=y, kind=target)
    task = Task.hiding("toy", graph, TRAIN, VALIDATION, TEST)
    assert task.graph.known.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(task.graph.y[:2], graph.y[:2])
    np.testing.assert_array_equal(task.truth, graph.y)
    with pytest.raises(InputError, match="training and validation labels and no others"):
        Task("toy", graph, graph.y, TRAIN, VALIDATION, TEST)


def test_test_numbers_do_not_leak_through_the_scale():
    graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=[1.0, 3.0, 1e9, None], kind="value")
    assert Task.hiding("toy", graph, TRAIN, VALIDATION, TEST).graph.target == RealValue(shift=2.0, scale=1.0)


def test_nodes_in_two_splits_are_refused():
    graph = Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "b", "a", "b"])
    with pytest.raises(InputError, match="1 nodes are in more than one of the three splits"):
        Task.hiding("toy", graph, TRAIN, TRAIN, TEST)
