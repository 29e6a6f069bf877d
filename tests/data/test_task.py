import numpy as np
import pytest

from dpmsnc.data import InductiveTask, Task
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


def pair(*y, kind="class", **options):
    return Graph.build([(0, 1)], y=list(y), kind=kind, **options)


@pytest.mark.parametrize(
    ("kind", "labels", "truth"),
    [
        ("class", [("a", "b"), ("b", None), ("c", "a"), ("b", None)], [[2, 0], [1, -1]]),
        ("tags", [({"a"}, ()), ({"b"}, None), ({"a", "b"}, ()), (None, {"b"})], [[[1, 1], [0, 0]], [[-1, -1], [0, 1]]]),
        ("value", [(1.0, 3.0), (5.0, None), (1e9, -1.0), (4.0, None)], [[1e9, -1.0], [4.0, np.nan]]),
    ],
)
def test_labels_of_test_graphs_are_taken_away_whatever_a_label_is(kind, labels, truth):
    graphs = [pair(*y, kind=kind) for y in labels]
    task = InductiveTask.hiding("toy", graphs[:1], graphs[1:2], graphs[2:])
    assert {g.target for g in (*task.train, *task.validation, *task.test)} == {task.target}
    assert task.train[0].decode(task.train[0].y).tolist() == graphs[0].decode(graphs[0].y).tolist()
    np.testing.assert_array_equal(task.validation[0].known, graphs[1].known)
    assert not any(g.known.any() for g in task.test)
    for found, expected in zip(task.truth, truth, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert task.num_classes == {"class": 3, "tags": 2, "value": 0}[kind]


def test_test_numbers_of_other_graphs_do_not_leak_through_the_scale():
    graphs = [pair(1.0, 3.0, kind="value"), pair(5.0, None, kind="value"), pair(1e9, 0.0, kind="value")]
    task = InductiveTask.hiding("toy", *([graph] for graph in graphs))
    assert task.target == RealValue(shift=3.0, scale=pytest.approx(np.std([1.0, 3.0, 5.0])))


def test_labels_on_edges_of_test_graphs_are_taken_away():
    path = Graph.build([(0, 1), (1, 2)])
    graphs = [path.with_labels(np.array(y), RealValue(on="edge")) for y in ([1.0, 3.0], [2.0, np.nan], [7.0, 8.0])]
    task = InductiveTask.hiding("toy", *([graph] for graph in graphs))
    assert task.target.on == "edge" and np.isnan(task.test[0].y).all()
    assert task.truth[0].tolist() == [7.0, 8.0] and task.train[0].y.tolist() == [1.0, 3.0]


def test_a_task_of_many_graphs_that_do_not_fit_is_refused():
    one, other, dark = pair("a", "b"), pair("b", "b"), pair(None, None, classes=("a", "b"))
    right = {"train": (one,), "validation": (one,), "test": (dark,), "truth": (one.y,)}
    assert InductiveTask("toy", **right).num_classes == 2
    for part in ("train", "validation", "test"):
        with pytest.raises(InputError, match=f"toy: there is no graph in {part}"):
            InductiveTask("toy", **right | {part: ()})
    wrong = [
        ({"test": (one,)}, "test graphs show labels"),
        ({"train": (dark,)}, "training and validation graphs must have labels"),
        ({"validation": (dark,)}, "training and validation graphs must have labels"),
        ({"validation": (other,)}, "graphs have different classes"),
        ({"validation": (pair("a", "b", x=np.eye(2)),)}, "num_features 2, graph 0 has 0"),
        ({"truth": ()}, "one array per test graph"),
        ({"truth": (one.y[:1],)}, "as many labels as the graph"),
    ]
    for change, message in wrong:
        with pytest.raises(InputError, match=message):
            InductiveTask("toy", **right | change)
    with pytest.raises(InputError, match="toy: there is no graph in validation"):
        InductiveTask.hiding("toy", [one], [], [one])
