"""A table of cells as text, Markdown, LaTeX or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import Any, Literal

Format = Literal["text", "markdown", "latex", "json"]
WIDTH = 119
WIDEST = 48  # words of a cell go on in another line beyond
# what Markdown and LaTeX would read as something else
MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\|*_`<[~"})
LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$", "†": r"$\dagger$", "‡": r"$\ddagger$"}
)


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
        return {"text": self.__str__, "markdown": self.markdown, "latex": self.latex, "json": self.json}[format]()

    def __str__(self) -> str:
        """Aligned columns below a title."""
        broken = [line for row in (self.header, *self.rows) for line in self._lines(row)]
        widths = [max(map(len, column)) for column in zip(*broken)]
        sides = [str.ljust if k < self.labels else str.rjust for k in range(len(widths))]

        def lines(*rows: Sequence[str]) -> Iterator[str]:
            for cells in (line for row in rows for line in self._lines(row)):
                yield "  ".join(side(cell, width) for side, cell, width in zip(sides, cells, widths)).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = [text for group in self.groups() for text in (*lines(*group), rule)] or [rule]
        # an indented note is a command, which stays in one line to be copied
        notes = [text for note in self.notes for text in ([note] if note.startswith("  ") else _broken(note, WIDTH))]
        return "\n".join([self.title, "", *lines(self.header), rule, *body, *notes])

    def _lines(self, row: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """A row as lines of cells: long words go on below, where other columns are empty."""
        columns = [_broken(cell, WIDEST) if k < self.labels else [cell] for k, cell in enumerate(row)]
        return zip_longest(*columns, fillvalue="")

    def markdown(self) -> str:
        """A table as GitHub reads it."""

        def line(row: Sequence[str]) -> str:
            return f"| {' | '.join(_escaped(cell, MARKDOWN) for cell in row)} |"

        sides = [":---" if k < self.labels else "---:" for k in range(len(self.header))]
        table = [line(self.header), f"| {' | '.join(sides)} |", *map(line, self.rows)]
        notes = ["", *(f"- {_escaped(note, MARKDOWN)}" for note in self.remarks())] if self.notes else []
        return "\n".join([f"**{_escaped(self.title, MARKDOWN)}**", "", *table, *notes])

    def latex(self) -> str:
        """A floating table in the style of booktabs."""

        def line(row: Sequence[str]) -> str:
            return " & ".join(map(_latex, row)) + r" \\"

        columns = "".join("l" if k < self.labels else "r" for k in range(len(self.header)))
        groups = ["\n".join(map(line, group)) for group in self.groups()]
        notes = [rf"\par\smallskip\footnotesize {_latex(' '.join(self.notes))}"] if self.notes else []
        return "\n".join(
            [
                "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering",
                rf"\caption{{{_latex(self.title)}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                "\\toprule\n" + line(self.header),
                "\\midrule\n" + "\n\\midrule\n".join(groups),
                "\\bottomrule\n\\end{tabular}",
                *notes,
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

    def marked(self, signs: Mapping[tuple[str, str], str]) -> Table:
        """With signs behind the labels of some rows, by data set and label.

        A row that names no data set is marked if its label is marked for any.
        """
        datasets = {cell for row in self.rows for cell in row}

        def cells(row: Sequence[str]) -> list[str]:
            here = {label: sign for (name, label), sign in signs.items() if name in row or name not in datasets}
            return [cell + here.get(cell, "") if k < self.labels else cell for k, cell in enumerate(row)]

        return replace(self, rows=[cells(row) for row in self.rows])


def _broken(text: str, width: int) -> list[str]:
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _escaped(text: str, signs: Mapping[int, str]) -> str:
    return " ".join(text.split()).translate(signs)


def _latex(text: str) -> str:
    """A cell or a text; a signed number is set as such, not with a hyphen."""
    return f"${text}$" if re.fullmatch(r"[+-][\d.]+", text) else _escaped(text, LATEX)
