"""1-WL and AGG-WL against their definitions, and the lemmas of the paper's appendix as properties."""

from itertools import combinations, pairwise, permutations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from attributed_graphs import attributed_graphs, lists_of_graphs, relabelled, same_partition, spelled_colour
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.theory import wl
from dpmsnc.theory.wl import (
    TOKEN,
    Union,
    agg_wl_colours,
    agg_wl_round,
    lexicographic_ranks,
    single_marks,
    subset_marks,
    wl_colours,
    wl_round,
)

PATH = Graph.build([(0, 1), (1, 2), (2, 3)])
STAR = Graph.build([(0, 1), (0, 2), (0, 3)])
MARK_SETS = {
    "none": lambda n: np.zeros((0, n), dtype=int),
    "all zero": lambda n: np.zeros((1, n), dtype=int),
    "one node": single_marks,
    "two nodes": subset_marks(2),
    "several values": lambda n: 3 * np.eye(n, dtype=int) + 1,
}
any_marks = st.sampled_from(list(MARK_SETS.values()))


def spelled_agg_colours(graphs, marks):
    rounds = max(graph.num_nodes for graph in graphs)
    return [
        sorted(
            sorted(map(repr, spelled_colour(graph, z, rounds)))
            for z in [[TOKEN] * graph.num_nodes, *marks(graph.num_nodes)]
        )
        for graph in graphs
    ]


@settings(max_examples=50)
@given(st.lists(attributed_graphs(), min_size=2, max_size=5))
def test_1wl_is_algorithm_3(graphs):
    spelled = [spelled_colour(graph, [TOKEN] * graph.num_nodes, rounds=7) for graph in graphs]
    assert same_partition(wl_colours(graphs).tolist(), spelled)


@settings(max_examples=30)
@given(st.lists(attributed_graphs(5), min_size=2, max_size=4), any_marks)
def test_agg_wl_is_algorithm_4(graphs, marks):
    assert same_partition(agg_wl_colours(graphs, marks).tolist(), spelled_agg_colours(graphs, marks))


@given(lists_of_graphs())
def test_lemma_1_graphs_that_differ_never_become_equal(graphs):
    union = Union(graphs)
    colours = [union.graph_colours(found) for found in union.rounds(most=10)]
    for before, after in pairwise(colours):
        for i, j in combinations(range(len(graphs)), 2):
            assert before[i] == before[j] or after[i] != after[j]


def test_lemma_1_where_neighbours_alone_would_forget_the_attributes():
    # all attributes change sides: without its own colour a node would only see that of the other
    first, second = (Graph.build([], num_nodes=2, x=[[a], [b]]) for a, b in ((0.0, 0.0), (0.0, 1.0)))
    assert wl_round(first, second) == 0
    assert wl_colours([first, second]).tolist() == [0, 1]


@given(lists_of_graphs(), any_marks)
def test_lemma_2_agg_wl_separates_what_1wl_does(graphs, marks):
    plain, augmented = wl_colours(graphs), agg_wl_colours(graphs, marks)
    for i, j in combinations(range(len(graphs)), 2):
        assert plain[i] == plain[j] or augmented[i] != augmented[j]


@settings(max_examples=50)
@given(lists_of_graphs())
def test_without_marks_agg_wl_is_1wl(graphs):
    assert same_partition(agg_wl_colours(graphs, MARK_SETS["none"]).tolist(), wl_colours(graphs).tolist())


@settings(max_examples=50)
@given(lists_of_graphs(), any_marks)
def test_the_token_is_no_mark(graphs, marks):
    union = Union(graphs, marks)
    *_, colours = union.rounds()
    first = np.cumsum(union.copies) - union.copies
    is_token = np.isin(np.arange(union.copies.sum()), first)
    named = union.copy_colours(colours)
    assert not set(named[is_token]) & set(named[~is_token])


