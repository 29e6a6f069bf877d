"""The ablations of section 6.3 with models as the paper prints them: they predict the noise and are guided.

Steps against layers trains a model for every number of steps and layers, each a tenth as long as the paper does.
Accuracy over steps asks the models of full length, whose runs `homophilic-paper` stores too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.evidence.experiments.ablations import depth, over_steps
from dpmsnc.evidence.experiments.aggregate import CITATION, SEEDS
from dpmsnc.evidence.experiments.homophilic_paper import CHOSEN, HOMOPHILIC_PAPER, ROWS, measure
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.presets import preset

SHORTER = replace(preset("paper", "homophilic")["training"], steps=2000, initialiser_refreshes=10)
NOTES = (
    "Test accuracy in %, mean±std over seeds, weights selected on validation. Columns: T, the number of diffusion",
    "steps of training and of prediction. The paper's settings (GCN, guided, predicts the noise, all T steps), but",
    f"{SHORTER.steps} training steps in place of 20000, of which the first {100 * SHORTER.initialiser_refreshes} with "
    "labels of the initialiser.",
)


def shorter(steps: int, layers: int) -> Row:
    settings = {"num_layers": layers, "schedule": Schedule(num_steps=steps), "training": SHORTER}
    return Row("dpm-snc-paper", settings, CHOSEN)


STEPS_VS_LAYERS_PAPER = Experiment(
    "steps-vs-layers-paper",
    tuple(CITATION),
    {depth.label(steps, layers): shorter(steps, layers) for steps in depth.STEPS for layers in depth.LAYERS},
    SEEDS,
    partial(depth.grid_table, title="Diffusion steps against layers, models as printed", notes=NOTES),
    figure=partial(depth.grid_figure, title="Diffusion steps against layers, models as printed"),
    measure=measure,
)
ACCURACY_OVER_STEPS_PAPER = Experiment(
    "accuracy-over-steps-paper",
    tuple(CITATION),
    {over_steps.ROW: ROWS["dpm-snc-paper"]},
    SEEDS,
    partial(over_steps.table, title="Accuracy over reverse steps, models as printed"),
    figure=partial(over_steps.figure, title="Accuracy over reverse steps, models as printed"),
    measure=measure,
    stored_as=HOMOPHILIC_PAPER.name,
)
