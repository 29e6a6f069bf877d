"""The Python of the documentation that is meant to run, run from top to bottom."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"


def python_blocks(page: str) -> str:
    """The Python of a page; lines are where they are in it, for tracebacks."""
    text = (DOCS / page).read_text()
    kept = ["\n"] * (text.count("\n") + 1)
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        first = text.count("\n", 0, block.start(1))
        for k, line in enumerate(block[1].splitlines(keepends=True)):
            kept[first + k] = line
    return "".join(kept)


def notebook_cells(kind: str | None = None) -> list[Any]:
    """The kind and the text of every cell of the tutorial's notebook; of one kind, the texts alone."""
    cells = json.loads((DOCS / "tutorial.ipynb").read_text())["cells"]
    pairs = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return pairs if kind is None else [text for found, text in pairs if found == kind]


@pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
def test_new_graphs_and_new_nodes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(python_blocks("new-graphs.md"), "docs/new-graphs.md", "exec"), names)
    assert names["probabilities"].shape == (9, 2) and names["samples"].shape == (4, 9)
    assert (len(names["first"]), len(names["second"])) == (5, 1)
    city, answer = names["city"], names["answer"]
    assert list(answer) == [*city.ids, "t0", "t1"]
    known = city.ids[city.known]
    np.testing.assert_array_equal([answer[name] for name in known], city.decode(city.y)[city.known])
    scores = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines() if line.startswith("accuracy")]
    assert len(scores) == 2 and all(0 <= score <= 1 for score in scores)


@pytest.mark.filterwarnings("ignore::dpmsnc.errors.FitWarning")
def test_the_tutorial(tmp_path, monkeypatch, capsys):
    """Cell by cell, as a notebook runs it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in notebook_cells("code"):
        exec(compile(cell, "docs/tutorial.ipynb", "exec"), names)
    graph, labels, truth = names["graph"], names["labels"], names["truth"]
    assert list(graph.ids) == names["people"] and 20 < graph.known.sum() < 60
    assert all(labels[k] == truth[name] for k, name in enumerate(graph.ids) if graph.known[k])
    assert names["told"][~graph.known][0] == "support" and names["samples"].shape == (8, 60)
    np.testing.assert_array_equal(names["again"].predict_proba(), names["probabilities"])
    assert {"compare.html", "confusion.png"} <= {path.name for path in tmp_path.iterdir()}
    assert names["found"].recommended in capsys.readouterr().out


def test_the_notebook_is_the_tutorial():
    page = (DOCS / "tutorial.md").read_text()
    cells = [cell if kind == "markdown" else f"```python\n{cell}\n```" for kind, cell in notebook_cells()]
    assert "\n\n".join(cells) == page.strip()


def test_links_between_pages_lead_somewhere():
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}"
