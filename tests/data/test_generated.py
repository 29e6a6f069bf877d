import itertools
from functools import cache

import networkx as nx
import numpy as np
import pytest

from dpmsnc.data.generated import (
    GRAPHS,
    POTTS,
    SPLITS,
    Blocks,
    bipartite,
    generated,
    gibbs_sample,
    hypercube,
    potts_reference,
    torus,
    tree,
)
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph


@cache
def drawn(name, seed):
    """A Potts model takes half a second to draw."""
    return GRAPHS[name](seed)


def agreement(graph):
    """Share of edges between nodes of one class."""
    return (graph.y[graph.edge_index[0]] == graph.y[graph.edge_index[1]]).mean()


def enumerated(graph, coupling, y_known):
    """Marginals of the Potts model by summing over every labelling."""
    states = np.array(list(itertools.product(range(graph.num_classes), repeat=graph.num_nodes)))
    i, j = graph.edge_index
    weight = np.exp(coupling * (states[:, i] == states[:, j]).sum(axis=1))
    weight *= ((states == y_known) | (y_known == -1)).all(axis=1)
    return np.array([np.bincount(column, weight, graph.num_classes) for column in states.T]) / weight.sum()


@pytest.mark.parametrize("make", [tree, torus, hypercube, bipartite])
@pytest.mark.parametrize("seed", [0, 1])
def test_two_colourings_are_proper_and_connected(make, seed):
    graph = make(seed)
    assert agreement(graph) == 0 and graph.connectivity[0] == 1
    assert graph.x is None and graph.known.all() and graph.classes == (0, 1)
    assert 480 <= graph.num_nodes <= 512


def test_two_colourings_have_the_edges_they_are_named_after():
    def network(graph):
        return nx.Graph(graph.edge_index.T.tolist())

    assert nx.is_tree(network(tree(0, num_nodes=30)))
    assert nx.is_isomorphic(network(torus(0, side=4, dimensions=2)), nx.grid_graph((4, 4), periodic=True))
    assert nx.is_isomorphic(network(hypercube(0, dimension=4)), nx.hypercube_graph(4))
    assert 2 * bipartite(0).num_edges / bipartite(0).num_nodes == pytest.approx(4, abs=0.3)


def test_an_odd_torus_is_refused():
    with pytest.raises(InputError, match="even side"):
        torus(side=5)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_seed_fixes_the_graph_and_positions_say_nothing_about_classes(name):
    graph, same, other = drawn(name, 0), GRAPHS[name](0), drawn(name, 1)
    assert np.array_equal(graph.edge_index, same.edge_index) and np.array_equal(graph.y, same.y)
    assert graph.x is same.x is None or np.array_equal(graph.x, same.x)
    assert graph.edge_index.shape != other.edge_index.shape or (graph.edge_index != other.edge_index).any()
    in_order = [graph.y[half] == 0 for half in np.array_split(np.arange(graph.num_nodes), 2)]
    assert abs(in_order[0].mean() - in_order[1].mean()) < 0.15
    assert abs((graph.y[1:] == graph.y[:-1]).mean() - (np.bincount(graph.y) ** 2).sum() / graph.num_nodes**2) < 0.1


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("split, share", [("5pct", 0.05), ("10pct", 0.1), ("30pct", 0.3), ("region", 0.2)])
def test_splits_are_disjoint_and_of_the_right_size(name, split, share):
    graph = drawn(name, 0)
    train, validation, test = SPLITS[split](graph, 1)
    labelled = round(share * graph.num_nodes)
    assert (train | validation).sum() == labelled and validation.sum() == round(0.2 * labelled)
    assert (train.astype(int) + validation + test == 1).all()
    assert np.array_equal(train, SPLITS[split](graph, 1)[0]) and (train != SPLITS[split](graph, 2)[0]).any()


def test_a_generated_task_shows_training_and_validation_labels_only():
    task, again = (generated("tree", "region", seed=1) for _ in range(2))
    assert task.name == "tree-region" and np.array_equal(task.graph.known, task.train | task.validation)
    assert np.array_equal(task.truth, again.truth) and np.array_equal(task.validation, again.validation)


