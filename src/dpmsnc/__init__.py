"""Joint label prediction on partially labelled graphs with diffusion models."""

from dpmsnc.classifier import NodeClassifier
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError, ModelFileError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.options import Guidance, Sampling, Training

__version__ = "0.1.0"

__all__ = [
    "UNKNOWN",
    "Graph",
    "Guidance",
    "InputError",
    "ModelFileError",
    "NodeClassifier",
    "Sampling",
    "Schedule",
    "Training",
]
