"""Configurations as files: how they come back, what they may say, and which cells of an experiment they reach."""

import json
import math
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from dpmsnc import InputError, NodeClassifier, Training
from dpmsnc.baselines import GNN, METHODS
from dpmsnc.cli.main import main, parse
from dpmsnc.data import grid_scattered
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run.estimators import declared_types, with_settings
from dpmsnc.evidence.run.experiment import Experiment, Row, Run
from dpmsnc.evidence.run.fix import check_settings, fits
from dpmsnc.evidence.run.settings import flat, nested
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.search.config_files import Config, config_path, configured, read_config
from dpmsnc.evidence.search.search import Search
from dpmsnc.evidence.search.warm_start import earlier_settings
from tiny_tables import fast, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
FOUND = {"hidden_channels": 8, "training": {"learning_rate": 0.005, "unlabelled_weight": 1.0}}


def small(name, seed):
    return grid_scattered(columns=20, seed=seed)


def config(method="dpm-snc", backbone: str | None = "gcn", dataset="grid_scattered", settings=FOUND):
    return Config(method, backbone, dataset, settings, 0.9, 0.8, 20, [100])


def test_a_searched_depth_reaches_the_rows_of_every_backbone(tmp_path):
    for backbone in ("gcn", "gcnii(time=False)"):
        settings = {"num_layers": 4, "initialiser": ["grand", {"num_layers": 2}]}
        Config("dpm-snc", backbone, "cora", settings, 0.8, 0.7, 20, [100]).write(tmp_path)
    experiment = configured(registry.EXPERIMENTS["homophilic"], tmp_path)
    for name in ("gcn", "gcnii"):
        model = Run(experiment, "cora", f"dpm-snc ({name})", 0).build()
        assert (model.num_layers, model.initialiser) == (4, ["grand", {"num_layers": 2}])
    assert Search("dpm-snc", "cora", "gcnii").defaults["num_layers"] == 8


def test_a_configuration_comes_back_as_an_estimator(tmp_path):
    path = config().write(tmp_path)
    assert path == tmp_path / "grid_scattered" / "dpm-snc-gcn.json"
    clf = with_settings(NodeClassifier(seed=3), read_config(path, "dpm-snc", "gcn", "grid_scattered").settings)
    expected = NodeClassifier(seed=3, hidden_channels=8, training=Training(learning_rate=0.005, unlabelled_weight=1.0))
    assert clf.nested_params() == expected.nested_params() and clf.training == expected.training
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert config_path("cora", "pta", None) == Path("cora/pta.json")
    assert config_path("cora", "gat", "gat(attention_dropout=True)") == Path("cora/gat(attention_dropout=True).json")
    assert config_path("cora", "gcn", "gcnii") == Path("cora/gcn-gcnii.json")
    assert config_path("cora", "gcn-lpa", "gcn") == Path("cora/gcn-lpa-gcn.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a configuration"),
        ('{"method": "dpm-snc"}', "is not a configuration"),
        (json.dumps({**vars(config("gcn")), "versions": {}}), "of method gcn, not dpm-snc"),
        (json.dumps({**vars(config(settings={"depth": 3})), "versions": {}}), "does not take the settings"),
        (json.dumps({**vars(config(settings={"training": {"steps": -1}})), "versions": {}}), "steps must be at least"),
        (json.dumps({**vars(config(settings={"dropout": "much"})), "versions": {}}), "dropout must be at least"),
        (
            json.dumps({**vars(config(settings={"initialiser": {"x": 1}})), "versions": {}}),
            "initialiser is not a group",
        ),
        (json.dumps({**vars(config(settings={"backbone": {"x": 1}})), "versions": {}}), "sets backbone"),
        (json.dumps({**vars(config(settings={"seed": 4, "backbone": "gat"})), "versions": {}}), "sets seed, backbone"),
    ],
)
def test_a_bad_configuration_is_refused_by_fit(text, message, tmp_path, capsys):
    (tmp_path / "bad.json").write_text(text)
    for path in ("bad.json", "none.json"):
        words = ["fit", *write_tables(tmp_path), "--out", tmp_path / "model", "--config", tmp_path / path]
        assert main([str(word) for word in words]) == 2
        assert (message if path == "bad.json" else "there is no configuration file") in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_fit_takes_a_start_with_settings_from_a_configuration(tmp_path, capsys):
    start = ["grand", {"num_layers": 2}]
    path = str(Config("dpm-snc", "gcn", "cora", {"initialiser": start}, 0.8, 0.7, 20, [100]).write(tmp_path))
    words = ["fit", "--out", "model", "--config", path]
    assert parse(words).classifier().initialiser == start
    assert parse([*words, "--initialiser", "lp"]).classifier().initialiser == "lp"
    for wrong in ("--help", "--no-such-flag"):
        with pytest.raises(SystemExit):
            parse([*words, wrong])
    assert "grand" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name, fixed",
    [("dpm-snc", {"sampling.steps": None}), ("dpm-snc", {"training.clip": "inf"}),
     ("dpm-snc-paper", {"sampling.progressive": "auto"}),
     ("dpm-snc-paper", {"training.unlabelled_weight": "confidence"})],
)  # fmt: skip
def test_what_an_option_accepts_can_be_fixed_whatever_its_default(name, fixed):
    model = METHODS.find(name).build(0)
    check_settings(name, model, nested(fixed))
    assert fixed.items() <= flat(with_settings(model, nested(fixed)).configuration()).items()


