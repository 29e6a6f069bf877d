"""The methods that are compared, from simple to elaborate, which is also about the order of their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpmsnc.baselines import METHODS
from dpmsnc.baselines.neighbourhood import COLUMNS_FOR_TREES, NeighbourhoodFeatures
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

VALIDATION = 0.2
"""Share of the labels of a split that `NodeClassifier` holds back by default to choose weights."""


@dataclass(frozen=True)
class Contestant:
    """A method of the library with settings, if any."""

    name: str
    what: str
    """In a few words."""
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    corrects: bool = False
    """Whether it is the shared initialiser, or a network that corrects it."""

    def build(self, seed: int, **settings: Any) -> Any:
        """An estimator that is not fitted."""
        return METHODS.find(self.method).build(seed, **self.settings, **settings)

    @property
    def flags(self) -> str:
        """How `dpmsnc fit` is told to fit it."""
        return " ".join(
            [f"--method {self.method}", *(f"--set {name}={value}" for name, value in self.settings.items())]
        )


CONTESTANTS = (
    Contestant("majority", "always the most frequent class", "majority"),
    Contestant("lp", "label propagation: labels of neighbours, no features", "lp"),
    Contestant(
        "neighbourhood-linear",
        "logistic regression on features averaged over neighbourhoods",
        "neighbourhood",
        {"model": "linear"},
    ),
    Contestant("pta", "PTA: propagated labels teach a network of features", "pta"),
    Contestant("gcn", "graph convolutional network", "gcn"),
    Contestant("sage", "GraphSAGE", "sage"),
    Contestant(
        "neighbourhood-trees",
        "boosted trees on features averaged over neighbourhoods",
        "neighbourhood",
        {"model": "trees"},
    ),
    Contestant("crf", "the best of simple methods under a pairwise model of neighbours", "crf", corrects=True),
    Contestant("masked-labels", "a network that corrects crf, without diffusion", "masked-labels", corrects=True),
    Contestant("dpm-snc", "a diffusion model of labels that corrects crf", "dpm-snc", corrects=True),
)


def chosen(names: Sequence[str] | None) -> list[Contestant]:
    """The contestants of these names, in the order of their cost; other methods of the library come last."""
    if names is None:
        return list(CONTESTANTS)
    if isinstance(names, str) or not names:
        raise InputError(f"methods={names!r} names no methods; pass a list such as ['lp', 'gcn']")
    known = {contestant.name: contestant for contestant in CONTESTANTS}
    others = [Contestant(name, "", name) for name in dict.fromkeys(names) if name not in known]
    for other in others:
        METHODS.find(other.method)
    return [contestant for contestant in CONTESTANTS if contestant.name in names] + others


def unsuited(contestant: Contestant, graph: Graph) -> str | None:
    """Why a contestant is not worth its time on a graph unless it is asked for by name."""
    columns = graph.num_features * (NeighbourhoodFeatures.num_hops + 1)
    if contestant.settings.get("model") == "trees" and columns > COLUMNS_FOR_TREES:
        return f"a table of {columns:,} columns is too wide for trees, which are tried up to {COLUMNS_FOR_TREES}"
    return None
