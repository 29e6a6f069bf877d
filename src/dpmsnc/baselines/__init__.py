"""The methods the paper compares with, behind the same verbs as `NodeClassifier`; one file per method.

Each file registers its method in `METHODS`, which is whole once this package is imported.
"""

from dpmsnc.baselines.appnp import APPNP
from dpmsnc.baselines.base import Baseline
from dpmsnc.baselines.clgnn import CLGNN
from dpmsnc.baselines.correct_and_smooth import CorrectAndSmooth
from dpmsnc.baselines.crf import CRF
from dpmsnc.baselines.entropy import EntropySharpening
from dpmsnc.baselines.g3nn import G3NN
from dpmsnc.baselines.gcn_lpa import GCNLPA
from dpmsnc.baselines.gmnn import GMNN
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.grand import GRAND
from dpmsnc.baselines.label_counts import LabelCounts
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.majority import Majority
from dpmsnc.baselines.mlp import MLP
from dpmsnc.baselines.neighbourhood import NeighbourhoodFeatures
from dpmsnc.baselines.pta import PTA
from dpmsnc.baselines.specialised import SPECIALISED
from dpmsnc.baselines.spectral import Spectral
from dpmsnc.baselines.spn import SPN
from dpmsnc.baselines.stack import Stack
from dpmsnc.baselines.tuned import TUNED_BACKBONES  # noqa: F401 (registers its methods)
from dpmsnc.estimators.masked_labels import MaskedLabels
from dpmsnc.estimators.methods import METHODS

__all__ = [
    "APPNP",
    "CLGNN",
    "CRF",
    "G3NN",
    "GCNLPA",
    "GMNN",
    "GNN",
    "GRAND",
    "METHODS",
    "MLP",
    "PTA",
    "SPECIALISED",
    "SPN",
    "Baseline",
    "CorrectAndSmooth",
    "EntropySharpening",
    "LabelCounts",
    "LabelPropagation",
    "Majority",
    "MaskedLabels",
    "NeighbourhoodFeatures",
    "Spectral",
    "Stack",
]
