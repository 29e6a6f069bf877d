"""Inputs made of structure alone are exact, follow the nodes wherever they stand, and are cheap on large graphs."""

from __future__ import annotations

import numpy as np
import pytest

from dpmsnc.graph import Graph, structure
from dpmsnc.graph.structure import (
    BUCKETS,
    LONG_WALK,
    SHORT_WALK,
    longest_walk,
    num_columns,
    return_probabilities,
    structure_features,
)


def random_graph(num_nodes=40, share=0.1, seed=0, order=None):
    """With a single node at its end; `order` says which node stands where."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(num_nodes - 1, 1)
    edges = np.stack([i, j], axis=1)[rng.random(len(i)) < share]
    place = np.arange(num_nodes) if order is None else np.argsort(order)
    return Graph.build(place[edges].tolist(), num_nodes=num_nodes)


def cycle(num_nodes):
    return Graph.build([(i, (i + 1) % num_nodes) for i in range(num_nodes)], num_nodes=num_nodes)


def star(leaves):
    return Graph.build([(0, leaf) for leaf in range(1, leaves + 1)])


@pytest.mark.parametrize("chunk", [1, 170, 2**22])
@pytest.mark.parametrize("walk", [2, 3, 6, 7])
def test_return_probabilities_are_the_diagonals_of_matrix_powers(walk, chunk, monkeypatch):
    monkeypatch.setattr(structure, "CHUNK", chunk)
    graph = random_graph()
    A = graph.adjacency.toarray().astype(float)
    P = A / np.maximum(A.sum(axis=1, keepdims=True), 1)
    exact = np.stack([np.diag(np.linalg.matrix_power(P, k)) for k in range(2, walk + 1)], axis=1)
    np.testing.assert_allclose(return_probabilities(graph.adjacency, walk), exact, atol=1e-14)
    assert not exact[-1].any()  # nothing returns where there is no edge


def test_return_probabilities_of_cycles_and_stars_have_closed_forms():
    # back after k = 2m steps of +-1: C(2m, m) / 4^m, as long as the cycle is longer than k
    np.testing.assert_allclose(
        return_probabilities(cycle(9).adjacency, 6), np.tile([1 / 2, 0, 3 / 8, 0, 5 / 16], (9, 1)), atol=1e-15
    )
    np.testing.assert_allclose(return_probabilities(cycle(3).adjacency, 3)[:, 1], 1 / 4)  # once around, either way
    leaf = [1 / 5, 0, 1 / 5, 0, 1 / 5]
    np.testing.assert_allclose(return_probabilities(star(5).adjacency, 6), [[1, 0, 1, 0, 1], *[leaf] * 5], atol=1e-15)


def test_columns_of_a_star_are_those_computed_by_hand():
    found = structure_features(star(9), SHORT_WALK)
    assert found.dtype == np.float32 and found.shape == (10, num_columns(SHORT_WALK))
    buckets, rest = found[:, : len(BUCKETS) + 1], found[:, len(BUCKETS) + 1 :]
    assert buckets.argmax(axis=1).tolist() == [9] + [1] * 9 and (buckets.sum(axis=1) == 1).all()
    np.testing.assert_allclose(rest[0], [np.log(10), np.log(2), 1], rtol=1e-6)
    np.testing.assert_allclose(rest[1:], [[np.log(2), np.log(10), 1 / 9]] * 9, rtol=1e-6)


@pytest.mark.parametrize("degree, bucket", [(0, 0), (8, 8), (9, 9), (16, 9), (17, 10), (2**16, 21), (2**16 + 1, 22)])
def test_degrees_have_buckets_of_growing_size(degree, bucket):
    assert np.searchsorted(BUCKETS, degree) == bucket <= len(BUCKETS)


def test_nodes_in_another_order_have_the_same_rows_in_that_order():
    order = np.random.default_rng(1).permutation(40)
    graph, other = random_graph(), random_graph(order=order)
    for walk in (SHORT_WALK, LONG_WALK):
        np.testing.assert_array_equal(structure_features(other, walk), structure_features(graph, walk)[order])


def test_long_walks_are_left_to_graphs_of_moderate_size(monkeypatch):
    graph = cycle(10)
    assert longest_walk(graph) == LONG_WALK
    monkeypatch.setattr(structure, "MOST_PRODUCTS", 199)
    assert longest_walk(graph) == SHORT_WALK


def test_a_graph_without_nodes_or_edges_has_columns():
    assert structure_features(Graph.build([], num_nodes=3), LONG_WALK).shape == (3, num_columns(LONG_WALK))
