import re
from pathlib import Path

import pytest
import torch

from dpmsnc.cli import demo
from dpmsnc.config import Training
from dpmsnc.data.grids import grid_scattered
from dpmsnc.diffusion.objective import Estimate
from dpmsnc.errors import InputError
from dpmsnc.training.trainer import History

SHORT = Training(steps=20, evaluate_every=10, refresh_every=10, buffer_size=5, samples_per_refresh=2)


def table_of(text: str) -> dict[str, list[str]]:
    """The printed rows by method: accuracy, subgraph accuracy, runs, first run, seconds."""
    lines = text[text.index("method ") :].splitlines()[2:5]
    return {line.split()[0]: line.split()[1:] for line in lines}


def test_small_demo_prints_a_table_and_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    demo.run(tmp_path / "out", columns=30, training=SHORT)
    printed = capsys.readouterr().out
    assert list(table_of(printed)) == ["GCN", "masked-labels", "DPM-SNC"]
    assert all(len(row) == 5 for row in table_of(printed).values())
    assert str(tmp_path / "out" / "report.html") in printed.splitlines()[-1]

    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert written == ["out", "out/grid.svg", "out/report.html", "work"]
    page = (tmp_path / "out" / "report.html").read_text()
    sources = re.findall(r"(?:src|href)\s*=\s*[\"']?([^\"'>]{0,20})", page)
    assert len(sources) == 8  # legend, four grids, reverse steps, loss, validation accuracy
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


def test_trace_tells_runs_apart_and_scores_test_nodes() -> None:
    task = grid_scattered(columns=10)
    trace = demo.Trace(task)
    right = torch.nn.functional.one_hot(torch.from_numpy(task.truth)).float().unsqueeze(1)
    for t, y0 in [(3, right), (1, 1 - right), (3, right), (2, right), (1, right)]:
        trace(t, y0, Estimate(y0, y0))
    assert trace.runs == [[1.0, 0.0], [1.0, 1.0, 1.0]]


def test_panels_show_the_small_grid_and_hide_what_is_asked() -> None:
    task = grid_scattered(columns=10, extra_grid=True)
    result = result_of("right", 1.0, labels=task.truth)
    panels = demo.panels(task, [result])
    assert list(panels) == ["the question", "right"]
    question, answer = panels.values()
    assert question.known.sum() == 8
    assert (question.labels[~question.known] == -1).all()
    assert answer.edge_index.min() == 0 and answer.edge_index.max() == 39 and answer.edge_index.shape[1] == 60
    assert not answer.wrong.any()
    assert (answer.labels[answer.edge_index[0]] != answer.labels[answer.edge_index[1]]).all()


@pytest.mark.parametrize(
    ("masked", "dpm", "verdict"),
    [
        (0.8, 1.0, "it is +20.0 points. So on this grid DPM-SNC is the better"),
        (1.0, 0.8, "it is -20.0 points. So on this grid masked-labels is the better"),
        (1.0, 1.0, "it is +0.0 points. So in the end both do equally well on this grid, and DPM-SNC"),
    ],
)
def test_comparison_says_what_the_numbers_say(masked: float, dpm: float, verdict: str) -> None:
    assert verdict in demo.comparison(
        result_of("masked-labels", masked, seconds=2.0), result_of("DPM-SNC", dpm, seconds=1.0)
    )


@pytest.mark.slow
def test_demo_at_full_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo.run(tmp_path)
    rows = table_of(capsys.readouterr().out)
    accuracy = {name: float(row[0].rstrip("%")) for name, row in rows.items()}
    assert accuracy["DPM-SNC"] >= 99
    assert 40 <= accuracy["GCN"] <= 60
    assert sum(float(row[-1]) for row in rows.values()) < 180
    assert (tmp_path / "grid.svg").stat().st_size < 150_000


def result_of(name: str, accuracy: float, seconds: float = 1.0, labels: object = None) -> demo.Result:
    return demo.Result(name, labels, accuracy, accuracy, seconds, [[accuracy]], History())  # type: ignore[arg-type]
