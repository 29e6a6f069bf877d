r"""Lemma 5: a latent-variable model on a network as powerful as 1-WL tells apart what AGG-WL does.

    p(chi | G) = 1 / (|Z| + 1) sum_m 1[chi = GIN(G^m)]

with GIN at random weights and a sine between layers. With ReLU, one of five random networks of width 24 was linear on
CSL(8, 2) and CSL(8, 3), since no unit switched between marked and other nodes, and a linear network sees only sums.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from attributed_graphs import lists_of_graphs, relabelled
from dpmsnc.nn.backbones.gin import GINConv
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.theory.families import csl, cycle, rook_and_shrikhande, six_node_pair, two_triangles
from dpmsnc.theory.wl import TOKEN, agg_wl_colours, agg_wl_round, single_marks, subset_marks, wl_colours, wl_round

WIDTH, LAYERS = 24, 6
CLOSE = 1e-9
"""Relative to the largest output; different colours are further apart, sums in another order closer."""


@pytest.fixture(scope="module")
def gin():
    torch.manual_seed(0)
    sizes = [4] + [WIDTH] * LAYERS
    layers = [GINConv(a, 0, b).double() for a, b in pairwise(sizes)]
    for layer in layers:
        torch.nn.init.uniform_(layer.bias, -1, 1)
    return layers


def readout(gin, graph, marks):
    """A row for every mark: sums over nodes of what each layer gives; marks are entries of the batch axis."""
    z = np.concatenate([np.full((1, graph.num_nodes), TOKEN), *([] if marks is None else [marks(graph.num_nodes)])])
    x = np.zeros(graph.num_nodes) if graph.x is None else np.asarray(graph.x)[:, 0]
    one_hot = np.concatenate([np.broadcast_to(x[:, None, None], (*z.T.shape, 1)), np.eye(3)[z.T + 1]], axis=2)
    h, tensors, sums = torch.from_numpy(one_hot), GraphTensors.of(graph, dtype=torch.float64), []
    with torch.no_grad():
        for layer in gin:
            h = torch.sin(layer.finish(layer.encode(h, tensors), tensors))
            sums.append(h.sum(dim=0))
    return torch.cat(sums, dim=1).numpy()


def distributions(gin, graphs, marks):
    """p(chi | G) of every graph, with a number for every output that occurs."""
    rows = [readout(gin, graph, marks) for graph in graphs]
    outputs = np.concatenate(rows)
    outputs = outputs / np.abs(outputs).max(axis=0).clip(1e-300)
    close = np.abs(outputs[:, None] - outputs[None]).max(axis=2) < CLOSE
    numbers = np.split(close.argmax(axis=1), np.cumsum([len(row) for row in rows])[:-1])
    return [np.bincount(found, minlength=len(outputs)) / len(found) for found in numbers]


def differ(gin, pair, marks):
    first, second = distributions(gin, pair, marks)
    return not np.array_equal(first, second)


PAIRS = {
    "C6, 2 C3": (cycle(6), two_triangles()),
    "six nodes": six_node_pair(),
    "CSL(8, 2), CSL(8, 3)": (csl(8, 2), csl(8, 3)),
    "CSL(11, 2), CSL(11, 3)": (csl(11, 2), csl(11, 3)),
    "rook, Shrikhande": rook_and_shrikhande(),
    "isomorphic": (csl(9, 2), relabelled(csl(9, 4), [3, 1, 4, 0, 5, 2, 8, 7, 6])),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_distribution_differs_where_agg_wl_separates(gin, name):
    pair = PAIRS[name]
    assert wl_round(*pair) is None and not differ(gin, pair, None)
    assert differ(gin, pair, single_marks) == (agg_wl_round(*pair) is not None)
    assert differ(gin, pair, subset_marks(2)) == (agg_wl_round(*pair, subset_marks(2)) is not None)


@settings(max_examples=40)
@given(lists_of_graphs(most=3))
def test_lemma_5_on_random_graphs(gin, graphs):
    for marks, colours in ((None, wl_colours(graphs)), (single_marks, agg_wl_colours(graphs))):
        found = distributions(gin, graphs, marks)
        for i in range(len(graphs)):
            for j in range(i):
                assert np.array_equal(found[i], found[j]) == (colours[i] == colours[j])
