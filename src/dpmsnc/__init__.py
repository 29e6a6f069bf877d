"""Joint label prediction on partially labelled graphs with diffusion models.

The public names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmsnc.comparison.compare import compare
    from dpmsnc.config import Guidance, Sampling, Training
    from dpmsnc.diffusion.schedule import Schedule
    from dpmsnc.errors import InputError, ModelFileError
    from dpmsnc.estimators.edge_regressor import EdgeRegressor
    from dpmsnc.estimators.node_classifier import NodeClassifier
    from dpmsnc.graph import UNKNOWN, Graph

__version__ = "0.1.0"

_HOMES = {
    "EdgeRegressor": "estimators.edge_regressor",
    "UNKNOWN": "graph",
    "Graph": "graph",
    "Guidance": "config",
    "InputError": "errors",
    "ModelFileError": "errors",
    "NodeClassifier": "estimators.node_classifier",
    "Sampling": "config",
    "Schedule": "diffusion.schedule",
    "Training": "config",
    "compare": "comparison.compare",
}

__all__ = [
    "UNKNOWN",
    "EdgeRegressor",
    "Graph",
    "Guidance",
    "InputError",
    "ModelFileError",
    "NodeClassifier",
    "Sampling",
    "Schedule",
    "Training",
    "compare",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
