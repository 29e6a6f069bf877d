"""What reference and package are both given: a graph, its training labels, and the weights of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.cases import Case
from dpmsnc.config import ParameterisationName, Sampling
from dpmsnc.data import load
from dpmsnc.diffusion.objective import Objective
from dpmsnc.graph import Graph
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.presets import preset

PAPER = preset("paper", "homophilic")
GCNII_LAYERS = 16
SEED = 0


@dataclass(frozen=True)
class Problem:
    """A graph with training labels (nodes,), and the network to run on it in one precision."""

    graph: Graph
    train: Tensor
    labels: Tensor
    backbone: str
    amortised: bool = False
    parameterisation: ParameterisationName = "epsilon"
    sampling: Sampling = PAPER["sampling"]
    num_samples: int = 1
    dropout: float = PAPER["dropout"]
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, case: Case, **changes: Any) -> Problem:
        task = load(case.data)
        few = case.work == "few_step"
        settings: dict[str, Any] = {
            "amortised": case.amortised,
            "parameterisation": "label" if few else "epsilon",
            "sampling": Sampling(method="ddim", progressive=0.0) if few else PAPER["sampling"],
            "num_samples": case.num_samples,
        }
        labels = np.where(task.train, task.graph.y, 0)
        train, labels = torch.from_numpy(task.train), torch.from_numpy(labels)
        return cls(task.graph, train, labels, case.backbone, **(settings | changes))

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes

    @property
    def label_channels(self) -> int:
        return self.num_classes + self.amortised

    @property
    def objective(self) -> Objective:
        return Objective(PAPER["schedule"], self.parameterisation, target=self.graph.target)

    @property
    def temperature(self) -> float:
        """A few-step prediction is deterministic, a sample is a sample."""
        return self.sampling.temperature if self.sampling.method == "ddim" else 1.0

    @property
    def num_layers(self) -> int:
        return GCNII_LAYERS if self.network == "gcnii" else PAPER["num_layers"]

    @property
    def network(self) -> str:
        """The name of the backbone, without its options."""
        return self.backbone.partition("(")[0]

    def denoiser(self) -> Denoiser:
        """The package's network; the reference copies its weights.

        Its weights are random, except that what it takes for noise starts from y_t itself, as after training: else the
        reverse process would blow up, and errors in guidance would drown in it.
        """
        torch.manual_seed(SEED)
        denoiser = Denoiser(
            self.backbone,
            self.graph.num_features,
            self.num_classes,
            PAPER["hidden_channels"],
            self.num_layers,
            self.dropout,
            PAPER["head_layers"],
            shows_known=self.amortised,
        ).to(self.dtype)
        if self.parameterisation == "epsilon":
            classes, width = self.num_classes, PAPER["hidden_channels"]
            with torch.no_grad():
                denoiser.head[0].weight[:, width : width + classes] = torch.eye(classes)  # type: ignore[index]
        return denoiser

    def initialiser(self) -> Tensor:
        """Mean-field probabilities for the first buffer: any will do, so none are fitted."""
        generator = torch.Generator().manual_seed(SEED)
        return torch.randn(self.graph.num_nodes, self.num_classes, generator=generator).softmax(dim=-1).to(self.dtype)
