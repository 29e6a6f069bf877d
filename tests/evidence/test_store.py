import json
import math
import os
from dataclasses import replace

import pytest

from dpmsnc import InputError, NodeClassifier, Training
from dpmsnc.baselines import GNN, METHODS, LabelPropagation
from dpmsnc.evidence.run.document import Cost, largest_fall, run_document
from dpmsnc.evidence.run.store import OPTIONAL, REQUIRED, SCORES, Key, Store, write_document
from dpmsnc.training.trainer import History

KEY = Key("synthetic", "grid_localized", "dpm-snc", {"hidden_channels": 64, "seed": 3}, seed=3)


@pytest.fixture
def cost():
    with Cost() as cost:
        sum(range(1000))
    return cost


def document(cost, model=None, metrics=None, method="gcn", seed=3):
    model = model or GNN(seed=3)
    key = Key("synthetic", "grid_localized", method, model.configuration(), seed)
    return run_document(key, model, cost, metrics or {})


def test_a_document_comes_back_as_it_was_put(tmp_path, cost):
    store = Store(tmp_path)
    stored = document(cost, metrics={"selected": {"accuracy": 0.75}, "last": None})
    path = store.put(stored)
    key = Key("synthetic", "grid_localized", "gcn", GNN(seed=3).configuration(), seed=3)
    assert path.parent == tmp_path / "synthetic" / "grid_localized"
    assert path.name == f"gcn-{key.digest}-seed3.json" and path.stat().st_size < 4000
    assert store.get(key) == stored and store.all("synthetic") == [stored]
    assert store.get(replace(key, seed=4)) is None and store.all("cora") == []


def test_a_document_says_what_was_run_and_on_what(cost):
    model = NodeClassifier(seed=3)
    model.history_ = History(step=[100, 200, 300], loss=[2.0, 1.0, 0.5], validation_score=[0.5, 0.9, 0.85])
    made = document(cost, model, method="dpm-snc")
    assert made["config"]["training"]["steps"] == Training().steps and made["backbone"] == "gcn"
    assert made["validation_curve"] == {"steps": [100, 200, 300], "accuracy": [0.5, 0.9, 0.85]}
    assert made["stability"] == pytest.approx(0.05) and made["metrics"] == {}
    assert set(made["versions"]) == {"dpmsnc", "python", "torch", "numpy", "scipy", "torch_geometric"}
    assert made["cpu_s"] >= 0 and made["peak_mb"] > 10 and made["timestamp"].endswith("+00:00")


@pytest.mark.parametrize("change", [{"experiment": "cora"}, {"dataset": "cora"}, {"method": "gcn"}, {"seed": 4},
                                    {"method_version": 2}, {"split_version": 2},
                                    {"config": {"hidden_channels": 32, "seed": 3}}])  # fmt: skip
def test_anything_asked_for_otherwise_is_another_run(change):
    assert replace(KEY, **change).path != KEY.path


def test_seeds_of_one_configuration_share_their_hash():
    other = replace(KEY, seed=4, config=KEY.config | {"seed": 4})
    assert other.digest == KEY.digest and other.path != KEY.path


@pytest.mark.parametrize("name", METHODS)
def test_the_key_survives_json(name, tmp_path, cost):
    model = METHODS[name].build(3)
    stored = document(cost, model, method=name)
    Store(tmp_path).put(stored)
    assert Store(tmp_path).get(Key("synthetic", "grid_localized", name, model.configuration(), seed=3)) == stored


def test_configurations_hold_the_arguments_and_no_learned_state():
    model = LabelPropagation(alpha=0.25)
    model.proba_ = None
    assert model.configuration() == {"num_layers": 10, "alpha": 0.25, "clamp": False}


def test_files_are_valid_json_even_where_python_would_write_infinity(tmp_path):
    write_document(tmp_path / "a.json", {"clip": float("inf"), "accuracy": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"clip": "inf", "accuracy": None}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


CORRUPT = [b'{"experiment": "synth', b"[]", b"{}", b"\xff\xfe", b"", b"null", b"[" * 100000, b'{"seed": 1e999}']


@pytest.mark.parametrize("content", CORRUPT)
def test_a_corrupt_file_is_named_and_left_as_it_is(content, tmp_path, cost):
    store = Store(tmp_path)
    whole = document(cost, seed=1)
    store.put(whole)
    path = store.put(document(cost))
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=path.name):
        assert store.all("synthetic") == [whole]
    assert path.read_bytes() == content and len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize(
    "change",
    [*({name: value} for name in REQUIRED for value in (None, [], "ninety" if REQUIRED[name] is not str else 90)),
     *({name: []} for name in OPTIONAL), {"seed": True}, {"seed": 1.5}, {"cpu_s": math.nan}, {"cpu_s": 10**400},
     {"stability": math.inf},
     *({"metrics": {part: value}} for part in SCORES for value in ([1], 3, {"accuracy": "all"})),
     {"metrics": {"selected": {"accuracy": math.nan}}}],
)  # fmt: skip
def test_a_document_with_a_value_of_another_type_is_named_and_left_out(change, tmp_path, cost):
    path = Store(tmp_path).put(document(cost))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.warns(UserWarning, match=f"{path.name} is no run document"):
        assert Store(tmp_path).all("synthetic") == []


@pytest.mark.parametrize("name", [*OPTIONAL, "format", "versions", "revision", "validation_curve"])
def test_a_document_may_lack_what_no_table_needs(name, tmp_path, cost):
    path = Store(tmp_path).put(document(cost))
    found = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in found.items() if key != name}))
    assert len(Store(tmp_path).all("synthetic")) == 1


@pytest.mark.parametrize(
    "curve, fall",
    [
        ([0.5, 0.9, 0.4, 0.905], 0.505),
        ([0.2, 0.8, 0.9, 0.9], 0.0),
        ([0.9, 0.1, 0.95], 0.0),
        ([], None),
        ([float("nan")], None),
    ],
)
def test_stability_is_the_fall_after_coming_within_a_point_of_the_best(curve, fall):
    assert largest_fall(curve) == (None if fall is None else pytest.approx(fall))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_the_users_to_mend(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="folder"):
        write_document(tmp_path / "deeper" / "a.json", {})


def test_a_file_in_place_of_a_folder_is_the_users_to_mend(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="folder"):
        write_document(tmp_path / "results" / "a.json", {})


def test_the_version_of_a_split_left_older_names_as_they_were():
    first = Key("homophilic", "cora", "lp", {"alpha": 0.5}, seed=0)
    assert first.digest == "02ecf11721" and replace(first, split_version=1) == first
