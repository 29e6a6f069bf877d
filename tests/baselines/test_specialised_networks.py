"""The networks for heterophilic graphs as plain classifiers: what their training has that others have not."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest
import torch

from clusters import OWN
from dpmsnc.baselines import GNN, METHODS, SPECIALISED
from dpmsnc.baselines import gnn as gnn_module
from dpmsnc.errors import InputError
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.graph import UNKNOWN, Graph

SHORT = {"cpgnn": "cpgnn(warm_up=20)", "polynormer": "polynormer(heads=1, warm_up=10)"}


def bipartite(num_nodes: int = 120, seed: int = 0) -> Graph:
    """Edges join nodes of different classes only; features tell little."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) % 2
    i, j = np.triu_indices(num_nodes, 1)
    chosen = (y[i] != y[j]) & (rng.random(len(i)) < 0.1)
    x = rng.normal(size=(num_nodes, 4)) + 0.7 * np.where(y, 1, -1)[:, None]
    return Graph.build(np.stack([i[chosen], j[chosen]]), x=x, y=[["a", "b"][k] for k in y])


TRUTH = bipartite()
TRAIN, VALIDATION = np.arange(120) < 60, (np.arange(120) >= 60) & (np.arange(120) < 80)
GRAPH = TRUTH.with_labels(np.where(TRAIN | VALIDATION, TRUTH.y, UNKNOWN))


@cache
def fitted(name, **options):
    epochs = 20 if name == "polynormer" else 50
    settings = {"epochs": epochs, "hidden_channels": 16, "backbone": SHORT.get(name, name), **options}
    return METHODS[name].build(0, **settings).fit(GRAPH, validation=VALIDATION)


@pytest.mark.parametrize("name", SPECIALISED)
def test_neighbours_that_differ_tell_the_class(name):
    right = fitted(name).predict(**OWN) == TRUTH.decode(TRUTH.y)
    assert right[~GRAPH.known].mean() >= 0.9


def test_features_alone_tell_less():
    edgeless = Graph.build([(0, 1)], x=TRUTH.x, y=GRAPH.decode(GRAPH.y))
    model = METHODS["h2gcn"].build(0, epochs=50).fit(edgeless, validation=VALIDATION)
    assert (model.predict(**OWN) == TRUTH.decode(TRUTH.y))[~GRAPH.known].mean() < 0.9


@pytest.mark.parametrize("name", ["cpgnn", "gbk-gnn"])
def test_networks_that_compare_classes_refuse_tags(name):
    graph = Graph.build([(0, 1), (1, 2)], x=np.eye(3), y=[["p"], ["q", "p"], []], kind="tags")
    with pytest.raises(InputError, match=r"which classes are neighbours.*tags"):
        GNN(name, epochs=2).fit(graph)
    assert GNN("h2gcn", epochs=2).fit(graph).predict_proba().shape == (3, 2)


def test_the_gates_loss_is_learned_from():
    without = fitted("gbk-gnn", backbone="gbk-gnn(gate_weight=0)").predict_proba(**OWN)
    assert np.abs(fitted("gbk-gnn").predict_proba(**OWN) - without).max() > 1e-3


def test_a_warm_up_precedes_the_epochs_and_has_its_own_best_weights(monkeypatch):
    seen = []

    def noted(self, network, *arguments):
        seen.append((network.head.warming, arguments[-1], network.head.compatibility.detach().clone()))
        return descend(self, network, *arguments)

    descend = gnn_module.GNN._descend
    monkeypatch.setattr(gnn_module.GNN, "_descend", noted)
    model = fitted("cpgnn", epochs=3)
    (warm, first, before), (later, second, start) = seen
    assert (warm, first, later, second) == (True, 20, False, 3)
    assert not before.any() and start[0, 1] > 0.3  # neighbours are of the other class
    assert not model.network_.head.warming


def test_a_graph_that_was_not_fitted_is_refused_even_where_it_has_as_many_nodes():
    model = fitted("glognn", epochs=2)
    with pytest.raises(InputError, match="weights for every node of the graph that was fitted"):
        model.predict(bipartite(seed=1))
    assert len(model.predict(GRAPH.with_labels(np.full(120, UNKNOWN)))) == 120


@pytest.mark.parametrize("backbone", ["glognn", "cpgnn"])
def test_a_diffusion_model_refuses_them_before_anything_is_fitted(backbone):
    with pytest.raises(InputError, match="reads no labels"):
        NodeClassifier(backbone=backbone, initialiser="lp").fit(GRAPH, validation=VALIDATION)


def test_polynormer_attends_within_each_of_several_graphs():
    model = fitted("polynormer")
    ask = partial(model.predict_proba, clamp_known=False)
    other = bipartite(40, seed=2)
    together, alone = ask([GRAPH, other]), [ask(GRAPH), ask(other)]
    for one, two in zip(together, alone):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_fits_leave_no_tensors_of_the_last_step():
    for name in ("cpgnn", "gbk-gnn"):
        kept = [v for m in fitted(name, epochs=2).network_.modules() for v in vars(m).values()]
        assert not any(isinstance(value, torch.Tensor) for value in kept)
