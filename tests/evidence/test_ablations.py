"""The ablations on tiny tasks: what is stored, what is shown of it, and that one fit serves several experiments."""

from dataclasses import replace

import numpy as np
import pytest

from dpmsnc import Sampling, Training
from dpmsnc.baselines import METHODS
from dpmsnc.data import grid_scattered
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments import figure1, homophilic_paper, registry, scenarios
from dpmsnc.evidence.experiments.ablations import (
    as_printed,
    depth,
    ingredients,
    over_steps,
    pairs,
    shared_fit,
    temperature,
    votes,
)
from dpmsnc.evidence.experiments.ablations.samplers import joint_samples, with_sampler
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.evidence.run.runner import plan, reproduce
from dpmsnc.evidence.run.settings import flat
from dpmsnc.evidence.run.store import Store
from dpmsnc.plots import figures

pytestmark = pytest.mark.usefixtures("brief_couplings")
TRAINING = Training(steps=4, evaluate_every=2, refresh_every=2, initialiser_refreshes=1)
NAMES = (
    "first-figure", "scenarios", "steps-vs-layers", "accuracy-over-steps", "time-vs-accuracy", "temperature",
    "number-of-samples", "pairs", "steps-vs-layers-paper",
)  # fmt: skip


def small(dataset, seed):
    return grid_scattered(columns=20, seed=seed)


def small_and_extra(dataset, seed):
    return grid_scattered(columns=20, seed=seed, extra_grid=True)


def short(row):
    """The same row, trained for a moment."""
    settings = dict(row.settings)
    if row.method in ("gcn", "gcnii", "gmnn"):
        return Row(row.method, settings | {"epochs": 2})
    if row.method == "clgnn":
        return Row(row.method, settings | {"rounds": 1, "steps": 2, "first_steps": 2})
    if row.method == "lp":
        return row
    temperature = settings.get("training", TRAINING).temperature
    return Row(
        row.method, settings | {"initialiser": "uniform", "training": replace(TRAINING, temperature=temperature)}
    )


@pytest.fixture
def tiny(monkeypatch):
    """Every ablation on grids of 2 x 20, with models hardly trained."""
    monkeypatch.setattr(votes, "COUNTS", (1, 4, 16))
    monkeypatch.setattr(pairs, "NUM_SAMPLES", 16)
    for name in NAMES:
        experiment = registry.EXPERIMENTS[name]
        rows = {label: short(row) for label, row in experiment.rows.items()}
        load = small_and_extra if name == "first-figure" else small
        monkeypatch.setitem(registry.EXPERIMENTS, name, replace(experiment, rows=rows, load=load, seeds=(0, 1)))


def documents(name, seeds=(0, 1), rows=None, datasets=None):
    runs = plan(registry.EXPERIMENTS[name], list(seeds), rows)
    return [run.execute() | {"row": run.row} for run in runs if run.dataset in (datasets or run.experiment.datasets)]


@pytest.fixture(scope="module")
def fitted():
    task = grid_scattered(columns=20)
    training = replace(TRAINING, steps=80, evaluate_every=40)
    model = NodeClassifier(initialiser="uniform", start="random", training=training)
    return model.fit(task.graph, validation=task.validation), task


def is_drawn(figure):
    return figures.svg(figure).startswith(b"<?xml")


def test_asking_differently_leaves_the_model_as_it_is(fitted):
    model, _ = fitted
    model.progressive_ = 0.1
    other = with_sampler(model, steps=3)
    assert (other.sampling.steps, other.progressive_) == (3, 0) and other.denoiser_ is model.denoiser_
    assert (model.sampling, model.progressive_) == (Sampling(), 0.1)
    model.progressive_ = 0.0


def test_joint_samples_come_in_chunks_that_differ_and_can_be_had_again(fitted, monkeypatch):
    model, task = fitted
    monkeypatch.setattr("dpmsnc.evidence.experiments.ablations.samplers.CHUNK", 4)
    samples = joint_samples(model, 10, seed=0)
    assert samples.shape == (10, 40) and np.array_equal(samples, joint_samples(model, 10, seed=0))
    assert (samples[:, task.train] == task.truth[task.train]).all()
    assert not np.array_equal(samples[:4], samples[4:8]) and not np.array_equal(samples, joint_samples(model, 10, 1))