@settings(max_examples=50)
@given(attributed_graphs(6), st.permutations(range(6)), any_marks)
def test_no_test_separates_isomorphic_graphs(graph, order, marks):
    other = relabelled(graph, order)
    assert wl_round(graph, other) is None and agg_wl_round(graph, other, marks) is None


@settings(max_examples=50)
@given(lists_of_graphs())
def test_colours_are_canonical(graphs):
    """Names depend neither on the order of nodes nor on how large T is once colours are stable."""
    *_, stable = Union(graphs).rounds()
    backwards = [relabelled(graph, range(graph.num_nodes)[::-1]) for graph in graphs]
    *_, found = Union(backwards).rounds()
    for a, b in zip(Union(graphs).split(stable), Union(backwards).split(found)):
        assert a[0].tolist() == b[0].tolist()[::-1]


@settings(max_examples=50)
@given(lists_of_graphs(), any_marks)
def test_rounds_agree_with_final_colours(graphs, marks):
    final = agg_wl_colours(graphs, marks)
    for i, j in combinations(range(len(graphs)), 2):
        assert (agg_wl_round(graphs[i], graphs[j], marks) is None) == (final[i] == final[j])
    plain = wl_colours(graphs)
    assert (wl_round(graphs[0], graphs[1]) is None) == (plain[0] == plain[1])


@given(st.lists(attributed_graphs(6), min_size=2, max_size=3))
@settings(max_examples=30)
def test_networkx_agrees(graphs):
    """`weisfeiler_lehman_graph_hash` joins labels without separators, so that all labels have one width."""

    def hashed(graph, marks):
        there = nx.Graph(graph.edge_index.T.tolist())
        there.add_nodes_from((v, {"x": f"{int(graph.x[v, 0])}{marks[v] + 1}"}) for v in range(graph.num_nodes))
        return nx.weisfeiler_lehman_graph_hash(there, node_attr="x", iterations=graph.num_nodes)

    nothing = np.full(6, TOKEN)
    plain = [hashed(graph, nothing) for graph in graphs]
    augmented = [sorted(hashed(graph, z) for z in [nothing, *single_marks(6)]) for graph in graphs]
    assert same_partition(wl_colours(graphs).tolist(), plain)
    assert same_partition(agg_wl_colours(graphs).tolist(), augmented)


@settings(max_examples=30)
@given(st.lists(attributed_graphs(5), min_size=2, max_size=4))
def test_all_ways_to_number_the_nodes_decide_isomorphism(graphs):
    """The largest set of marks, which noise stands for."""
    colours = agg_wl_colours(graphs, lambda n: np.array(list(permutations(range(n)))))
    there = [nx.empty_graph(5) for _ in graphs]
    for other, graph in zip(there, graphs):
        other.add_edges_from(graph.edge_index.T.tolist())
        nx.set_node_attributes(other, dict(enumerate(graph.x[:, 0].tolist())), "x")
    for i, j in combinations(range(len(graphs)), 2):
        same = nx.is_isomorphic(there[i], there[j], node_match=lambda a, b: a == b)
        assert (colours[i] == colours[j]) == same


def test_refinement_of_a_path_by_hand():
    ends, middle = [0, 3], [1, 2]
    rounds = [found.tolist() for found in Union([PATH]).rounds()]
    assert rounds == [[0, 0, 0, 0], [0, 1, 1, 0]]
    assert [rounds[1][v] for v in ends] == [0, 0] and [rounds[1][v] for v in middle] == [1, 1]
    assert [found.tolist() for found in Union([PATH]).rounds(most=0)] == [[0, 0, 0, 0]]


def test_colours_are_shared_between_graphs():
    _, degrees, stable = Union([PATH, STAR]).rounds()
    path, star = Union([PATH, STAR]).split(degrees)
    assert set(path[0]) & set(star[0]) == {path[0][0]}  # an end has one neighbour in both
    path, star = Union([PATH, STAR]).split(stable)
    assert not set(path[0]) & set(star[0])  # and that one has two or three


