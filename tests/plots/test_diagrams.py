"""Pictures of fits and graphs: what is drawn is what there is."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpmsnc import Graph, plots
from dpmsnc.errors import InputError
from dpmsnc.plots.drawing import MOST_NODES, layout
from dpmsnc.plots.files import write_picture


def test_a_confusion_matrix_bears_its_numbers():
    ax = plots.plot_confusion(np.array([[3, 1], [0, 12]]), ["a", "a class with a very long name"]).axes[0]
    assert [text.get_text() for text in ax.texts] == ["3", "1", "0", "12"]
    assert ax.get_yticklabels()[1].get_text() == "a class with a …"
    assert not plots.plot_confusion(np.eye(30, dtype=np.int64), range(30)).axes[0].texts


def test_reliability_by_hand():
    proba = np.array([[0.9, 0.1], [0.95, 0.05], [0.4, 0.6], [0.5, 0.5]])
    ax = plots.plot_reliability({"one": proba}, np.array([0, 1, 1, -1]), bins=10).axes[0]
    x, y = ax.lines[1].get_data()
    np.testing.assert_allclose(x, [0.6, 0.9, 0.95])
    np.testing.assert_allclose(y, [1.0, 1.0, 0.0])


def test_training_marks_the_weights_that_were_kept():
    history = SimpleNamespace(step=[0, 10, 20], validation_score=[0.2, 0.5, 0.4])
    ax = plots.plot_training(SimpleNamespace(history_=history, best_step_=10)).axes[0]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [0.2, 0.5, 0.4])
    assert ax.lines[1].get_xdata()[0] == 10
    with pytest.raises(InputError, match="no validation score"):
        plots.plot_training(SimpleNamespace())


def test_a_graph_is_drawn_where_it_can_be_seen():
    graph = Graph.build([(0, 1), (1, 2)], y=["a", None, "b"])
    assert layout(graph).shape == (3, 2)
    np.testing.assert_array_equal(layout(graph), layout(graph))
    figure = plots.plot_graph(graph, ["a", "b", "b"])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "known"]
    with pytest.raises(InputError, match="5,001 nodes"):
        plots.plot_graph(Graph.build([], num_nodes=MOST_NODES + 1, y=["a"] + [None] * MOST_NODES))
    with pytest.raises(InputError, match="by their class"):
        plots.plot_graph(Graph.build([(0, 1)], y=[0.5, 1.5], kind="value"))


@pytest.mark.parametrize("ending, begins", [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_pictures_are_written_as_their_ending_says(tmp_path, ending, begins):
    write_picture(plots.plot_confusion(np.eye(2, dtype=np.int64), "ab"), tmp_path / f"p.{ending}")
    assert (tmp_path / f"p.{ending}").read_bytes().startswith(begins)


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(InputError, match="what kind of picture"):
        write_picture(plots.plot_confusion(np.eye(2, dtype=np.int64), "ab"), tmp_path / "p.xyz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(AttributeError, match="plot_luck"):
        _ = plots.plot_luck  # type: ignore[attr-defined]
