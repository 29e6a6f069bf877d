"""Search spaces are what they were when methods began to declare their own."""

import json
from pathlib import Path

import pytest

from dpmsnc.baselines import METHODS, Stack
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Method
from dpmsnc.estimators.search_space import SearchSpace
from dpmsnc.evidence.search.space import PAPER, space
from dpmsnc.presets import preset

FROZEN = json.loads((Path(__file__).parents[1] / "reference" / "search_spaces.json").read_text())
"""By method, backbone where it is not the default, and data set."""


@pytest.mark.parametrize("key", FROZEN)
def test_a_space_is_what_it_was(key):
    method, *backbone, dataset = key.split()
    default = METHODS[method].build(0, **({"backbone": backbone[0]} if backbone else {}))
    found = space(method, dataset, default)
    assert list(found.items()) == [(name, tuple(choices)) for name, choices in FROZEN[key].items()]


def test_every_space_that_is_declared_is_frozen():
    declared = {name for name, method in METHODS.items() if method.search.arguments}
    assert declared == {key.split()[0] for key in FROZEN}


def test_a_method_from_elsewhere_is_searched_by_what_it_declares(monkeypatch):
    search = SearchSpace({"learning_rate": "lr"}, ({"lr": 0.05},))
    monkeypatch.setitem(METHODS, "toy", Method(METHODS["gcn"].build, search=search))
    assert space("toy", "cora", METHODS["toy"].build(0)) == {"lr": (0.001, 0.005, 0.01, 0.05)}


def test_the_grids_of_the_paper_cover_the_presets_of_all_settings():
    assert set(PAPER) == {"homophilic", "heterophilic", "synthetic", "inductive", "inductive-huge", "reasoning"}
    for setting, ranges in PAPER.items():
        settings = preset("paper", setting)
        chosen = {**vars(settings["training"]), **settings}
        assert all(chosen[name] in choices for name, choices in ranges.items() if name in chosen)


def test_the_grid_of_a_data_set_is_that_of_its_table():
    found = {name: space("dpm-snc", name, METHODS["dpm-snc"].build(0)) for name in ("cora_ego", "ppi")}
    assert set(found["ppi"]["hidden_channels"]) == {64, 512, 1024}  # the default, too
    assert {1e-3, 5e-3, 1e-2} < set(found["cora_ego"]["training.weight_decay"])


def test_a_method_without_a_space_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "stack", Method(lambda seed: Stack(seed=seed)))
    for name in ("stack", "no such method"):
        with pytest.raises(InputError, match=f"no search space for '{name}'; there is one for .*gcn"):
            space(name, "cora", Stack())
