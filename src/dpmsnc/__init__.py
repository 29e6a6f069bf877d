"""Joint label prediction on partially labelled graphs with diffusion models.

The public names are imported when they are first used, so that the command line answers at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmsnc.classifier import NodeClassifier
    from dpmsnc.diffusion.schedule import Schedule
    from dpmsnc.errors import InputError, ModelFileError
    from dpmsnc.graph import UNKNOWN, Graph
    from dpmsnc.options import Guidance, Sampling, Training

__version__ = "0.1.0"

_HOMES = {
    "UNKNOWN": "graph",
    "Graph": "graph",
    "Guidance": "options",
    "InputError": "errors",
    "ModelFileError": "errors",
    "NodeClassifier": "classifier",
    "Sampling": "options",
    "Schedule": "diffusion.schedule",
    "Training": "options",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
