"""The fitted graph grows: what is far from the new nodes is answered as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpmsnc import NodeClassifier, Sampling, Schedule, Training
from dpmsnc.graph import Graph

pytestmark = pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
LENGTH, FAR, NEAR = 120, 60, 110
SMALL: dict[str, Any] = {
    "hidden_channels": 32,
    "schedule": Schedule(10),
    "sampling": Sampling(steps=4),
    "training": Training(steps=6, evaluate_every=3),
}


def strip(hubs: bool) -> Graph:
    """A path, with `hubs` one with chords, so that there are more products of degrees than levels to round them to."""
    rng = np.random.default_rng(0)
    y = (np.arange(LENGTH) // 5) % 2
    ids, x = [f"n{i}" for i in range(LENGTH)], np.eye(2)[y] + rng.normal(size=(LENGTH, 2))
    pairs = [(i, i + 1) for i in range(LENGTH - 1)]
    pairs += [(i, i + k) for i in range(0, LENGTH - 12, 4) for k in range(2, 2 + i % 11)] if hubs else []
    labels = [("red", "blue")[k] if rng.random() < 0.5 else None for k in y]
    return Graph.build([(ids[i], ids[j]) for i, j in pairs], ids=ids, x=x, y=labels)


def grown(graph: Graph) -> Graph:
    """A star at the end, which makes new degrees and changes those of a few old nodes."""
    new, last = [f"m{k}" for k in range(6)], LENGTH - 1
    edges = [("m0", f"n{last}"), ("m1", f"n{last - 1}"), *(("m0", name) for name in new[1:])]
    return graph.grown(new, edges, x=np.random.default_rng(1).normal(size=(6, 2)))


@pytest.mark.parametrize("hubs", [False, True], ids=["path", "hubs"])
def test_far_from_new_nodes_nothing_changes_under_the_pairwise_model(hubs):
    graph = strip(hubs)
    clf = NodeClassifier(initialiser=("gcn", {"epochs": 10}), **SMALL).fit(graph)
    assert clf.initialiser_.coupling_ != "none"
    larger = grown(graph)
    before, after = clf.predict_proba(), clf.predict_proba(larger)
    assert after.shape == (LENGTH + 6, 2)
    np.testing.assert_allclose(after[:FAR], before[:FAR], atol=1e-5)
    assert np.abs(after[NEAR:LENGTH] - before[NEAR:LENGTH]).max() > 1e-3  # and the test would notice
    np.testing.assert_array_equal(clf.predict(larger)[:FAR], clf.predict()[:FAR])


@pytest.mark.parametrize("hubs", [False, True], ids=["path", "hubs"])
def test_far_from_new_nodes_nothing_changes_at_all_in_a_network_of_two_layers(hubs):
    graph = strip(hubs)
    clf = NodeClassifier(initialiser="uniform", start="random", **SMALL).fit(graph)
    larger = grown(graph)
    asked: dict[str, Any] = {"temperature": 0.0, "clamp_known": False}
    before, after = (clf.predict_proba(each, **asked) for each in (graph, larger))
    np.testing.assert_allclose(after[:FAR], before[:FAR], atol=1e-6)
    assert np.abs(after[NEAR:LENGTH] - before[NEAR:LENGTH]).max() > 1e-4
    np.testing.assert_array_equal(clf.predict(larger)[:FAR], clf.predict(graph)[:FAR])


def test_labels_of_old_nodes_stay_and_labels_of_new_ones_condition():
    graph = strip(hubs=False)
    clf = NodeClassifier(initialiser=("gcn", {"epochs": 10}), **SMALL).fit(graph)
    larger = grown(graph)
    answer = clf.predict(larger, known={"m3": "blue"})
    np.testing.assert_array_equal(answer[:LENGTH][graph.known], graph.decode(graph.y)[graph.known])
    assert answer[LENGTH + 3] == "blue"
    own = clf.predict_proba(larger)
    told = clf.predict_proba(larger, known={"m0": "blue"}), clf.predict_proba(larger, known={"m0": "red"})
    assert np.abs(told[0] - told[1])[LENGTH + 1 :].max() > 1e-3 and own.shape == told[0].shape