def test_accuracy_is_recorded_at_every_step_and_ends_at_the_answer(fitted):
    model, task = fitted
    accuracies = over_steps.record(model, task)
    final = task.graph.encode(with_sampler(model, steps=None).predict(condition_on="train"))
    assert len(accuracies) == model.schedule.num_steps
    assert accuracies[-1] == pytest.approx((final == task.truth)[task.test].mean(), abs=1e-6)


def test_a_majority_outvotes_and_ties_go_to_the_first():
    samples = np.array([[0, 2, 1], [1, 2, 0], [1, 2, 2]])
    assert votes.majority(samples, 3).tolist() == [1, 2, 0]


def test_votes_of_samples_that_err_apart_are_better_than_one_sample(fitted):
    model, task = fitted
    rng = np.random.default_rng(0)
    samples = np.where(rng.random((64, 40)) < 0.7, task.truth, 1 - task.truth)
    found = votes.record(model, task, samples)["votes"]
    assert list(found) == ["1", "4", "16", "64"] and found["64"] == {"accuracy": 1, "subgraph_accuracy": 1}
    # 16 groups of one sample: the mean of the first sixteen
    first = np.mean([(sample == task.truth)[task.test].mean() for sample in samples[:16]])
    assert found["1"]["accuracy"] == pytest.approx(first, abs=1e-6) and found["1"]["subgraph_accuracy"] < first


def test_pairs_reward_what_neighbours_have_to_do_with_each_other():
    task = grid_scattered(columns=20)
    coin = np.arange(256)[:, None] % 2
    found = pairs.record((task.truth + coin) % 2, task)
    # either all labels are right or all are wrong: one coin for two nodes, log 2 of a pair against 2 log 2
    assert found["difference"] == pytest.approx(np.log(2), abs=0.02) and found["joint"] > found["product"]
    assert found["num_samples"] == 256 and found["num_edges"] == pairs.edges_between_test_nodes(task).shape[1] > 0
    apart = pairs.record(np.random.default_rng(0).integers(0, 2, (4096, 40)), task)
    assert apart["difference"] == pytest.approx(0, abs=0.01)
    ends = pairs.edges_between_test_nodes(task)
    assert task.test[ends].all() and len({tuple(edge) for edge in ends.T.tolist()}) == ends.shape[1]


def test_shared_fit_serves_three_experiments(tiny, tmp_path, capsys):
    reproduce("pairs", [0], tmp_path, methods=["dpm-snc (random start)"])
    stored = Store(tmp_path).all(shared_fit.STORED_AS)
    assert len(stored) == 4 and all(d["experiment"] == "one-fit" for d in stored)
    for name in ("accuracy-over-steps", "number-of-samples"):
        capsys.readouterr()
        reproduce(name, [0], tmp_path)
        assert "2 runs stored" in capsys.readouterr().out
    assert len(Store(tmp_path).all(shared_fit.STORED_AS)) == 4


def test_what_shared_fit_records_is_shown(tiny):
    found = documents("pairs", datasets=("grid_scattered", "cora"))
    for document in found:
        metrics = document["metrics"]
        assert metrics["pairs"]["single"]["num_samples"] == 16 and len(metrics["number_of_samples"]["votes"]) == 3
        assert ("fitted" in metrics["pairs"]) == (metrics["progressive"] > 0)
    rows = pairs.table(found).rows
    single = [row[:3] for row in rows if row[2] == "single"]
    assert single[0] == ["dpm-snc", "scattered grid", "single"] and ["masked-labels", "Cora", "single"] in single
    two_seeds = [d["metrics"]["pairs"]["single"] for d in found if d["row"] == "dpm-snc" and d["dataset"] == "cora"]
    cora = next(row for row in rows if row[:3] == ["dpm-snc", "Cora", "single"])
    assert cora[3] == f"{np.mean([run['joint'] for run in two_seeds]):.3f}" and cora[-1] == "2"
    ours = [d for d in found if d["row"] == "dpm-snc"]
    last = [d["metrics"]["over_steps"][-1] for d in ours if d["dataset"] == "cora"]
    assert over_steps.table(ours).rows[0][5].startswith(f"{100 * np.mean(last):.1f}")
    vote = [d["metrics"]["number_of_samples"]["votes"]["16"]["accuracy"] for d in ours if d["dataset"] == "cora"]
    assert votes.table(ours).rows[0][4].startswith(f"{100 * np.mean(vote):.1f}")
    assert is_drawn(over_steps.figure(ours)) and is_drawn(votes.figure(ours))


