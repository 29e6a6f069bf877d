import json
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from dpmsnc import InputError
from dpmsnc.baselines import GNN
from dpmsnc.cli.main import main
from dpmsnc.cli.reproduce import parse_settings
from dpmsnc.data import BENCHMARKS, grid_scattered
from dpmsnc.data.benchmarks import Benchmark, per_class
from dpmsnc.estimators import base as methods
from dpmsnc.estimators.base import Method
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.evidence.experiments import cora as citation
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.experiments import table1_synthetic as synthetic
from dpmsnc.evidence.experiments import table2_homophilic as homophilic
from dpmsnc.evidence.run.estimators import own_labels
from dpmsnc.evidence.run.experiment import Experiment, Row, Run, score
from dpmsnc.evidence.run.fix import with_fixed
from dpmsnc.evidence.run.runner import plan, reproduce, time_left
from dpmsnc.evidence.run.settings import flat
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.show.stored_runs import count_older
from tiny_experiments import GRIDS, SHORT, small

pytestmark = pytest.mark.usefixtures("brief_couplings")


def count(documents):
    return f"{len(documents)} runs"


class Fits:
    """Stands in for two methods: notes every fit, and interrupts where it is told to."""

    def __init__(self):
        self.seen = []
        self.interrupt_at = None

    def method(self, name):
        fits = self

        class Noted(GNN):
            def fit(self, graph, validation=None):
                if len(fits.seen) == fits.interrupt_at:
                    fits.interrupt_at = None
                    raise KeyboardInterrupt
                fits.seen.append((name, self.seed, graph.y.tolist(), validation.tolist()))
                return super().fit(graph, validation)

        return Method(lambda seed, **settings: Noted(epochs=1, seed=seed, **settings))

    @property
    def runs(self):
        return [(name, seed) for name, seed, *_ in self.seen]


@pytest.fixture
def fits(monkeypatch):
    fits = Fits()
    for name in ("one", "two"):
        monkeypatch.setitem(methods.METHODS, name, fits.method(name))
    experiment = Experiment(
        "trial",
        ("grid_scattered",),
        {"one": Row("one"), "two": Row("two")},
        (0, 1),
        table=count,
        load=small,
    )
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    return fits


def test_a_stored_run_is_not_run_again(fits, tmp_path, capsys):
    reproduce("trial", results=tmp_path)
    assert fits.runs == [("one", 0), ("two", 0), ("one", 1), ("two", 1)]
    first = capsys.readouterr().out
    reproduce("trial", results=tmp_path)
    second = capsys.readouterr().out
    assert len(fits.seen) == 4 and "4 runs stored" in second and ", 0 to run" in second
    assert first.splitlines()[-1] == second.splitlines()[-1] == "4 runs"


def test_more_seeds_and_force_run_what_they_say(fits, tmp_path):
    reproduce("trial", [0], tmp_path, methods=["one"])
    reproduce("trial", [0, 1, 1], tmp_path, methods=["one"])
    assert fits.runs == [("one", 0), ("one", 1)]
    reproduce("trial", [1], tmp_path, methods=["one"], force=True)
    assert fits.runs == [("one", 0), ("one", 1), ("one", 1)] and len(Store(tmp_path).all("trial")) == 2


def test_fast_is_the_first_seed_on_the_data_sets_that_the_experiment_names(fits, tmp_path, monkeypatch, capsys):
    both = replace(registry.EXPERIMENTS["trial"], datasets=("grid_scattered", "grid_localized"), seeds=(3, 4))
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", both)
    argv = ["reproduce", "trial", "--fast", "--methods", "one", "--results", str(tmp_path)]
    assert main(argv) == 2 and "trial has no fast variant" in capsys.readouterr().err and not fits.seen
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", replace(both, fast=("grid_localized",)))
    assert main(argv) == 0 and fits.runs == [("one", 3)]
    assert [d["dataset"] for d in Store(tmp_path).all("trial")] == ["grid_localized"]
    assert main([*argv, "--seeds", "4", "--datasets", "grid_scattered"]) == 0 and fits.runs == [("one", 3), ("one", 4)]
    assert {(d["dataset"], d["seed"]) for d in Store(tmp_path).all("trial")} == {
        ("grid_localized", 3),
        ("grid_scattered", 4),
    }


