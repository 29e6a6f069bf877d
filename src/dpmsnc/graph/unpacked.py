"""Compressed tables of others, unpacked no further than `dpmsnc.files.most_unpacked` bytes.

A file of a few kilobytes can unpack to as many gigabytes. Text is unpacked as a stream that ends with an error at the
limit. Parquet files are gone through in batches before they are read, with repeated text counted and not repeated.
What lists hold is counted by what the file says of them; structures and blocks of bytes are refused.
"""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dpmsnc.errors import InputError
from dpmsnc.files import most_unpacked

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

ROWS_AT_A_TIME = 2**14
"""Rows of a Parquet file that are looked at together."""


class Unpacked(io.RawIOBase):
    """The content of a .gz file, up to the limit."""

    def __init__(self, path: Path, packed: gzip.GzipFile) -> None:
        super().__init__()
        self.path, self.packed = path, packed
        self.most = self.left = most_unpacked(path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self.packed.readinto(buffer)
        self.left -= count
        if self.left < 0:
            raise too_large(self.path, self.most, "unpack the file yourself (gunzip) and pass it without .gz")
        return count

    def close(self) -> None:
        self.packed.close()
        super().close()


def opened(path: Path) -> IO[bytes]:
    """A file's content as bytes; that of a .gz file is unpacked on the way."""
    if not path.name.lower().endswith(".gz"):
        return path.open("rb")
    return io.BufferedReader(Unpacked(path, gzip.GzipFile(path)))


def check_parquet(path: Path) -> None:
    """Raise `InputError` where the columns of a Parquet file would take more than the limit."""
    import pyarrow.parquet as pq

    most = most_unpacked(os.stat(path).st_size)
    advice = "write it without compression (pandas: compression=None, use_dictionary=False)"
    with pq.ParquetFile(path) as file:
        declared, schema = file.metadata, file.schema_arrow
        if unbounded := [field.name for field in schema if _is_unbounded(field.type)]:
            raise InputError(
                f"{path}: the column {unbounded[0]!r} holds structures or blocks of bytes; write a column for each "
                "of their parts, or leave the column out"
            )
        if max(declared.num_rows * declared.num_columns, _stored(declared), _listed(file)) > most:
            raise too_large(path, most, advice)
        texts = [field.name for field in schema if _is_text(field.type)]
        texts += [file.schema.column(c).path for c in _lists(file)]
    left = most
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for batch in file.iter_batches(ROWS_AT_A_TIME):
            left -= sum(_size(column) for column in batch.columns)
            if left < 0:
                raise too_large(path, most, advice)


def _stored(declared: Any) -> int:
    """Bytes that the pages of a Parquet file take without compression, as it says itself."""
    return sum(declared.row_group(k).total_byte_size for k in range(declared.num_row_groups))


def _listed(file: Any) -> int:
    """Bytes of what lists hold, as a Parquet file says itself, at 8 an entry; a single row may have any number."""
    groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    return sum(8 * group.column(c).num_values for group in groups for c in _lists(file))


def _lists(file: Any) -> list[int]:
    """The columns whose cells are lists."""
    return [c for c in range(file.metadata.num_columns) if file.schema.column(c).max_repetition_level > 0]


def _size(column: Any) -> int:
    """Bytes of a column in which every row has a text of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return int(column.offsets.nbytes) + _size(column.flatten())
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0) + int(column.indices.nbytes)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _is_unbounded(kind: Any) -> bool:
    """Whether cells of that type are neither text nor numbers nor lists of these."""
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return not types.is_primitive(kind.value_type) and not _is_text(kind.value_type)
    return bool(types.is_nested(kind) or types.is_fixed_size_binary(kind))


def too_large(path: Path, most: int, advice: str) -> InputError:
    return InputError(f"{path} unpacks to more than {most:,} bytes, too many for a file of its size; {advice}")