def test_steps_and_layers(tiny):
    found = documents("steps-vs-layers", [0], ["5-steps-2-layers", "20-steps-4-layers", "5-steps-8-layers"])
    for document in found:
        steps, layers = document["row"].split("-")[::2]
        config = document["config"]
        assert (config["schedule"]["num_steps"], config["num_layers"]) == (int(steps), int(layers))
        assert config["sampling"]["steps"] is None and config["sampling"]["progressive"] == 0
    assert len(registry.EXPERIMENTS["steps-vs-layers"].rows) == 9
    table = depth.grid_table(found)
    assert [row[:2] for row in table.rows[:3]] == [["Cora", "2"], ["Cora", "4"], ["Cora", "8"]]
    accuracy = {(d["dataset"], d["row"]): d["metrics"]["selected"]["accuracy"] for d in found}
    assert table.rows[4][3] == f"{100 * accuracy['citeseer', '20-steps-4-layers']:.1f}"
    assert is_drawn(depth.grid_figure(found)) and is_drawn(depth.grid_figure(found[:1]))


def test_ablations_of_the_paper_are_of_models_as_printed(tiny):
    for row in registry.EXPERIMENTS["steps-vs-layers-paper"].rows.values():
        model = row_model(row)
        assert (model.conditioning, model.parameterisation, model.sampling.method) == ("guided", "epsilon", "ancestral")
    (found,) = documents("steps-vs-layers-paper", [0], ["20-steps-4-layers"], ("cora",))
    assert found["method"] == "dpm-snc-paper" and len(found["metrics"]["over_steps"]) == 20
    assert as_printed.STEPS_VS_LAYERS_PAPER.table([found]).rows[1][3] != "-"
    assert is_drawn(as_printed.STEPS_VS_LAYERS_PAPER.figure([found]))
    asked, stored = as_printed.ACCURACY_OVER_STEPS_PAPER, homophilic_paper.HOMOPHILIC_PAPER
    for dataset in asked.datasets:
        assert Run(asked, dataset, "dpm-snc", 0).key == Run(stored, dataset, "dpm-snc-paper", 0).key
    assert asked.measure is stored.measure
    assert stored.rows["dpm-snc-paper"].build(0, "citeseer").training.temperature == 0.3


def test_time_and_accuracy(tiny):
    rows = ["5-steps-2-layers", "80-steps-2-layers", "gcnii-2-layers", "gcnii-32-layers"]
    found = documents("time-vs-accuracy", rows=rows, datasets=("citeseer",))
    times = {d["row"]: d["metrics"]["predict_s"] for d in found}
    assert 0 < times["5-steps-2-layers"] < times["80-steps-2-layers"]
    assert 0 < times["gcnii-2-layers"] < times["gcnii-32-layers"]
    shown = {(row[0], row[1]): row[2:] for row in depth.time_table(found).rows}
    assert shown["DPM-SNC, T = 5", "Citeseer"][-1] == "2" and shown["gcnii-8-layers", "Citeseer"][0] == "-"
    assert is_drawn(depth.time_figure(found))


def test_models_of_two_layers_are_fitted_once_for_both(tiny):
    grid, timed = (registry.EXPERIMENTS[name] for name in ("steps-vs-layers", "time-vs-accuracy"))
    both = set(grid.rows) & set(timed.rows)
    assert both == {f"{steps}-steps-2-layers" for steps in depth.STEPS}
    for row in both:
        assert Run(grid, "cora", row, 0).key == Run(timed, "cora", row, 0).key


def test_temperatures_of_training_and_of_prediction(tiny):
    found = documents("temperature", [0], datasets=("cora",))
    assert {d["config"]["training"]["temperature"] for d in found} == {0.1, 0.3, 1.0}
    for document in found:
        measured = document["metrics"]["temperature"]
        assert list(measured) == ["ancestral", "multistep"]
        assert all(list(by_tau) == ["0", "0.1", "0.3", "0.5", "0.7", "1"] for by_tau in measured.values())
    table = temperature.table(found)
    assert len(table.rows) == 6 and table.rows[1][:3] == ["Cora", "0.1", "multistep"]
    assert table.rows[1][3] == f"{100 * found[0]['metrics']['temperature']['multistep']['0']:.1f}"
    assert is_drawn(temperature.figure(found))


