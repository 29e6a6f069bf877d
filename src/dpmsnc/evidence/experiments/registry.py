"""All experiments by name, and those of the paper that are not there yet."""

from __future__ import annotations

from dpmsnc.evidence.experiments.ablations.as_printed import ACCURACY_OVER_STEPS_PAPER, STEPS_VS_LAYERS_PAPER
from dpmsnc.evidence.experiments.ablations.bound import BOUND
from dpmsnc.evidence.experiments.ablations.depth import STEPS_VS_LAYERS, TIME_VS_ACCURACY
from dpmsnc.evidence.experiments.ablations.growth import GROWTH
from dpmsnc.evidence.experiments.ablations.ingredients import INGREDIENTS
from dpmsnc.evidence.experiments.ablations.reveal import REVEAL
from dpmsnc.evidence.experiments.ablations.shared_fit import ACCURACY_OVER_STEPS, NUMBER_OF_SAMPLES, PAIRS
from dpmsnc.evidence.experiments.ablations.steps import FEW_STEPS
from dpmsnc.evidence.experiments.ablations.temperature import TEMPERATURE
from dpmsnc.evidence.experiments.company import COMPANY
from dpmsnc.evidence.experiments.cora import CORA
from dpmsnc.evidence.experiments.expressiveness import EXPRESSIVENESS
from dpmsnc.evidence.experiments.figure1 import FIRST_FIGURE
from dpmsnc.evidence.experiments.homophilic_paper import HOMOPHILIC_PAPER
from dpmsnc.evidence.experiments.known_edges import KNOWN_EDGES
from dpmsnc.evidence.experiments.matchings import MATCHINGS
from dpmsnc.evidence.experiments.robustness import ROBUSTNESS
from dpmsnc.evidence.experiments.scenarios import SCENARIO_PICTURES
from dpmsnc.evidence.experiments.table1_synthetic import SYNTHETIC
from dpmsnc.evidence.experiments.table2_homophilic import HOMOPHILIC
from dpmsnc.evidence.experiments.table3_heterophilic import HETEROPHILIC
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
    HOMOPHILIC_PAPER,
    HETEROPHILIC,
    INDUCTIVE,
    REASONING,
    KNOWN_EDGES,
    MATCHINGS,
    FEW_STEPS,
    FIRST_FIGURE,
    SCENARIO_PICTURES,
    STEPS_VS_LAYERS,
    ACCURACY_OVER_STEPS,
    TIME_VS_ACCURACY,
    STEPS_VS_LAYERS_PAPER,
    ACCURACY_OVER_STEPS_PAPER,
    TEMPERATURE,
    NUMBER_OF_SAMPLES,
    PAIRS,
    INGREDIENTS,
    BOUND,
    REVEAL,
    GROWTH,
    TAGS,
    EXPRESSIVENESS,
    ROBUSTNESS,
    COMPANY,
):
    EXPERIMENTS.register(experiment.name)(experiment)
