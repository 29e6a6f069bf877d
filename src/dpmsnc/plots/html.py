"""One self-contained HTML page: paragraphs, tables and figures, in the order in which they are added.

Nothing is loaded from elsewhere (no script, no font, no style sheet; images are data URIs), every text is escaped, and
the file is either whole or absent.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from dpmsnc.files import make_folder as make_folder
from dpmsnc.files import write_whole

STYLE = """
:root { color-scheme: light; }
body { max-width: 800px; margin: 0 auto; padding: 1.5rem 1rem 3rem; background: #fff; color: #222;
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p { margin: .6rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
caption { caption-side: bottom; text-align: left; }
th, td { padding: .35rem 0 .35rem 1.4rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { border-bottom: 2px solid #222; font-weight: 600; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; position: sticky; left: 0; background: #fff; }
.row { display: flex; flex-wrap: wrap; gap: 1rem 1.5rem; align-items: flex-start; margin: 1rem 0; }
figure { margin: 0; flex: 1 1 300px; max-width: 440px; }
img { display: block; max-width: 100%; height: auto; }
figure img { width: 100%; }
caption, figcaption, .note { font-size: .9rem; line-height: 1.45; color: #555; padding-top: .4rem; }
figcaption { text-align: center; }
.broad { max-width: 1180px; }
.broad p, .broad ul { max-width: 800px; }
.broad th, .broad td { padding-left: .9rem; font-size: .9rem; }
.broad th:first-child, .broad td:first-child { padding-left: 0; }
ul { margin: .6rem 0; padding-left: 1.1rem; }
.lead { border-left: 4px solid #0b5fa5; padding: .2rem 0 .2rem .8rem; font-size: 1.1rem; }
nav ul { columns: 20rem 3; }
a { color: #0b5fa5; }
pre { font-size: .85rem; line-height: 1.45; }
@media (max-width: 600px) {
  body { font-size: 16px; }
  th, td, .broad th, .broad td { padding-left: .4rem; font-size: .8rem; }
  th, td:first-child { white-space: normal; }
  .broad td:first-child { white-space: nowrap; }
}
"""


@dataclass(frozen=True)
class Picture:
    """An SVG image with the words that stand for it where it cannot be seen."""

    svg: bytes
    alt: str
    caption: str = ""

    @property
    def tag(self) -> str:
        code = base64.b64encode(self.svg).decode("ascii")
        return f'<img src="data:image/svg+xml;base64,{code}" alt="{escape(self.alt)}">'

    @property
    def words(self) -> str:
        return f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""


class Page:
    """A page that grows from top to bottom; each verb returns the page, so that calls can be chained."""

    def __init__(self, title: str, broad: bool = False, contents: bool = False) -> None:
        self.title = title
        self.contents, self.headings = contents, list[str]()
        """Whether a list of the headings stands at the top."""
        self.broad = broad
        """For tables that need more room than lines of text do."""
        self.parts: list[str] = []

    def heading(self, text: str) -> Page:
        self.headings.append(text)
        return self._add(f'<h2 id="section-{len(self.headings)}">{escape(text)}</h2>')

    def subheading(self, text: str) -> Page:
        return self._add(f"<h3>{escape(text)}</h3>")

    def paragraph(self, text: str) -> Page:
        return self._add(f"<p>{escape(text)}</p>")

    def lead(self, text: str) -> Page:
        """The paragraph that a reader in a hurry reads."""
        return self._add(f'<p class="lead">{escape(text)}</p>')

    def preformatted(self, text: str) -> Page:
        """Text whose lines and columns stay as they are."""
        return self._add(f'<pre class="wide">{escape(text)}</pre>')

    def note(self, text: str) -> Page:
        """A paragraph in small print."""
        return self._add(f'<p class="note">{escape(text)}</p>')

    def notes(self, texts: Sequence[str]) -> Page:
        """A list in small print."""
        items = "".join(f"<li>{escape(text)}</li>" for text in texts)
        return self._add(f'<ul class="note">{items}</ul>') if texts else self

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Page:
        """The first column is set to the left, the others, numbers as a rule, to the right."""
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
        body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        below = f"<caption>{escape(caption)}</caption>" if caption else ""
        return self._add(
            f'<div class="wide"><table>{below}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
        )

    def image(self, picture: Picture) -> Page:
        """One picture in its own size, such as a legend."""
        return self._add(f"<div>{picture.tag}</div>")

    def figures(self, *pictures: Picture) -> Page:
        """Pictures side by side where there is room for them, one below the other on a phone."""
        cells = "\n".join(f"<figure>{picture.tag}{picture.words}</figure>" for picture in pictures)
        return self._add(f'<div class="row">\n{cells}\n</div>')

    def html(self) -> str:
        title, body = escape(self.title), '<body class="broad">' if self.broad else "<body>"
        return "\n".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n{body}\n<h1>{title}</h1>",
                *([self._contents()] if self.contents else []),
                *self.parts,
                "</body>\n</html>\n",
            ]
        )

    def write(self, path: Path) -> None:
        write_whole(path, self.html())

    def _contents(self) -> str:
        links = (f'<li><a href="#section-{k}">{escape(text)}</a></li>' for k, text in enumerate(self.headings, 1))
        return f"<nav><ul>{''.join(links)}</ul></nav>"

    def _add(self, part: str) -> Page:
        self.parts.append(part)
        return self


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same table for a terminal: columns aligned, the first to the left and the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in [header, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)
