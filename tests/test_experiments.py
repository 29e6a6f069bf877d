import numpy as np
import pytest

from dpmsnc import InputError, Sampling, Training
from dpmsnc.baselines import GNN
from dpmsnc.classifier import NodeClassifier
from dpmsnc.data import grid_localized, grid_scattered
from dpmsnc.experiments import citation, methods, registry, synthetic
from dpmsnc.experiments.methods import Method
from dpmsnc.experiments.run import Experiment, Row, Run, score
from dpmsnc.experiments.runner import in_words, plan, reproduce, time_left
from dpmsnc.experiments.store import Store

SHORT = {
    "start": "uniform",
    "sampling": Sampling(steps=2),
    "training": Training(steps=4, evaluate_every=2, refresh_every=2, start_refreshes=1),
}
GRIDS = {"grid_scattered": grid_scattered, "grid_localized": grid_localized}


def small(name, seed):
    return GRIDS[name](columns=20, seed=seed)


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
        table=lambda runs: f"{len(runs)} runs",
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


def test_a_new_method_version_is_run_again(fits, tmp_path, monkeypatch):
    reproduce("trial", [0], tmp_path, methods=["one"])
    monkeypatch.setitem(methods.METHODS, "one", Method(methods.METHODS["one"].build, version=2))
    reproduce("trial", [0], tmp_path, methods=["one"])
    assert len(fits.seen) == 2
    assert sorted(d["method_version"] for d in Store(tmp_path).all("trial")) == [1, 2]


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
    with pytest.warns(UserWarning, match="corrupt"):
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
        self.interrupted_ = True
        return self

    monkeypatch.setattr(NodeClassifier, "fit", interrupted)
    experiment = Experiment("trial", ("grid_scattered",), {"dpm-snc": Row("dpm-snc")}, (0,), table=str, load=small)
    with pytest.raises(KeyboardInterrupt):
        Run(experiment, "grid_scattered", "dpm-snc", 0).execute()


def test_unknown_names_are_answered_with_those_there_are(tmp_path):
    with pytest.raises(InputError, match="synthetic, cora"):
        reproduce("no-such-table", [0], tmp_path)
    with pytest.raises(InputError, match="gcn, masked-labels, dpm-snc, dpm-snc-paper"):
        reproduce("synthetic", [0], tmp_path, methods=["gcn", "spn"])
    assert not list(tmp_path.iterdir())


def test_a_file_where_results_should_go_is_found_before_anything_runs(fits, tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(InputError, match="results"):
        reproduce("trial", results=tmp_path / "results")
    assert not fits.seen


def test_time_left_is_estimated_from_the_most_similar_runs():
    runs = plan(synthetic.SYNTHETIC, [0], ["gcn", "dpm-snc"])
    done = [
        {"method": "gcn", "dataset": "grid_scattered", "wall_s": 2},
        {"method": "dpm-snc", "dataset": "grid_localized", "wall_s": 10},
    ]
    assert [(run.row, time_left(done, [run])) for run in runs] == [
        ("gcn", 2), ("gcn", 2), ("dpm-snc", 10), ("dpm-snc", 10)
    ]  # fmt: skip
    assert time_left([], runs) is None
    assert [in_words(s) for s in (None, 0.2, 600, 7200)] == [
        "not known yet",
        "about 1 s",
        "about 10 min",
        "about 2.0 h",
    ]


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
    rows = {line.split()[0]: line.split() for line in str(synthetic.table(documents)).splitlines() if line}
    assert rows["dpm-snc"][1:6] == ["99.5±0.7", "99.0", "97.0", "2.0", "98.5±0.7"]
    assert rows["dpm-snc"][6:11] == ["-", "-", "-", "-", "90.9±3.4"]
    assert rows["gcn"][6:11] == ["50.0", "50.0", "-", "-", "51.3±1.4"]
    assert rows["clgnn"][5] == "87.0±2.4" and "masked-labels" not in rows


def test_the_cora_table_shows_paired_gains():
    draws = [
        {"neighbours_before": 0.80, "neighbours_after": after, "test_before": 0.82, "test_after": 0.82}
        for after in (0.81, 0.83)
    ]
    text = str(
        citation.table([fake("dpm-snc", "cora", 0, 0.832, last=0.83, reveal=draws), fake("gcn", "cora", 0, 0.81)])
    )
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows["dpm-snc"][1:] == ["83.2", "83.2", "83.0", "2.0", "83.2", "83.2", "+2.00±1.41", "+0.00±0.00", "10", "1"]
    assert rows["gcn"][7:9] == ["-", "-"]


def test_revealing_compares_the_same_test_nodes_and_reveals_validation_labels(monkeypatch):
    task = grid_scattered(columns=40)
    monkeypatch.setattr(citation, "NUM_REVEALED", 5)
    revealed = []

    class Oracle(NodeClassifier):
        """Wrong everywhere, until a neighbour's label is revealed."""

        def predict(self, known=None, **options):
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
        "dpm-snc-paper": {"setting": "synthetic", "steps": 1, "start": "uniform"},
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
        assert document["config"]["seed"] == 0
    reproduce("synthetic", results=tmp_path)
    assert capsys.readouterr().out.partition("Table 1")[2] == table


def test_the_paper_row_differs_from_the_preset_in_its_steps_alone():
    ours = methods.method("dpm-snc-paper").build(0, **synthetic.ROWS["dpm-snc-paper"].settings).config()
    paper = NodeClassifier.from_preset("paper", setting="synthetic").config()
    assert ours["training"].pop("steps") == synthetic.PAPER_STEPS and paper["training"].pop("steps") == 30000
    assert ours == paper