@pytest.mark.parametrize("name", METHODS)
def test_the_defaults_of_a_method_are_of_their_declared_types(name):
    model = METHODS.find(name).build(0)
    types = declared_types(type(model))
    values = {option: value for option, value in flat(model.configuration()).items() if option != "initialiser"}
    assert values.keys() <= types.keys()
    assert [option for option in values if values[option] != "inf" and not fits(values[option], types[option])] == []


@pytest.mark.parametrize(
    "option, value",
    [
        ("sampling.steps", "abc"),
        ("training.clip", math.inf),
        ("sampling.steps", "inf"),
        ("training.steps", 0.5),
        ("dropout", True),
    ],
)
def test_a_value_of_another_type_cannot_be_fixed(option, value):
    with pytest.raises(InputError, match=f"{option} cannot be"):
        check_settings("dpm-snc-paper", METHODS.find("dpm-snc-paper").build(0), nested({option: value}))


def test_fit_takes_a_configuration_and_flags_override_it(tmp_path):
    path = config(settings={"dropout": 0.2, "scaling": "rows", "training": {"weight_decay": 0.005}}).write(tmp_path)
    words = [*write_tables(tmp_path), *fast(), "--out", str(tmp_path / "model"), "--config", str(path)]
    assert main(["fit", *words]) == 0
    clf = NodeClassifier.load(tmp_path / "model")
    assert (clf.scaling, clf.training.weight_decay, clf.training.steps) == ("rows", 0.005, 20)
    assert clf.dropout == 0  # by flag
    with pytest.raises(InputError, match="--config or --preset"):
        parse(["fit", "--out", "model", "--config", str(path), "--preset", "paper"])


def trial_experiment(rows):
    return Experiment(
        "trial", ("grid_scattered", "other"), rows, (0,), table=lambda runs: f"{len(runs)} runs", load=small
    )


def test_an_experiment_takes_the_configurations_that_fit_its_cells(tmp_path):
    config(settings={"dropout": 0.2, "training": {"learning_rate": 0.005, "hide_features": 0.2}}).write(tmp_path)
    rows = {
        "ours": Row("dpm-snc"),
        "gat": Row("dpm-snc", {"backbone": "gat"}),
        "nothing hidden": Row("dpm-snc", {"training": Training(hide_features=0.0), "dropout": 0.5}),
        "gcn": Row("gcn"),
    }
    before = trial_experiment(rows)
    after = configured(before, tmp_path)

    def changed(row, dataset):
        runs = [Run(experiment, dataset, row, 7) for experiment in (before, after)]
        differ = runs[0].key.path != runs[1].key.path
        assert differ == (runs[0].key.config != runs[1].key.config)
        return differ

    assert {(row, d) for row in rows for d in before.datasets if changed(row, d)} == {
        ("ours", "grid_scattered"),
        ("gat", "grid_scattered"),  # no search of its own
        ("nothing hidden", "grid_scattered"),
    }
    ours = Run(after, "grid_scattered", "ours", 7).build()
    assert (ours.seed, ours.dropout, ours.training.learning_rate) == (7, 0.2, 0.005)
    # what a row is about stays, in the row that has the default too; the rest is the search's
    assert ours.training.hide_features == Training().hide_features != 0.0
    ablated = Run(after, "grid_scattered", "nothing hidden", 7).build()
    assert (ablated.dropout, ablated.training.learning_rate, ablated.training.hide_features) == (0.5, 0.005, 0.0)


