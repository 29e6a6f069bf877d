"""How one column of a table becomes features: numbers, levels or words; fitted once and applied to any table.

    numeric, boolean, date   one column; gaps have the median, and where the fitted table had gaps a second column is 1
                             at them; a date counts days since the earliest of the fitted table
    category                 one column of 0 and 1 for every frequent level, one for all others, one for gaps
    text                     one column of 0 and 1 for every frequent word

scikit-learn finds the median, the frequent levels and the words. What is kept is plain values, which JSON can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.cells import Kind, Where, as_booleans, as_days, as_numbers, date_format, texts
from dpmsnc.graph.clean import counted, short_list

if TYPE_CHECKING:
    import pandas as pd

Matrix = NDArray[np.float32]
RARE_SHARE = 0.01
LEAST_ROWS = 2
"""A level with fewer rows, or a smaller share of them, is rare."""
MOST_COLUMNS = 100
"""Of one category or text."""


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, of yes and no, or of dates."""

    column: str
    kind: Literal["numeric", "boolean", "date"]
    fill: float
    """The median of the fitted table, in gaps."""
    gaps: bool
    """Whether there is a flag for them."""
    format: str | None = None
    origin: float = 0.0
    """Of dates: the earliest, in days since 1970."""

    code: ClassVar[str] = "numbers"

    @classmethod
    def fit(cls, cells: pd.Series, kind: Literal["numeric", "boolean", "date"], where: Where) -> tuple[Numbers, str]:
        """The encoding, and what there is to say about it."""
        from sklearn.impute import SimpleImputer

        format = date_format(cells, where) if kind == "date" else None
        raw = cls(str(cells.name), kind, 0.0, False, format)
        values = raw.values(cells, where)
        if np.isnan(values).all():
            raise InputError(f"column {raw.column!r} has no value to learn from; leave it out")
        origin = float(np.nanmin(values)) if kind == "date" else 0.0
        missing = int(np.isnan(values).sum())
        median = SimpleImputer(strategy="median", keep_empty_features=True).fit((values - origin)[:, None])
        fitted = cls(raw.column, kind, float(median.statistics_[0]), missing > 0, format, origin)
        filled = f"; {counted(missing, 'gap')} filled with the median ({fitted.fill:g}) and flagged" if missing else ""
        since = f", days since {np.datetime64(int(np.floor(origin)), 'D')}" if kind == "date" else ""
        return fitted, f"{kind}{since}{filled}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.column, f"{self.column} (missing)") if self.gaps else (self.column,)

    def values(self, cells: pd.Series, where: Where) -> NDArray[np.float64]:
        """NaN in gaps."""
        if self.kind == "boolean":
            return as_booleans(cells, where)
        if self.kind == "date":
            assert self.format is not None
            return as_days(cells, self.format, where) - self.origin
        return as_numbers(cells, where)

    def encode(self, cells: pd.Series, where: Where) -> tuple[Matrix, str | None]:
        """Features, and a note on gaps that have no flag."""
        values = self.values(cells, where)
        missing = np.isnan(values)
        columns = [np.where(missing, self.fill, values), missing][: len(self.names)]
        note = None
        if missing.any() and not self.gaps:
            note = f"gaps in column {self.column!r} filled with {self.fill:g}: {int(missing.sum()):,}"
        return np.stack(columns, axis=1).astype(np.float32), note

    def key(self) -> tuple[Any, ...]:
        """What two encodings that agree on tables without new gaps have in common."""
        return (self.column, self.kind, self.gaps, self.origin, self.format, self.fill if self.gaps else None)


