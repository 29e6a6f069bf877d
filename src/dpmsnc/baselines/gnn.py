"""A plain GNN: every node is classified on its own, p(y | G) = prod_i p(y_i | G), by cross-entropy on known labels.

It is the GCN, GAT, ... row of every table, and the mean-field initialiser of the paper's Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.descent import take_step
from dpmsnc.config import BackboneName, HeadName, ScalingName, check_choices, check_range
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.input_dropout import GraphInputDropout
from dpmsnc.nn.mean_field import MeanField
from dpmsnc.nn.operator import GraphTensors


@dataclass(eq=False)
class GNN(Baseline):
    """Any backbone as a plain classifier; the epoch with the best validation accuracy is kept.

    The GCN and GAT of their authors drop about half of the input features too (`input_dropout`), and they end in a
    convolution: with `head="convolution"` the last of the `num_layers` is the output, instead of a linear map after it.
    Their GAT also drops attention, which is the backbone "gat-dropout".

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> GNN(epochs=10).fit(task.graph, validation=task.validation).predict_proba().shape
        (40, 2)
    """

    backbone: BackboneName = "gcn"
    hidden_channels: int = 64
    num_layers: int = 2
    head: HeadName = "linear"
    dropout: float = 0.5
    input_dropout: float = 0.0
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 300
    evaluate_every: int = 10
    scaling: ScalingName = "unit"
    seed: int = 0

    def _fit(self, graph: Graph, y_train: NDArray[np.int64], y_validation: NDArray[np.int64]) -> NDArray[np.float64]:
        check_choices(self)
        check_range(self, num_layers=(1, inf), dropout=(0, 0.99), input_dropout=(0, 0.99))
        tensors = GraphTensors.of(graph, self.scaling)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = MeanField(
                self.backbone,
                tensors.num_features,
                graph.num_classes,
                self.hidden_channels,
                self.num_layers,
                self.dropout,
                self.head,
            )
        thinned, generator = GraphInputDropout(tensors), torch.Generator().manual_seed(int(self.seed))
        optimiser = torch.optim.Adam(network.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        nodes = torch.from_numpy(np.flatnonzero(y_train != UNKNOWN))
        target = torch.from_numpy(y_train)[nodes]
        best, proba = -1.0, np.zeros((graph.num_nodes, graph.num_classes))
        for epoch in range(1, self.epochs + 1):
            seen = thinned(self.input_dropout, generator)
            loss = torch.nn.functional.cross_entropy(network(seen, generator)[nodes], target)
            take_step(optimiser, loss)
            if epoch % self.evaluate_every == 0 or epoch == self.epochs:
                with torch.no_grad():
                    current = network(tensors).softmax(dim=-1).double().numpy()
                accuracy = validation_accuracy(current, y_validation)
                if accuracy > best or np.isnan(accuracy):
                    best, proba = accuracy, current
        return proba


def validation_accuracy(proba: NDArray[np.float64], y_validation: NDArray[np.int64]) -> float:
    """Share of validation nodes whose most probable class is right; NaN where there are none."""
    nodes = y_validation != UNKNOWN
    return float((proba.argmax(axis=1) == y_validation)[nodes].mean()) if nodes.any() else float("nan")