def test_a_backbone_without_a_search_gets_what_was_found_with_the_method_s_own(tmp_path):
    found = {"num_layers": 4, "dropout": 0.2, "initialiser": ["stack", {"repeats": 2}]}
    config(settings=found).write(tmp_path)
    rows = {
        **{name: Row("dpm-snc", {"backbone": name}) for name in ("gcn", "gat", "gcnii")},
        "wide": Row("dpm-snc", {"backbone": "gat", "hidden_channels": 128}),
    }
    build = lambda row: Run(configured(trial_experiment(rows), tmp_path), "grid_scattered", row, 0).build()  # noqa: E731
    gat, deep, wide = build("gat"), build("gcnii"), build("wide")
    assert (gat.dropout, gat.num_layers, list(gat.initialiser)) == (0.2, 4, ["stack", {"repeats": 2}])
    assert (deep.dropout, deep.num_layers) == (0.2, 8)  # depth is what the two networks differ in
    assert (wide.dropout, wide.num_layers) == (0.5, 2)  # a row that is about more than its backbone
    config(backbone="gat", settings={"dropout": 0.7}).write(tmp_path)
    assert (build("gat").dropout, build("gat").num_layers) == (0.7, 2)


def test_configurations_reach_worker_processes(tmp_path):
    config(dataset="cora", settings={"training": {"learning_rate": 0.005}}).write(tmp_path)
    run = Run(configured(registry.EXPERIMENTS.find("cora"), tmp_path), "cora", "dpm-snc", 0)
    here, there = multiprocessing.Pipe()
    here.send(run)
    sent = there.recv()
    assert sent.build().training.learning_rate == 0.005 and sent.key == run.key


def test_the_value_that_a_row_is_about_stays_though_it_is_the_default(tmp_path):
    config(dataset="cora", settings={"training": {"temperature": 0.7, "learning_rate": 0.005}}).write(tmp_path)
    experiment = configured(registry.EXPERIMENTS.find("temperature"), tmp_path)
    found = [Run(experiment, "cora", row, 0).build().training for row in experiment.rows]
    assert [training.temperature for training in found] == [0.1, 0.3, 1.0]
    assert {training.learning_rate for training in found} == {0.005}


def test_configurations_that_fit_no_row_are_a_mistake(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", trial_experiment({"gcn": Row("gcn")}))
    for command in ("reproduce", "table"):
        words = [command, "trial", "--configs", str(tmp_path), "--results", str(tmp_path / "results")]
        assert main(words) == 2
        assert "no configuration for any row of trial" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_reproduce_with_configurations_runs_and_stores_other_runs(tmp_path, monkeypatch, capsys):
    fits = []
    monkeypatch.setattr(GNN, "_fit", lambda self, *a, fit=GNN._fit: fits.append((self.seed, self.lr)) or fit(self, *a))
    rows = {"gcn": Row("gcn", {"epochs": 1}), "sage": Row("sage", {"epochs": 1})}
    experiment = replace(trial_experiment(rows), datasets=("grid_scattered",))
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    for name in rows:
        config(name, name, settings={"lr": 0.005}).write(tmp_path / "configs")
    words = ["reproduce", "trial", "--methods", "gcn", "--results", str(tmp_path / "results")]
    for more in ([], ["--configs", str(tmp_path / "configs")], ["--configs", str(tmp_path / "configs")]):
        assert main([*words, *more]) == 0
        said = capsys.readouterr().out
        # of the cells that were asked for, and no others
        assert ("settings from" in said) == bool(more) == ("gcn on grid_scattered\n" in said) and "sage" not in said
    assert fits == [(0, 0.01), (0, 0.005)]
    assert sorted(d["config"]["lr"] for d in Store(tmp_path / "results").all("trial")) == [0.005, 0.01]


def test_a_variant_takes_the_configuration_of_what_it_varies_until_it_has_one(tmp_path):
    config(dataset="cora", settings={"dropout": 0.2}).write(tmp_path)

    def dropout():
        return Run(configured(registry.EXPERIMENTS["homophilic"], tmp_path), "cora", "masked-labels", 0).build().dropout

    assert dropout() == 0.2
    assert earlier_settings("masked-labels", "cora", None, tmp_path) == ({"dropout": 0.2},)
    assert earlier_settings("masked-labels", "citeseer", None, tmp_path) == ()
    config(method="masked-labels", dataset="cora", settings={"dropout": 0.7}).write(tmp_path)
    assert dropout() == 0.7
