"""Directed edges: their order, their reverses, and their scales."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edges import LEVELS, Edges, Levels, edges_of
from pairwise_models import graph_of, random_tree


def many_degrees():
    return graph_of([tuple(e) for e in nx.barabasi_albert_graph(200, 3, seed=0).edges], 200)


@pytest.mark.parametrize("graph", [random_tree(30, 0), many_degrees(), graph_of([(0, 3)], 5), graph_of([], 2)])
def test_the_reverse_is_an_involution_that_flips_ends(graph):
    edges = Edges(graph)
    reverse = edges.reverse.numpy()
    assert len(edges) == 2 * graph.num_edges
    assert (reverse[reverse] == np.arange(len(edges))).all() and (edges.start[reverse] == edges.end).all()
    assert (edges.level[reverse] == edges.level).all()  # a coupling is the same both ways
    pairs = {(int(i), int(j)) for i, j in graph.edge_index.T}
    assert set(zip(edges.start.tolist(), edges.end.tolist())) == pairs | {(j, i) for i, j in pairs}


def test_levels_are_blocks_of_edges():
    edges = Edges(many_degrees())
    assert (np.diff(edges.level) >= 0).all() and sum(edges.sizes) == len(edges) and len(edges.sizes) <= LEVELS


def test_collect_sums_what_arrives_and_send_copies_what_a_node_has():
    edges = Edges(random_tree(9, 2))
    at_nodes = torch.randn(9, 2, 3)
    assert torch.equal(edges.send(at_nodes), at_nodes[edges.start])
    on_edges = torch.randn(len(edges), 2, 3)
    expected = torch.zeros(9, 2, 3).index_add_(0, torch.from_numpy(edges.end), on_edges)
    torch.testing.assert_close(edges.collect(on_edges), expected)


def test_scales_are_exact_where_degrees_are_few():
    graph = random_tree(12, 1)
    edges, degree = Edges(graph), np.bincount(graph.edge_index.ravel())
    scale = edges.scales(torch.tensor(0.6), edges.mean_log).numpy()[edges.level]
    product = np.log(degree[edges.start] * degree[edges.end])
    assert len(np.unique(product)) <= LEVELS and len(np.unique(product)) > 2
    np.testing.assert_allclose(scale, np.exp(-0.3 * (product - product.mean())), rtol=1e-5)
    assert np.log(scale).mean() == pytest.approx(0, abs=1e-5)


def test_where_degrees_are_many_every_level_is_their_mean():
    graph = many_degrees()
    edges, degree = Edges(graph), np.bincount(graph.edge_index.ravel())
    product = np.log(degree[edges.start] * degree[edges.end])
    for k in range(len(edges.levels)):
        assert edges.levels[k] == pytest.approx(product[edges.level == k].mean())
    assert np.abs(product - edges.levels[edges.level]).mean() < 0.5 * np.abs(product - product.mean()).mean()
    assert len(edges.levels) > 3 and (np.diff(edges.levels) > 0).all()


def test_no_scale_where_gamma_is_zero():
    edges = Edges(many_degrees())
    assert (edges.scales(torch.tensor(0.0), 3.0) == 1).all()


def test_rounding_of_no_values():
    level, means = Levels.of(np.zeros(0)).round(np.zeros(0))
    assert len(level) == len(means) == 0
    level, means = Levels.of(np.zeros(0)).round(np.array([2.0, 1.0, 2.0]))
    assert means[level].tolist() == [2, 1, 2]


def test_another_graph_is_rounded_by_the_levels_of_the_fitted_one():
    values = np.random.default_rng(0).exponential(size=500)
    levels = Levels.of(values)
    level, means = levels.round(values)
    assert len(means) == LEVELS and means is levels.means
    beyond = np.array([values.max() + 1, -3.0, values.max() + 1])
    longer, more = levels.round(np.concatenate([values[::7], beyond]))
    np.testing.assert_array_equal(longer[:-3], level[::7])
    np.testing.assert_array_equal(more[longer[-3:]], beyond)


def test_few_different_numbers_stay_exact_beside_new_ones():
    levels = Levels.of(np.array([1.0, 2.0, 2.0]))
    level, means = levels.round(np.array([2.0, 1.5, 7.0, 1.0]))
    assert means[level].tolist() == [2.0, 1.5, 7.0, 1.0]


def test_the_scale_of_an_edge_stays_when_the_graph_grows_elsewhere():
    graph = many_degrees()
    larger = graph.grown(range(200, 220), [(200, k) for k in (199, *range(201, 220))])
    before, after = edges_of(graph), edges_of(larger, graph)
    scales = [dict(zip(zip(e.start.tolist(), e.end.tolist()), e.levels[e.level])) for e in (before, after)]
    touched = {(i, j) for i, j in scales[0] if 199 in (i, j)}
    assert all(scales[1][pair] == scales[0][pair] for pair in scales[0].keys() - touched)
    assert edges_of(graph.with_labels(graph.y), graph) is before
