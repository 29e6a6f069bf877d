"""Training on parts of a graph: the parts are the graph's own, and a run on them is learned from and repeatable."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpmsnc import NodeClassifier
from dpmsnc.baselines import LabelPropagation
from dpmsnc.config import Sampling, StartName, Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import only
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import GraphTensors, Operator
from dpmsnc.training.checkpoint import identity
from dpmsnc.training.partitions import CLUSTERS_PER_PART, Parts
from random_graphs import random_graph

pytestmark = pytest.mark.usefixtures("brief_couplings")
TASK = grid_scattered(columns=40, seed=0)
OPTIONS = {"steps": 30, "refresh_every": 10, "initialiser_refreshes": 2, "evaluate_every": 10}


def source_of(clf):
    """The source that a fit of the classifier would train on."""
    clf.train_, clf.validation_ = TASK.train, TASK.validation
    clf._take(TASK.graph, Features.fit(TASK.graph, clf.scaling))
    return clf._trainer(TASK.graph, only(TASK.graph, TASK.train), only(TASK.graph, TASK.validation)).source


def classifier(start: StartName = "initialiser", **options) -> NodeClassifier:
    training = Training(**(OPTIONS | {"parts": 2} | options))
    sampling = Sampling(steps=5, progressive=0.0)
    return NodeClassifier(hidden_channels=8, initialiser="uniform", start=start, sampling=sampling, training=training)


def fitted(**options) -> NodeClassifier:
    return classifier(**options).fit(TASK.graph, TASK.validation)


def same(a: NodeClassifier, b: NodeClassifier) -> bool:
    weights, others = a.denoiser_.state_dict(), b.denoiser_.state_dict()
    return all(torch.equal(weights[name], others[name]) for name in weights) and torch.equal(a.buffer_, b.buffer_)


def rounds(parts: Parts, count: int) -> list[list[list[int]]]:
    generator = torch.Generator().manual_seed(0)
    return [parts.draw(generator) for _ in range(count)]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_every_node_comes_once_each_time_round(count):
    parts = Parts(GraphTensors.of(TASK.graph), count)
    for drawn in rounds(parts, 3):
        assert len(drawn) == count
        nodes = torch.cat([parts.join(clusters)[0] for clusters in drawn])
        assert torch.equal(nodes.sort().values, torch.arange(TASK.graph.num_nodes))


def test_parts_are_near_in_size_and_other_ones_each_time_round():
    parts = Parts(GraphTensors.of(TASK.graph), 2)
    first, second = rounds(parts, 2)
    assert first != second
    sizes = [len(parts.join(clusters)[0]) for clusters in (*first, *second)]
    assert max(sizes) - min(sizes) < TASK.graph.num_nodes / 4


def test_clusters_lose_few_edges():
    parts = Parts(GraphTensors.of(TASK.graph), 4)
    kept = sum(parts.join([cluster])[1].graph.num_edges for cluster in parts.filled.tolist())
    assert len(parts.filled) == 4 * CLUSTERS_PER_PART
    assert kept > 0.5 * TASK.graph.num_edges  # a random cut keeps a twentieth


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_a_part_is_the_induced_subgraph_with_the_features_of_the_whole(sparse):
    graph = random_graph(num_nodes=30, sparse=sparse)
    if not sparse:
        graph = Graph.build(graph.edge_index, x=graph.x - 0.5)  # below zero, so scaled by what all nodes have
    whole = GraphTensors.of(graph)
    parts = Parts(whole, 3)
    for clusters in rounds(parts, 1)[0]:
        nodes, part = parts.join(clusters)
        nodes = nodes.numpy()
        assert (part.graph.adjacency != graph.adjacency[nodes][:, nodes]).nnz == 0
        assert np.array_equal(part.graph.ids, graph.ids[nodes])
        assert np.allclose(dense(part.x), dense(whole.x)[nodes])


def dense(x: Operator | torch.Tensor) -> np.ndarray:
    return (x.matrix.to_dense() if isinstance(x, Operator) else x).numpy()


def test_a_part_is_normalised_by_its_own_degrees():
    parts = Parts(GraphTensors.of(TASK.graph), 2)
    nodes, part = parts.join(rounds(parts, 1)[0][0])
    looped = TASK.graph.adjacency[nodes.numpy()][:, nodes.numpy()].toarray() + np.eye(len(nodes))
    scale = looped.sum(axis=1) ** -0.5
    assert np.allclose(part.operator("gcn").matrix.to_dense(), scale[:, None] * looped * scale)


def test_one_part_is_the_whole_graph_without_metis(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    source = source_of(classifier(parts=1))
    nodes, graph = source.part()
    assert nodes == slice(None) and graph is source.graph and source.parts_left == []


def test_without_metis_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match=r'pip install "dpmsnc\[scale\]"'):
        fitted()


def test_more_parts_than_nodes_are_refused():
    with pytest.raises(InputError, match="fewer"):
        fitted(parts=TASK.graph.num_nodes + 1)
    with pytest.raises(InputError, match="parts"):
        Training(parts=0)


def test_a_step_sees_the_labels_and_weights_of_its_part_alone():
    source = source_of(classifier(parts=4, start="random"))
    source.refresh(0)
    nodes, part = source.part()
    shown = source.show(nodes)
    train, truth = torch.from_numpy(TASK.train)[nodes], torch.from_numpy(TASK.truth)[nodes]
    assert torch.equal(source.fill(nodes)[train].argmax(dim=-1), truth[train].unsqueeze(1).expand(-1, 4))
    assert len(nodes) == part.graph.num_nodes < TASK.graph.num_nodes
    assert shown.mask.shape == source.row_weights(shown, nodes).shape == source.keep(nodes).shape[:2]
    assert (source.row_weights(shown, nodes)[shown.mask] == 0).all()


@pytest.mark.parametrize("fill", ["soft", "hard"])
def test_the_same_seed_gives_the_same_model(fill):
    first = fitted(fill=fill)
    assert same(first, fitted(fill=fill))
    assert not same(first, fitted(fill=fill, parts=1))


@pytest.mark.parametrize("step", [11, 14])
def test_a_fit_that_died_in_the_middle_of_a_round_goes_on_to_the_same_weights(tmp_path, step):
    class Killed(BaseException):
        pass

    def die(running):
        if running.step == step:
            raise Killed

    options = {"parts": 3, "evaluate_every": 5}
    checkpoint = tmp_path / "state"
    with pytest.raises(Killed):
        classifier(**options).fit(TASK.graph, TASK.validation, checkpoint=checkpoint, progress=die)
    resumed = classifier(**options).fit(TASK.graph, TASK.validation, checkpoint=checkpoint, resume=True)
    assert same(resumed, fitted(**options))


def test_a_fit_goes_on_only_with_the_same_start_and_settings(tmp_path):
    checkpoint, steps = tmp_path / "state", Training(steps=20, evaluate_every=5)

    class Undeclared:
        def __init__(self):
            self.table, self.own = {(0, 1): 2}, self

    def model(alpha=0.3, dropout=0.5):
        initialiser = LabelPropagation(alpha=alpha)
        return NodeClassifier(hidden_channels=8, initialiser=initialiser, dropout=np.float32(dropout), training=steps)

    class Killed(BaseException):
        pass

    def die(running):
        if running.step == 15:
            raise Killed

    with pytest.raises(Killed):
        model().fit(TASK.graph, TASK.validation, checkpoint=checkpoint, progress=die)
    for other in (model(alpha=0.9), model(dropout=0.2)):
        with pytest.raises(InputError, match="other data or settings"):
            other.fit(TASK.graph, TASK.validation, checkpoint=checkpoint, resume=True)
    assert identity(Undeclared()) == "Undeclared"  # whatever it holds
    resumed = model().fit(TASK.graph, TASK.validation, checkpoint=checkpoint, resume=True)
    assert same(resumed, model().fit(TASK.graph, TASK.validation))


@pytest.mark.slow
def test_a_model_trained_on_parts_predicts_the_whole_graph():
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 60)
    likely = np.where(truth[:, None] == truth, 0.1, 0.01)
    adjacency = sp.csr_array(np.triu(rng.random(likely.shape) < likely, k=1))
    x = np.eye(3, dtype=np.float32)[truth] + rng.normal(size=(180, 3))
    y = np.where(rng.random(180) < 0.3, truth, -1)
    graph = Graph.from_scipy(adjacency, x, y)
    training = Training(steps=200, refresh_every=50, initialiser_refreshes=2, evaluate_every=50, parts=2)
    clf = NodeClassifier(
        hidden_channels=16, initialiser="lp", sampling=Sampling(progressive=0.0), training=training
    ).fit(graph)
    assert (clf.predict() == truth)[y == -1].mean() > 0.85  # the nearest class mean of the features gets about .7
