"""Cells of a table: which kind a column is, and its cells as numbers, days or text.

A cell that does not fit its column is refused: the `InputError` says where it is, what it says and what to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import is_missing, short

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["numeric", "boolean", "date", "category", "text", "drop"]
"""What a user may say a column is."""
KINDS: tuple[Kind, ...] = ("numeric", "boolean", "date", "category", "text", "drop")
Found = Kind | Literal["identifier", "empty", "constant", "row number"]
"""What a column may be found to be."""
Where = Callable[[int], str]
"""What a row is called in messages."""
Texts = NDArray[np.object_]
"""Text, None where a cell is empty."""

GAPS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>", "NaT"]
"""What stands for a missing cell among features."""
WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})(\.0+)?")
"""A whole number in a text file, which pandas writes as 1.0 where others in its column are missing."""
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?", re.IGNORECASE)
CODE = re.compile(r"0[0-9]+")
"""Digits that are a name, since a number has no zero before it."""
WRITTEN = re.compile(r"[€$£]?\s?[+-]?[0-9]{1,3}([.,'\s]?[0-9]{3})*([.,][0-9]+)?\s?[%€$£kK]?")
"""A number as people write it."""
ISO = "ISO8601"
DATES = {
    ISO: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?"),
    "%Y/%m/%d": re.compile(r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}"),
    "%d.%m.%Y": re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}"),
    "%d/%m/%Y": re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}"),
    "%m/%d/%Y": re.compile(r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}"),
}
"""Formats of dates by what they look like; the last two are told apart by a day above 12."""
YES, NO = {"true", "yes", "t", "y"}, {"false", "no", "f", "n"}
MOSTLY = 0.9
"""Share of cells from which on the others of a column are taken for mistakes."""
MOST_LEVELS = 100
"""Different values of a category, unless each of them has many rows."""
WORDS = 3
"""On average: from so many words on, a cell is text."""


def texts(cells: pd.Series) -> Texts:
    """Cells as text without blanks around; whole numbers are spelled alike however a table has them."""
    return np.fromiter((_text(value) for value in cells.tolist()), dtype=object, count=len(cells))


def _text(value: Any) -> str | None:
    if is_missing(value):
        return None
    text = str(value).strip()
    if text in GAPS:
        return None
    return text.partition(".")[0] if WHOLE.fullmatch(text) else text


def kind_of(cells: pd.Series, where: Where) -> Found:
    """What a column is, by its type or, where it is text, by what all of it looks like."""
    from pandas.api import types

    if cells.isna().all():
        return "empty"
    if types.is_bool_dtype(cells):
        return "boolean"
    if types.is_numeric_dtype(cells):
        return "row number" if str(cells.name).startswith("Unnamed:") else "numeric"
    if types.is_datetime64_any_dtype(cells):
        return "date"
    found = texts(cells)
    present = found[found != None]  # noqa: E711 (an array is compared)
    if not len(present):
        return "empty"
    if isinstance(cells.dtype, types.CategoricalDtype):
        return "category" if len(set(present)) > 1 else "constant"
    if {text.lower() for text in present} <= YES | NO:
        return "boolean"
    return _looks(found, str(cells.name), where) or _by_levels(present, len(present) < len(found))


def _looks(found: Texts, name: str, where: Where) -> Found | None:
    """numeric or date, where all cells look like it; where most do, the others are mistakes."""
    present = found[found != None]  # noqa: E711
    if any(CODE.fullmatch(text) for text in present):
        return None
    patterns = {"numeric": [NUMBER], "date": list(DATES.values())}
    for kind, looks in patterns.items():
        fits = np.array([text is not None and any(p.fullmatch(text) for p in looks) for text in found])
        if fits.sum() == len(present):
            return kind  # type: ignore[return-value]
        if fits.sum() >= MOSTLY * len(present):
            row = int(np.argmax(~fits & (found != None)))  # noqa: E711
            raise not_a(kind, name, found[row], where(row))
    if np.mean([WRITTEN.fullmatch(text) is not None for text in present]) >= MOSTLY:
        row = int(np.argmax(found != None))  # noqa: E711
        raise not_a("numeric", name, found[row], where(row))
    return None


def _by_levels(present: Texts, gaps: bool) -> Found:
    counts = np.array(list(Counter(present.tolist()).values()))
    if len(counts) == 1 and not gaps:
        return "constant"
    unique = (counts == 1).sum() > len(present) / 2 and len(present) > 1
    if unique or len(counts) > max(MOST_LEVELS, len(present) / MOST_LEVELS):
        return "text" if np.mean([len(text.split()) for text in present]) >= WORDS else "identifier"
    return "category"


def not_a(kind: str, name: str, value: Any, place: str, sure: bool = False) -> InputError:
    """The error of a cell that is not what its column is; where that is not sure, it says how to say otherwise."""
    how = {
        "numeric": "write it as a number such as 12.5, or leave the cell blank",
        "date": "write it as YYYY-MM-DD, or leave the cell blank",
        "boolean": "write true or false, or leave the cell blank",
    }[kind]
    said = f"column {name!r} holds {short(value)} in {place}, where a {kind} value is expected; {how}"
    other = f", or say what the column is: columns={{{name!r}: 'category'}} or 'drop' (--column {name}=category)"
    return InputError(said if sure else said + other)


def as_numbers(cells: pd.Series, where: Where, sure: bool = False) -> NDArray[np.float64]:
    """NaN where a cell is empty; infinite numbers are refused."""
    from pandas.api import types

    if types.is_numeric_dtype(cells):
        numbers = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        found = texts(cells)
        wrong = [k for k, text in enumerate(found) if text is not None and not NUMBER.fullmatch(text)]
        if wrong:
            raise not_a("numeric", str(cells.name), found[wrong[0]], where(wrong[0]), sure)
        numbers = np.array([np.nan if text is None else float(text) for text in found])
    with np.errstate(over="ignore"):
        endless = np.isinf(numbers.astype(np.float32))
    if endless.any():
        row = int(np.argmax(endless))
        raise InputError(
            f"column {str(cells.name)!r} holds {numbers[row]:g} in {where(row)}, which is infinite or too large; "
            "correct it, or leave the cell blank"
        )
    return numbers


def as_booleans(cells: pd.Series, where: Where) -> NDArray[np.float64]:
    """1 and 0, NaN where a cell is empty."""
    found = texts(cells)
    words: dict[str | None, float] = {**dict.fromkeys(YES | {"1"}, 1.0), **dict.fromkeys(NO | {"0"}, 0.0), None: np.nan}
    values = [words.get(text if text is None else text.lower()) for text in found]
    if None in values:
        row = values.index(None)
        raise not_a("boolean", str(cells.name), found[row], where(row))
    return np.array(values, dtype=np.float64)


def date_format(cells: pd.Series, where: Where) -> str:
    """The format of all cells; ISO where they are dates already."""
    from pandas.api import types

    if types.is_datetime64_any_dtype(cells):
        return ISO
    found = texts(cells)
    fitting = [name for name in DATES if not _unreadable(found, name).any()]
    if fitting[:2] == ["%d/%m/%Y", "%m/%d/%Y"]:
        row = int(np.argmax(found != None))  # noqa: E711
        raise InputError(
            f"column {str(cells.name)!r} holds dates such as {found[row]!r} ({where(row)}), whose day and month cannot "
            "be told apart; write them as YYYY-MM-DD"
        )
    if fitting:
        return fitting[0]
    wrong = min((_unreadable(found, name) for name in DATES), key=np.sum)
    row = int(np.argmax(wrong))
    raise not_a("date", str(cells.name), found[row], where(row))


def as_days(cells: pd.Series, format: str, where: Where) -> NDArray[np.float64]:
    """Days since 1970, NaN where a cell is empty."""
    from pandas.api import types

    if types.is_datetime64_any_dtype(cells):
        return _days(cells)
    found = texts(cells)
    if (wrong := _unreadable(found, format)).any():
        row = int(np.argmax(wrong))
        raise not_a("date", str(cells.name), found[row], where(row))
    return _days(_parsed(found, format))


def _unreadable(found: Texts, format: str) -> NDArray[np.bool_]:
    """Which texts are no dates of that format."""
    present = found != None  # noqa: E711
    looks = np.array([text is not None and DATES[format].fullmatch(text) is not None for text in found])
    if not (looks == present).all():
        return present & ~looks
    return present & _parsed(found, format).isna().to_numpy()


def _parsed(found: Texts, format: str) -> pd.Series:
    import pandas as pd

    return pd.Series(pd.to_datetime(found, format=format, utc=True, errors="coerce"))


def _days(moments: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    since = pd.to_datetime(moments, utc=True) - pd.Timestamp("1970-01-01", tz="UTC")
    return (since / pd.Timedelta(days=1)).to_numpy(dtype=np.float64, na_value=np.nan)
