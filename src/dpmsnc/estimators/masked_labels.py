"""Masked labels: the same network and training as `NodeClassifier`, with diffusion left out.

Known labels are shown and masked in the same way, the loss is the same cross-entropy, the same initialiser fills the
unlabelled nodes; but the noisy label field is blank, so each node is predicted from what is shown, on its own. This row
stands beside DPM-SNC in every table, because amortised conditioning is close to feeding labels as inputs: the
difference between the two is what diffusion adds. (UniMP, Shi et al. 2021, is the best-known method of this kind.)
"""

from __future__ import annotations

from typing import ClassVar

from dpmsnc.config import ProcessName
from dpmsnc.estimators.node_classifier import NodeClassifier


class MaskedLabels(NodeClassifier):
    """`NodeClassifier` without diffusion: one evaluation of the network per run, progressive rounds as an option."""

    process: ClassVar[ProcessName] = "blank"
