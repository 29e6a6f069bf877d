"""Directed edges: their order, their reverses, and their scales."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc.pairwise.edges import LEVELS, Edges, rounded
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
    level, means = rounded(np.zeros(0))
    assert len(level) == len(means) == 0
