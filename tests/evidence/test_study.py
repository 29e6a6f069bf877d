import json
import math
import multiprocessing
import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from dpmsnc import InputError, NodeClassifier, Sampling, Training
from dpmsnc.baselines import GMNN, GNN, METHODS, PTA
from dpmsnc.data import Task, grid_scattered
from dpmsnc.data.benchmarks import per_class
from dpmsnc.estimators import base as methods
from dpmsnc.estimators.base import Method
from dpmsnc.estimators.search_space import SearchSpace
from dpmsnc.evidence.search import study as tuning
from dpmsnc.evidence.search.config_files import Config, read_config
from dpmsnc.evidence.search.search import Search
from dpmsnc.evidence.search.study import finished, open_study, tune
from dpmsnc.evidence.search.trial import VisibleTask, likelihood, prepared, validation_score
from dpmsnc.evidence.search.warm_start import earlier_settings
from dpmsnc.graph import Graph
from dpmsnc.presets import FROM_RANDOM

pytestmark = pytest.mark.usefixtures("brief_couplings")
SHORT = {
    "hidden_channels": 8,
    "initialiser": "lp",
    "sampling": Sampling(steps=2),
    "training": Training(steps=4, evaluate_every=2, refresh_every=2, initialiser_refreshes=1),
}


def small(name, seed):
    return grid_scattered(columns=20, seed=seed)


def vary(monkeypatch, name, arguments):
    """Let searches of a method vary these alone."""
    monkeypatch.setitem(METHODS, name, replace(METHODS[name], search=SearchSpace(arguments)))


def study(search, results):
    return open_study(search, results / "tune" / search.path.with_suffix(".sqlite"))


def history(search, results):
    return [(trial.params, trial.value) for trial in finished(study(search, results))]


class Noted(GNN):
    """Notes every fit, interrupts where it is told to, and predicts better the lower its rate is."""

    fits: list[tuple[int, float]] = []  # noqa: RUF012
    interrupt_at: int | None = None

    def _fit(self, graph, y_train, y_validation):
        if len(Noted.fits) == Noted.interrupt_at:
            Noted.interrupt_at = None
            raise KeyboardInterrupt
        Noted.fits.append((self.seed, self.lr))
        wrong = np.arange(graph.num_nodes) < graph.num_nodes * self.lr * 50
        self.proba_ = np.eye(graph.num_classes)[np.where(wrong, 1 - graph.y, graph.y).clip(0, 1)]

    def _marginals(self, graph, y):
        return self.proba_


@pytest.fixture
def noted(monkeypatch):
    """A method `gcn` whose fits are noted, and one `dpm-snc` that is trained in a moment."""
    monkeypatch.setattr(Noted, "fits", [])
    found = {name: methods.METHODS[name].search for name in ("gcn", "dpm-snc")}
    build = lambda seed, **s: Noted(**{"epochs": 1, "seed": seed, **s})  # noqa: E731
    monkeypatch.setitem(methods.METHODS, "gcn", Method(build, search=found["gcn"]))
    monkeypatch.setitem(
        methods.METHODS,
        "dpm-snc",
        Method(lambda seed, **s: NodeClassifier(**{**SHORT, "seed": seed, **s}), search=found["dpm-snc"]),
    )
    return Noted


def test_the_first_trial_is_the_default_and_the_best_is_written(noted, tmp_path):
    search = Search("gcn", "grid_scattered", seeds=(100, 101))
    path = tune(search, 6, tmp_path / "results", tmp_path / "configs", small)
    assert path == tmp_path / "configs" / "grid_scattered" / "gcn.json"
    trials = history(search, tmp_path / "results")
    assert trials[0][0] == search.defaults and len(trials) == 6
    assert noted.fits[:2] == [(100, 0.01), (101, 0.01)] and len(noted.fits) == 12
    document = json.loads(path.read_text())
    best = max(value for _, value in trials)
    assert document["default_validation_score"] == round(trials[0][1], 6) < round(best, 6)
    assert document["validation_score"] == round(best, 6)
    assert document["settings"]["lr"] == min(params["lr"] for params, _ in trials)
    assert (document["trials"], document["seeds"], document["backbone"]) == (6, [100, 101], "gcn")
    tried = [(search.defaults | trial["changed"], trial["validation_score"]) for trial in document["tried"]]
    assert tried == [(params, round(value, 6)) for params, value in trials] and document["tried"][0]["changed"] == {}
    assert not any("over_all_seeds" in trial for trial in document["tried"])


