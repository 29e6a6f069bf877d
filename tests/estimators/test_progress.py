"""What a fit says while it runs."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from dpmsnc import Graph, NodeClassifier, Sampling, Schedule, Training
from dpmsnc.baselines import CRF
from dpmsnc.estimators.fit_progress import FitProgress
from dpmsnc.progress import LOGGER, shown, spelled

GRAPH = Graph.build([(k, k + 1) for k in range(29)], y=["ab"[k % 2] if k % 3 else None for k in range(30)])


def classifier(**settings) -> NodeClassifier:
    training = Training(steps=10, evaluate_every=5)
    small = {"hidden_channels": 4, "schedule": Schedule(5), "sampling": Sampling(steps=2)}
    return NodeClassifier(initialiser=CRF("uniform", "none"), training=training, **small, **settings)


@pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
def test_a_fit_says_its_phases_and_evaluations_where_there_is_no_terminal(capsys):
    model = classifier(verbose=True).fit(GRAPH, 0.3)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert "choosing what the network begins as" in lines[0] and any("choosing: fold 1 of 4" in line for line in lines)
    evaluated = [line for line in lines if "step" in line and "left" in line]
    assert len(evaluated) == 2 and "step 10 of 10" in evaluated[1] and "at most 0 s left" in evaluated[1]
    assert lines[-1].endswith(f"keeping step {model.best_step_}; evaluating") and "validation accuracy" in said.out
    quiet = classifier().fit(GRAPH, 0.3)
    assert capsys.readouterr().err == ""
    np.testing.assert_array_equal(quiet.predict(), model.predict())


@pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
def test_programs_that_log_have_the_lines_once(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="dpmsnc"):
        classifier(verbose=True).fit(GRAPH, 0.3)
    assert sum("step 5 of 10" in record.message for record in caplog.records) == 1
    assert capsys.readouterr().err == ""


def test_the_time_left_is_that_of_the_steps_to_come(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("dpmsnc.estimators.fit_progress.time.monotonic", lambda: clock.now)
    telling = FitProgress("fit", steps=100, verbose=False)
    with telling.running():
        clock.now = 5000.0  # which choosing took
        telling.start(SimpleNamespace(step=20))
        clock.now += 60.0
        assert telling.left(40) == pytest.approx(180.0)


def test_the_logger_is_left_as_it_was():
    before = LOGGER.level, LOGGER.propagate, list(LOGGER.handlers)
    with pytest.raises(ZeroDivisionError), shown():
        _ = 1 / 0
    assert (LOGGER.level, LOGGER.propagate, list(LOGGER.handlers)) == before
    assert spelled(300) == "5.0 min"


def test_notebooks_show_settings_and_result():
    model = classifier(backbone="<gcn>")
    assert "&lt;gcn&gt;" in model._repr_html_() and "not fitted" in model._repr_html_()
