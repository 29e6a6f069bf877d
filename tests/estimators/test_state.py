"""What a fitted baseline has to save, and the baseline that comes of it."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from clusters import OWN, clusters
from dpmsnc.baselines import (
    APPNP,
    CLGNN,
    G3NN,
    GCNLPA,
    GMNN,
    GNN,
    GRAND,
    MLP,
    PTA,
    CorrectAndSmooth,
    EntropySharpening,
    LabelPropagation,
    NeighbourhoodFeatures,
    Stack,
)
from dpmsnc.baselines.base import SAVED_ELSEWHERE
from dpmsnc.baselines.initialiser import Uniform
from dpmsnc.baselines.scaled_pta import scaled_pta
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.estimators.state import unpack
from dpmsnc.graph.features import Features

SHORT = {
    "appnp": partial(APPNP, epochs=3),
    "clgnn": partial(CLGNN, rounds=3, first_steps=3, steps=3, samples=2),
    "c&s": partial(CorrectAndSmooth, epochs=3),
    "entropy": partial(EntropySharpening, epochs=3),
    "g3nn": partial(G3NN, epochs=3),
    "gat": partial(GNN, "gat", epochs=3),
    "gcn-lpa": partial(GCNLPA, epochs=3),
    "gmnn p": partial(GMNN, prediction="p", pretraining=3, epochs=3, rounds=2),
    "gmnn q": partial(GMNN, pretraining=3, epochs=3),
    "grand": partial(GRAND, epochs=3),
    "lp": LabelPropagation,
    "mlp": partial(MLP, epochs=3),
    "neighbourhood linear": NeighbourhoodFeatures,
    "neighbourhood trees": partial(NeighbourhoodFeatures, "trees", num_trees=3),
    "pta": partial(PTA, max_epochs=5),
    "scaled pta": partial(scaled_pta, max_epochs=5),
    "stack": partial(Stack, {"gcn": {"epochs": 3}, "pta": {"max_epochs": 3}}, class_shares="estimated", repeats=2),
    "uniform": Uniform,
}


def restored(model):
    """The same model, from what a file could hold, whatever the order of keys in it."""
    tensors, values = model._state()
    settings = json.loads(json.dumps(model.get_params(deep=False), sort_keys=True))
    copied = {name: tensor.clone() for name, tensor in tensors.items()}
    return type(model)._from_state(settings, copied, json.loads(json.dumps(values, sort_keys=True)), model.graph_)


@pytest.mark.parametrize("features", ["sparse", "dense"])
@pytest.mark.parametrize("name", SHORT)
def test_what_is_saved_answers_the_same(name, features):
    task = clusters(size=20, features=features)
    model = SHORT[name]().fit(task.graph, task.validation)
    again = restored(model)
    np.testing.assert_allclose(again.predict_proba(**OWN), model.predict_proba(**OWN), rtol=1e-12)
    np.testing.assert_allclose(again.predict_proba(), model.predict_proba(), rtol=1e-12)
    assert again.classes_.tolist() == model.classes_.tolist() and again.n_features_in_ == model.n_features_in_
    assert set(vars(again)) == set(vars(model)) and again.nested_params() == model.nested_params()


@pytest.mark.parametrize("name", SHORT)
def test_a_fitted_baseline_keeps_weights_and_no_gradients_or_graphs(name):
    task = clusters(size=20)
    model = SHORT[name]().fit(task.graph, task.validation)
    tensors, _ = model._state()
    assert not any(tensor.requires_grad or tensor.grad_fn is not None for tensor in tensors.values())
    parts = [part for part in vars(model).values() if isinstance(part, nn.Module)]
    assert all(weight.grad is None for part in parts for weight in part.parameters())
    kept = {key for key, value in vars(model).items() if key.endswith("_") and value is not task.graph}
    assert not any(type(getattr(model, key)).__module__.startswith("torch.optim") for key in kept)
    assert set(SAVED_ELSEWHERE) <= {*kept, "graph_"}


def test_an_estimator_that_is_not_known_here_is_refused():
    with pytest.raises(ModelFileError, match="a part of the model is a os, which is not known here"):
        unpack(None, {"estimator": {"kind": "os"}}, {})


def test_moments_of_features_are_kept():
    task = clusters(size=20, features="dense")
    model = MLP(epochs=1).fit(task.graph)
    std = np.where(np.arange(24) == 5, np.inf, 2.0)  # a column that does not vary
    model.features_ = Features("unit", 24, None, np.arange(24.0), std)
    assert all(tensor.isfinite().all() for tensor in model._state()[0].values())
    again = restored(model)
    np.testing.assert_array_equal(again.features_.mean, np.arange(24.0))
    np.testing.assert_array_equal(again.features_.std, std)
    assert torch.equal(again._tensors(task.graph).x, model._tensors(task.graph).x)


def test_parts_that_do_not_fit_together_are_refused():
    task, other = clusters(size=20), clusters(size=15)
    model = CLGNN(rounds=1, first_steps=2, hidden_channels=8).fit(task.graph, task.validation)
    tensors, values = model._state()
    params = model.get_params(deep=False)

    def load(params=params, values=values, graph=task.graph):
        return CLGNN._from_state(dict(params), dict(tensors), values, graph)

    load()
    with pytest.raises(ModelFileError, match="not the one that the model was fitted on"):
        load(graph=other.graph)
    with pytest.raises(ModelFileError, match="'predict' is nothing that a CLGNN learns"):
        load(values=values | {"learned": values["learned"] | {"predict": 1}})
    with pytest.raises(InputError, match="hidden_channels"):
        load(params | {"hidden_channels": -1})
    for wrong in ({"hidden_channels": 10**9}, {"num_layers": 3}):  # the larger one would not fit into memory
        with pytest.raises(RuntimeError, match=r"size mismatch|Missing key"):
            load(params | wrong)
    many = values | {"learned": values["learned"] | {"rounds_": 10**9}}
    with pytest.raises(RuntimeError, match="Missing key"):
        load(params | {"rounds": 3}, many)
