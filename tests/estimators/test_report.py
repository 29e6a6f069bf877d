"""A fit says how good it is, and warns where it is of little use."""

import warnings

import numpy as np
import pytest
from scipy.stats import binomtest

from dpmsnc import Graph, NodeClassifier, Training
from dpmsnc.baselines import MaskedLabels
from dpmsnc.cli.main import main
from dpmsnc.errors import FitWarning
from dpmsnc.estimators.report import FitReport, Share
from dpmsnc.estimators.value_report import ValueReport
from saved_models import TASK, describe, quick
from tiny_tables import fast, write_tables

pytestmark = pytest.mark.usefixtures("brief_couplings")
SHORT = Training(steps=10, evaluate_every=10)


def noise(num_nodes: int = 200, seed: int = 0) -> Graph:
    """Labels, edges and their absence are all random: there is nothing to find."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(num_nodes) < num_nodes // 2, rng.integers(2, size=num_nodes), -1)
    return Graph.build(rng.integers(num_nodes, size=(2, 2 * num_nodes)), num_nodes=num_nodes, y=y, classes=range(2))


@pytest.fixture(scope="module")
def good():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        return NodeClassifier(training=SHORT).fit(TASK.graph, validation=TASK.validation)


def report(fitted: int, initialiser: int = 0, size: int = 40, constant: bool = False) -> FitReport:
    return FitReport(100, size, Share(size // 2, size), Share(initialiser, size), Share(fitted, size), constant)


@pytest.mark.parametrize(("count", "of"), [(0, 10), (7, 10), (10, 10), (431, 1000)])
def test_intervals_are_those_of_scipy(count, of):
    expected = binomtest(count, of).proportion_ci(method="wilson")
    assert Share(count, of).interval == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_a_share_of_nothing_says_nothing():
    assert np.isnan(Share(0, 0).value) and Share(0, 0).interval == (0, 1)
    with pytest.raises(ValueError, match="no share"):
        Share(3, 2)


def test_a_good_fit_reports_and_does_not_warn(good):
    found = good.report_
    assert (found.num_train, found.num_validation) == (TASK.train.sum(), TASK.validation.sum())
    own = good.graph_.encode(good.predict(condition_on="train", clamp_known=False))
    assert found.fitted == Share(int((own == TASK.truth)[TASK.validation].sum()), found.num_validation)
    assert found.fitted.value > 0.9 and not found.constant and found.warnings == []
    assert found.majority.count == np.bincount(TASK.truth[TASK.validation]).max()


def test_what_was_chosen_is_named_first(good):
    chosen, *others = good.report_.choices
    assert chosen["coupling"] == good.initialiser_.coupling_ and others
    assert good.history_.choices == list(good.report_.choices)
    lines = str(good.report_).splitlines()
    assert [line.split()[0] for line in lines] == [
        "labels", "validation", "its", "most", "chosen", "runner-up", "runner-up",
    ]  # fmt: skip
    assert chosen["base"] in lines[4] and f"{chosen['score']:.3f}" in lines[4]


def test_a_graph_without_anything_to_find_warns():
    with pytest.warns(FitWarning, match=r"same class everywhere|most frequent class.*Give more labels") as caught:
        clf = NodeClassifier(training=SHORT).fit(noise(), validation=0.3)
    assert [str(one.message) for one in caught if one.category is FitWarning] == clf.report_.warnings
    assert all(one.filename == __file__ for one in caught if one.category is FitWarning)
    assert "warning: The " in str(clf.report_)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (report(40), []),
        (report(25), ["cannot be told from"]),
        (report(5), ["cannot be told from"]),
        (report(20, constant=True), ["same class everywhere"]),
        (report(32, initialiser=34), []),
        (report(30, initialiser=39), ["below that of the initialiser, 97.5%"]),
        (report(5, size=9), []),
        (report(5, size=10), ["cannot be told from"]),
    ],
)
def test_warnings_say_what_validation_labels_are_enough_to_say(made, words):
    assert len(made.warnings) == len(words)
    assert all(word in text for word, text in zip(words, made.warnings))


def test_one_class_everywhere_is_no_fault_where_validation_labels_have_one():
    y, train, validation = np.array([0, 1, 1, 1]), np.arange(4) < 2, np.arange(4) >= 2
    always = np.ones(4, dtype=int)
    assert not FitReport.of(y, train, validation, always, always, []).constant
    y[3] = 0
    assert FitReport.of(y, train, validation, always, always, []).constant


def test_without_validation_there_is_nothing_to_say_of_accuracy():
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        clf = quick().fit(TASK.graph, validation=None)
    assert clf.report_.num_validation == 0 and "accuracy" not in str(clf.report_)


def test_the_report_is_saved_and_a_model_without_one_loads(good, tmp_path):
    good.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model")
    assert loaded.report_ == good.report_ and loaded.history_.choices == good.history_.choices

    def without(description):
        del description["values"]["report"]  # as of an interrupted fit

    describe(tmp_path / "model", without)
    interrupted = NodeClassifier.load(tmp_path / "model")
    assert not hasattr(interrupted, "report_")
    interrupted.save(tmp_path / "again")


def test_a_resumed_fit_has_the_same_report(tmp_path):
    whole = quick().fit(TASK.graph, validation=TASK.validation)

    def stop(trainer):
        if trainer.step == 15:
            raise KeyboardInterrupt

    clf = quick()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(TASK.graph, validation=TASK.validation, checkpoint=tmp_path / "state", progress=stop)
    assert not hasattr(clf, "report_")
    clf.fit(TASK.graph, validation=TASK.validation, checkpoint=tmp_path / "state", resume=True)
    assert clf.report_ == whole.report_ and clf.history_.choices == whole.history_.choices


def test_numbers_are_reported_by_r2():
    y = [k / 10 if k % 3 else None for k in range(30)]
    graph = Graph.build([(k, k + 1) for k in range(29)], y=y, kind="value")
    report = quick(initialiser="uniform").fit(graph).report_
    assert isinstance(report, ValueReport) and report.num_train + report.num_validation == 20 and report.r2 < 1
    assert ValueReport(18, 0).warnings == [] and ValueReport(18, 9, -0.5).warnings == []
    assert "no better than the mean" in str(ValueReport(18, 10, -0.5))


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_prints_the_report(verbose, capsys):
    clf = quick(MaskedLabels, verbose=verbose).fit(TASK.graph, validation=TASK.validation)
    assert capsys.readouterr().out == (f"{clf.report_}\n" if verbose else "")


@pytest.mark.parametrize("method", ["dpm-snc", "masked-labels"])
def test_the_command_prints_it_once(method, tmp_path, capsys, recwarn):
    other = ["--method", method, "--set", "training.steps=10", "--set", "initialiser=lp"]
    short = fast() if method == "dpm-snc" else other
    assert main(["fit", *write_tables(tmp_path), *short, "--out", str(tmp_path / "model")]) == 0
    assert capsys.readouterr().out.count("its initialiser ") == 1
    assert not [one for one in recwarn if one.category is FitWarning]
