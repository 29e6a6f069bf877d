"""All experiments by name, and those of the paper that are not there yet."""

from __future__ import annotations

from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.ablations.depth import STEPS_VS_LAYERS, TIME_VS_ACCURACY
from dpmsnc.evidence.experiments.ablations.growth import GROWTH
from dpmsnc.evidence.experiments.ablations.ingredients import INGREDIENTS
from dpmsnc.evidence.experiments.ablations.reveal import REVEAL
from dpmsnc.evidence.experiments.ablations.shared_fit import ACCURACY_OVER_STEPS, NUMBER_OF_SAMPLES, PAIRS
from dpmsnc.evidence.experiments.ablations.steps import FEW_STEPS
from dpmsnc.evidence.experiments.ablations.temperature import TEMPERATURE
from dpmsnc.evidence.experiments.cora import CORA
from dpmsnc.evidence.experiments.expressiveness import EXPRESSIVENESS
from dpmsnc.evidence.experiments.figure1 import FIRST_FIGURE
from dpmsnc.evidence.experiments.known_edges import KNOWN_EDGES
from dpmsnc.evidence.experiments.robustness import ROBUSTNESS
from dpmsnc.evidence.experiments.scenarios import SCENARIO_PICTURES
from dpmsnc.evidence.experiments.table1_synthetic import SYNTHETIC
from dpmsnc.evidence.experiments.table2_homophilic import HOMOPHILIC
from dpmsnc.evidence.experiments.table4_inductive import INDUCTIVE
from dpmsnc.evidence.experiments.table5_reasoning import REASONING
from dpmsnc.evidence.experiments.tags import TAGS
from dpmsnc.evidence.run.experiment import Experiment
from dpmsnc.registry import Registry

EXPERIMENTS: Registry[Experiment] = Registry("experiment")
for experiment in (
    SYNTHETIC,
    CORA,
    HOMOPHILIC,
    INDUCTIVE,
    REASONING,
    KNOWN_EDGES,
    FEW_STEPS,
    FIRST_FIGURE,
    SCENARIO_PICTURES,
    STEPS_VS_LAYERS,
    ACCURACY_OVER_STEPS,
    TIME_VS_ACCURACY,
    TEMPERATURE,
    NUMBER_OF_SAMPLES,
    PAIRS,
    INGREDIENTS,
    REVEAL,
    GROWTH,
    TAGS,
    EXPRESSIVENESS,
    ROBUSTNESS,
):
    EXPERIMENTS.register(experiment.name)(experiment)
NOT_YET: dict[str, str] = {
    "heterophilic": "table 3 needs fifteen further networks as backbones and as classifiers",
}
"""Experiments of the paper that cannot be run yet, and what they wait for."""


def find(name: str) -> Experiment:
    """The experiment of that name."""
    if name in NOT_YET:
        raise InputError(f"{name} is not there yet: {NOT_YET[name]}; there are {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS.find(name)