def test_what_earlier_searches_found_elsewhere_is_tried_after_the_defaults(noted, tmp_path):
    for dataset, backbone, settings in (
        ("cora", "gcn", {"lr": 0.005, "scaling": "rows"}),
        ("cora", "gat", {"lr": 0.001}),
        ("grid_scattered", "gat", {"dropout": 0.2, "lr": 7.0}),
        ("grid_scattered", "gcn", {"dropout": 0.7}),
    ):
        Config("gmnn", backbone, dataset, settings, 0.8, 0.7, 20, [100]).write(tmp_path)
    for dataset, alone, backbone, lr in (
        ("grid_scattered", "gcn", "gcn", 0.005),
        ("grid_scattered", "gat", "gat(attention_dropout=True)", 0.001),
        ("cora", "gcn", "gcn", 0.02),
    ):
        Config(alone, backbone, dataset, {"lr": lr}, 0.8, 0.7, 20, [100]).write(tmp_path)
    (tmp_path / "cora" / "gmnn-notes.json").write_text("not a configuration")
    earlier = earlier_settings("gmnn", "grid_scattered", None, tmp_path)
    elsewhere = ({"dropout": 0.2, "lr": 7.0}, {"lr": 0.005, "scaling": "rows"})
    # first what was found for its network alone, with that one's defaults, of which GMNN has others
    assert earlier[1:] == elsewhere and earlier[0]["lr"] == 0.005
    assert earlier[0]["input_dropout"] == GNN().input_dropout != GMNN().input_dropout
    assert earlier_settings("gmnn", "grid_scattered", "gat(attention_dropout=True)", tmp_path)[0]["lr"] == 0.001
    # of which DPM-SNC has other settings, and a GCN is one itself
    assert earlier_settings("dpm-snc", "grid_scattered", None, tmp_path) == ()
    assert earlier_settings("gcn", "grid_scattered", None, tmp_path) == ({"lr": 0.02},)
    search = Search("gcn", "grid_scattered", earlier=elsewhere)
    tune(search, 4, tmp_path, tmp_path, small)
    tried = [params for params, _ in history(search, tmp_path)]
    # a learning rate and a scaling that cannot be chosen here are left out
    assert tried[:3] == [search.defaults | other for other in ({}, {"dropout": 0.2}, {"lr": 0.005})]


def test_of_equal_trials_the_cheaper_one_wins(noted, tmp_path, monkeypatch):
    search = Search("gcn", "grid_scattered")
    vary(monkeypatch, "gcn", {"dropout": "dropout"})
    tune(search, 4, tmp_path, tmp_path, small)
    trials = finished(study(search, tmp_path))
    assert len({trial.value for trial in trials}) == 1
    cheapest = min(trials, key=lambda trial: trial.user_attrs["cpu_s"])
    settings = read_config(tmp_path / search.path, "gcn").settings
    assert settings == search.settings(cheapest.params)


