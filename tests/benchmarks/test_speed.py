"""The benchmark is only worth reading if reference and package compute the same, and if it would notice when not."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.cases import NAMES, Case, chosen, honest
from benchmarks.floor import Products, sample, train_step
from benchmarks.ours import Ours
from benchmarks.problem import PAPER, Problem
from benchmarks.reference import Reference

from benchmarks import equality, speed
from dpmsnc.config import Sampling
from random_graphs import random_graph

BACKBONES = ["gcn(improved=True)", "gat", "gcnii(time=False)"]
FEW_STEPS = {"amortised": True, "parameterisation": "label", "sampling": Sampling(method="ddim", progressive=0.0)}


def small(backbone="gcn(improved=True)", sparse=True, **settings):
    """Forty nodes, of which ten are labelled."""
    graph = random_graph(40, 12, sparse=sparse)
    rng = np.random.default_rng(1)
    train = torch.from_numpy(np.isin(np.arange(40), rng.permutation(40)[:10]))
    labels = torch.from_numpy(rng.integers(graph.num_classes, size=40)) * train
    return Problem(graph, train, labels, backbone, **settings)


@pytest.mark.parametrize("amortised", [False, True])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_both_take_the_same_training_step(backbone, amortised):
    assert equality.check_train_step(small(backbone, amortised=amortised)) <= 1e-6


@pytest.mark.parametrize("num_samples", [1, 3])
@pytest.mark.parametrize("amortised", [False, True])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_both_draw_the_same_samples(backbone, amortised, num_samples):
    steps = None if (backbone, num_samples) == ("gcn(improved=True)", 1) else 10
    assert equality.check_sample(small(backbone, amortised=amortised, num_samples=num_samples), steps) >= 0.999


def test_both_make_the_same_few_step_prediction():
    assert equality.check_sample(small(**FEW_STEPS)) >= 0.999
    assert equality.check_sample(small("gat", sparse=False, **FEW_STEPS)) >= 0.999


def test_another_loss_is_noticed(monkeypatch):
    monkeypatch.setattr(Reference, "loss", lambda self, error, shown: 2 * error.mean())
    with pytest.raises(equality.Unequal, match="loss"):
        equality.check_train_step(small())


def test_another_guidance_is_noticed():
    unguided = replace(PAPER["sampling"].guidance, strength=0.0)
    with pytest.raises(equality.Unequal, match="y of a sample"):
        equality.check_sample(small(sampling=replace(PAPER["sampling"], guidance=unguided)))


@pytest.mark.parametrize("amortised", [False, True])
@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("side", [Ours, Reference])
def test_a_side_trains_and_samples_on_its_own(side, backbone, amortised):
    problem = small(backbone, amortised=amortised, num_samples=2)
    loaded = side(problem)
    loaded.train_step()
    y = loaded.sample(steps=3)
    loaded.train_step()
    assert sorted(y.shape) == [2, 3, 40] and y.isfinite().all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_floor_runs_and_guidance_costs_products(backbone, sparse, monkeypatch):
    done = []
    monkeypatch.setattr(Products, "run", lambda self, run=Products.run: done.append(len(self.tasks)) or run(self))
    products = {}
    for amortised in (False, True):
        problem = small(backbone, sparse=sparse, amortised=amortised)
        for work in (train_step, sample):
            done.clear()
            work(problem)()
            products[work, amortised] = sum(done)
    assert products[train_step, False] == products[train_step, True] > 0
    assert products[sample, False] > products[sample, True] > 0


def test_names_say_what_is_measured():
    amortised, few = Case("cora/gcn-amortised/train_step"), Case("pubmed/gcn/few_step")
    assert amortised.amortised and amortised.backbone == "gcn(improved=True)" and amortised.reference == amortised.name
    assert few.amortised and few.data == "pubmed" and few.reference == "pubmed/gcn/one_sample"
    assert Case("cora/gcn/five_samples").num_samples == 5 and not Case("cora/gat/one_sample").amortised
    assert [case.name for case in chosen(["cora/gcnii/*"])] == [n for n in NAMES if n.startswith("cora/gcnii/")]


def test_a_reference_is_honest_within_a_quarter_of_the_authors_time():
    assert honest("cora/gcn/train_step", 0.52 * 1.24) and honest("cora/gcn/train_step", 0.52 * 0.76)
    assert honest("cora/gcn/train_step", 0.52 * 1.26) is False and honest("cora/gcn/one_sample", 2.9 * 0.74) is False
    assert honest("pubmed/gcn/train_step", 5.0) is None


def entry_of(name, reference_cpu_s, ours_cpu_s=0.1):
    reference = {"cpu_s": reference_cpu_s, "peak_mb": 80.0}
    return speed.entry(Case(name), reference, {"cpu_s": ours_cpu_s, "peak_mb": 20.0, "floor_cpu_s": 0.05})


def test_a_void_ratio_is_said_to_be_void():
    dishonest, fair = entry_of("cora/gcn/few_step", 6.0), entry_of("cora/gcn/few_step", 3.0)
    assert dishonest["reference_honest"] is False and "void" in speed.row("cora/gcn/few_step", dishonest)
    assert "6.00" in speed.void("cora/gcn/few_step", dishonest) and "2.9" in speed.void("cora/gcn/few_step", dishonest)
    assert fair["reference_honest"] is True and "30.0" in speed.row("cora/gcn/few_step", fair)


@pytest.mark.parametrize(("loss", "found"), [(0.29, False), (0.31, True)])
def test_a_loss_of_more_than_thirty_per_cent_is_found(loss, found):
    name = "cora/gcn/train_step"
    lost = speed.losses({name: {"ratio": 10.0}}, {name: {"ratio": 10.0 * (1 - loss)}})
    assert [line.split(":")[0] for line in lost] == [name] * found


def test_a_case_without_a_record_does_not_pass_the_check():
    assert speed.losses({}, {"cora/gcn/few_step": {"ratio": 5.0}}) != []


def test_check_fails_and_writes_nothing(tmp_path, monkeypatch, capsys):
    latest = tmp_path / "latest.json"
    monkeypatch.setattr(speed, "LATEST", latest)
    monkeypatch.setattr(speed, "work", lambda *arguments: {})
    monkeypatch.setattr(speed.Bench, "run", lambda self, case: entry_of(case.name, 0.52, ours_cpu_s))
    ours_cpu_s = 0.1
    assert speed.main(["--cases", "cora/gcn/train_step"]) == 0
    recorded = latest.read_text()
    ours_cpu_s = 0.2
    assert speed.main(["--check", "--cases", "cora/gcn/*_step"]) == 1
    assert "cora/gcn/train_step: ratio 2.6 is 50% below" in capsys.readouterr().out and latest.read_text() == recorded


def test_nothing_is_timed_where_the_two_disagree(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(speed, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(
        speed, "work", lambda side, *cases: {cases[0]: "loss: they differ"} if side == "check" else 1 / 0
    )
    assert speed.main(["--cases", "cora/gat/*"]) == 1 and not (tmp_path / "latest.json").exists()
    assert "cora/gat/train_step: loss: they differ" in capsys.readouterr().out


def test_measuring_a_part_keeps_the_other_entries(tmp_path):
    path = tmp_path / "latest.json"
    speed.write(path, {"b": {"ratio": 1.0}, "a": {"ratio": 2.0}})
    speed.write(path, {"a": {"ratio": 3.0}})
    assert json.loads(path.read_text()) == {"a": {"ratio": 3.0}, "b": {"ratio": 1.0}}


def test_the_recorded_figures_have_all_fields_and_known_names():
    fields = {"reference_cpu_s", "ours_cpu_s", "ratio", "floor_cpu_s", "reference_peak_mb", "ours_peak_mb"}
    recorded = speed.read(speed.LATEST)
    assert recorded.keys() <= set(NAMES)
    for name, entry in recorded.items():
        assert entry.keys() == fields | {"reference_honest"}, name
        assert all(entry[field] > 0 for field in fields), name
        assert entry["ratio"] == pytest.approx(entry["reference_cpu_s"] / entry["ours_cpu_s"], rel=0.02), name
