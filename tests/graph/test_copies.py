"""Copies of a graph: what they share, what they do not, and that no copy sees another's labels."""

import copy
import gc
import multiprocessing
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpmsnc.graph import Graph
from dpmsnc.nn.backbones.gat import Edges
from dpmsnc.nn.operator import MATRICES, GraphTensors

DERIVED = ("adjacency", "directed_adjacency", "connectivity")


def graph_of(y):
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    x, attributes = rng.random((5, 3)), rng.random((6, 2))
    names = ["p", "q", "r"]
    return Graph.build(edges, x=x, y=y, classes=["a", "b"], edge_attr=attributes, feature_names=names, directed=True)


def use(graph):
    """Everything that is kept with a graph, made."""
    tensors = GraphTensors.of(graph)
    made = [tensors.x, tensors.edges_with_loops, Edges.of(tensors), graph.index(graph.ids), graph.summary()]
    return made + [tensors.operator(name) for name in MATRICES] + [getattr(graph, name) for name in DERIVED]


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("edge_index", "x", "y", "ids", "edge_attr")
    ) and (a.target, a.notes, a.feature_names, a.directed) == (b.target, b.notes, b.feature_names, b.directed)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g)), replace])
def test_a_copy_is_equal_and_makes_its_own_operators(how):
    graph = graph_of(["a", "b", None, "a", None])
    use(graph)
    other = how(graph)
    assert other is not graph and same(graph, other)
    assert other._cache == {} and graph._cache
    other.cached("mine", lambda: 1)
    assert "mine" not in graph._cache
    assert (other.adjacency != graph.adjacency).nnz == 0 and other.index([3]).tolist() == [3]


def test_a_deep_copy_shares_no_array():
    graph = graph_of(["a", "b", None, "a", None])
    other = copy.deepcopy(graph)
    for name in ("edge_index", "x", "y", "ids", "edge_attr"):
        assert not np.shares_memory(getattr(graph, name), getattr(other, name))


def contents(graph):
    kept = len(graph._cache)
    return kept, graph.adjacency.sum(axis=1).tolist(), graph.y.tolist(), graph.feature_names


def test_a_graph_goes_to_another_process_without_what_is_kept_with_it():
    graph = graph_of(["a", "b", None, "a", None])
    use(graph)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        kept, *there = pool.apply(contents, (graph,))
    assert kept == 0 and there == list(contents(graph)[1:])


def reachable(thing):
    """Everything that an object leads to, apart from modules, classes and functions."""
    found, left = {}, [thing]
    while left:
        item = left.pop()
        if id(item) in found or isinstance(item, (type, type(gc), type(reachable))):
            continue
        found[id(item)] = item
        left.extend(gc.get_referents(item))
    return found.values()


def test_what_is_kept_with_a_graph_knows_no_labels():
    graph = graph_of(["a", "b", None, "a", None])
    use(graph)
    kept = list(reachable(graph._cache))
    assert len(graph._cache) >= 5 and any(isinstance(item, torch.Tensor) for item in kept)
    assert not any(isinstance(item, Graph) or item is graph.y for item in kept)


@pytest.mark.parametrize("relabel", [lambda g, y: g.with_labels(y), lambda g, y: g.hide(g.known).with_labels(y)])
def test_a_relabelled_copy_sees_its_own_labels(relabel):
    graph = graph_of(["a", "b", None, "a", None])
    use(graph)
    y = np.array([1, -1, 0, -1, 1])
    other = relabel(graph, y)
    use(other)
    fresh = graph_of(["b", None, "a", None, "b"])
    assert other.y.tolist() == fresh.y.tolist() and GraphTensors.of(other).graph.y.tolist() == y.tolist()
    assert other.summary() == fresh.summary() and graph.summary() != fresh.summary()
    assert other.known.tolist() == fresh.known.tolist()
    assert graph.y.tolist() == [0, 1, -1, 0, -1]


def test_copies_with_other_labels_share_operators():
    graph = graph_of(["a", "b", None, "a", None])
    other = graph.with_labels(np.array([1, -1, 0, -1, 1]))
    assert other.adjacency is graph.adjacency
    assert GraphTensors.of(other).operator("gcn") is GraphTensors.of(graph).operator("gcn")
    for revealed in (graph.reveal({2: "b"}), other):
        assert revealed.feature_names == ("p", "q", "r") and revealed.directed
        assert revealed.edge_attr is graph.edge_attr