def test_the_best_trials_are_scored_on_the_final_seeds_and_the_mean_decides(noted, tmp_path, monkeypatch, capsys):
    scored = []

    def score(model, seen, progress=None):
        """On the first seeds a rate of .001 is best and the default's .01 worst; on the others .005 is, then .01."""
        scored.append((model.seed, model.lr, model.hidden_channels))
        first = {0.001: 0.9, 0.005: 0.8, 0.01: 0.7}
        return (first if model.seed < 102 else {0.001: 0.1, 0.005: 0.6, 0.01: 0.5})[model.lr] + model.dropout / 1000

    for module in ("trial", "study"):
        monkeypatch.setattr(f"dpmsnc.evidence.search.{module}.validation_score", score)
    monkeypatch.setattr(tuning, "FINALISTS", 2)
    space = {"lr": (0.001, 0.005, 0.01), "hidden_channels": (8, 64)}
    monkeypatch.setattr("dpmsnc.evidence.search.search.space", lambda *_: space)
    search = Search("gcn", "grid_scattered", seeds=(100, 101), final_seeds=(102, 103))
    config = read_config(tune(search, 6, tmp_path, tmp_path, small), "gcn")
    finals = [fit for fit in scored if fit[0] >= 102]
    # the default and the two best of six, both of them with the rate that is best on the first seeds, once on each seed
    assert sorted(finals) == sorted((s, *fit) for s in (102, 103) for fit in ((0.001, 8), (0.001, 64), (0.01, 64)))
    assert config.settings == {}  # (.7 + .7 + .5 + .5) / 4 against (.9 + .9 + .1 + .1) / 4; .005 was no finalist
    assert config.validation_score == config.default_validation_score == pytest.approx(0.6005)
    assert (config.seeds, config.final_seeds, config.trials) == ([100, 101], [102, 103], 6)
    over_all = sorted(trial["over_all_seeds"] for trial in config.tried if "over_all_seeds" in trial)
    assert over_all == pytest.approx([0.5005, 0.5005, 0.6005]) and len(config.tried) == 6
    scored.clear()
    tune(search, 6, tmp_path, tmp_path, small)
    assert not scored  # nothing is fitted twice
    monkeypatch.setattr(tuning, "FINALISTS", 4)
    assert read_config(tune(search, 6, tmp_path, tmp_path, small), "gcn").settings["lr"] == 0.005
    assert len(scored) == 4  # two more finalists on two seeds


def test_an_interrupted_final_goes_on(noted, tmp_path, capsys):
    search = Search("gcn", "grid_scattered", final_seeds=(101,))
    Noted.interrupt_at = 5  # after three trials and two finals
    with pytest.raises(KeyboardInterrupt):
        tune(search, 3, tmp_path, tmp_path, small)
    assert "the same command goes on from here" in capsys.readouterr().out
    path = tune(search, 3, tmp_path, tmp_path, small)
    assert len(Noted.fits) == 6 and path.is_file()


def test_an_interrupted_search_goes_on_as_if_it_had_not_been(noted, tmp_path, capsys):
    search = Search("gcn", "grid_scattered")
    tune(search, 7, tmp_path / "whole", tmp_path / "a", small)
    whole, noted.fits = noted.fits, []
    for at in (0, 3):
        noted.interrupt_at = at
        with pytest.raises(KeyboardInterrupt):
            tune(search, 7, tmp_path / "parts", tmp_path / "b", small)
        assert f"interrupted: {at} of 7" in capsys.readouterr().out
    assert not (tmp_path / "b").exists()
    tune(search, 5, tmp_path / "parts", tmp_path / "b", small)
    assert noted.fits == whole[:5]
    tune(search, 7, tmp_path / "parts", tmp_path / "b", small)
    assert noted.fits == whole and history(search, tmp_path / "parts") == history(search, tmp_path / "whole")


def test_a_killed_trial_does_not_count(noted, tmp_path):
    def search_and_die() -> None:
        fit = Noted.fit
        Noted.fit = lambda self, *a, **k: os._exit(9) if len(Noted.fits) == 2 else fit(self, *a, **k)
        tune(Search("gcn", "grid_scattered"), 4, tmp_path, tmp_path, small)

    process = multiprocessing.get_context("fork").Process(target=search_and_die)
    process.start()
    process.join()
    assert process.exitcode == 9 and not noted.fits
    search = Search("gcn", "grid_scattered")
    assert len(finished(study(search, tmp_path))) == 2 and len(study(search, tmp_path).trials) == 3
    tune(search, 4, tmp_path, tmp_path, small)
    assert len(noted.fits) == 2 and len(finished(study(search, tmp_path))) == 4


