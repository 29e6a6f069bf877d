"""Tables as users have them, as DataFrames: CSV, TSV and Parquet files, and frames of pandas, polars and pyarrow.

A text file is looked through before it is parsed. Lines that are longer or shorter than the header, two columns of one
name, and other separators are refused by line. pandas would shift columns, rename them or drop cells without a word.
"""

from __future__ import annotations

import csv
import io
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph.cells import CODE, GAPS
from dpmsnc.graph.clean import short_list
from dpmsnc.graph.unpacked import check_parquet, opened

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars", ",": "commas"}
LONGEST_CELL = 10**6


@dataclass(frozen=True, eq=False)
class Source:
    """Where the rows of a frame were in a text file; pandas hands it on."""

    file: str
    lines: NDArray[np.int64]

    def __deepcopy__(self, memo: Any) -> Source:
        return self  # pandas copies what it hands on


def read_table(
    table: Any,
    kind: str,
    text_columns: tuple[str | None, ...],
    num_first: int,
    others: Sequence[str] = (),
    taken: Sequence[str] = (),
) -> pd.DataFrame:
    """A DataFrame; in a text file `text_columns` and `others` stay as written, unnamed ones being the first `num_first`
    columns that are not `taken`. What is a gap among features is none in `text_columns`."""
    import pandas as pd

    if not isinstance(table, (str, os.PathLike)):
        frame = _frame(table, kind)
    else:
        path = Path(table)
        if not path.is_file():
            raise InputError(f"there is no {kind} table {path}; check the path")
        name = path.name.lower().removesuffix(".gz")
        if not name.endswith((".csv", ".tsv", ".parquet", ".pq")):
            raise InputError(f"cannot tell what kind of table {path} is; use .csv, .tsv or .parquet")
        try:
            if name.endswith((".csv", ".tsv")):
                separator = "\t" if name.endswith(".tsv") else ","
                return _text_table(path, kind, separator, text_columns, num_first, others, taken)
            check_parquet(path)
            frame = pd.read_parquet(path)
        except InputError:
            raise
        except ImportError as error:
            raise InputError('Parquet files need pyarrow: pip install "dpmsnc[parquet]"') from error
        except UnicodeDecodeError as error:
            raise InputError(f"the {kind} table {path} is not in UTF-8 ({error}); save it in UTF-8") from error
        except (ValueError, LookupError, NotImplementedError, OSError, EOFError, zlib.error, csv.Error) as error:
            raise InputError(f"cannot read the {kind} table {path}: {error}; check that the file is whole") from error
    if not frame.columns.is_unique:
        twice = short_list(frame.columns[frame.columns.duplicated()])
        raise InputError(f"the {kind} table has more than one column called {twice}; rename or drop them")
    # A named index is a column to its owner.
    return frame.reset_index(drop=frame.index.name in frame.columns) if frame.index.name is not None else frame


def _frame(table: Any, kind: str) -> pd.DataFrame:
    """A frame of pandas, or of what turns into one, as those of polars and pyarrow do."""
    import pandas as pd

    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "to_pandas") and hasattr(table, "columns"):
        frame = table.to_pandas()
        if isinstance(frame, pd.DataFrame):
            return frame
    raise InputError(
        f"the {kind} table is of type {type(table).__name__}; pass the path of a file or a DataFrame of pandas, polars "
        "or pyarrow"
    )


def _text_table(
    path: Path,
    kind: str,
    separator: str,
    text_columns: tuple[str | None, ...],
    num_first: int,
    others: Sequence[str],
    taken: Sequence[str],
) -> pd.DataFrame:
    import pandas as pd

    lines, codes = _checked_lines(path, kind, separator)
    # utf-8-sig: spreadsheet programs put a byte order mark before the first column's name.
    options: dict[str, Any] = {"sep": separator, "encoding": "utf-8-sig", "index_col": False}
    with opened(path) as file:
        columns = pd.read_csv(file, nrows=0, **options).columns
    rest = [c for c in columns if c not in (*text_columns[num_first:], *taken)]
    text = {*filter(None, (*with_unnamed(text_columns[:num_first], rest), *text_columns))}
    # A class or a node may be called "NA" or "None"; only in feature columns do such words mean a gap.
    gaps = {c: GAPS for c in columns if c not in text}
    coded = [column for k, column in enumerate(columns) if k in codes]
    typed = dict.fromkeys({*text, *coded, *(c for c in others if c in columns)}, str)
    with opened(path) as file:
        frame = pd.read_csv(file, dtype=typed, keep_default_na=False, na_values=gaps, low_memory=False, **options)
    if len(lines) == len(frame):
        frame.attrs["source"] = Source(path.name, lines)
    return frame


def _checked_lines(path: Path, kind: str, separator: str) -> tuple[NDArray[np.int64], set[int]]:
    """The line on which every row ends, and which columns hold codes such as 01234, whose zeros would be lost in a
    number; or an `InputError` that names the line that is wrong."""
    csv.field_size_limit(LONGEST_CELL)
    with io.TextIOWrapper(opened(path), encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        header = next((row for row in reader if row), [])
        _check_header(header, path, kind, separator)
        lines = array("q")  # a list would take four times the memory
        codes: set[int] = set()
        for row in reader:
            if len(row) != len(header) and row:
                raise _ragged(path, kind, reader.line_num, len(row), header, not lines)
            if row:
                lines.append(reader.line_num)
            codes.update(k for k, cell in enumerate(row) if cell[:1] == "0" and CODE.fullmatch(cell))
    return np.array(lines, dtype=np.int64), codes


def _check_header(header: list[str], path: Path, kind: str, separator: str) -> None:
    if not header:
        raise InputError(
            f"cannot read the {kind} table {path}: it is empty; its first line has the names of the columns"
        )
    if twice := [name for name in dict.fromkeys(header) if name and header.count(name) > 1]:
        raise InputError(
            f"line 1 of the {kind} table {path} has more than one column called {short_list(twice)}; "
            "rename or drop them"
        )
    other = next((mark for mark in SEPARATORS if len(header) == 1 and mark != separator and mark in header[0]), None)
    if other is not None:
        raise InputError(
            f"line 1 of the {kind} table {path} separates columns by {SEPARATORS[other]}, not by "
            f"{SEPARATORS[separator]}; save it with {SEPARATORS[separator]}, or as .tsv where it has tabs"
        )


def _ragged(path: Path, kind: str, line: int, cells: int, header: list[str], first: bool) -> InputError:
    what = f"line {line} of the {kind} table {path} has {cells} cells, and the header has {len(header)}"
    if first and cells == len(header) + 1:
        return InputError(
            f"{what}: the first column has no name, as R writes row names; write the table without them "
            "(row.names = FALSE), or give that column a name"
        )
    return InputError(f"{what}; mend the line, and put cells that hold a separator in quotation marks")


def with_unnamed(names: Sequence[str | None], columns: Iterable[str]) -> list[str | None]:
    """The names, with the first columns that are not named in place of None; None where there is no column left."""
    unnamed = (c for c in columns if c not in names)
    return [next(unnamed, None) if name is None else name for name in names]


def places(table: pd.DataFrame, kind: str) -> Callable[[int], str]:
    """What the rows of a table are called: by line of the file, or by number."""
    source = table.attrs.get("source")
    if not isinstance(source, Source) or len(source.lines) != len(table):
        return lambda row: f"row {row} of the {kind} table"
    return lambda row: f"line {source.lines[row]} of {source.file}"
