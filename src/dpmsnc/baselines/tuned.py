"""Plain networks as others tuned them, at a width that one core can train; settings were chosen on validation labels.

- `tuned-gcn`, `tuned-sage`, `tuned-gat` (Luo et al., "Classic GNNs are Strong Baselines", NeurIPS 2024): every layer is
  relu(norm(conv(h) + W h)) with batch normalisation, many layers and little dropout. The original runs SAGE on a graph
  with self-loops; ours takes the mean of the neighbours alone, beside a weight for the node itself. GAT has one head
  and ReLU in place of ELU; the original has no bias.
- the residual networks of Platonov et al. (`dpmsnc.nn.backbones.residual`). The original is 512 wide and learns at
  3e-5; 64 channels need a larger rate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from dpmsnc.baselines.gnn import GNN
from dpmsnc.estimators.base import METHODS, Method, seeded

TUNED_BACKBONES = {
    "tuned-gcn": "gcn(norm='batch', residual=True)",
    "tuned-sage": "sage(norm='batch', residual=True)",
    "tuned-gat": "gat(activation='relu', heads=1, norm='batch', residual=True)",
}
TUNED: dict[str, Any] = {"num_layers": 12, "dropout": 0.2, "lr": 0.01, "weight_decay": 0.0, "epochs": 600}
"""As Luo et al. have it on minesweeper, but for fewer epochs."""
RESIDUAL_BACKBONES = ("resnet", "residual-gcn", "residual-sage", "residual-gat", "gat-sep", "gt", "gt-sep")
RESIDUAL: dict[str, Any] = {"num_layers": 5, "dropout": 0.2, "lr": 0.003, "weight_decay": 0.0, "epochs": 300}

for name, backbone in TUNED_BACKBONES.items():
    METHODS[name] = Method(partial(seeded, partial(GNN, backbone, **TUNED)))
for name in RESIDUAL_BACKBONES:
    METHODS[name] = Method(partial(seeded, partial(GNN, name, **RESIDUAL)))