def test_more_trials_than_asked_for_do_not_count(noted, tmp_path):
    search = Search("gcn", "grid_scattered")
    tune(search, 5, tmp_path, tmp_path, small)
    tune(search, 1, tmp_path, tmp_path, small)
    assert len(noted.fits) == 5
    found = read_config(tmp_path / search.path, "gcn")
    assert found.trials == len(found.tried) == 1 and found.settings == {}


def test_the_same_seed_is_the_same_search(noted, tmp_path):
    searches = [Search("gcn", "grid_scattered", seed=seed) for seed in (0, 0, 1)]
    for k, search in enumerate(searches):
        tune(search, 5, tmp_path / str(k), tmp_path / str(k), small)
    first, again, other = (history(search, tmp_path / str(k)) for k, search in enumerate(searches))
    assert first == again and first[1:] != other[1:]


def test_test_labels_change_nothing(noted, tmp_path):
    def flipped(name, seed):
        task = small(name, seed)
        return replace(task, truth=np.where(task.test, 1 - task.truth, task.truth))

    search = Search("dpm-snc", "grid_scattered")
    for name, load in (("a", small), ("b", flipped)):
        tune(search, 3, tmp_path / name, tmp_path / name, load)
    assert history(search, tmp_path / "a") == history(search, tmp_path / "b")


def test_a_trial_that_falls_behind_is_pruned(noted, tmp_path, monkeypatch):
    monkeypatch.setattr("dpmsnc.evidence.search.study.WARM_UP", 0)
    monkeypatch.setattr(
        "dpmsnc.training.partial.PartlyLabelled.score_with", lambda self, share: 1 / self.options.time_draws
    )
    varied = {"time_draws": "training.time_draws", "dropout": "dropout", "temperature": "training.temperature"}
    vary(monkeypatch, "dpm-snc", varied)
    search = Search("dpm-snc", "grid_scattered", fixed={"start": "random"})
    tune(search, 16, tmp_path, tmp_path, small)
    trials = finished(study(search, tmp_path))
    pruned = [trial for trial in trials if trial.state.name == "PRUNED"]
    assert len(trials) == 16 and trials[0].state.name == "COMPLETE"
    assert pruned and {trial.params["training.time_draws"] for trial in pruned} == {8}
    tried = read_config(tmp_path / search.path, "dpm-snc").tried
    assert [trial.get("pruned_at") for trial in tried] == [
        trial.last_step if trial in pruned else None for trial in trials
    ]


def test_no_trial_is_run_twice_while_there_are_others(noted, tmp_path, monkeypatch):
    vary(monkeypatch, "gcn", {"dropout": "dropout", "num_layers": "num_layers"})
    search = Search("gcn", "grid_scattered")
    size = math.prod(len(choices) for choices in search.space.values())
    tune(search, size - 1, tmp_path, tmp_path, small)
    params = [tuple(trial.params.items()) for trial in finished(study(search, tmp_path))]
    assert len(set(params)) == len(params) == size - 1
    tune(search, size + 2, tmp_path, tmp_path, small)  # used up: trials repeat rather than end
    assert len(finished(study(search, tmp_path))) == size + 2


def test_a_start_is_fitted_once_for_all_trials_and_changes_no_score(monkeypatch):
    fits = []
    monkeypatch.setattr(PTA, "_fit", lambda self, *arguments, fit=PTA._fit: fits.append(1) or fit(self, *arguments))
    task = small("grid_scattered", 100)
    seen, search = VisibleTask.of(task), Search("dpm-snc", "grid_scattered")
    monkeypatch.setattr(Search, "default", lambda self, seed: NodeClassifier(seed=100, **(SHORT | FROM_RANDOM)))
    models = [prepared(search, 100, {}, seen) for _ in range(2)]
    scores = [validation_score(model, seen, lambda running: None) for model in models]
    assert fits == [1]
    alone = search.default(100).fit(task.graph, validation=task.validation)
    assert len(fits) == 2 and scores == [alone.best_score_] * 2


