"""How backbones are asked for, the package's own and others."""

import numpy as np
import pytest
import torch
from torch import nn

from dpmsnc import NodeClassifier
from dpmsnc.baselines import GNN
from dpmsnc.config import Sampling, Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones import BACKBONES, Backbone, backbone_class, backbone_name, backbone_options, make_backbone
from dpmsnc.nn.backbones.base import Additive, multiply
from dpmsnc.nn.backbones.gat import GAT
from dpmsnc.nn.backbones.gcn import GCN
from dpmsnc.nn.backbones.gcnii import GCNII

COMMON = {"residual", "norm", "input_layer"}
TASK = grid_scattered(columns=20)


class ToyConv(Additive):
    """Neighbours' features alone, some number of times as large."""

    def __init__(self, in_channels, label_channels, out_channels, *, scale: float = 1.0):
        super().__init__(in_channels, label_channels, out_channels)
        self.scale = scale

    def lift(self, h, weight, graph):
        return self.scale * graph.operator("mean")(multiply(h, weight))

    def spread(self, y, graph):
        return self.scale * graph.operator("mean")(y)


class Toy(Backbone):
    conv = ToyConv


class Whole(Backbone):
    """A network of another shape: it overrides what it must, and is no stack of convolutions."""

    def __init__(self, in_channels, hidden_channels, num_layers, label_channels, dropout, *, bias: bool = True):
        nn.Module.__init__(self)
        self.of_x = nn.Linear(in_channels, hidden_channels, bias=bias)
        self.of_y = nn.Linear(label_channels, hidden_channels) if label_channels else None

    def encode(self, graph, x=None):
        return (multiply(graph.x if x is None else x, self.of_x.weight.T)).unsqueeze(1)

    def forward(self, encoded, graph, y=None, time=None, generator=None, recorder=None):
        z = encoded if y is None else encoded + self.of_y(y)
        return torch.tanh(z if time is None else z + time)


@pytest.mark.parametrize(
    ("spec", "kind", "options", "name"),
    [
        ("gcn", GCN, {}, "gcn"),
        (("gcnii", {"time": False}), GCNII, {"time": False}, "gcnii(time=False)"),
        (["gat", {"norm": "layer", "heads": 2}], GAT, {"norm": "layer", "heads": 2}, "gat(heads=2, norm='layer')"),
        ("gat( attention_dropout = 0.25 )", GAT, {"attention_dropout": 0.25}, "gat(attention_dropout=0.25)"),
        (("gcn", {}), GCN, {}, "gcn"),
        (GCN, GCN, {}, "gcn"),
        (Toy, Toy, {}, "Toy"),
        ((Toy, {"scale": 2}), Toy, {"scale": 2}, "Toy(scale=2)"),
        ((Whole, {"bias": False}), Whole, {"bias": False}, "Whole(bias=False)"),
    ],
)
def test_names_options_and_classes(spec, kind, options, name):
    assert backbone_class(spec) == (kind, options) and backbone_name(spec) == name
    assert isinstance(make_backbone(spec, 3), kind)
    if name[0].islower():  # a class that is not registered can be named, but not be asked for by that name
        assert backbone_class(name) == (kind, options) and backbone_name(name) == name


def test_options_are_keyword_arguments_of_the_class_and_of_its_convolution():
    assert set(backbone_options(GCN)) == {"improved"} | COMMON
    assert set(backbone_options(GAT)) == {"heads", "attention_dropout", "activation"} | COMMON
    assert set(backbone_options(GCNII)) == {"time", "alpha", "theta"} | COMMON
    assert set(backbone_options(Toy)) == {"scale"} | COMMON
    assert set(backbone_options(Whole)) == {"bias"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("transformer", "unknown backbone 'transformer'; there are gcn, gat"),
        (("gcn", {"heads": 2}), "no option 'heads'; it has improved, residual, norm, input_layer"),
        (("gcn", {"norm": "group"}), "norm .* cannot be 'group'; it is 'layer' or 'batch' or 'nodes' or None"),
        (("gcn", {"residual": "yes"}), "it is True or False"),
        (("gcn", {"residual": 1}), "it is True or False"),
        (("gat", {"heads": 2.5}), "it is a whole number"),
        (("gat", {"heads": 0}), "heads must be at least 1"),
        (("gat", {"attention_dropout": 1.5}), "attention_dropout must be"),
        (("gcnii", {"alpha": 1.5}), "alpha must be"),
        (("gcnii", {"theta": "much"}), "it is a number"),
        ("gcnii(time=False", "write a name"),
        ("gcnii(False)", "write a name"),
        ("gcnii(time=open)", "write a name"),
        ("gcn(**{})", "write a name"),
        ("", "write a name"),
        (("gcn", True), "is no backbone"),
        (("gcn", {}, {}), "is no backbone"),
        (None, "is no backbone"),
        (nn.Linear, "is no backbone"),
        (GCN(3), "is no backbone"),
    ],
)
def test_what_cannot_be_meant_is_said(spec, message):
    with pytest.raises(InputError, match=message):
        make_backbone(spec, 3)


def quick(backbone):
    few = Training(steps=4, refresh_every=2, evaluate_every=2, initialiser_refreshes=1)
    return NodeClassifier(backbone, 8, training=few, sampling=Sampling(steps=2), initialiser="gnn", start="random")


@pytest.mark.parametrize("kind", [Toy, Whole])
def test_a_backbone_of_somebody_else_s_is_fitted_saved_and_loaded_by_name(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(BACKBONES, "toy", None)  # so that it is gone after the test
    BACKBONES.register("toy")(kind)
    clf = quick("toy").fit(TASK.graph, validation=TASK.validation)
    assert isinstance(clf.denoiser_.backbone, kind) and backbone_name(kind) == "toy"
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.sample(2, seed=1), clf.sample(2, seed=1))


def test_a_class_is_saved_under_its_name_and_asked_for_when_it_is_missing(tmp_path):
    clf = quick(Toy).fit(TASK.graph, validation=TASK.validation)
    clf.save(tmp_path / "model")
    with pytest.raises(InputError, match="unknown backbone 'Toy'"):
        NodeClassifier.load(tmp_path / "model")


def test_options_survive_saving_and_reach_classifiers_and_baselines(tmp_path):
    spec = ("gcn", {"residual": True, "norm": "layer"})
    clf = quick(spec).fit(TASK.graph, validation=TASK.validation)
    clf.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert backbone_name(loaded.backbone) == backbone_name(spec)
    assert np.array_equal(loaded.sample(2, seed=1), clf.sample(2, seed=1))
    plain, other = (GNN(one, 8, epochs=3).fit(TASK.graph, TASK.validation).predict_proba() for one in ("gcn", spec))
    assert abs(plain - other).max() > 1e-6
