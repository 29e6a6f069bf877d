"""Tables of stored runs: means over seeds, and a table of cells as text, Markdown, LaTeX or JSON."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import Any, Literal

from dpmsnc.evidence.run.store import Document

Format = Literal["text", "markdown", "latex", "json"]
MISSING = "-"
WIDTH = 119
WIDEST = 48
"""Words of a cell go on in another line beyond."""
# what Markdown and LaTeX would read as something else
MARKDOWN = {character: f"\\{character}" for character in "\\|*_`<[~"}
LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "±": r"$\pm$",
    "†": r"$\dagger$",
}


@dataclass(frozen=True)
class Summary:
    """One metric of one method on one data set over its seeds, as shares of 1."""

    mean: float
    std: float | None
    """Sample standard deviation over seeds; None for a single one."""
    worst: float
    last_mean: float | None
    """Mean at the last checkpoint instead of the selected one; None for methods that have no other."""
    largest_fall: float | None
    """The worst fall of validation accuracy below its best, of all seeds."""
    cpu_s: float
    seeds: int


def summarise(documents: Sequence[Document], dataset: str, row: str, metric: str = "accuracy") -> Summary | None:
    """What the runs of a row on a data set say together; None where there are none."""
    return summary([d for d in documents if d["dataset"] == dataset and d["row"] == row], metric)


def summary(documents: Sequence[Document], metric: str = "accuracy") -> Summary | None:
    """What these runs say together about a metric; None where none of them has it."""
    runs = [d for d in documents if metric in d["metrics"].get("selected", {})]
    if not runs:
        return None
    values = [run["metrics"]["selected"][metric] for run in runs]
    last = [run["metrics"]["last"][metric] for run in runs if run["metrics"].get("last")]
    falls = [run["stability"] for run in runs if run["stability"] is not None]
    return Summary(
        mean=statistics.fmean(values),
        std=statistics.stdev(values) if len(values) > 1 else None,
        worst=min(values),
        last_mean=statistics.fmean(last) if last else None,
        largest_fall=max(falls) if falls else None,
        cpu_s=statistics.fmean(run["cpu_s"] for run in runs),
        seeds=len({run["seed"] for run in runs}),
    )


def percent(value: float | None, std: float | None = None, digits: int = 1) -> str:
    """A share as per cent.

    Example:
        >>> percent(0.985, 0.007), percent(None)
        ('98.5±0.7', '-')
    """
    if value is None:
        return MISSING
    return f"{100 * value:.{digits}f}" + (f"±{100 * std:.{digits}f}" if std is not None else "")


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first columns name the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Sentences, or lines of them; one that is indented is a command."""
    labels: int = 1
    """So many columns hold words and are flush left, the others numbers."""
    grouped: bool = False
    """Whether rows with the same first cell belong together and are set apart from the others."""
    records: Sequence[Mapping[str, Any]] = ()
    """The same figures for machines."""

    def show(self, format: Format = "text") -> str:
        match format:
            case "markdown":
                return self.markdown()
            case "latex":
                return self.latex()
            case "json":
                return self.json()
            case _:
                return str(self)

    def __str__(self) -> str:
        """Aligned columns below a title."""
        broken = [line for row in (self.header, *self.rows) for line in self._lines(row)]
        widths = [max(map(len, column)) for column in zip(*broken)]

        def lines(*rows: Sequence[str]) -> Iterator[str]:
            for cells in (line for row in rows for line in self._lines(row)):
                aligned = [
                    cell.ljust(width) if k < self.labels else cell.rjust(width)
                    for k, (cell, width) in enumerate(zip(cells, widths))
                ]
                yield "  ".join(aligned).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = [text for group in self.groups() for text in (*lines(*group), rule)] or [rule]
        notes = [text for note in self.notes for text in _wrapped(note)]
        return "\n".join([self.title, "", *lines(self.header), rule, *body, *notes])

    def _lines(self, row: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """A row as lines of cells: long words go on below, where other columns are empty."""
        columns = [_broken(cell, WIDEST) if k < self.labels else [cell] for k, cell in enumerate(row)]
        return zip_longest(*columns, fillvalue="")

    def markdown(self) -> str:
        """A table as GitHub reads it."""

        def line(row: Sequence[str]) -> str:
            return f"| {' | '.join(_escape(cell, MARKDOWN) for cell in row)} |"

        sides = [":---" if k < self.labels else "---:" for k in range(len(self.header))]
        table = [line(self.header), f"| {' | '.join(sides)} |", *map(line, self.rows)]
        notes = ["", *(f"- {_escape(note, MARKDOWN)}" for note in self.remarks())] if self.notes else []
        return "\n".join([f"**{_escape(self.title, MARKDOWN)}**", "", *table, *notes])

    def latex(self) -> str:
        """A floating table in the style of booktabs."""

        def line(row: Sequence[str]) -> str:
            return " & ".join(map(_latex, row)) + r" \\"

        columns = "".join("l" if k < self.labels else "r" for k in range(len(self.header)))
        groups = ["\n".join(map(line, group)) for group in self.groups()]
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_latex(self.title)}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                line(self.header),
                r"\midrule",
                "\n\\midrule\n".join(groups),
                r"\bottomrule",
                r"\end{tabular}",
                *([rf"\par\smallskip\footnotesize {_latex(' '.join(self.notes))}"] if self.notes else []),
                r"\end{table}",
            ]
        )

    def json(self) -> str:
        """The records, one a line."""
        lines = ",\n ".join(json.dumps(dict(record), allow_nan=False) for record in self.records)
        return f"[{lines}]"

    def groups(self) -> Iterator[list[Sequence[str]]]:
        """Rows that belong together; all of them where the table is not grouped."""
        for _, rows in groupby(self.rows, key=lambda row: row[0] if self.grouped else None):
            yield list(rows)

    def remarks(self) -> list[str]:
        """The notes as whole sentences, where a note may be a line that the next one goes on with."""
        remarks: list[str] = []
        for note in self.notes:
            if remarks and not remarks[-1].endswith("."):
                remarks[-1] += f" {note.strip()}"
            else:
                remarks.append(note)
        return remarks

    def marked(self, rows: set[tuple[str, str]], sign: str) -> Table:
        """With a sign behind the label of these rows, which are given as (data set, label).

        A row that names no data set is marked if its label is marked for any.
        """
        datasets = {cell for row in self.rows for cell in row}

        def cells(row: Sequence[str]) -> list[str]:
            here = {label for dataset, label in rows if dataset in row or dataset not in datasets}
            return [f"{cell}{sign}" if k < self.labels and cell in here else cell for k, cell in enumerate(row)]

        return replace(self, rows=[cells(row) for row in self.rows])

    def with_notes(self, *notes: str) -> Table:
        """With more notes below."""
        return replace(self, notes=[*self.notes, *notes])


def _wrapped(note: str) -> list[str]:
    """Lines of a terminal; an indented note is a command, which stays in one to be copied."""
    return [note] if note.startswith("  ") else _broken(note, WIDTH)


def _broken(text: str, width: int) -> list[str]:
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _escape(text: str, signs: Mapping[str, str]) -> str:
    return "".join(signs.get(character, character) for character in " ".join(text.split()))


def _latex(text: str) -> str:
    """A cell or a text; a signed number is set as such, not with a hyphen."""
    return f"${text}$" if re.fullmatch(r"[+-][\d.]+", text) else _escape(text, LATEX)
