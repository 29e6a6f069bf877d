"""Files that are whole or absent, and files of others that cannot take more memory than they hold.

`write_whole` is the one writer of the package: a kill at any moment leaves the old file or the new one. `read_json` and
`read_arrays` read what anybody may have written: sizes are checked before anything is allocated, and nothing is ever
unpickled.
"""

from __future__ import annotations

import io
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError

T = TypeVar("T")

SCRATCH = r"\.[0-9a-f]{8}"
"""How the hidden name of an unfinished file goes on after a dot and the file's own name, as a regular expression."""
LARGEST_JSON = 16 * 2**20
"""Bytes of the largest JSON text that is read or written."""
SMALL_ARRAYS = 2**28
"""Bytes that the arrays or the table of any file may take, however well they are compressed."""
LARGEST_GROWTH = 16
"""How many times their file arrays or a table may be that take more than `SMALL_ARRAYS`."""


def write_whole(path: Path, data: bytes | str) -> None:
    """Write a file, and the folders it is in, so that a reader sees the old file or the new one, never a half.

    A link is replaced, not the file that it points to.
    """
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("xb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error}); name a file in a folder that you may write to") from error
    finally:
        with suppress(OSError):
            scratch.unlink()
    _keep_names(path.parent)


def _keep_names(folder: Path) -> None:
    """Names survive a loss of power only when their folder is on the disk too; not every system can promise that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder that can be written into, or say that it cannot be; worth asking before long work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder} ({error}); give another name") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder} is not yours to write to; name another folder, or change its permissions")


def json_value(value: Any) -> Any:
    """The same in JSON's own types: NaN is null, infinity a word, an object its type's name."""
    if isinstance(value, dict):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(part) for part in value]
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__


def storable(value: Any) -> Any:
    """The value, or None where it is an object that JSON cannot hold, such as an initialiser of the user's own."""
    try:
        json.dumps(value, default=np.generic.item)
    except TypeError:
        return None
    return value


def with_infinities(values: dict[str, Any]) -> dict[str, Any]:
    """The values, with infinity as a number again."""
    return {name: float(value) if value in ("inf", "-inf") else value for name, value in values.items()}


def with_nan(values: Iterable[float | None]) -> list[float]:
    """Measurements, with NaN where there was nothing to measure."""
    return [math.nan if value is None else float(value) for value in values]


def json_text(value: Any) -> str:
    """The content of a JSON file."""
    return json.dumps(json_value(value), indent=1, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all; it must not be larger than `read_json` reads."""
    text = json_text(value)
    if len(text) > LARGEST_JSON:  # json.dumps writes one byte for each character
        raise InputError(f"{path} would hold {len(text):,} bytes of JSON, more than can be read again; write less")
    write_whole(path, text)


def read_json(path: Path) -> Any:
    """The content of a JSON file; a `ValueError` where it is none, too large or too deep."""
    return parse_json(read_bounded(path))


def read_bounded(path: Path) -> bytes:
    """The content of a file, of which `parse_json` refuses what is cut off here."""
    with path.open("rb") as file:
        return file.read(LARGEST_JSON + 1)


def parse_json(text: bytes | str) -> Any:
    """`json.loads` on a text of others; a `ValueError` where it is not JSON, too large or too deep."""
    if len(text) > LARGEST_JSON:
        raise ValueError(f"more than {LARGEST_JSON:,} bytes of JSON")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error


def pack_arrays(arrays: Mapping[str, Any]) -> bytes:
    """The content of an .npz file that `read_arrays` reads; large arrays are not compressed."""
    buffer = io.BytesIO()
    write = np.savez_compressed if sum(np.asarray(a).nbytes for a in arrays.values()) <= SMALL_ARRAYS else np.savez
    write(buffer, **arrays)
    return buffer.getvalue()


def read_arrays(path: str | os.PathLike[str], names: Iterable[str]) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """The arrays of an .npz file that have these names, and the names of all.

    An array is allocated only once its header agrees with the size that the file declares for it, and the sizes of all
    are within bounds.
    """
    try:
        with Path(path).open("rb") as file, ZipFile(file) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            wanted = {name: members[name] for name in names if name in members}
            total = _checked_total(wanted.values(), os.fstat(file.fileno()).st_size)
            return {name: _read_array(archive, info, total) for name, info in wanted.items()}, set(members)
    except Exception as error:  # zipfile, zlib, numpy and its tokenizer have a dozen kinds of errors for damage
        raise InputError(f"cannot read {path} ({error!r}); pass an .npz file as described in docs/data.md") from error


def most_unpacked(stored: int) -> int:
    """Bytes that the content of a compressed file of so many bytes may take."""
    return max(SMALL_ARRAYS, LARGEST_GROWTH * stored)


def _checked_total(members: Iterable[ZipInfo], stored: int) -> int:
    """Bytes that all members take together when they are unpacked."""
    total = sum(info.file_size for info in members)
    if total > most_unpacked(stored):
        raise ValueError(f"a file of {stored:,} bytes declares arrays of {total:,}; store them without compression")
    return total


def _read_array(archive: ZipFile, info: ZipInfo, total: int) -> NDArray[Any]:
    with archive.open(info) as member:
        shape, itemsize = _array_header(member, info.filename)
        declared = info.file_size - member.tell()
    if itemsize == 0 or math.prod(shape) * itemsize != declared or max(shape, default=0) > total:
        raise ValueError(f"{info.filename} has shape {shape} but {declared:,} bytes")
    with archive.open(info) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _array_header(member: Any, name: str) -> tuple[tuple[int, ...], int]:
    """Shape and bytes per entry of an array in numpy's format; arrays of Python objects are refused."""
    version = np.lib.format.read_magic(member)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"{name} has the unknown format {version}")
    shape, _, dtype = readers[version](member)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are not read")
    return shape, dtype.itemsize


def group(named: Mapping[str, T], prefix: str) -> dict[str, T]:
    """The tensors or arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