@dataclass(frozen=True)
class Levels:
    """A category."""

    column: str
    levels: tuple[str, ...]
    """Those that have a column of their own."""
    other: bool
    """Whether there is a column for all others."""
    gaps: bool

    code: ClassVar[str] = "levels"

    @classmethod
    def fit(cls, cells: pd.Series, kind: Kind, where: Where) -> tuple[Levels, str]:
        from sklearn.preprocessing import OneHotEncoder

        found = texts(cells)
        present = found[found != None]  # noqa: E711
        if not len(present):
            raise InputError(f"column {cells.name!r} has no value to learn from; leave it out")
        least = max(LEAST_ROWS, int(np.ceil(RARE_SHARE * len(found))))
        most = max(MOST_COLUMNS, 2)
        encoder = OneHotEncoder(min_frequency=least, max_categories=most, handle_unknown="infrequent_if_exist")
        encoder.fit(present.astype(str)[:, None])
        rare = [] if encoder.infrequent_categories_[0] is None else encoder.infrequent_categories_[0].tolist()
        levels = [level for level in encoder.categories_[0].tolist() if level not in set(rare)]
        missing = len(found) - len(present)
        fitted = cls(str(cells.name), tuple(map(str, levels)), bool(rare), missing > 0)
        parts = [f"category of {counted(len(levels) + len(rare), 'level')}"]
        parts += [f"{counted(len(rare), 'rare one')} together ({short_list(rare)})"] if rare else []
        parts += [f"{counted(missing, 'gap')} as a level"] if missing else []
        return fitted, "; ".join(parts)

    @property
    def names(self) -> tuple[str, ...]:
        rest = [word for word, there in (("other", self.other), ("missing", self.gaps)) if there]
        return (*(f"{self.column}={level}" for level in self.levels), *(f"{self.column} ({word})" for word in rest))

    def encode(self, cells: pd.Series, where: Where) -> tuple[Matrix, str | None]:
        """Features, and a note on levels that count as rare, or as nothing, because no fitted row had them."""
        found = texts(cells)
        position = {level: k for k, level in enumerate(self.levels)}
        missing = np.array([text is None for text in found])
        at = np.array([position.get(text, -1) for text in found], dtype=np.int64)
        x = [(at[:, None] == np.arange(len(self.levels)))]
        x += [((at < 0) & ~missing)[:, None]] if self.other else []
        x += [missing[:, None]] if self.gaps else []
        new = [text for text in found if text is not None and text not in position]
        note = None
        if new and not self.other:
            note = f"new levels of column {self.column!r} count as none: {short_list(dict.fromkeys(new))}"
        return np.concatenate(x, axis=1).astype(np.float32), note

    def key(self) -> tuple[Any, ...]:
        return (self.column, self.levels, self.other, self.gaps)


@dataclass(frozen=True)
class Words:
    """Text, asked for: which of the frequent words are in it."""

    column: str
    words: tuple[str, ...]

    code: ClassVar[str] = "words"

    @classmethod
    def fit(cls, cells: pd.Series, kind: Kind, where: Where) -> tuple[Words, str]:
        from sklearn.feature_extraction.text import CountVectorizer

        documents = [text or "" for text in texts(cells)]
        words: Sequence[str] = []
        if any(CountVectorizer().build_analyzer()(text) for text in documents):
            vectorizer = CountVectorizer(max_features=MOST_COLUMNS, binary=True).fit(documents)
            words = sorted(vectorizer.vocabulary_)
        return cls(str(cells.name), tuple(map(str, words))), f"text: its {counted(len(words), 'most frequent word')}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}:{word}" for word in self.words)

    def encode(self, cells: pd.Series, where: Where) -> tuple[Matrix, str | None]:
        from sklearn.feature_extraction.text import CountVectorizer

        if not self.words:
            return np.zeros((len(cells), 0), dtype=np.float32), None
        vectorizer = CountVectorizer(vocabulary=list(self.words), binary=True)
        return vectorizer.transform([text or "" for text in texts(cells)]).toarray().astype(np.float32), None

    def key(self) -> tuple[Any, ...]:
        return (self.column, self.words)


Encoding = Numbers | Levels | Words
ENCODINGS: dict[Kind, Any] = {
    "numeric": Numbers,
    "boolean": Numbers,
    "date": Numbers,
    "category": Levels,
    "text": Words,
}
BY_CODE: dict[str, Any] = {kind.code: kind for kind in (Numbers, Levels, Words)}


def state_of(encoding: Encoding) -> dict[str, Any]:
    """Values that JSON can hold."""
    return {"code": encoding.code, **asdict(encoding)}


def from_state(values: dict[str, Any]) -> Encoding:
    """What `state_of` gave, or a `ValueError`, `TypeError` or `KeyError`."""
    values = {name: tuple(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}
    return BY_CODE[values.pop("code")](**values)