def test_a_new_method_version_is_run_again(fits, tmp_path, monkeypatch, capsys):
    reproduce("trial", [0], tmp_path, methods=["one"])
    monkeypatch.setitem(methods.METHODS, "one", Method(methods.METHODS["one"].build, version=2))
    reproduce("trial", [0], tmp_path, methods=["one"])
    assert len(fits.seen) == 2
    assert sorted(d["method_version"] for d in Store(tmp_path).all("trial")) == [1, 2]
    assert "not shown here: 1 runs from before" in capsys.readouterr().out
    assert count_older(plan(registry.EXPERIMENTS["trial"], [0, 1]), Store(tmp_path)) == 1
    assert count_older(plan(registry.EXPERIMENTS["trial"], [1]), Store(tmp_path)) == 0


def test_what_was_run_on_other_splits_is_run_again(fits, tmp_path, monkeypatch, capsys):
    reproduce("trial", [0], tmp_path, methods=["one"])
    dataset = registry.EXPERIMENTS["trial"].datasets[0]
    monkeypatch.setitem(BENCHMARKS, dataset, Benchmark(per_class(1, 1), split_version=2))
    reproduce("trial", [0], tmp_path, methods=["one"])
    assert len(fits.seen) == 2
    assert sorted(d["split_version"] for d in Store(tmp_path).all("trial")) == [1, 2]
    assert "not shown here: 1 runs from before" in capsys.readouterr().out


def test_what_is_fixed_is_another_run_and_draws_no_figure(fits, tmp_path, monkeypatch, capsys):
    drawn = []
    experiment = replace(registry.EXPERIMENTS["trial"], figure=lambda documents: drawn.append(documents) or Figure())
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    reproduce("trial", [0], tmp_path, methods=["one"])
    argv = ["reproduce", "trial", "--seeds", "0", "--methods", "one", "--results", str(tmp_path)]
    assert main([*argv, "--fix", "lr=0.5", "--fix", "scaling=rows"]) == 0
    assert capsys.readouterr().out.endswith("1 runs\nAll of ours with lr=0.5, scaling=rows.\n")
    assert fits.runs == [("one", 0)] * 2 and len(drawn) == 1
    assert sorted(d["config"]["lr"] for d in Store(tmp_path).all("trial")) == [0.01, 0.5]
    assert [d["config"]["scaling"] for d in Store(tmp_path).all("trial") if d["config"]["lr"] == 0.5] == ["rows"]


@pytest.mark.parametrize(
    "setting, words",
    [("steps=3", "one has no setting steps to fix; it has hidden_channels"), ("lr=fast", "it is a number"),
     ("lr=NaN", "it is a number"), ("seed=3", "not for the seed"), ("backbone=gat", "not for the backbone"),
     ("scaling=5", "scaling cannot be 5; it is one of unit"), ("scaling=loud", "it is one of unit, rows"),
     ("training={}", "one setting at a time")],
)  # fmt: skip
def test_what_cannot_be_fixed_is_refused_before_anything_runs(fits, tmp_path, capsys, setting, words):
    assert main(["reproduce", "trial", "--methods", "one", "--results", str(tmp_path), "--fix", setting]) == 2
    assert words in capsys.readouterr().err and not fits.seen


def test_a_start_is_fixed_by_name_or_with_settings():
    experiment = Experiment("trial", ("cora",), {"dpm-snc": Row("dpm-snc")}, (0,), table=count)
    for value in ("lp", ["lp", {"num_layers": 3}]):
        fixed = with_fixed(experiment, parse_settings([f"initialiser={json.dumps(value)}"]), ["dpm-snc"])
        assert Run(fixed, "cora", "dpm-snc", 0).build().initialiser == value