def test_round_of_separation():
    assert wl_round(PATH, STAR) == 1
    assert wl_round(PATH, PATH) is None
    path = [(i, i + 1) for i in range(9)]
    found = []
    for k in (2, 3):  # a leaf on a path of ten nodes, k steps from its end, or one more
        pair = [Graph.build([*path, (at, 10)]) for at in (k, k + 1)]
        found.append(wl_round(*pair))
        spelled = [[spelled_colour(graph, [0] * 11, t) for graph in pair] for t in range(5)]
        assert found[-1] == next(t for t, (a, b) in enumerate(spelled) if a != b)
    assert found == [2, 3]


@pytest.mark.parametrize("other", [STAR, Graph.build([(0, 1)]), Graph.build([(0, 1), (1, 2), (2, 3), (0, 3)])])
def test_graphs_of_any_size_can_be_compared(other):
    assert wl_colours([PATH, other]).tolist()[0] != wl_colours([PATH, other]).tolist()[1]
    assert agg_wl_round(PATH, other) is not None
    sizes_differ = (PATH.num_nodes, PATH.num_edges) != (other.num_nodes, other.num_edges)
    assert (wl_round(PATH, other) == 0) == sizes_differ


@settings(max_examples=50)
@given(st.integers(1, 2**31 - 1), st.integers(1, 40), st.data())
def test_ranks_are_exact_however_wide_rows_and_colours_are(largest, width, data):
    row = st.lists(st.sampled_from([0, 1, largest]), min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    rows += [[*rows[0][:k], 1 - rows[0][k] if rows[0][k] < 2 else 0, *rows[0][k + 1 :]] for k in range(width)]
    order = sorted(set(map(tuple, rows)))
    assert lexicographic_ranks(np.array(rows).T).tolist() == [order.index(tuple(row)) for row in rows]


def test_sparse_attributes_and_negative_zero():
    dense = Graph.build([(0, 1)], x=np.array([[0.0, 2.0], [1.0, 0.0]]))
    sparse = Graph.build([(0, 1)], x=sp.csr_array(np.array([[1.0, -0.0], [-0.0, 2.0]])))
    assert wl_round(dense, sparse) is None and agg_wl_round(dense, sparse) is None


@pytest.mark.parametrize(
    "other, says",
    [
        (Graph.build([(0, 1)], directed=True), "directed"),
        (Graph.build([(0, 1)], edge_attr=[[1.0]]), "attributed edges"),
        (Graph.build([(0, 1)], x=[[1.0], [0.0]]), "1 and none node attributes"),
    ],
)
def test_what_has_no_colour_is_refused(other, says):
    for compare in (wl_round, agg_wl_round):
        with pytest.raises(InputError, match=says):
            compare(PATH, other)
    with pytest.raises(InputError, match=says):
        wl_colours([PATH, other])


@pytest.mark.parametrize(
    "marks, says",
    [
        (lambda n: np.full((1, n), -1), "below 0"),
        (lambda n: np.zeros((1, n + 1), dtype=int), "one row a mark"),
        (lambda n: np.zeros((1, n)), "give integers"),
    ],
)
def test_wrong_marks_are_refused(marks, says):
    with pytest.raises(InputError, match=says):
        agg_wl_colours([PATH], marks)


def test_boolean_marks():
    assert agg_wl_round(PATH, STAR, lambda n: np.eye(n, dtype=bool)) == 1


def test_no_graphs_and_no_marked_nodes_are_refused():
    with pytest.raises(InputError, match="no graph"):
        wl_colours([])
    with pytest.raises(InputError, match="at least 1"):
        subset_marks(0)


def test_what_would_not_fit_is_refused_before_it_is_made(monkeypatch):
    with pytest.raises(InputError, match="too many sets"):
        agg_wl_colours([Graph.build([(0, 99_999)])])
    monkeypatch.setattr(wl, "LARGEST_UNION", 100)
    with pytest.raises(InputError, match="more than 100"):
        agg_wl_colours([PATH, PATH, PATH])