def test_ingredients_are_compared_seed_by_seed():
    def document(row, seed, accuracy, dataset="cora"):
        return {"dataset": dataset, "row": row, "seed": seed, "metrics": {"selected": {"accuracy": accuracy}}}

    found = [document("dpm-snc", 0, 0.80), document("dpm-snc", 1, 0.90), document("dpm-snc", 0, 0.7, "citeseer")]
    found += [document("initialiser: grand", 1, 0.92), document("initialiser: grand", 0, 0.81)]
    assert ingredients.table(found).rows == [
        ["Cora", "dpm-snc", "85.0±7.1", "-", "2"],
        ["Cora", "initialiser: grand", "86.5±7.8", "+1.50±0.71", "2"],
        ["Citeseer", "dpm-snc", "70.0", "-", "1"],
    ]


def test_every_ingredient_differs_from_the_defaults_in_one_option():
    options = {label: flat(row_model(row).configuration()) for label, row in ingredients.ROWS.items()}
    defaults = options.pop(ingredients.OURS)
    assert all(len({name for name in defaults if one[name] != defaults[name]}) == 1 for one in options.values())


def row_model(row):
    return METHODS.find(row.method).build(0, **row.settings)


def test_the_first_figure_draws_the_small_grid_of_the_first_seed(tiny):
    found = documents("first-figure")
    for document in found:
        small = document["metrics"]["small"]
        assert len(small["labels"]) == 40 and sum(small["known"]) == 8
        answer = figure1.panel(small)
        assert (answer.labels == answer.truth)[answer.known].all()
        question = figure1.panel(small, asks=True)
        assert (question.labels == -1).sum() == 32 and not question.wrong.any()
    rows = {row[0]: row for row in figure1.table(found).rows}
    assert list(rows) == ["gcn", "gmnn", "clgnn", "masked-labels", "dpm-snc"] and rows["gcn"][-1] == "2"
    titles = [ax.get_title() for ax in figure1.figure(found).axes]
    assert titles == ["the question", "GCN", "GMNN", "CLGNN", "masked-labels", "DPM-SNC"]


def test_a_share_of_the_small_grid_that_is_right():
    truth = figure1.cyclic_grid(20).y
    labels, known = truth.copy(), np.zeros(40, dtype=bool)
    known[:8], labels[8:16] = True, 1 - truth[8:16]
    document = {
        "row": "gcn",
        "dataset": "grid_scattered",
        "seed": 0,
        "metrics": {"selected": {"accuracy": 0.5}, "small": {"known": known.tolist(), "labels": labels.tolist()}},
    }
    assert list(figure1.table([document]).rows) == [["gcn", "50.0", "75.0", "1"]]


def test_scenarios_show_every_node_once_and_ring_the_training_nodes(tiny):
    found = documents("scenarios", [0])
    assert [row[:5] for row in scenarios.table(found).rows] == [
        ["grid_scattered", "2000", "600", "600", "800"],
        ["grid_localized", "200", "60", "60", "80"],
    ]
    task = grid_scattered(columns=20)
    training, rest = (scenarios.panel(task, mask) for mask in (task.train, task.validation | task.test))
    assert ((training.labels == -1) ^ (rest.labels == -1)).all()
    assert np.array_equal(training.known, task.train) and not rest.known.any()
    assert is_drawn(scenarios.figure(found))


def test_a_curve_has_the_mean_and_the_spread_of_its_seeds():
    curve = figures.Curve([1, 2], [[1.0, 3.0], [5.0]])
    assert curve.mean.tolist() == [2, 5] and curve.spread == pytest.approx([2**0.5, 0])
    figure = figures.curves(
        {"one": {"a": curve, "b": curve}, "two": {"a": curve}}, "steps", "right (%)", levels={"two": ("still", 4.0)}
    )
    first, second = figure.axes
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["a", "b"]
    assert [text.get_text() for text in second.get_legend().get_texts()] == ["a", "still"]
    assert second.get_xlabel() == "steps" and first.get_ylabel() == "right (%)" and is_drawn(figure)
