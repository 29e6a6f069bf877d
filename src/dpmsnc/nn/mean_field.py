"""The mean-field network p_phi(y | G) = prod_i p_phi(y_i | G): a plain GNN classifier on any backbone.

Methods that feed it labels, in place of features (GMNN) or beside them (CLGNN), use the same network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dpmsnc.config import BackboneSpec, HeadName
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones import backbone_class, make_backbone
from dpmsnc.nn.backbones.base import Conv
from dpmsnc.nn.operator import GraphTensors, Operator


class MeanField(nn.Module):
    """Backbone without time, and a head; it may read labels beside features.

    The head is a linear map after all convolutions, as the authors of DPM-SNC have it, or the last of the convolutions,
    as in the GCN of Kipf and Welling. Either way `num_layers` convolutions are passed. Some backbones have a head of
    their own in place of the linear map.
    """

    def __init__(
        self,
        backbone: BackboneSpec,
        in_channels: int,
        num_classes: int,
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        head: HeadName = "linear",
        label_channels: int = 0,
    ) -> None:
        super().__init__()
        kind, _ = backbone_class(backbone)
        convolves = head == "convolution"
        if convolves and not kind.convolves_last:
            raise InputError(f'{kind.__name__} has an end of its own: leave head at "linear"')
        if convolves and num_layers < 2:
            raise InputError("a head that is a convolution is the last of two layers or more: set num_layers=2 or more")
        width = num_classes if kind.is_linear and not label_channels else hidden_channels
        self.backbone = make_backbone(backbone, in_channels, width, num_layers - convolves, label_channels, dropout)
        self.head: nn.Module = (
            self.backbone.last(hidden_channels, num_classes) if convolves else self.backbone.head(num_classes)
        )

    def forward(
        self,
        graph: GraphTensors,
        generator: torch.Generator | None = None,
        x: Tensor | Operator | None = None,
    ) -> Tensor:
        """The logits (nodes, classes); a generator turns dropout on, `x` is read in place of the graph's features."""
        return self.decode(self.encode(graph, x), graph, generator=generator).squeeze(1)

    def encode(self, graph: GraphTensors, x: Tensor | Operator | None = None) -> Tensor:
        """What the first layer makes of features, the graph's or others."""
        return self.backbone.encode(graph, x)

    def decode(
        self, encoded: Tensor, graph: GraphTensors, y: Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """The logits (nodes, batch, classes), of a batch of label fields `y` of that shape where it reads labels.

        The backbone reads them; the head does not.
        """
        h = self.backbone(encoded, graph, y, generator=generator)
        if not isinstance(self.head, Conv):
            return self.head(h)
        return self.head(self.head.encode(h, graph), None, graph, generator=generator)