def test_a_region_is_a_ball_around_a_node():
    graph = torus(0)
    train, validation, test = SPLITS["region"](graph, 5)
    inside = np.flatnonzero(train | validation)
    network = nx.Graph(graph.edge_index.T.tolist())
    distances = dict(nx.all_pairs_shortest_path_length(network))
    furthest = {i: max(distances[i][j] for j in inside) for i in inside}
    nearest = {i: min(distances[i][j] for j in np.flatnonzero(test)) for i in inside}
    assert any(furthest[i] <= nearest[i] for i in inside)
    assert nx.is_connected(network.subgraph(inside)) and 0 < validation.sum() < train.sum()


def test_unknown_names_are_refused_with_what_there_is():
    with pytest.raises(InputError, match=r"tree.*region"):
        generated("forest", "10pct")
    with pytest.raises(InputError, match=r"tree.*region"):
        generated("tree", "11pct")


@pytest.mark.parametrize("coupling", [1.3, -2.0])
def test_belief_propagation_is_exact_on_a_tree(coupling):
    edges = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (3, 6)]
    graph = Graph.build(edges, num_nodes=7, y=[0, 1, 2, 0, 1, 2, 0])
    for y_known in ([-1] * 7, [0, -1, -1, -1, -1, 2, -1], [-1, 1, 2, -1, -1, -1, 0]):
        y_known = np.array(y_known)
        reference = potts_reference(graph, coupling, y_known)
        np.testing.assert_allclose(reference, enumerated(graph, coupling, y_known), atol=1e-8)


def test_belief_propagation_says_so_where_it_does_not_converge():
    graph = drawn("potts-ferro", 0)
    with pytest.raises(InputError, match="did not converge in 3 rounds"):
        potts_reference(graph, 1.2, np.where(np.arange(400) < 50, graph.y, -1), max_rounds=3)


@pytest.mark.parametrize("coupling", [1.0, -1.5])
def test_gibbs_samples_follow_the_potts_model(coupling):
    edges, rng = np.array([[0, 1, 2, 0, 3], [1, 2, 0, 3, 4]]), np.random.default_rng(0)
    graph = Graph.build(edges, num_nodes=5, y=[0, 1, 2, 0, 1])
    copies = 3000
    many = np.concatenate([edges + 5 * k for k in range(copies)], axis=1)
    samples = gibbs_sample(many, 5 * copies, 3, coupling, 50, rng).reshape(copies, 5)
    given_first = enumerated(graph, coupling, np.array([0, -1, -1, -1, -1]))
    same = (samples == samples[:, :1]).mean(axis=0)
    np.testing.assert_allclose(same, given_first[:, 0], atol=0.03)


@pytest.mark.parametrize("name", POTTS)
def test_the_reference_is_about_as_right_as_it_says(name):
    """Over several graphs and splits, so that chance is small: its mean confidence against the share that is right."""
    confidence, right = [], []
    for seed, draw in itertools.product(range(4), range(3)):
        graph = drawn(name, seed)
        train, _, test = SPLITS["10pct"](graph, draw)
        p = potts_reference(graph, POTTS[name].coupling, np.where(train, graph.y, -1))
        confidence.append(p.max(axis=1)[test].mean())
        right.append((p.argmax(axis=1) == graph.y)[test].mean())
    assert np.mean(confidence) == pytest.approx(np.mean(right), abs=0.05) and np.mean(right) > 0.4


def test_block_models_have_the_degrees_and_the_agreement_asked_for():
    alike, unlike, heavy = (GRAPHS[f"blocks-{kind}"](0) for kind in ("assortative", "disassortative", "power-law"))
    for graph, degree, within in ((alike, 8, 0.6), (unlike, 8, 0.1), (heavy, 25, 0.4)):
        assert 2 * graph.num_edges == degree * graph.num_nodes
        assert agreement(graph) == pytest.approx(within, abs=0.03)
    degrees = np.bincount(heavy.edge_index.ravel())
    assert degrees.max() > 8 * degrees.mean() and np.bincount(alike.edge_index.ravel()).max() < 4 * 8
    assert alike.num_features == unlike.num_features == 16 and heavy.x is None
    first, second = np.sort(unlike.y[unlike.edge_index], axis=0)
    assert ((first ^ 1) == second).mean() == pytest.approx(0.7, abs=0.03)


def test_affinities_are_shares():
    for blocks in (Blocks(100, 4, 5, 0.5), Blocks(100, 4, 5, 0.1, partners=0.7), Blocks(100, 5, 5, 0.4)):
        B = blocks.affinity()
        assert B.sum() == pytest.approx(1) and np.allclose(B, B.T) and np.trace(B) == pytest.approx(blocks.within)
