"""Several tags in one cell of a table: "a;b;c".

A blank cell is unknown. A separator alone says that there is no tag. Blanks around a tag are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpmsnc.errors import InputError
from dpmsnc.graph.clean import is_missing, short_list

SEPARATOR = ";"


def split_tags(text: Any, separator: str = SEPARATOR) -> Any:
    """The tags in a cell, each once; None where it is blank, and what is a collection already stays as it is.

    Example:
        >>> split_tags("b; a"), split_tags(";"), split_tags("")
        (('b', 'a'), (), None)
    """
    check_separator(separator)
    if is_missing(text):
        return None
    if not isinstance(text, str):
        return text
    return tuple(dict.fromkeys(part.strip() for part in text.split(separator) if part.strip()))


def join_tags(tags: Iterable[Any] | None, separator: str = SEPARATOR) -> str:
    """A cell that `split_tags` reads back.

    Example:
        >>> join_tags(["a", "b"]), join_tags([]), join_tags(None)
        ('a;b', ';', '')
    """
    check_separator(separator)
    if tags is None:
        return ""
    words = [str(tag) for tag in tags]
    if strange := [word for word in words if separator in word or word != word.strip() or not word]:
        raise InputError(
            f"tags {short_list(strange)} cannot be told apart in a cell; separate them by another --tag-separator"
        )
    return separator.join(words) or separator


def tag_columns(table: Any) -> Any:
    """Columns of 0 and 1, one for each tag, as a matrix with NaN where a cell is blank."""
    try:
        return table.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise InputError(f"a column of a tag holds 0 and 1, blank where unknown ({error})") from error


def check_separator(separator: Any) -> None:
    """Raise `InputError` where nothing could be separated."""
    if not isinstance(separator, str) or not separator.strip():
        raise InputError(f"the separator of tags is {separator!r}; give a mark such as ';', ',' or '|'")
