"""What a search is made of: its space, its first trials, its seeds and its start."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from dpmsnc import InputError, NodeClassifier
from dpmsnc.baselines import METHODS
from dpmsnc.baselines.initialiser import make_initialiser
from dpmsnc.cli.main import main
from dpmsnc.cli.reproduce import parse_settings
from dpmsnc.data import BENCHMARKS
from dpmsnc.estimators import base as methods
from dpmsnc.evidence.run.estimators import with_settings
from dpmsnc.evidence.run.settings import flat, nested
from dpmsnc.evidence.search import study as tuning
from dpmsnc.evidence.search.config_files import Config, read_config
from dpmsnc.evidence.search.search import Search
from dpmsnc.evidence.search.space import PAPER, space
from dpmsnc.evidence.search.study import tune
from dpmsnc.evidence.search.warm_start import searched_initialiser
from dpmsnc.nn.mean_field import MeanField

SEARCHED = [name for name, method in METHODS.items() if method.search.arguments]


@pytest.mark.parametrize("method", SEARCHED)
@pytest.mark.parametrize("dataset", ["cora", "roman_empire", "grid_scattered"])
def test_every_space_holds_the_defaults_and_fits_the_constructor(method, dataset):
    build = METHODS[method].build
    for name, choices in space(method, dataset, build(0)).items():
        assert len(choices) > 1 and len(set(choices)) == len(choices)
        for value in choices:
            changed = with_settings(build(0), nested({name: value}))
            assert type(changed) is type(build(0)) and flat(changed.nested_params())[name] == value
        assert flat(build(0).nested_params())[name] in choices


CONVOLVING = ("gcn", "gcn-lpa", "gmnn", "g3nn", "clgnn", "entropy")


@pytest.mark.parametrize(
    ("method", "dataset", "backbone"),
    [
        *((name, dataset, None) for name in CONVOLVING for dataset in ("cora", "grid_scattered")),
        *((name, "cora", "gcnii") for name in CONVOLVING[2:]),
    ],
)
def test_a_convolution_at_the_end_is_searched_only_where_it_can_be(method, dataset, backbone):
    search = Search(method, dataset, backbone)
    for layers, head in itertools.product(search.space["num_layers"], search.space.get("head", ["linear"])):
        MeanField(search.default(0).backbone, 4, 3, num_layers=layers, head=head)
    assert ("head" in search.space) == (dataset == "cora" and backbone is None)


def test_what_is_fixed_is_not_searched_and_stays():
    free = Search("dpm-snc", "cora")
    search = replace(free, fixed={"scaling": "binary", "training": {"steps": 7, "unlabelled_weight": 10.0}})
    assert set(free.space) - set(search.space) == {"scaling", "training.steps", "training.unlabelled_weight"}
    assert search.name != free.name and search.path == free.path
    for chosen in search.first:
        model = with_settings(search.default(0), search.settings(chosen))
        assert (model.scaling, model.training.steps, model.training.unlabelled_weight) == ("binary", 7, 10.0)
    assert search.settings(search.first[0]) == search.fixed
    assert len(search.first) > 2


def test_what_is_fixed_wins_over_what_was_found_elsewhere():
    earlier = ({"scaling": "rows", "dropout": 0.2},)
    search = Search("gcn", "cora", earlier=earlier, fixed={"scaling": "binary", "epochs": 7})
    assert search.settings(search.first[1]) == {"scaling": "binary", "epochs": 7, "dropout": 0.2}
    assert search.name == replace(search, fixed={"epochs": 7, "scaling": "binary"}).name
    free = Search("gcn", "cora")
    assert replace(free, fixed={"evaluate_every": 10}).name == free.name  # the default, and never varied
    assert replace(free, fixed={"scaling": "unit"}).name != free.name


def test_a_fixed_convolution_at_the_end_has_two_layers():
    search = Search("gcn", "grid_scattered", fixed={"head": "convolution"})
    assert search.space["num_layers"] == (2,)


@pytest.mark.parametrize(
    ("fix", "words"),
    [
        (["scaling"], "takes name=value"),
        (["=3"], "takes name=value"),
        (["seed=3"], "--seeds"),
        (["initialiser=pta"], "--initialiser"),
        (["backbone=gat"], "--backbone"),
        (["width=3"], "gcn has no setting width to fix; it has"),
        (["lr.rate=3"], "gcn has no setting lr.rate"),
        (["lr=[1, 2]"], "lr cannot be"),
        (["lr=.5"], "lr cannot be '.5'"),
        (["lr=NaN"], "lr cannot be nan"),
        (["epochs=2.5"], "epochs cannot be 2.5"),
        (["epochs=true"], "epochs cannot be True"),
        (["lr=0.1", "lr=0.2"], "says twice what lr is"),
        (["lr=3", "lr.rate=3"], "contradicts itself"),
    ],
)
def test_what_cannot_be_fixed_is_refused(fix, words, capsys, tmp_path):
    folders = ["--results", str(tmp_path), "--out", str(tmp_path)]
    words_given = [word for setting in fix for word in ("--fix", setting)]
    assert main(["tune", "gcn", "--dataset", "grid_scattered", "--trials", "1", *folders, *words_given]) == 2
    assert words in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_other_splits_begin_a_new_search(monkeypatch):
    before = Search("gcn", "cora").name
    monkeypatch.setitem(BENCHMARKS, "cora", replace(BENCHMARKS["cora"], split_version=2))
    assert before != Search("gcn", "cora").name and Search("gcn", "cora").path == Path("cora", "gcn.json")


def test_another_score_begins_a_new_search(monkeypatch):
    before = [Search(name, "cora") for name in ("gcn", "dpm-snc")]
    assert [search.score for search in before] == ["likelihood", "accuracy"]
    names = [search.name for search in before]
    for score, same in (("accuracy", [False, True]), ("likelihood", [True, False])):
        monkeypatch.setattr(Search, "score", score)
        assert [search.name == name for search, name in zip(before, names)] == same


def test_a_configuration_holds_what_was_fixed(tmp_path):
    folders = ["--results", str(tmp_path), "--out", str(tmp_path)]
    fix = ["--fix", "epochs=2", "--fix", "dropout=0"]
    assert main(["tune", "gcn", "--dataset", "grid_scattered", "--trials", "1", *folders, *fix]) == 0
    config = read_config(tmp_path / "grid_scattered" / "gcn.json", "gcn")
    assert config.settings == {"epochs": 2, "dropout": 0} and config.fixed == ["epochs", "dropout"]


def test_a_boolean_is_fixed_as_json():
    assert parse_settings(["clamp=true"]) == {"clamp": True}
    with pytest.raises(InputError, match="clamp cannot be 'True'"):
        Search("lp", "cora", fixed=parse_settings(["clamp=True"]))


def test_the_paper_s_ranges_are_searched_whole():
    found = space("dpm-snc", "cora", NodeClassifier())
    assert set(PAPER["homophilic"]["learning_rate"]) <= set(found["training.learning_rate"])
    assert set(PAPER["homophilic"]["temperature"]) <= set(found["training.temperature"])
    assert found["hidden_channels"] == (64, 128) and found["num_layers"] == (2, 4)
    assert "scaling" not in space("dpm-snc", "grid_scattered", NodeClassifier())


def test_a_method_without_a_space_says_so(tmp_path):
    with pytest.raises(InputError, match="no search space for 'dpm-snc-paper'"):
        tune(Search("dpm-snc-paper", "cora"), 1, tmp_path, tmp_path)


def test_final_seeds_are_other_seeds():
    with pytest.raises(InputError, match="seed 101 is among the seeds of all trials"):
        Search("gcn", "cora", seeds=(100, 101), final_seeds=(101,))
    with pytest.raises(InputError, match="reported in tables"):
        Search("gcn", "cora", final_seeds=(0,))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--members", "pta"], "give --initialiser stack too"),
        (["--initialiser", "pta", "--repeats", "2"], "only a stack has members"),
        (["--initialiser", "stack", "--members", "nobody"], "no member of a stack is called nobody"),
        (["--final-seeds", "x"], "--final-seeds x is not a list of numbers"),
        (["--final-seeds", "7"], "reported in tables"),
    ],
)
def test_bad_flags_are_refused_before_anything_runs(flags, words, tmp_path, capsys):
    where = ["--results", str(tmp_path / "r"), "--out", str(tmp_path / "o")]
    assert main(["tune", "dpm-snc", "--dataset", "grid_scattered", *flags, *where]) != 0
    assert words in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_command_takes_members_repeats_and_final_seeds(tmp_path, monkeypatch):
    searches = []
    monkeypatch.setattr(tuning, "tune", lambda search, *rest: searches.append(search))
    flags = ["--initialiser", "stack", "--members", "pta", "gmnn", "--repeats", "2", "--final-seeds", "101-102"]
    assert main(["tune", "dpm-snc", "--dataset", "cora", *flags, "--out", str(tmp_path)]) == 0
    assert searches[0].initialiser == ("stack", {"members": {"pta": {}, "gmnn": {}}, "repeats": 2})
    assert searches[0].final_seeds == (101, 102)


def test_what_is_suggested_belongs_to_the_space_and_is_tried():
    suggested = [name for name, method in METHODS.items() if method.search.suggestions]
    assert {"dpm-snc", "gcn", "gmnn"} <= set(suggested)
    for name in suggested:
        search = Search(name, "cora")
        for suggestion in METHODS[name].search.suggestions:
            assert suggestion.items() <= search.chosen(suggestion).items()
            assert search.chosen(suggestion) in search.first
    assert Search("gcnii", "grid_scattered").first == [Search("gcnii", "grid_scattered").defaults]  # none fits whole


def test_a_start_has_the_settings_of_its_own_search(tmp_path):
    for method, settings in (("grand", {"num_layers": 2}), ("pta", {"alpha": 0.3})):
        Config(method, None, "cora", settings, 0.8, 0.7, 20, [100]).write(tmp_path)
    members = {"pta": {"alpha": 0.3}, "grand": {"num_layers": 2}, "g3nn": {}}
    assert searched_initialiser("stack", "cora", tmp_path) == ("stack", {"members": members})
    asked = searched_initialiser("stack", "cora", tmp_path, members=("grand", "gmnn"), repeats=3)
    assert asked == ("stack", {"members": {"grand": {"num_layers": 2}, "gmnn": {}}, "repeats": 3})
    with pytest.raises(InputError, match="only a stack has members"):
        searched_initialiser("grand", "cora", tmp_path, repeats=2)
    assert searched_initialiser("grand", "citeseer", tmp_path) == ("grand", {})
    assert searched_initialiser("uniform", "cora", tmp_path) == ("uniform", {})
    start = searched_initialiser("grand", "cora", tmp_path)
    search, plain = Search("dpm-snc", "cora", initialiser=start), Search("dpm-snc", "cora")
    found = search.settings(search.defaults)
    assert found == {"initialiser": ["grand", {"num_layers": 2}]} and plain.settings(plain.defaults) == {}
    assert make_initialiser(with_settings(search.default(0), found)).num_layers == 2
    assert search.name != plain.name and "initialiser" not in search.space
    same = Search("dpm-snc", "cora", initialiser=("auto", {}))  # the method's own
    assert same.name == plain.name and same.settings(same.defaults) == {}
    assert Search("dpm-snc", "cora", initialiser=("lp", {})).settings(search.defaults) == {"initialiser": "lp"}
    with pytest.raises(InputError, match="gcn has no initialiser"):
        Search("gcn", "cora", initialiser=start)


def test_seeds_that_tables_report_are_refused(capsys):
    with pytest.raises(InputError, match="tune on 100 and up"):
        Search("gcn", "cora", seeds=(100, 9))
    assert main(["tune", "gcn", "--dataset", "cora", "--seeds", "0-1"]) == 2
    assert "100 and up" in capsys.readouterr().err


def test_the_command_searches_from_the_given_start_and_with_earlier_settings(tmp_path, monkeypatch):
    searches = []
    monkeypatch.setattr(tuning, "tune", lambda search, *rest: searches.append((search, rest)))
    Config("grand", None, "cora", {"num_layers": 2}, 0.8, 0.7, 20, [100]).write(tmp_path)
    Config("dpm-snc", "gcn", "citeseer", {"dropout": 0.2}, 0.8, 0.7, 20, [100]).write(tmp_path)
    words = ["tune", "dpm-snc", "--dataset", "cora", "--seed", "5", "--trials", "3", "--out", str(tmp_path)]
    assert main([*words, "--initialiser", "grand"]) == 0 and main(words) == 0
    (first, rest), (second, _) = searches
    assert (first.initialiser, second.initialiser) == (("grand", {"num_layers": 2}), None) and rest[0] == 3
    assert first.earlier == second.earlier == ({"dropout": 0.2},) and first.seed == 5


def test_scores_that_cannot_be_compared_are_kept_apart(monkeypatch):
    base = Search("dpm-snc", "cora")
    names = {search.name for search in (base, replace(base, seeds=(101,)), replace(base, backbone="gat"))}
    monkeypatch.setitem(methods.METHODS, "dpm-snc", replace(methods.METHODS["dpm-snc"], version=99))
    assert len(names | {base.name}) == 4 and Search("dpm-snc", "cora", "gcn", seeds=(101,)).name not in names
