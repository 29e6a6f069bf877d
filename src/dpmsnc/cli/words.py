"""Messages as the command line says them: of flags, where Python has arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from dpmsnc.errors import InputError

if TYPE_CHECKING:
    from dpmsnc.cli.graph_files import GraphFlags

QUOTES = "'\""
VALUE = r"(?:'[^']*'|\"[^\"]*\"|[^\s;,()]+)"


def check_label(data: GraphFlags) -> None:
    """Raise `InputError` where there is a node table and nobody said which of its columns has the labels."""
    if data.nodes is None or data.label is not None or data.target_column is not None:
        return
    columns = header(data)
    known = f" (it has {', '.join(columns)})" if columns else ""
    raise InputError(f"name the column of {data.nodes} that has the labels{known}: --label COLUMN")


def header(data: GraphFlags) -> list[str]:
    """The columns of the node table, if it is a text that can be read; what is wrong with it is said elsewhere."""
    name = str(data.nodes)
    if data.nodes is None or not name.endswith((".csv", ".tsv")):
        return []
    try:
        with data.nodes.open(encoding="utf-8-sig") as file:
            first = file.readline(10_000).strip()
    except (OSError, UnicodeDecodeError):
        return []
    return [word.strip(' "') for word in first.split("\t" if name.endswith(".tsv") else ",")][:20]


def as_flags(message: str, command: Any) -> str:
    """A message about arguments, as name=value or as names with an underscore or a dot, with the flags of a command.

    Example:
        >>> from dpmsnc.cli.reproduce import Reproduce
        >>> as_flags("jobs=0 is not enough", Reproduce("synthetic"))
        '--jobs 0 is not enough'
    """
    for name in sorted(set(arguments(command)), key=len, reverse=True):
        message = with_flag(message, name)
    return message


def with_flag(message: str, name: str) -> str:
    """A message with the flag in the place of one argument; a word such as "label" may mean something else, unless a
    value follows or the message begins with it."""
    flag, argument = "--" + name.replace("_", "-"), rf"(?<![\w.-])(?<!--column ){re.escape(name)}"
    message = re.sub(f"{argument}=({VALUE})", lambda found: f"{flag} {found[1].strip(QUOTES)}", message)
    if "_" in name or "." in name:
        return re.sub(rf"{argument}(?![\w(=])", flag, message)
    return re.sub(rf"^{re.escape(name)}(?= (?:is|must|are)\b)", flag, message)


def arguments(command: Any, group: str = "") -> Iterator[str]:
    """The names of a command's flags as Python has them; of a group of settings both with it, as the flag has it, and
    without."""
    for part in fields(command) if is_dataclass(command) else ():
        value = getattr(command, part.name)
        if not is_dataclass(value):
            yield f"{group}{part.name}"
        elif part.name in ("data", "model"):  # whose fields are flags of the command itself
            yield from arguments(value, group)
        else:
            yield from arguments(value, f"{group}{part.name}.")