@pytest.mark.parametrize(
    "value, words",
    [("luck", "one of auto"), (["luck", {"lr": 1}], "one of auto"), (["lp"], "one of auto"),
     (["lp", {}], "one of auto"), (3, "one of auto"), ('["lp", {"num_layers": 3}', "one of auto"),
     (["lp", {"width": 3}], "does not take"),
     (["pta", {"scaling": "odd"}], "scaling is 'odd'"), (["pta", {"lr": -1}], "lr must be at least"),
     (["gcn", {"epochs": "many"}], "epochs must be at least"),
     (["stack", {"members": {"nobody": {}}}], "no member of a stack"), (["stack", {"repeats": 0}], "repeats must be"),
     (["stack", {"members": {"gcn": {"head": "bald"}}}], "head is 'bald'")],
)  # fmt: skip
def test_a_start_that_there_is_not_is_refused_before_anything_runs(tmp_path, capsys, value, words):
    start = f"initialiser={value if isinstance(value, str) else json.dumps(value)}"
    argv = ["reproduce", "homophilic", "--methods", "dpm-snc (gcn)", "--results", str(tmp_path), "--fix", start]
    assert main(argv) == 2
    assert words in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("setting", ["epochs=0", "num_layers=0", "hidden_channels=0", "lr=-1"])
def test_values_out_of_range_are_never_stored(fits, tmp_path, capsys, setting):
    argv = ["reproduce", "trial", "--methods", "one", "--seeds", "0", "--results", str(tmp_path), "--fix", setting]
    assert main(argv) == 2
    assert f"{setting.partition('=')[0]} must be at least" in capsys.readouterr().err
    assert Store(tmp_path).all("trial") == []


def test_rows_that_what_is_fixed_makes_the_same_are_refused(fits, tmp_path, monkeypatch, capsys):
    rows = {"slow": Row("one", {"lr": 0.001}), "fast": Row("one", {"lr": 0.1})}
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", replace(registry.EXPERIMENTS["trial"], rows=rows))
    assert main(["reproduce", "trial", "--results", str(tmp_path), "--fix", "lr=0.5"]) == 2
    assert "--fix makes slow and fast the same run" in capsys.readouterr().err and not fits.seen
    assert main(["reproduce", "trial", "--results", str(tmp_path), "--fix", "lr=0.5", "--methods", "slow"]) == 0


def test_after_an_interrupt_exactly_the_missing_runs_follow(fits, tmp_path, capsys):
    fits.interrupt_at = 2
    with pytest.raises(KeyboardInterrupt):
        reproduce("trial", results=tmp_path)
    assert "2 of 4 runs are stored" in capsys.readouterr().out
    assert len(Store(tmp_path).all("trial")) == 2
    reproduce("trial", results=tmp_path)
    assert fits.runs == [("one", 0), ("two", 0), ("one", 1), ("two", 1)]


def test_a_corrupt_document_costs_one_run(fits, tmp_path):
    reproduce("trial", results=tmp_path)
    next(tmp_path.glob("*/*/two-*-seed1.json")).write_text("{")
    with pytest.warns(UserWarning, match="is left out"):
        reproduce("trial", results=tmp_path)
    assert fits.runs[4:] == [("two", 1)]


def test_the_split_depends_on_the_seed_and_not_on_the_method(fits, tmp_path):
    reproduce("trial", results=tmp_path)
    splits = {(name, seed): (y, validation) for name, seed, y, validation in fits.seen}
    for seed in (0, 1):
        assert splits["one", seed] == splits["two", seed]
    assert splits["one", 0] != splits["one", 1]


