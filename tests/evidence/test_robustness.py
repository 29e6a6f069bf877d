import json
from dataclasses import replace

import numpy as np
import pytest

from dpmsnc.baselines import LabelPropagation
from dpmsnc.cli.main import main
from dpmsnc.data import benchmarks
from dpmsnc.data.generated import POTTS, generated, potts_reference
from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments import registry, robustness
from dpmsnc.evidence.experiments.robustness import DATASETS, FAST, RealGraph, load, measure, table
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.evidence.run.runner import plan
from dpmsnc.evidence.run.store import Store
from dpmsnc.graph import Graph
from made_documents import document

PROBABILITIES = {"log_loss", "calibration_error", "simulated_calibration", "majority_share", "num_test"}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A folder in which Cora and Tolokers are rings of 300 nodes with features, three and two classes."""
    nodes = np.arange(300)
    ring = np.stack([nodes, (nodes + 1) % 300])
    masks = {name: nodes[None] % 3 == k for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    for name, num_classes in (("cora", 3), ("tolokers", 2)):
        graph = Graph.build(ring, x=np.eye(300)[:, :5], y=nodes // (300 // num_classes))
        content = benchmarks.npz_parts(graph) | masks
        benchmarks.write_whole(tmp_path / f"{name}.npz", benchmarks.pack_arrays(content))
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))


def made(dataset, row, seed, accuracy, log_loss=0.5):
    """A stored run that nobody made."""
    found = document(Run(robustness.ROBUSTNESS, dataset, row, seed), accuracy)
    measures = dict.fromkeys(PROBABILITIES, 0.1) | {"log_loss": log_loss, "roc_auc": accuracy}
    return found | {"row": row, "metrics": found["metrics"] | {"probabilities": measures}}


def test_names_are_folders_and_unique():
    assert len(DATASETS) == 63 and all("/" not in name and name == name.strip(". ") for name in DATASETS)
    assert {
        "cora-5",
        "cora-20",
        "cora-nofeat-20",
        "roman_empire-nofeat",
        "tree-10pct",
        "blocks-power-law-region",
    } < set(DATASETS)
    assert set(robustness.SCORED_BY_ROC_AUC) < set(DATASETS)
    with pytest.raises(InputError, match=r"no data set 'cora'.*cora-5"):
        load("cora")


def test_k_labels_a_class_are_known_of_which_a_fifth_is_held_back(data):
    for k, held_back in ((5, 1), (20, 4)):
        task = load(f"cora-{k}", seed=1)
        assert np.bincount(task.truth[task.train]).tolist() == [k - held_back] * 3
        assert np.bincount(task.truth[task.validation]).tolist() == [held_back] * 3
        assert task.test.sum() == 300 - 3 * k and task.graph.num_features == 5
        bare = load(f"cora-nofeat-{k}", seed=1)
        assert bare.graph.x is None and np.array_equal(bare.train, task.train) and bare.name == f"cora-nofeat-{k}"


def test_other_benchmarks_keep_their_own_splits(data):
    task = load("tolokers")
    assert np.flatnonzero(task.validation)[:3].tolist() == [1, 4, 7] and task.train.sum() == task.test.sum() == 100


def test_the_fast_variant_is_what_has_less_than_4000_nodes():
    chosen = {run.dataset for run in plan(robustness.ROBUSTNESS, [0], datasets=FAST)}
    assert len(chosen) == 54 and {"cora-5", "citeseer-nofeat-20", "chameleon_filtered", "tree-5pct"} < chosen
    left_out = {data.source for name, data in DATASETS.items() if name not in chosen}
    assert left_out == {"pubmed", "amazon_photo", "tolokers", "minesweeper", "roman_empire_nofeat"}


@pytest.mark.skipif(not benchmarks.data_folder().joinpath("cora.npz").is_file(), reason="no data sets")
@pytest.mark.parametrize("name", [name for name, data in DATASETS.items() if isinstance(data, RealGraph)])
def test_sizes_decide_what_is_fast(name):
    task = load(name)
    assert (task.graph.num_nodes < 4000) == (name in FAST) and (task.graph.x is None) == ("nofeat" in name)
    assert task.test.any() and task.validation.any()
    assert task.num_classes == 2 or name not in robustness.SCORED_BY_ROC_AUC


def test_probabilities_of_a_potts_model_are_held_against_the_reference():
    task = generated("potts-ferro", "30pct")
    reference = potts_reference(task.graph, POTTS["potts-ferro"].coupling, np.where(task.train, task.truth, -1))

    class Knowing(LabelPropagation):
        def _marginals(self, graph, y):
            return reference

    exact, lp = (model.fit(task.graph, task.validation) for model in (Knowing(), LabelPropagation(clamp=True)))
    found, other = (measure(model, task, 0)["probabilities"] for model in (exact, lp))
    assert found["total_variation"] == 0 < other["total_variation"] and found["log_loss"] < other["log_loss"]
    assert set(found) == PROBABILITIES | {"total_variation"}
    assert found["num_test"] == task.test.sum()
    assert found["majority_share"] == pytest.approx(
        np.bincount(task.truth[task.test]).max() / task.test.sum(), abs=1e-6
    )


def test_it_runs_from_data_to_table(tmp_path, monkeypatch, capsys):
    rows = {"lp": robustness.ROWS["lp"], "one round": Row("lp", {"num_layers": 1})}
    monkeypatch.setattr(robustness, "ROWS", rows)
    monkeypatch.setitem(registry.EXPERIMENTS, "robustness", replace(robustness.ROBUSTNESS, rows=rows))
    argv = ["--results", str(tmp_path)]
    names = ["tree-30pct", "potts-torus-ferro-10pct"]
    assert main(["reproduce", "robustness", *argv, "--seeds", "0-1", "--datasets", *names]) == 0
    first = capsys.readouterr().out
    stored = Store(tmp_path).all("robustness")
    assert len(stored) == 8 and {d["dataset"] for d in stored} == set(names)
    assert all(("roc_auc" in d["metrics"]["probabilities"]) == (d["dataset"] == names[0]) for d in stored)
    assert main(["table", "robustness", *argv]) == 0
    second = capsys.readouterr().out
    for text in (first, second):
        assert "Robustness" in text and "lp on 2 data sets: mean regret" in text
        assert sum(line.startswith(tuple(names)) for line in text.splitlines()) == 4
    assert main(["table", "robustness", *argv, "--format", "json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["dataset"] for record in records] == [names[0]] * 2 + [names[1]] * 2
    assert min(record["regret"] for record in records) == 0 and all(record["seeds"] == 2 for record in records)
    assert [record["total_variation"] is None for record in records] == [True, True, False, False]


def test_regret_is_of_the_seeds_that_all_rows_have():
    runs = [made("tree-5pct", "lp", seed, 0.5 + 0.1 * seed, 0.4) for seed in (0, 1, 2)]
    runs += [made("tree-5pct", "gcn", seed, 0.45 + 0.1 * seed, 0.9) for seed in (0, 1)]
    lp, gcn = robustness.cells(runs)
    assert lp.regret == 0 and gcn.regret == pytest.approx(5) and len(lp.runs) == 3
    assert lp.excess == 0 and gcn.excess == pytest.approx(0.5)
    assert [line[:4] for line in table(runs).rows] == [
        ["tree-5pct", "lp", "60.0±10.0", "0.0"],
        ["tree-5pct", "gcn", "50.0±7.1", "5.0"],
    ]


def test_without_a_common_seed_there_is_no_regret():
    shown = table([made("tree-5pct", "lp", 0, 0.5), made("tree-5pct", "dpm-snc", 1, 0.9)])
    assert [row[3] for row in shown.rows] == ["-", "-"] and not any("mean regret" in note for note in shown.notes)


@pytest.mark.parametrize(
    "scores, within",
    [((0.795, 0.805), True), ((0.75, 0.76), False), ((0.65, 0.85), True), ((0.79,), True), ((0.78,), False)],
)
def test_dpm_snc_may_stay_behind_by_a_point_or_two_standard_errors(scores, within):
    runs = [made("tolokers", "lp", seed, 0.8) for seed in range(len(scores))]
    runs += [made("tolokers", "dpm-snc", seed, value) for seed, value in enumerate(scores)]
    shown = table(runs)
    assert shown.records[1]["within"] == within and shown.records[1]["metric"] == "roc_auc"
    assert f"of the best row on {int(within)} of 1 data sets" in shown.notes[-1]
    assert within or "it is not on tolokers (" in shown.notes[-1]


def test_summaries_name_the_worst_data_set():
    runs = [made("tree-5pct", "lp", 0, 0.5), made("tree-5pct", "gcn", 0, 0.9)]
    runs += [made("cora-5", "lp", 0, 0.7), made("cora-5", "gcn", 0, 0.6)]
    notes = "\n".join(table(runs).notes)
    assert "lp on 2 data sets: mean regret 20.0, worst regret 40.0 on tree-5pct" in notes
    assert "gcn on 2 data sets: mean regret 5.0, worst regret 10.0 on cora-5" in notes
