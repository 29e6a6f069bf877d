"""Dropout on input features: what a thinned graph keeps, and who takes it."""

import numpy as np
import pytest
import torch

from clusters import OWN, clusters
from dpmsnc import InputError
from dpmsnc.baselines import CLGNN, G3NN, GCNLPA, GNN, EntropySharpening
from dpmsnc.data import grid_scattered
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.operator import GraphTensors, Operator

SHORT = {
    GNN: {"epochs": 10},
    EntropySharpening: {"epochs": 10},
    G3NN: {"epochs": 10},
    GCNLPA: {"epochs": 10},
    CLGNN: {"rounds": 1, "first_steps": 10},
}


def dense(x):
    return x.matrix.to_dense() if isinstance(x, Operator) else x


@pytest.mark.parametrize("features", ["sparse", "dense"])
def test_a_thinned_graph_has_other_features_and_the_same_edges(features):
    tensors = GraphTensors.of(clusters(features=features).graph, "unit")
    thinned, generator = GraphInputDropout(tensors), torch.Generator().manual_seed(0)
    whole = dense(tensors.x).clone()
    first, second = (thinned(0.5, generator) for _ in range(2))
    assert first.operator("gcn") is tensors.operator("gcn")
    for x in (dense(first.x), dense(second.x)):
        assert torch.isin(x / whole.where(whole != 0, torch.ones_like(whole)), torch.tensor([0.0, 2.0])).all()
    assert not torch.equal(dense(first.x), dense(second.x)) and torch.equal(dense(tensors.x), whole)
    assert thinned(0.0, generator) is thinned(0.5, None) is tensors


def test_a_graph_without_features_stays_as_it_is():
    tensors = GraphTensors.of(grid_scattered(columns=20).graph)
    assert GraphInputDropout(tensors)(0.5, torch.Generator()) is tensors


@pytest.mark.parametrize("kind", SHORT)
def test_baselines_drop_features_in_training_and_not_in_prediction(kind):
    task = clusters()

    def answer(**settings):
        return kind(**SHORT[kind], **settings).fit(task.graph, validation=task.validation).predict_proba(**OWN)

    assert np.array_equal(answer(input_dropout=0.5), answer(input_dropout=0.5))
    assert not np.allclose(answer(input_dropout=0.5), answer())
    with pytest.raises(InputError, match="input_dropout"):
        answer(input_dropout=1.0)


def test_prediction_sees_all_features():
    task = clusters()
    model = GNN(epochs=1, lr=0.0, dropout=0.0).fit(task.graph, validation=task.validation)
    thinned = GNN(epochs=1, lr=0.0, dropout=0.0, input_dropout=0.5).fit(task.graph, validation=task.validation)
    assert np.array_equal(model.predict_proba(**OWN), thinned.predict_proba(**OWN))
