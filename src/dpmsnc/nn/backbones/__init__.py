"""Backbones by name. Each is usable in a denoiser and as a plain classifier."""

from __future__ import annotations

from dpmsnc.nn.backbones.base import Backbone
from dpmsnc.nn.backbones.gat import GAT, DroppedGAT
from dpmsnc.nn.backbones.gcn import GCN, ImprovedGCN
from dpmsnc.nn.backbones.gcnii import GCNII, TimelessGCNII
from dpmsnc.nn.backbones.gin import GIN
from dpmsnc.nn.backbones.sage import SAGE, NormalizedSAGE

BACKBONES: dict[str, type[Backbone]] = {
    "gcn": GCN,
    "gcn-improved": ImprovedGCN,
    "gat": GAT,
    "gat-dropout": DroppedGAT,
    "gcnii": GCNII,
    "gcnii-timeless": TimelessGCNII,
    "sage": SAGE,
    "sage-normalized": NormalizedSAGE,
    "gin": GIN,
}
