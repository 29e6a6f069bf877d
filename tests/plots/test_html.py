import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from dpmsnc.data.grids import cyclic_grid, grid_positions
from dpmsnc.errors import InputError
from dpmsnc.plots import figures
from dpmsnc.plots.figures import Labelling
from dpmsnc.plots.html import Page, Picture, text_table

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<script>alert("1 & 2")</script>'


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects them with their text."""

    VOID = ("meta", "img")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data.strip())


def labelling(labels: np.ndarray | None = None) -> Labelling:
    grid = cyclic_grid(6)
    known = np.arange(12) < 3
    return Labelling(grid_positions(6), grid.edge_index, 2, grid.y if labels is None else labels, known, grid.y)


def test_every_text_is_escaped() -> None:
    picture = Picture(b"<svg/>", f'"{EVIL}', EVIL)
    page = Page(EVIL).heading(EVIL).paragraph(EVIL).note(EVIL).table([EVIL], [[EVIL]], EVIL).figures(picture)
    page.subheading(EVIL).notes([EVIL]).notes([])
    outline = Outline(page.html())
    assert "script" not in [tag for tag, _ in outline.tags]
    assert (
        outline.text.count(EVIL) == 11
    )  # title twice, two headings, paragraph, two notes, three in the table, one below a figure
    assert ("alt", f'"{EVIL}') in [item for tag, attrs in outline.tags if tag == "img" for item in attrs.items()]


def test_parts_stand_in_the_order_they_were_added() -> None:
    html = Page("t").paragraph("first").table(["a", "b"], [["x", "1"]]).paragraph("last").html()
    assert [text for text in Outline(html).text if text in ("first", "x", "1", "last")] == ["first", "x", "1", "last"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    Page("old").write(path)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InputError, match="no space left"):
        Page("new").write(path)
    assert [child.name for child in tmp_path.iterdir()] == ["report.html"]
    assert "<h1>old</h1>" in path.read_text()


def test_text_table_aligns_columns() -> None:
    lines = text_table(["method", "n"], [["a", "100"], ["longer name", "2"]]).splitlines()
    assert lines == ["method         n", "-----------  ---", "a            100", "longer name    2"]


def test_wrong_nodes_are_those_answered_otherwise_and_not_known() -> None:
    right = labelling()
    flipped = labelling(1 - right.labels)
    assert not right.wrong.any()
    assert flipped.wrong.tolist() == (~right.known).tolist()
    assert not labelling(np.full(12, -1)).wrong.any()


@pytest.mark.parametrize(
    "make",
    [
        lambda: figures.grids({"one": labelling(), "two": labelling(np.zeros(12, dtype=int))}),
        lambda: figures.grid_legend(3),
        lambda: figures.lines({"a": ([1, 2], [0.5, 1])}, "x", "y", y_range=(0, 1), levels={"b": 0.7}),
        lambda: figures.lines({"empty": ([], [])}, "x", "y"),
    ],
    ids=["grids", "legend", "lines", "no points"],
)
def test_figures_come_as_svg_without_links(make: Callable[[], figures.Figure]) -> None:
    svg = figures.svg(make())
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    assert not re.search(rb'href="(?!#)', svg)
    assert b"<image" not in svg
    assert figures.svg(make()) == svg


def test_a_wrong_answer_is_drawn_as_a_cross() -> None:
    def crosses(panel: Labelling) -> int:
        return figures.svg(figures.grids({"": panel}, legend=False)).decode().count(f"fill: {figures.WRONG}")

    right = labelling()
    one_wrong, two_wrong = right.labels.copy(), right.labels.copy()
    one_wrong[5] ^= 1
    two_wrong[[5, 7]] ^= 1
    assert crosses(labelling(two_wrong)) > crosses(labelling(one_wrong)) > crosses(right) == 0
