import networkx as nx
import numpy as np
import pytest

from dpmsnc.data import Task, cyclic_grid, grid_localized, grid_positions, grid_scattered
from dpmsnc.errors import InputError

SIZES = [("alternating", 4), ("alternating", 30), ("three", 6), ("three", 30)]


def to_networkx(graph):
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_edges_from(graph.edge_index.T.tolist())
    return network


@pytest.mark.parametrize("rule, columns", SIZES)
def test_the_grid_is_a_ring_of_rungs(rule, columns):
    graph = cyclic_grid(columns, rule)
    network = nx.circular_ladder_graph(columns) if rule == "alternating" else nx.circulant_graph(2 * columns, [1, 2])
    assert nx.is_isomorphic(to_networkx(graph), network)
    degree = 3 if rule == "alternating" else 4
    assert set(dict(to_networkx(graph).degree).values()) == {degree}
    assert graph.num_edges == degree * columns and (graph.edge_index[0] < graph.edge_index[1]).all()
    assert graph.x is None and graph.known.all()


def test_alternating_labels_are_the_two_sides_of_a_bipartite_graph():
    graph = cyclic_grid(10)
    assert nx.is_bipartite(to_networkx(graph))
    assert (graph.y[graph.edge_index[0]] != graph.y[graph.edge_index[1]]).all()
    assert np.bincount(graph.y).tolist() == [10, 10]


def test_in_the_rule_of_three_only_the_whole_neighbourhood_decides():
    graph = cyclic_grid(12, "three")
    network = to_networkx(graph)
    for i in network:
        others = {0, 1, 2} - {int(graph.y[i])}
        assert sorted(graph.y[list(network[i])]) == sorted([*others, *others])


@pytest.mark.parametrize("columns, rule", [(2, "alternating"), (5, "alternating"), (10, "three"), (10, "four")])
def test_impossible_grids_are_refused(columns, rule):
    with pytest.raises(InputError, match=r"columns|rule"):
        cyclic_grid(columns, rule)


@pytest.mark.parametrize(
    "make, columns, sizes",
    [(grid_scattered, 1000, (600, 600, 800)), (grid_localized, 100, (60, 60, 80)), (grid_scattered, 10, (6, 6, 8))],
)
def test_split_sizes_are_exact_and_test_labels_are_gone(make, columns, sizes):
    task = make(columns=columns)
    assert (task.train.sum(), task.validation.sum(), task.test.sum()) == sizes
    assert (task.train.astype(int) + task.validation + task.test == 1).all()
    assert (task.graph.y[task.test] == -1).all()
    assert (task.graph.y[~task.test] == task.truth[~task.test]).all() and (task.truth >= 0).all()


def test_localized_training_nodes_are_the_first_columns():
    task = grid_localized(columns=20)
    assert sorted(task.graph.ids[task.train]) == sorted(f"r{r}c{c}" for r in range(2) for c in range(6))


@pytest.mark.parametrize("make", [grid_scattered, grid_localized])
def test_a_seed_fixes_the_split(make):
    first, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert (first.test == same.test).all() and (first.validation == same.validation).all()
    assert (first.test != other.test).any()


@pytest.mark.parametrize("rule, columns, added", [("alternating", 100, 40), ("three", 99, 42)])
def test_the_extra_grid_stands_aside(rule, columns, added):
    plain, task = (grid_scattered(columns, seed=3, rule=rule, extra_grid=extra) for extra in (False, True))
    n = plain.graph.num_nodes
    parts = sorted(nx.connected_components(to_networkx(task.graph)), key=len, reverse=True)
    assert parts == [set(range(n)), set(range(n, n + added))]
    for mask in ("train", "validation", "test"):
        assert (getattr(task, mask)[:n] == getattr(plain, mask)).all()
    assert task.train[n:].sum() == task.graph.known[n:].sum() == 8
    assert not (task.validation | task.test)[n:].any()
    assert len(set(task.graph.ids.tolist())) == n + added


def test_positions_keep_rungs_and_ring_steps_short():
    graph, position = cyclic_grid(50), grid_positions(50)
    radius = np.hypot(*position.T)
    assert np.ptp(radius[:50]) == pytest.approx(0, abs=1e-12) and np.ptp(radius[50:]) == pytest.approx(0, abs=1e-12)
    assert 0 < radius[50] < radius[0]
    length = np.hypot(*(position[graph.edge_index[0]] - position[graph.edge_index[1]]).T)
    everything = np.hypot(*(position[:, None] - position[None]).transpose(2, 0, 1))
    assert length.max() < 0.15 and everything[np.triu_indices(100, 1)].min() > 0.05


def test_a_task_refuses_overlap_and_visible_test_labels():
    task = grid_localized(columns=10)
    with pytest.raises(InputError, match="more than one"):
        Task("grid", task.graph, task.truth, task.train, task.train, task.test)
    with pytest.raises(InputError, match="no others"):
        Task("grid", task.graph.with_labels(task.truth), task.truth, task.train, task.validation, task.test)


def test_hiding_forgets_what_the_labelled_graph_had_cached():
    graph = cyclic_grid(4)
    graph.cached("whole", lambda: graph)
    nodes = np.arange(8)
    task = Task.hiding("grid", graph, nodes < 2, nodes == 2, nodes > 2)
    assert task.graph.cached("whole", lambda: "made anew") == "made anew"
    assert graph.known.all()
