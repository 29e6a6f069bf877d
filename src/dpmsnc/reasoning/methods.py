"""The methods of table 5 by name: each is fitted to a `TaskStream` and answers arrays of complete graphs.

A baseline joins with a class whose `fit` takes a stream and whose `predict` takes attributes (graphs, n, n), most
simply a subclass of `EdgeRegressor`, and a line below.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import Sampling, Training
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.estimators.base import METHODS, Method, seeded
from dpmsnc.estimators.edge_regressor import DirectEdgeRegressor, EdgeRegressor
from dpmsnc.estimators.params import Parameters
from dpmsnc.presets import preset
from dpmsnc.reasoning.irem import IREM
from dpmsnc.reasoning.iterative import STEP, IterativeRegressor
from dpmsnc.reasoning.ponder import PonderRegressor
from dpmsnc.reasoning.tasks import TASKS, TaskStream

TO_THE_END = 10**6
"""Evaluations without a better score that training goes on for."""
TRAINING = Training(
    steps=20000,
    learning_rate=2e-3,
    weight_decay=0.0,
    time_draws=1,
    time_power=1.0,
    averaging=0.999,
    hide_features=0.0,
    evaluate_every=1000,
    patience=TO_THE_END,
    batch_size=64,
)
_PAPER = preset("paper", "reasoning")
AS_PUBLISHED = _PAPER | {"training": replace(_PAPER["training"], steps=TRAINING.steps)}
"""The preset of the paper, with as many steps as our own; the authors' loop does not end by itself."""
TRIPLES = {"network": "triples", "conditioning": "guided", "training": TRAINING}
"""Ours: messages over triples, labels are predicted, ten steps of DDIM, 16 samples averaged."""

BASELINE = {
    "conditioning": "guided",
    "num_averaged": 1,
    "clip": False,
    "training": replace(TRAINING, learning_rate=1e-3),
}
"""What the baselines of Du et al. 2022 share; their rate of 1e-4 with batches of 512 would take hours."""
FEEDFORWARD = BASELINE | {"network": "ends"}
"""One evaluation of the network, in which labels are zero."""
TIED, LSTM = BASELINE | {"network": "recurrent"}, BASELINE | {"network": "lstm"}
PONDER = BASELINE | {"network": "ponder", "sampling": Sampling(temperature=0.0, progressive=0.0)}
"""Answers are expectations over rounds."""
ENERGY = BASELINE | {"network": "energy", "sampling": Sampling(temperature=1.0, progressive=0.0)}
ITERATIVE = FEEDFORWARD | {
    "schedule": Schedule(num_steps=10),
    "sampling": Sampling(method=STEP, steps=None, temperature=1.0, progressive=0.0),
}


class TrivialRule(Parameters):
    """What needs no learning: the edge's own attribute, two hops, or one min-plus step, whichever fits the task."""

    seed = 0

    def fit(self, stream: TaskStream) -> Self:
        self.task_ = TASKS.find(stream.name)
        return self

    def predict(self, attributes: Any) -> NDArray[np.float32]:
        return self.task_.rule(attributes).numpy()


def _with_steps(kind: type[EdgeRegressor], defaults: dict[str, Any], seed: int, **settings: Any) -> EdgeRegressor:
    """`steps` is the budget of training, the rest as the method has it."""
    if (steps := settings.pop("steps", None)) is not None:
        settings["training"] = replace(defaults["training"], steps=steps)
    return seeded(kind, seed, **defaults | settings)


METHODS["dpm-snc-edges"] = Method(partial(_with_steps, EdgeRegressor, AS_PUBLISHED), on="edge")
METHODS["dpm-snc-triples"] = Method(partial(_with_steps, EdgeRegressor, TRIPLES), on="edge")
METHODS["direct-triples"] = Method(partial(_with_steps, DirectEdgeRegressor, TRIPLES), on="edge")
METHODS["feedforward"] = Method(partial(_with_steps, DirectEdgeRegressor, FEEDFORWARD), on="edge")
METHODS["recurrent-tied"] = Method(partial(_with_steps, DirectEdgeRegressor, TIED), on="edge")
METHODS["recurrent-lstm"] = Method(partial(_with_steps, DirectEdgeRegressor, LSTM), on="edge")
METHODS["pondernet"] = Method(partial(_with_steps, PonderRegressor, PONDER), on="edge")
METHODS["iterative-feedforward"] = Method(partial(_with_steps, IterativeRegressor, ITERATIVE), on="edge")
METHODS["irem"] = Method(partial(_with_steps, IREM, ENERGY), on="edge")
METHODS["trivial-rule"] = Method(lambda seed, **settings: TrivialRule(**settings), on="edge")
