import re
from pathlib import Path

import numpy as np
import pytest

from dpmsnc.cli import demo
from dpmsnc.config import Training
from dpmsnc.data.grids import lattice
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN

pytestmark = pytest.mark.usefixtures("brief_couplings")
SHORT = Training(steps=20, evaluate_every=10, refresh_every=10, buffer_size=5, samples_per_refresh=2)
METHODS = ["GCN", "label propagation", "DPM-SNC"]


def table_of(text: str) -> dict[str, list[str]]:
    """The printed rows by method: accuracy, subgraph accuracy, seconds."""
    lines = text[text.index("method ") :].splitlines()[2:5]
    rows = [re.split(r"\s{2,}", line) for line in lines]
    return {row[0]: row[1:] for row in rows}


@pytest.fixture(scope="module")
def question() -> demo.Question:
    return demo.Question.of(10, seed=0)


def test_small_demo_prints_a_table_and_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    demo.run(tmp_path / "out", columns=10, training=SHORT)
    printed = capsys.readouterr().out
    assert list(table_of(printed)) == METHODS
    assert str(tmp_path / "out" / "report.html") in printed.splitlines()[-1]

    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert written == ["out", "out/grid.svg", "out/report.html", "out/samples.svg", "work"]
    page = (tmp_path / "out" / "report.html").read_text()
    sources = re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"'>]{0,20})", page)
    assert len(sources) == 9  # legend, four panels, three of samples, validation score
    assert all(source.startswith("data:image/svg+xml") for source in sources)
    assert not re.search(r"https?:|url\(|@import|<script|<link", page)
    for name, row in table_of(printed).items():
        assert "".join(f"<td>{cell}</td>" for cell in [name, *row]) in page


def test_a_place_that_cannot_be_written_to_is_found_out_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(demo, "solve", lambda *_: pytest.fail("worked first"))
    with pytest.raises(InputError):
        demo.run(tmp_path / "file")


@pytest.mark.parametrize("columns", [7, 6])
def test_a_size_without_a_chequerboard_is_refused(columns: int) -> None:
    with pytest.raises(InputError, match="columns"):
        demo.Question.of(columns, seed=0)


def test_a_tenth_of_the_chequerboard_and_nothing_of_the_strip_is_known(question: demo.Question) -> None:
    graph, strip = question.graph, question.strip
    assert graph.known.sum() == round(0.1 * (~strip).sum()) and not graph.known[strip].any()
    assert (graph.y[graph.known] == question.truth[graph.known]).all()
    i, j = graph.edge_index
    assert (strip[i] == strip[j]).all()
    assert (question.truth[i] != question.truth[j])[~strip[i]].all()


def test_only_edges_between_neighbours_in_the_picture_are_drawn(question: demo.Question) -> None:
    panel = question.panel(np.where(question.graph.known, question.truth, UNKNOWN))
    ends = panel.positions[panel.edge_index]
    assert np.allclose(np.abs(ends[0] - ends[1]).sum(axis=1), 1)
    assert panel.edge_index.shape[1] == question.graph.num_edges - 6 - 10
    assert not panel.wrong.any()


def test_nothing_in_the_strip_is_called_wrong(question: demo.Question) -> None:
    flipped = question.panel(1 - question.truth.clip(0))
    assert flipped.wrong.tolist() == question.asked.tolist()


def test_words_say_what_a_revealed_label_changed(question: demo.Question) -> None:
    strip, coloured = question.strip, lattice(3, 9).y
    labels = question.truth.copy()
    labels[strip] = coloured
    words = demo.told(question, demo.Reveal(0, labels, strip))
    assert "27 of the 27 labels of the strip change, and 0 of the others" in words and "100% of the edges" in words


def test_shares_count_edges_that_are_not_known_at_both_ends() -> None:
    graph = lattice(1, 4).hide(np.array([False, False, True, True]))
    equal, different = np.array([[0, 0, 0, 0]]), np.array([[0, 0, 1, 1]])
    samples = demo.Samples(graph, np.zeros((4, 2)), equal[0], equal, different)
    assert samples.differing(equal) == 0 and samples.differing(different) == 0.5
    assert samples.equal(different).tolist() == [[True, False, True]]


@pytest.mark.slow
def test_demo_at_full_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.run(tmp_path)
    printed = capsys.readouterr().out
    rows = table_of(printed)
    accuracy = {name: float(row[0].rstrip("%")) for name, row in rows.items()}
    assert accuracy["DPM-SNC"] >= 99
    assert max(accuracy["GCN"], accuracy["label propagation"]) <= 60
    assert sum(float(row[-1]) for row in rows.values()) < 90
    assert "0 of the others. Neighbours then differ along 100% of the edges of the strip" in printed
    truth, joint, independent = map(float, re.findall(r"([\d.]+)%", printed[printed.index("Another graph") :]))
    assert abs(joint - truth) < abs(independent - truth)
    assert (tmp_path / "grid.svg").stat().st_size < 500_000
