import numpy as np
import pytest

from dpmsnc.errors import InputError
from dpmsnc.evidence.experiments.company import COMPANY, OURS, ROWS, SIMPLE, load, table
from dpmsnc.evidence.run.experiment import Run


def runs(ours, simple, best):
    """Documents of five seeds that nobody made: macro-F1 of two rows, and accuracy of the best."""
    found = []
    for seed in range(5):
        for row in ROWS:
            accuracy = best if row == "crf" else 0.6
            macro = ours[seed] if row in OURS else simple[seed] if row == SIMPLE else 0.4
            metrics = {"selected": {"accuracy": accuracy, "macro_f1": macro}, "last": None}
            metrics["majority"] = {"accuracy": 0.5, "macro_f1": 0.2}
            method = ROWS[row].method
            found.append(
                {"dataset": "company", "row": row, "method": method, "seed": seed, "cpu_s": 1.0, "metrics": metrics}
            )
    return found


def test_the_graph_is_read_from_raw_tables_and_shows_known_labels_alone():
    task = load("company", seed=2)
    assert task.graph.edge_weight is not None and task.graph.columns is not None
    assert (task.train.sum(), task.validation.sum(), task.test.sum()) == (96, 24, 680)
    assert np.array_equal(load("company", seed=2).graph.x, task.graph.x)
    with pytest.raises(InputError, match="no data set 'cora'"):
        load("cora")


def test_the_notes_hold_both_statements_against_the_runs():
    notes = "\n".join(table(runs([0.50, 0.52, 0.48, 0.50, 0.50], [0.51, 0.50, 0.51, 0.50, 0.50], 0.605)).notes)
    assert notes.count("(holds") == 4 and "accuracy 50.0, macro-F1 20.0" in notes
    notes = "\n".join(table(runs([0.40] * 5, [0.50, 0.51, 0.50, 0.50, 0.50], 0.62)).notes)
    assert notes.count("(does not hold") == 4 and "the best other row, crf: -2.0 points" in notes


def test_the_cheapest_row_runs_to_the_end():
    document = Run(COMPANY, "company", SIMPLE, 0).execute()
    found = document["metrics"]
    assert found["majority"]["accuracy"] < found["selected"]["accuracy"] and "macro_f1" in found["selected"]
