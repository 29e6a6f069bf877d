"""The methods the paper compares with, behind the same verbs as `NodeClassifier`; one file per method."""

from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.masked_labels import MaskedLabels
from dpmsnc.baselines.pta import PTA

__all__ = ["GNN", "PTA", "Baseline", "LabelPropagation", "MaskedLabels"]
