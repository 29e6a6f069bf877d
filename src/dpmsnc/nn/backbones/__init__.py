"""Backbones: the graph networks inside denoisers and plain classifiers, by name, by name with options, or by class.

A backbone from outside the package is a subclass of `Backbone`. Under `@BACKBONES.register("name")` it can be named
wherever the package's own can: in arguments, in saved models and on the command line.
"""

from __future__ import annotations

from dpmsnc.config import BackboneSpec
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Backbone
from dpmsnc.nn.backbones.cpgnn import CPGNN
from dpmsnc.nn.backbones.fagcn import FAGCN
from dpmsnc.nn.backbones.fsgnn import FSGNN
from dpmsnc.nn.backbones.gat import GAT
from dpmsnc.nn.backbones.gbkgnn import GBKGNN
from dpmsnc.nn.backbones.gcn import GCN
from dpmsnc.nn.backbones.gcnii import GCNII
from dpmsnc.nn.backbones.gin import GIN
from dpmsnc.nn.backbones.glognn import GloGNN
from dpmsnc.nn.backbones.gprgnn import GPRGNN
from dpmsnc.nn.backbones.h2gcn import H2GCN
from dpmsnc.nn.backbones.jacobi import JacobiConv
from dpmsnc.nn.backbones.polynormer import Polynormer
from dpmsnc.nn.backbones.residual import GT, GATSep, GTSep, ResidualGAT, ResidualGCN, ResidualSAGE, ResNet
from dpmsnc.nn.backbones.sage import SAGE
from dpmsnc.nn.backbones.spec import BACKBONES, backbone_class, backbone_name, backbone_options

__all__ = [
    "BACKBONES",
    "Backbone",
    "backbone_class",
    "backbone_name",
    "backbone_options",
    "check_reads_labels",
    "make_backbone",
]

BACKBONES.update(gcn=GCN, gat=GAT, gcnii=GCNII, sage=SAGE, gin=GIN)
BACKBONES.update({"h2gcn": H2GCN, "gpr-gnn": GPRGNN, "fsgnn": FSGNN, "glognn": GloGNN, "fagcn": FAGCN})
BACKBONES.update({"jacobiconv": JacobiConv, "cpgnn": CPGNN, "gbk-gnn": GBKGNN, "polynormer": Polynormer})
BACKBONES.update({"resnet": ResNet, "residual-gcn": ResidualGCN, "residual-sage": ResidualSAGE})
BACKBONES.update({"residual-gat": ResidualGAT, "gat-sep": GATSep, "gt": GT, "gt-sep": GTSep})


def make_backbone(
    spec: BackboneSpec,
    in_channels: int,
    hidden_channels: int = 64,
    num_layers: int = 2,
    label_channels: int = 0,
    dropout: float = 0.5,
) -> Backbone:
    """The backbone that a specification asks for, with new weights.

    Example:
        >>> make_backbone(("gcn", {"norm": "layer"}), in_channels=5, num_layers=3).convs[0].norm.norm
        LayerNorm((64,), eps=1e-05, elementwise_affine=True)
    """
    kind, options = backbone_class(spec)
    if label_channels:
        check_reads_labels(spec)
    backbone = kind(in_channels, hidden_channels, num_layers, label_channels, dropout, **options)
    backbone.__dict__.setdefault("out_channels", hidden_channels)  # of a class from outside that does not say
    return backbone


def check_reads_labels(spec: BackboneSpec) -> None:
    """Raise `InputError` where a backbone reads features alone, so that it cannot be a denoiser."""
    if not backbone_class(spec)[0].reads_labels:
        able = ", ".join(name for name, kind in BACKBONES.items() if kind.reads_labels)
        raise InputError(
            f"the backbone {backbone_name(spec)} reads no labels, which a denoiser does: it is a plain classifier "
            f"only; take one of {able}"
        )