def test_what_a_network_begins_as_is_fitted_without_the_labels_it_is_asked_for(monkeypatch):
    seen, search = VisibleTask.of(small("grid_scattered", 100)), Search("dpm-snc", "grid_scattered")
    monkeypatch.setattr(Search, "default", lambda self, seed: NodeClassifier(**(SHORT | {"initialiser": "lp"})))
    assert prepared(search, 100, {}, seen).initialiser == "lp" and not seen.initialisers


def test_evenly_drawn_validation_nodes_count_as_much_as_their_class():
    """Two classes that never meet, one of them nine times as large: being right on it counts nine times as much."""
    sizes = np.array([40, 360])
    y = np.repeat([0, 1], sizes)
    rng = np.random.default_rng(0)
    edges = [
        pair for c in (0, 1) for pair in rng.choice(np.flatnonzero(y == c), (4 * sizes[c], 2)) if pair[0] != pair[1]
    ]
    graph = Graph.build(np.array(edges).T, x=np.eye(2)[y] + rng.normal(scale=0.1, size=(400, 2)), y=y)
    even = Task.hiding("even", graph, *per_class(5, 10)(y, {}, seed=0))
    seen = VisibleTask.of(even)
    shown = graph.y[seen.validation]
    np.testing.assert_allclose([seen.weight[shown == c].sum() for c in (0, 1)], [0.1, 0.9], atol=0.03)

    class Constant(GNN):
        def _fit(self, graph, y_train, y_validation):
            pass

        def _marginals(self, graph, y):
            return np.tile([0.4, 0.6], (400, 1))

    share = seen.weight[shown == 1].sum()  # which is what the same answer everywhere should say, and is made to
    assert validation_score(Constant(), seen) == pytest.approx(share**share * (1 - share) ** (1 - share), abs=1e-6)
    assert likelihood(np.full((400, 2), np.nan), seen) == 0  # rather than a score that optuna does not take
    uneven = even.validation & ~(np.cumsum(even.validation) == 1)
    assert set(VisibleTask(even.graph, uneven).weight) == {1 / 19}


def test_a_start_that_depends_on_the_classifier_is_not_shared():
    seen = VisibleTask.of(small("grid_scattered", 100))
    for start in ("gnn", ["gnn", {}], ["gnn", {"epochs": 3}]):
        assert seen.initialiser(NodeClassifier(initialiser=start)) == start and seen.initialisers == {}


def test_a_killed_trial_is_drawn_again_also_once_there_are_trials_to_learn_from(noted, tmp_path, monkeypatch):
    varied = {name: name for name in ("dropout", "num_layers", "hidden_channels")} | {"learning_rate": "lr"}
    vary(monkeypatch, "gcn", varied)
    search = Search("gcn", "grid_scattered")
    tune(search, 16, tmp_path / "whole", tmp_path, small)
    tune(search, 12, tmp_path / "killed", tmp_path, small)
    study(search, tmp_path / "killed").ask()  # what a kill leaves behind
    tune(search, 16, tmp_path / "killed", tmp_path, small)
    params = [[t.params for t in finished(study(search, tmp_path / folder))] for folder in ("whole", "killed")]
    assert params[0] == params[1]


def test_bad_requests_are_refused_in_a_line(noted, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="at least 1"):
        tune(Search("gcn", "grid_scattered"), 0, tmp_path, tmp_path, small)
    monkeypatch.undo()
    with pytest.raises(InputError, match="does not take another backbone"):
        tune(Search("gcn", "grid_scattered", "gat"), 1, tmp_path, tmp_path, small)
    with pytest.raises(InputError, match="unknown data set"):
        tune(Search("gcn", "corra"), 1, tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
    search = Search("lp", "grid_scattered")
    path = tmp_path / "tune" / "grid_scattered" / "lp.sqlite"
    path.parent.mkdir(parents=True)
    path.write_text("nonsense " * 200)
    with pytest.raises(InputError, match="cannot hold the trials"):
        tune(search, 1, tmp_path, tmp_path, small)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r'pip install "dpmsnc\[tune\]"'):
        tune(search, 1, tmp_path, tmp_path, small)
