"""The receptive field of a few nodes: which labels their outputs depend on, layer by layer.

Guided sampling needs the gradient of the outputs at labelled nodes alone. It arrives at those nodes after the last
layer, at their neighbours too after the layer before, and so on outwards. With nodes sorted by their distance, the rows
where it is not zero are always the first ones.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpmsnc.nn.operator import GraphTensors, Operator, OperatorName


class ReceptiveField:
    """The nodes within `num_layers` hops of some nodes, the nearest first.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> graph = GraphTensors.of(grid_scattered(columns=20).graph)
        >>> ReceptiveField(graph, torch.arange(40) == 0, num_layers=2).counts
        [1, 4, 8]
    """

    def __init__(self, graph: GraphTensors, nodes: Tensor, num_layers: int) -> None:
        distance = distances(graph, nodes.cpu().numpy(), num_layers)
        self.graph = graph
        self.counts = [int((distance <= hop).sum()) for hop in range(num_layers + 1)]
        """Nodes within 0, 1, .. hops."""
        order = np.argsort(distance, kind="stable")[: self.counts[-1]]
        self.index = torch.from_numpy(order).to(graph.device)
        """Those nodes."""
        self._operators: dict[tuple[OperatorName, int], Operator] = {}

    def nodes(self, layer: int) -> Tensor:
        """Nodes at which the output of a layer matters; layers count from 0, and the labels are layer -1."""
        return self.index[: self.counts[len(self.counts) - 2 - layer]]

    def operator(self, name: OperatorName, layer: int) -> Operator:
        """An operator of the graph, as far as it matters in that layer."""
        if (name, layer) not in self._operators:
            restricted = self.graph.operator(name).restrict(self.nodes(layer), self.nodes(layer - 1))
            self._operators[name, layer] = restricted
        return self._operators[name, layer]


class HiddenRecorder:
    """Records hidden fields within a receptive field while a network is evaluated, part of the batch by part."""

    def __init__(self, receptive_field: ReceptiveField) -> None:
        self.receptive_field = receptive_field
        self.parts: list[list[Tensor]] = [[] for _ in receptive_field.counts[1:]]

    def record(self, layer: int, h: Tensor) -> None:
        self.parts[layer].append(h.index_select(0, self.receptive_field.nodes(layer)))

    def hidden(self, layer: int) -> Tensor:
        """The output of a layer at the nodes where it matters."""
        parts = self.parts[layer]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def distances(graph: GraphTensors, nodes: np.ndarray, hops: int) -> np.ndarray:
    """Hops from the nearest of `nodes` (a mask), or hops + 1 where there are more."""
    distance = np.where(nodes, 0, hops + 1)
    for hop in range(1, hops + 1):
        near = graph.graph.adjacency @ (distance < hop).astype(np.float32) > 0
        distance[near & (distance > hop)] = hop
    return distance
