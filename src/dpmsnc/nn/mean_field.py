"""The mean-field network p_phi(y | G) = prod_i p_phi(y_i | G): a plain GNN classifier on any backbone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.nn.backbones import BACKBONES
from dpmsnc.nn.operator import GraphTensors


class MeanField(nn.Module):
    """Backbone without labels or time, and a linear head; returns logits (nodes, classes)."""

    def __init__(
        self,
        backbone: str,
        in_channels: int,
        num_classes: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.backbone = BACKBONES[backbone](in_channels, hidden_channels, num_layers, dropout=dropout)
        self.head = nn.Linear(hidden_channels, num_classes)

    def forward(self, graph: GraphTensors, generator: torch.Generator | None = None) -> Tensor:
        h = self.backbone(self.backbone.encode(graph), graph, generator=generator)
        return self.head(h.squeeze(1))
