import re

import pytest

from dpmsnc.cli.expressiveness import LISTED, Expressiveness, print_counts
from dpmsnc.cli.main import main
from dpmsnc.theory.families import Family, cycle


@pytest.fixture
def mine(tmp_path):
    """C6, 2 C3, C6 in another order, C5."""
    path = tmp_path / "mine.g6"
    path.write_text("EhEG\nEwCW\nEBq_\nDhc\n")
    return path


def rows(text, first):
    """Cells of the table whose header begins with a word."""
    lines = text[text.index(first) :].splitlines()
    return [re.split(r"\s{2,}", line) for line in lines[2 : next((k for k, x in enumerate(lines) if not x), None)]]


def test_pairs_of_the_users_own(mine, capsys):
    assert main(["expressiveness", "--graphs", str(mine)]) == 0
    printed = capsys.readouterr().out
    assert rows(printed, "family")[0][1:-1] == ["4", "6", "6", "3", "3", "1", "1", "5"]
    found = {row[0]: row[1:] for row in rows(printed, "graphs  nodes")}
    assert list(found) == ["1, 3", "1, 2", "2, 3", "1, 4", "2, 4", "3, 4"]
    assert found["1, 3"] == ["6", "6", "equal", "equal"]
    assert found["1, 2"] == ["6", "6", "equal", "separated in round 2"]
    assert found["1, 4"] == ["6, 5", "6, 5", "separated by size", "separated by size"]


def test_consecutive_pairs_and_more_marks(mine, capsys):
    assert main(["expressiveness", "--graphs", str(mine), "--pairs", "consecutive", "--marked", "2"]) == 0
    printed = capsys.readouterr().out
    assert [row[0] for row in rows(printed, "graphs  nodes")] == ["1, 2", "3, 4"]
    assert rows(printed, "family")[0][6] == "2"


def test_long_lists_are_cut(tmp_path, capsys):
    path = tmp_path / "many.g6"
    path.write_text("Bw\n" * 30)
    assert main(["expressiveness", "--graphs", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == f"and {30 * 29 // 2 - LISTED} other pairs"


@pytest.mark.parametrize(
    "flags, content, says",
    [
        ((), "Bw\nB~\n", "mine.g6, line 2: .* damaged"),
        ((), "Bw\n", "at least two"),
        (("--pairs", "consecutive"), "Bw\nBw\nBw\n", "even number"),
        (("--marked", "0"), "Bw\nBw\n", "at least 1"),
        (("--out", "mine.g6"), "Bw\nBw\n", "cannot create the folder"),
    ],
)
def test_what_cannot_be_compared_is_said(flags, content, says, mine, capsys, monkeypatch):
    monkeypatch.chdir(mine.parent)
    mine.write_text(content)
    assert main(["expressiveness", "--graphs", str(mine), *flags]) == 2
    assert re.search(says, capsys.readouterr().err)


def test_flags_of_a_file_need_one(capsys):
    assert main(["expressiveness", "--marked", "2"]) == 2
    assert "--graphs" in capsys.readouterr().err


def test_known_families_without_files_and_the_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))
    out = tmp_path / "pictures"
    assert Expressiveness(out=out).run() == 0
    printed = capsys.readouterr().out
    table = [row[:1] + row[4:-1] for row in rows(printed, "family")]
    assert table == [
        ["C6 against 2 C3", "1", "0", "1", "0", "1"],
        ["six nodes, A against B", "1", "0", "1", "0", "1"],
        ["CSL(n, 2) against CSL(n, r), n = 8..25", "90", "0", "1", "0", "90"],
        ["CSL-41, ten skips", "45", "0", "1", "0", "45"],
        ["rook 4x4 against Shrikhande", "1", "0", "1", "1", "0"],
        ["rook 4x4 against Shrikhande", "1", "0", "2", "0", "1"],
    ]
    assert "graph8c.g6" in printed and str(tmp_path / "expressiveness") in printed
    assert sorted(path.name for path in out.iterdir()) == ["csl-8.svg", "six-nodes.svg"]
    assert all(path.read_bytes().startswith(b"<?xml") for path in out.iterdir())


def test_pictures_show_what_the_lemmas_say(tmp_path, monkeypatch):
    from dpmsnc.plots import colourings

    drawn = {}
    original = colourings.colourings
    monkeypatch.setattr(colourings, "colourings", lambda p, n: drawn.update({n[0]: p}) or original(p, n))
    Expressiveness(graphs=_triangles(tmp_path), out=tmp_path).run()
    a, b = drawn["graph A"]
    assert len(a) == len(b) == 7
    assert a[0].note == b[0].note and not {p.note for p in a[1:]} & {p.note for p in b[1:]}
    assert [panel.marked.sum() for panel in a] == [0] + [1] * 6
    for row in drawn["CSL(8, 2)"]:
        assert [panel.note for panel in row] == ["equal", "equal", "equal", "separated"]


def _triangles(folder):
    path = folder / "two.g6"
    path.write_text("Bw\nBw\n")
    return path


def test_counts_are_returned_by_family_and_marks(capsys):
    found = print_counts([Family("f", [cycle(5), cycle(5)], marked=(1, 2))])
    assert list(found) == [("f", 1), ("f", 2)] and found["f", 1].agg_wl_equal == 1
