"""Pictures and HTML pages. The pictures of one's own fits and graphs are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmsnc.plots.diagrams import plot_confusion, plot_reliability, plot_training
    from dpmsnc.plots.drawing import plot_graph

_HOMES = {
    "plot_confusion": "diagrams",
    "plot_graph": "drawing",
    "plot_reliability": "diagrams",
    "plot_training": "diagrams",
}

__all__ = ["plot_confusion", "plot_graph", "plot_reliability", "plot_training"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
