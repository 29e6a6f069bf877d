"""Table 4 and its relatives end to end: graphs of tags of PPI's shape, and probabilities of graphs never seen."""

import numpy as np
import pytest

from dpmsnc.data import InductiveTask
from dpmsnc.data.inductive import ppi_files
from dpmsnc.evidence.experiments import table4_inductive, tags
from dpmsnc.evidence.run import estimators
from dpmsnc.evidence.run.experiment import Run
from dpmsnc.graph import Graph
from dpmsnc.metrics import roc_auc

SMALL = {"hidden_channels": 8, "num_layers": 2}


@pytest.fixture
def ppi(tmp_path, monkeypatch):
    """Graphs of 12 nodes, 50 features and 121 tags, of which the first two follow from features."""
    rng = np.random.default_rng(0)
    for file in ppi_files():
        x, edges = rng.normal(size=(12, 50)), rng.integers(0, 12, (2, 30))
        y = (rng.random((12, 121)) < 0.3).astype(int)
        y[:, :2] = x[:, :2] > 0
        (tmp_path / file).parent.mkdir(exist_ok=True)
        Graph.build(edges, x=x, y=y, kind="tags", num_nodes=12).to_npz(tmp_path / file)
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))


@pytest.mark.parametrize("row, short", [("gat", {"epochs": 3}), ("dpm-snc (gcn)", {"training": {"steps": 3}})])
def test_rows_of_tags_run_on_graphs_of_the_shape_of_ppi(ppi, monkeypatch, row, short):
    run = Run(tags.TAGS, "ppi", row, 0)
    assert run.build().hidden_channels == 1024 and "residual=True" in estimators.backbone_of(run.build())
    model = estimators.with_settings(run.build(), {**SMALL, **short})
    monkeypatch.setattr(Run, "build", lambda self: model)
    document = run.execute()
    assert 0 <= document["metrics"]["selected"]["micro_f1"] <= 1
    assert model.predict_proba(run.load().test)[0].shape == (12, 121)


def test_probabilities_of_two_classes_are_scored_by_the_area_under_the_curve():
    rng = np.random.default_rng(1)
    graphs = [Graph.build([(0, 1), (1, 2)], x=rng.normal(size=(3, 2)), y=["a", "b", "b"]) for _ in range(5)]
    task = InductiveTask.hiding("paths", graphs[:2], graphs[2:3], graphs[3:])

    class Model:
        def predict_proba(self, asked):
            return [np.linspace([0.9, 0.1], [0.2, 0.8], g.num_nodes) for g in asked]

    found = table4_inductive.measure(Model(), task, 0)["probabilities"]
    assert found["roc_auc"] == 1.0 and found["log_loss"] > 0
    proba = np.concatenate(Model().predict_proba(task.test))
    assert roc_auc(proba[:, ::-1], task.tested.truth, task.tested.test) == 0.0
    assert table4_inductive.area([{"metrics": {"probabilities": found}}]) == "100.0"
