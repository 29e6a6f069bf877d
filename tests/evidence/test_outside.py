"""A method and an experiment that are registered from outside the package stand in tables and can be searched for."""

from dataclasses import dataclass

import numpy as np
import pytest

from dpmsnc.baselines import METHODS
from dpmsnc.baselines.base import Baseline
from dpmsnc.cli.main import main
from dpmsnc.data import grid_scattered
from dpmsnc.estimators.base import Method
from dpmsnc.estimators.search_space import SearchSpace
from dpmsnc.evidence.experiments.registry import EXPERIMENTS
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.show.compare import compare


@dataclass(eq=False)
class Coin(Baseline):
    """An estimator that throws a loaded coin for every node."""

    bias: float = 0.5
    seed: int = 0

    def _fit(self, graph, y_train, y_validation):
        """There is nothing to learn."""

    def _marginals(self, graph, y):
        heads = np.random.default_rng(self.seed).random(graph.num_nodes) < self.bias
        return np.where(heads[:, None], [0.9, 0.1], [0.1, 0.9])


def small(name, seed):
    return grid_scattered(columns=20, seed=seed)


def table(documents):
    return compare("Coins", documents, ("grid_scattered",), {"coin": Row("coin")})


@pytest.fixture
def outside(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for registry in (METHODS, EXPERIMENTS):
        monkeypatch.setitem(registry, "coin", None)  # put back afterwards
    searched = SearchSpace({"dropout": "bias"})
    METHODS.register("coin")(Method(lambda seed, **settings: Coin(seed=seed, **settings), search=searched))
    EXPERIMENTS.register("coin")(
        Experiment("coin", ("grid_scattered",), {"coin": Row("coin")}, (0, 1), table, load=small)
    )


def test_a_method_from_outside_is_reproduced_shown_and_searched_for(outside, capsys):
    assert main(["reproduce", "coin"]) == 0
    assert "[2/2] coin on grid_scattered, seed 1" in capsys.readouterr().out
    assert main(["tune", "coin", "--dataset", "grid_scattered", "--trials", "2"]) == 0
    assert "best: validation likelihood" in capsys.readouterr().out
    assert main(["reproduce", "coin", "--fix", "bias=0.9"]) == 0
    capsys.readouterr()
    assert main(["table", "coin"]) == 0
    assert "\ngrid_scattered  coin " in capsys.readouterr().out
    assert main(["table", "coin", "--tried"]) == 0
    assert "bias=0.9" in capsys.readouterr().out
    assert main(["report"]) == 0


@pytest.mark.parametrize("command", [["reproduce", "coin"], ["table", "coin"], ["tune", "coin", "--dataset", "cora"]])
def test_what_is_not_registered_is_answered_with_what_there_is(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    kind, known = ("method", "dpm-snc") if command[0] == "tune" else ("experiment", "synthetic")
    words = capsys.readouterr().err
    assert f"unknown {kind} 'coin'; there are " in words and known in words