def test_an_interrupted_fit_is_not_taken_for_a_run(monkeypatch):
    def interrupted(self, *arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(NodeClassifier, "fit", interrupted)
    experiment = Experiment("trial", ("grid_scattered",), {"dpm-snc": Row("dpm-snc")}, (0,), table=str, load=small)
    with pytest.raises(KeyboardInterrupt):
        Run(experiment, "grid_scattered", "dpm-snc", 0).execute()


def test_unknown_names_are_answered_with_those_there_are(tmp_path):
    with pytest.raises(InputError, match="synthetic, cora"):
        reproduce("no-such-table", [0], tmp_path)
    with pytest.raises(InputError, match=re.escape(", ".join(synthetic.ROWS))):
        reproduce("synthetic", [0], tmp_path, methods=["gcn", "spn"])
    assert not list(tmp_path.iterdir())


def loads_no_localized(name, seed):
    if name == "grid_localized":
        raise InputError("localized.npz is missing")
    return small(name, seed)


def test_what_is_not_there_is_left_out_by_name_and_the_rest_runs(fits, tmp_path, monkeypatch, capsys):
    rows = {"one": Row("one"), "sage-2030": Row("not-there")}
    experiment = Experiment("trial", tuple(GRIDS), rows, (0,), table=count, load=loads_no_localized)
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    reproduce("trial", results=tmp_path)
    output = capsys.readouterr().out
    assert fits.runs == [("one", 0)] and output.endswith("1 runs\n")
    assert "left out: sage-2030: unknown method 'not-there'" in output
    assert "left out: grid_localized: localized.npz is missing" in output
    with pytest.raises(InputError, match=r"grid_localized: localized\.npz is missing"):
        reproduce("trial", results=tmp_path, datasets=["grid_localized"])
    with pytest.raises(InputError, match="no data set cora; there are grid_scattered, grid_localized"):
        reproduce("trial", results=tmp_path, datasets=["cora"])


def test_stored_runs_are_shown_though_their_data_set_has_gone(fits, tmp_path, monkeypatch, capsys):
    experiment = Experiment("trial", tuple(GRIDS), {"one": Row("one")}, (0,), table=count, load=small)
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    reproduce("trial", results=tmp_path)
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", replace(experiment, load=loads_no_localized))
    reproduce("trial", results=tmp_path)
    assert capsys.readouterr().out.endswith("2 runs\n") and len(fits.seen) == 2


def test_the_figure_is_written_whole_and_named(fits, tmp_path, monkeypatch, capsys):
    experiment = replace(registry.EXPERIMENTS["trial"], figure=lambda documents: Figure(figsize=(len(documents), 1)))
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    reproduce("trial", results=tmp_path)
    path = tmp_path / "figures" / "trial.png"
    assert capsys.readouterr().out.endswith(f"figure: {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG") and [p.name for p in path.parent.iterdir()] == ["trial.png"]


def test_a_figure_shows_all_stored_runs_whatever_was_asked_for(fits, tmp_path, monkeypatch, capsys):
    shown = []
    experiment = replace(registry.EXPERIMENTS["trial"], figure=lambda documents: shown.append(documents) or Figure())
    monkeypatch.setitem(registry.EXPERIMENTS, "trial", experiment)
    first, *others = experiment.rows
    reproduce("trial", [0], tmp_path, methods=others)
    assert "runs are not there yet" in capsys.readouterr().out.splitlines()[-1]
    reproduce("trial", [0], tmp_path, methods=[first])
    assert {d["row"] for d in shown[-1]} == set(experiment.rows)
    assert len(shown[-1]) == len(Store(tmp_path).all("trial")) > len(shown[0])
    monkeypatch.setitem(methods.METHODS, experiment.rows[first].method, renewed(experiment.rows[first].method))
    reproduce("trial", [1], tmp_path, methods=[first])
    current = [d["seed"] for d in shown[-1] if d["method"] == experiment.rows[first].method]
    assert current and set(current) == {1}  # older runs are in no figure


def renewed(name):
    """A method in its next version."""
    method = methods.METHODS[name]
    return replace(method, version=method.version + 1)


def test_a_file_where_results_should_go_is_found_before_anything_runs(fits, tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="results"):
        reproduce("trial", results=tmp_path / "results")
    assert not fits.seen


def test_time_left_is_estimated_from_the_most_similar_runs():
    runs = plan(synthetic.SYNTHETIC, [0], ["gcn", "dpm-snc"])
    done = {
        Run(synthetic.SYNTHETIC, "grid_scattered", "gcn", 1): {"wall_s": 2},
        Run(synthetic.SYNTHETIC, "grid_localized", "dpm-snc", 1): {"wall_s": 10},
    }
    assert [(run.row, time_left(done, [run])) for run in runs] == [
        ("gcn", "00:02"), ("gcn", "00:02"), ("dpm-snc", "00:10"), ("dpm-snc", "00:10")
    ]  # fmt: skip
    assert time_left({}, runs) == "not known yet"
    assert [time_left(done, some, at_a_time=2) for some in (runs, runs[:1])] == ["00:12", "00:02"]
    assert time_left({run: {} for run in done}, runs) == "not known yet"  # documents need not say how long they took


def test_subgraph_accuracy_stands_twice_where_known_labels_come_back():
    task = grid_scattered(columns=20)
    wrong_on_training = np.where(task.train, 1 - task.truth, task.truth)
    result = score(wrong_on_training, task)
    assert result["accuracy"] == result["validation_accuracy"] == result["macro_f1"] == 1
    assert result["subgraph_accuracy"] < 1 and result["subgraph_accuracy_known"] == 1


def fake(method, dataset, seed, accuracy, last=None, **metrics):
    parts = {"accuracy": accuracy, "subgraph_accuracy": accuracy, "subgraph_accuracy_known": accuracy}
    return {
        "row": method,
        "dataset": dataset,
        "seed": seed,
        "metrics": {"selected": parts, "last": last and {**parts, "accuracy": last}, **metrics},
        "stability": None if last is None else 0.02,
        "cpu_s": 10.0,
    }


def test_the_synthetic_table_shows_ours_beside_the_papers():
    documents = [fake("dpm-snc", "grid_scattered", seed, a, last=0.97) for seed, a in enumerate([0.99, 1.0])]
    documents += [fake("gcn", "grid_localized", 0, 0.5)]
    rows = {tuple(row[:2]): row[2:] for row in synthetic.table(documents).rows}
    assert rows["grid_scattered", "dpm-snc"][:4] == ["99.5±0.7", "98.5±0.7", "+1.0", "ours"]
    assert rows["grid_scattered", "dpm-snc"][5:] == ["99.0", "97.0", "2.0", "10", "2 (5)"]
    assert rows["grid_localized", "dpm-snc"][:2] == ["-", "90.9±3.4"]
    assert rows["grid_localized", "gcn"][:5] == ["50.0", "51.3±1.4", "-1.3", "paper", "-"]
    assert rows["grid_scattered", "clgnn"][:2] == ["-", "87.0±2.4"]
    assert ("grid_scattered", "masked-labels") not in rows


def test_a_run_says_how_accurate_its_start_was():
    rows = {"dpm-snc": Row("dpm-snc", SHORT | {"start": "random", "initialiser": ("gcn", {"epochs": 5})})}
    experiment = Experiment("tiny", ("grid_scattered",), rows, (0,), synthetic.table, load=small)
    task = small("grid_scattered", 0)
    start = GNN(epochs=5, seed=0).fit(task.graph, validation=task.validation)
    found = Run(experiment, "grid_scattered", "dpm-snc", 0).execute()["metrics"]["initialiser"]
    assert found == score(own_labels(start, task), task)


def test_the_start_stands_beside_the_model_where_every_run_has_one():
    with_start = [
        fake("dpm-snc (gcn)", "cora", seed, 0.8, initialiser={"accuracy": a}) for seed, a in enumerate((0.7, 0.8))
    ]
    for documents, shown in ((with_start, "75.0"), ([*with_start, fake("dpm-snc (gcn)", "cora", 2, 0.8)], "-")):
        table = homophilic.table(documents)
        row = next(row for row in table.rows if row[:2] == ["cora", "dpm-snc (gcn)"])
        assert row[table.header.index("initialiser")] == shown


def test_the_cora_table_shows_paired_gains():
    draws = [
        {"neighbours_before": 0.80, "neighbours_after": after, "test_before": 0.82, "test_after": 0.82}
        for after in (0.81, 0.83)
    ]
    table = citation.table([fake("dpm-snc", "cora", 0, 0.832, last=0.83, reveal=draws), fake("gcn", "cora", 0, 0.81)])
    rows = {row[1]: dict(zip(table.header, row)) for row in table.rows}
    shown = ("known", "worst", "last", "fall", "reveal: neighbours", "reveal: all", "CPU s", "seeds (paper)")
    assert [rows["dpm-snc"][name] for name in shown] == [
        "83.2", "83.2", "83.0", "2.0", "+2.00±1.41", "+0.00±0.00", "10", "1 (10)"
    ]  # fmt: skip
    assert rows["gcn"]["reveal: all"] == "-" and "lp" not in rows


def test_revealing_compares_the_same_test_nodes_and_reveals_validation_labels(monkeypatch):
    task = grid_scattered(columns=40)
    monkeypatch.setattr(citation, "NUM_REVEALED", 5)
    revealed = []

    class Oracle(NodeClassifier):
        """Wrong everywhere, until a neighbour's label is revealed."""

        denoiser_ = None

        def predict(self, graph=None, known=None, **options):
            y = 1 - task.truth
            if known:
                nodes = task.graph.index(known)
                assert task.validation[nodes].all() and list(known.values()) == task.truth[nodes].tolist()
                revealed.append(tuple(nodes))
                near = task.graph.adjacency[:, nodes].sum(axis=1) > 0
                y = np.where(near, task.truth, y)
            return task.graph.decode(y)

    draws = citation.reveal(Oracle(), task, seed=0)["reveal"]
    assert len(draws) == len(set(revealed)) == 5 and citation.reveal(GNN(), task, seed=0) == {}
    for draw in draws:
        assert (draw["neighbours_before"], draw["neighbours_after"], draw["test_before"]) == (0, 1, 0)
        assert draw["test_after"] == pytest.approx(draw["num_neighbours"] / task.test.sum(), abs=1e-5)
        assert draw["revealed"] == 5


def test_the_synthetic_experiment_end_to_end(tmp_path, monkeypatch, capsys):
    settings = {
        "gcn": {"epochs": 2, "hidden_channels": 16, "num_layers": 1},
        "masked-labels": SHORT,
        "dpm-snc": SHORT,
        "dpm-snc-paper": {"setting": "synthetic", "steps": 1, "initialiser": "uniform"},
    }
    rows = {name: Row(name, setting) for name, setting in settings.items()}
    experiment = Experiment("synthetic", tuple(synthetic.DATASETS), rows, (0,), synthetic.table, load=small)
    monkeypatch.setitem(registry.EXPERIMENTS, "synthetic", experiment)
    reproduce("synthetic", results=tmp_path)
    table = capsys.readouterr().out.partition("Table 1")[2]
    documents = Store(tmp_path).all("synthetic")
    assert len(documents) == 8 and all(method in table for method in settings)
    for document in documents:
        assert 0 <= document["metrics"]["selected"]["accuracy"] <= 1
        assert document["method"] == "gcn" or document["metrics"]["last"]["accuracy"] <= 1
        assert (document["method"] == "gcn") == ("initialiser" not in document["metrics"])
        assert document["seed"] == 0 and "seed" not in document["config"]
    reproduce("synthetic", results=tmp_path)
    assert capsys.readouterr().out.partition("Table 1")[2] == table


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        ("dpm-snc-paper", set()),
        ("dpm-snc-paper (4000 steps)", {"training.steps", "training.refuse_collapsed", "training.stratified"}),
        ("dpm-snc-paper (authors' code)", {"sampling.guidance.projection", "sampling.guidance.per_sample"}),
        ("dpm-snc-paper (one hidden layer)", {"head_layers"}),
        ("dpm-snc-paper (mean over nodes)", {"training.average_over"}),
    ],
)
def test_rows_of_the_paper_differ_from_the_preset_as_they_say(row, changed):
    ours = flat(synthetic.ROWS[row].build().nested_params())
    paper = flat(NodeClassifier.from_preset("paper", setting="synthetic").nested_params())
    assert {name for name in paper if ours[name] != paper[name]} == changed


def test_runs_stored_before_an_option_keep_their_names():
    """Options of training that came later are left out of the configuration of runs that had none of them."""
    run = Run(synthetic.SYNTHETIC, "grid_localized", "dpm-snc-paper (4000 steps)", 0)
    assert run.key.path.name == "dpm-snc-paper-c5594aced8-seed0.json"
    assert run.build().training.refuse_collapsed
    newer = Run(synthetic.SYNTHETIC, "grid_localized", "dpm-snc-paper", 0)
    assert newer.key.config["training"]["refuse_collapsed"] is False
