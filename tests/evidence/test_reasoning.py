"""Table 5: runs on streams, their table and their picture."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dpmsnc.config import Sampling
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.experiments.known_edges import KNOWN_EDGES
from dpmsnc.evidence.experiments.table5_reasoning import DATASETS, PAPER, REASONING, ROWS, figure, table
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.evidence.run.runner import outcome
from dpmsnc.evidence.show.compare import all_lines
from dpmsnc.evidence.show.paper import paper_names
from dpmsnc.presets import preset
from dpmsnc.reasoning.methods import AS_PUBLISHED, TRIPLES, TrivialRule
from dpmsnc.reasoning.scoring import StreamedTask

SMALL = {"hidden_channels": 8, "num_layers": 1, "steps": 2}
QUICK = replace(
    REASONING,
    load=partial(StreamedTask, most_graphs=2),
    rows={
        "dpm-snc": Row("dpm-snc-edges", SMALL | {"sampling": Sampling("ancestral", 4, 1.0, 0.0)}),
        "dpm-snc (triples)": Row("dpm-snc-triples", SMALL | {"num_averaged": 2}),
        "direct (triples)": Row("direct-triples", SMALL),
        "trivial rule": Row("trivial-rule"),
    },
)


@pytest.fixture(scope="module")
def documents():
    runs = [Run(QUICK, "shortest_path", row, 0) for row in QUICK.rows]
    return [run.execute() | {"row": run.row} for run in runs]


def test_every_row_is_scored_on_both_sizes_and_triples_beyond(documents):
    found = {document["row"]: document["metrics"]["selected"] for document in documents}
    assert all({"mse", "mse_se", "mse_large", "mse_large_se"} <= found[row].keys() for row in QUICK.rows)
    assert "mse_50" in found["dpm-snc (triples)"] and "mse_50" not in found["dpm-snc"]
    assert found["trivial rule"]["mse"] < 0.02
    assert "test error" in outcome(documents[0])


def test_the_table_has_the_papers_figures_beside(documents):
    shown = table(documents)
    records = {(r["dataset"], r["method"], r["metric"]): r for r in shown.records}
    assert records["shortest_path", "dpm-snc", "mse"]["paper_mean"] == 0.0138
    assert records["shortest_path", "dpm-snc", "mse"]["seeds"] == 1
    assert records["shortest_path", "irem", "mse_large"]["paper_mean"] == 0.0464
    assert "0.01380" in str(shown) and "n=50" in shown.header


def test_one_graph_is_drawn_along_the_reverse_steps(documents):
    drawn = figure(documents)
    trajectory = documents[1]["metrics"]["trajectory"]
    assert np.shape(trajectory["prediction"]) == (10, 10) and trajectory["steps"][0]["t"] == 80
    assert "trajectory" not in documents[2]["metrics"] and figure(documents[2:]).axes == []
    assert len(drawn.axes) == 2 * 2 * (3 + max(len(d["metrics"]["trajectory"]["steps"]) for d in documents[:2]))


def test_known_edges_are_given_and_not_asked_for():
    small = SMALL | {"conditioning": "amortised", "num_averaged": 2}
    rows = {"dpm-snc (triples)": Row("dpm-snc-triples", small)}
    quick = replace(KNOWN_EDGES, rows=rows, load=QUICK.load)
    document = Run(quick, "edge_copy", "dpm-snc (triples)", 0).execute() | {"row": "dpm-snc (triples)"}
    found = document["metrics"]["known_edges"]
    assert found.keys() == {"none_10", "third_10", "none_15", "third_15"} and found["none_10"] != found["third_10"]
    (line,) = KNOWN_EDGES.table([document]).rows
    assert line[:2] == ["edge_copy", "dpm-snc (triples)"] and line[-1] == "1"


def test_rows_are_what_they_are_called():
    paper, ours = (ROWS[name].build(0, "shortest_path") for name in ("dpm-snc", "dpm-snc (triples)"))
    assert (paper.network, paper.schedule.num_steps, paper.num_averaged) == ("gine", 80, 1)
    assert paper.training.learning_rate == 3e-4 and paper.training.time_draws == 8
    assert ROWS["dpm-snc"].build(0, "edge_copy").training.weight_decay == 1e-5
    direct = ROWS["direct (triples)"].build(0)
    assert direct.configuration() == ours.configuration() and direct.process == "blank"
    assert registry.EXPERIMENTS.find("reasoning") is REASONING and set(DATASETS) == {name for name, _ in PAPER.columns}


def test_the_row_of_the_paper_is_the_preset_but_for_its_steps():
    built, printed = ROWS["dpm-snc"].build(0, "shortest_path"), preset("paper", "reasoning")
    assert {name: getattr(built, name) for name in printed if name != "training"} == {
        name: value for name, value in printed.items() if name != "training"
    }
    assert replace(built.training, steps=printed["training"].steps) == printed["training"]
    assert not built.training.stratified and built.training.batch_size == 64
    assert built.schedule.beta[1] == 0.01 and built.schedule.beta[80] == 0.99


def test_every_row_of_the_paper_has_one_of_ours():
    lines = all_lines(ROWS, PAPER)
    assert all(line.implemented for line in lines)
    printed = {paper_names(line.method, line.backbone) for line in lines}
    assert printed >= PAPER.rows.keys()


def test_steps_are_a_setting_of_a_row():
    for name, defaults in (("dpm-snc-edges", AS_PUBLISHED), ("dpm-snc-triples", TRIPLES)):
        assert Row(name, {"steps": 7}).build(0).training == replace(defaults["training"], steps=7)


def test_the_rule_is_exact_on_edge_copy():
    task = StreamedTask("edge_copy", most_graphs=4)
    assert task.scores(TrivialRule().fit(task.stream))["mse_large"] == 0
