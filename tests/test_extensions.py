"""What is registered from outside the package works everywhere, with no edit inside.

A module of toys, named in the entry-point group `dpmsnc` of an installed distribution, brings a backbone, a sampler, a
baseline, a kind of target, a metric and an experiment; each is used from the command line in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.slow  # a dozen processes that import torch

TOYS = '''
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpmsnc.baselines.base import Baseline
from dpmsnc.data.grids import grid_scattered
from dpmsnc.diffusion.sampler import DDIM, STEPS
from dpmsnc.estimators.base import METHODS, Method
from dpmsnc.evidence.experiments.registry import EXPERIMENTS
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.show.table import Table
from dpmsnc.nn.backbones import BACKBONES
from dpmsnc.nn.backbones.gcn import GCN
from dpmsnc.targets import TARGETS, OneClass


@BACKBONES.register("toy-backbone")
class ToyBackbone(GCN):
    """A GCN by another name."""


@STEPS.register("toy-step")
class ToyStep(DDIM):
    """DDIM by another name."""


@dataclass(eq=False)
class Majority(Baseline):
    """The most frequent class, everywhere."""

    strength: float = 0.9
    seed: int = 0

    def _fit(self, graph, y_train, y_validation):
        self.counts_ = np.bincount(y_train[y_train >= 0], minlength=graph.num_classes).astype(float)

    def _marginals(self, graph, y):
        p = np.full(len(self.counts_), (1 - self.strength) / (len(self.counts_) - 1))
        p[self.counts_.argmax()] = self.strength
        return np.tile(p, (graph.num_nodes, 1))


METHODS["toy-majority"] = Method(lambda seed, **settings: Majority(seed=seed, **settings))


@TARGETS.register("toy-shout")
@dataclass(frozen=True)
class Shout(OneClass):
    """Classes that are answered in capitals."""

    kind: ClassVar[str] = "toy-shout"

    def encode(self, values):
        return super().encode([None if value is None else str(value).lower() for value in values])

    def decode(self, labels):
        return np.vectorize(lambda name: None if name is None else str(name).upper(), otypes=[object])(
            super().decode(labels)
        )


def small(dataset, seed):
    return grid_scattered(columns=20, seed=seed)


def table(documents):
    cells = [[d["row"], d["metrics"]["selected"]["accuracy"]] for d in documents]
    return Table("Toys", ["row", "accuracy"], [[str(cell) for cell in row] for row in cells])


EXPERIMENTS["toy"] = Experiment("toy", ("grid_scattered",), {"majority": Row("toy-majority")}, (0,), table, load=small)
'''
NODES = "id,topic,size\n" + "\n".join(f"n{k},{'red' if k % 2 else 'blue'},{k % 3}" for k in range(30)) + "\n"
EDGES = "a,b\n" + "\n".join(f"n{k},n{(k + 1) % 32}" for k in range(32)) + "\n"
QUICK = ["--hidden-channels", "8", "--schedule.num-steps", "10", "--sampling.steps", "4", "--training.steps", "10"]
QUICK += ["--training.evaluate-every", "5", "--initialiser", "uniform"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "toys.py").write_text(TOYS)
    info = tmp_path / "site" / "toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dpmsnc]\ntoys = toys\n")
    (tmp_path / "nodes.csv").write_text(NODES + "n30,,1\nn31,,2\n")
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def dpmsnc(place: Path, *words: str) -> str:
    """The output of a command that must succeed."""
    path = os.pathsep.join([str(place / "site"), *sys.path])
    command = [sys.executable, "-c", "import sys; from dpmsnc.cli.main import main; sys.exit(main())", *words]
    done = subprocess.run(command, cwd=place, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fit(place: Path, *words: str) -> None:
    data = ["--edges", "edges.csv", "--nodes", "nodes.csv", "--id", "id", "--label", "topic"]
    dpmsnc(place, "fit", "--out", "model", *data, *words)


def predicted(place: Path) -> pd.DataFrame:
    dpmsnc(place, "predict", "model", "--out", "answers.csv", "--num-samples", "4")
    return pd.read_csv(place / "answers.csv").set_index("id")


def test_a_backbone_and_a_sampler(place):
    fit(place, *QUICK, "--backbone", "toy-backbone(residual=True)", "--sampling.method", "toy-step")
    params = json.loads((place / "model" / "model.json").read_text())["params"]
    assert (params["backbone"], params["sampling"]["method"]) == ("toy-backbone(residual=True)", "toy-step")
    assert predicted(place).loc["n3", "label"] == "red"
    assert "sample_1" in dpmsnc(place, "sample", "model", "--num-samples", "2")


def test_a_baseline_as_a_method_and_as_an_initialiser(place):
    fit(place, "--method", "toy-majority", "--set", "strength=0.8")
    answers = predicted(place)
    assert answers.loc["n31", "probability"] == pytest.approx(0.8) and answers.loc["n3", "label"] == "red"
    fit(place, *QUICK[:-2], "--initialiser", "toy-majority", "--overwrite")
    assert predicted(place).notna().all().all()


def test_a_kind_of_target(place):
    fit(place, *QUICK, "--kind", "toy-shout")
    assert set(predicted(place)["label"]) <= {"RED", "BLUE"}


def test_an_experiment(place):
    assert "majority" in dpmsnc(place, "reproduce", "toy", "--results", "results")
    assert "majority" in dpmsnc(place, "table", "toy", "--results", "results")
