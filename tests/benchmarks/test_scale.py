"""The scale benchmark measures what it says: block models as described, slopes, and a table of every size."""

import json
import sys

import numpy as np
import pytest

from benchmarks import scale
from dpmsnc.graph import Graph

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peaks are read from /proc")


def test_a_block_model_has_the_degree_the_homophily_and_the_labels_it_is_asked_for():
    arguments = scale.block_model(5000)
    graph = Graph.build(**arguments | {"y": None}, classes=range(scale.NUM_CLASSES))
    truth = np.random.default_rng(0).permutation(np.arange(5000) % scale.NUM_CLASSES)
    known = arguments["y"] != -1
    assert np.array_equal(arguments["y"][known], truth[known])
    assert 2 * graph.num_edges / 5000 == pytest.approx(scale.MEAN_DEGREE, rel=0.02)
    assert (truth[graph.edge_index[0]] == truth[graph.edge_index[1]]).mean() == pytest.approx(scale.HOMOPHILY, abs=0.02)
    assert known.mean() == pytest.approx(scale.KNOWN, abs=0.02)


def test_features_tell_classes_apart_but_not_each_node():
    arguments = scale.block_model(5000)
    x, y = arguments["x"], arguments["y"]
    means = np.stack([x[y == k].mean(axis=0) for k in range(scale.NUM_CLASSES)])
    nearest = ((x[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
    assert 0.5 < (nearest == y)[y != -1].mean() < 1


def test_the_same_seed_gives_the_same_block_model():
    first, again, other = scale.block_model(100), scale.block_model(100), scale.block_model(100, seed=1)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["edges"], other["edges"])


@pytest.mark.parametrize("power", [1.0, 1.1, 2.0])
def test_the_slope_of_a_power_law_is_its_power(power):
    assert scale.slope((10, 10**power), (1000, 1000**power)) == pytest.approx(power)


def made_up(step: float, sample: float, peak_mb: int) -> scale.Entry:
    works = {name: {"cpu_s": s, "wall_s": s, "above_mb": 1} for name, s in (("step", step), ("sample", sample))}
    return {**works, "build_cpu_s": 0.1, "peak_mb": peak_mb, "held_mb": {"loaded": 7}, "load_before": 0.0}


def test_each_missed_bar_is_named_and_recorded(tmp_path, monkeypatch, capsys):
    entries = {100: made_up(1.0, 1.0, 100), 1000: made_up(10.0, 20.0, 30_000)}
    monkeypatch.setattr(scale, "in_a_process", lambda size, threads, repeats: entries[size])
    record = tmp_path / "scale.json"
    assert scale.main(["--sizes", "100", "1000", "--out", str(record)]) == 1
    found = json.loads(record.read_text())
    assert found["slopes"] == {"step": 1.0, "sample": 1.301}
    assert len(found["missed"]) == 2
    printed = capsys.readouterr().out
    assert "size^1.301" in printed and "30,000 MB" in printed and "'loaded': 7" in printed


def test_a_second_thread_that_costs_time_is_named(tmp_path, monkeypatch, capsys):
    entries = {1: made_up(1.0, 1.0, 1), 2: made_up(0.6, 1.2, 1)}
    monkeypatch.setattr(scale, "in_a_process", lambda size, threads, repeats: entries[threads])
    record = tmp_path / "scale.json"
    assert scale.main(["--threads-check", "--sizes", "100", "--out", str(record)]) == 1
    found = json.loads(record.read_text())
    assert found["threads"]["100"]["ratios"] == {"step": 0.6, "sample": 1.2}
    assert "more than 1.05 x at 100 nodes" in capsys.readouterr().out


def test_what_was_measured_is_recorded_beside_what_was_not(tmp_path, monkeypatch, capsys):
    record = tmp_path / "scale.json"
    record.write_text('{"threads": "kept"}')
    monkeypatch.setattr(scale, "in_a_process", lambda size, threads, repeats: made_up(size, size, size))
    assert scale.main(["--sizes", "400", "200", "--out", str(record)]) == 0
    found = json.loads(record.read_text())
    assert list(found["sizes"]) == ["200", "400"] and found["threads"] == "kept"
    assert "slope of CPU time from 200 to 400" in capsys.readouterr().out


@linux
def test_a_size_is_measured_in_a_process_on_the_threads_asked_for(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(
        "OMP_WAIT_POLICY", "passive"
    )  # else a thread spins for a core that others use, for half a minute
    entry = scale.in_a_process(100, threads=2, repeats=1)
    assert entry["threads"] == 2
    assert all(entry[work]["cpu_s"] > 0 and entry[work]["peak_mb"] <= entry["peak_mb"] for work in scale.WORKS)
