"""Sparse matrices of users, checked before compiled code follows their indices.

scipy trusts the index arrays of a matrix: one that is changed after construction, or was never checked, makes it read
and write outside of its memory. `checked` looks at every index first and hands back a matrix of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dpmsnc.errors import InputError

CONTAINERS: dict[str, Any] = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}


def checked(matrix: Any, what: str) -> Any:
    """The sparse matrix, in arrays whose indices are sure to lie within its shape; `what` names it in errors."""
    if len(matrix.shape) != 2:
        raise InputError(f"{what} are a sparse array of shape {matrix.shape}; pass a matrix of rows and columns")
    try:
        if matrix.format in CONTAINERS:
            return _compressed(matrix)
        if matrix.format == "dia":
            return _diagonals(matrix)
        return _entries(matrix)
    except (AttributeError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{what} must be a sound sparse matrix ({error}); build it anew from rows and columns"
        ) from error


def _compressed(matrix: Any) -> Any:
    """CSR, CSC and BSR: line k holds the entries from indptr[k] to indptr[k + 1]."""
    data, shape = np.asarray(matrix.data), np.array(matrix.shape)
    block = np.array(data.shape[1:] if matrix.format == "bsr" else (1, 1))
    if data.ndim != (3 if matrix.format == "bsr" else 1) or (block < 1).any() or (shape % block).any():
        raise ValueError(f"data of shape {data.shape} do not make up {tuple(matrix.shape)}")
    lines, length = (shape // block)[:: -1 if matrix.format == "csc" else 1].tolist()
    starts, indices = _whole(matrix.indptr), _whole(matrix.indices)
    if len(starts) != lines + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > len(indices):
        raise ValueError(f"indptr must rise from 0 to at most {len(indices)} in {lines} steps")
    if len(indices) != len(data):
        raise ValueError(f"{len(indices)} indices for {len(data)} entries")
    used = slice(int(starts[-1]))
    _within(indices[used], length)
    return CONTAINERS[matrix.format]((data[used], indices[used], starts), shape=matrix.shape)


def _diagonals(matrix: Any) -> Any:
    offsets = _whole(matrix.offsets)
    if matrix.data.ndim != 2 or len(offsets) != len(matrix.data) or len(np.unique(offsets)) < len(offsets):
        raise ValueError("every diagonal needs one row of data and an offset of its own")
    _within(np.abs(offsets), max(matrix.shape))
    return sp.dia_array((matrix.data, offsets), shape=matrix.shape)


def _entries(matrix: Any) -> Any:
    """COO, and LIL and DOK, which are lists and dictionaries of Python's own."""
    if matrix.format == "lil":
        lengths = [len(columns) for columns in matrix.rows]
        if lengths != [len(values) for values in matrix.data] or len(lengths) != matrix.shape[0]:
            raise ValueError("rows and data differ in length")
        row = np.repeat(np.arange(len(lengths)), lengths)
        column = _whole([c for columns in matrix.rows for c in columns])
        data = np.array([v for values in matrix.data for v in values], dtype=matrix.dtype)
    elif matrix.format == "dok":
        entries = list(matrix.items())
        row, column = (_whole([key[axis] for key, _ in entries]) for axis in (0, 1))
        data = np.array([value for _, value in entries], dtype=matrix.dtype)
    else:
        row, column, data = _whole(matrix.row), _whole(matrix.col), np.array(matrix.data)
    if not len(row) == len(column) == len(data) or data.ndim != 1:
        raise ValueError(f"{len(row)} rows and {len(column)} columns for {len(data)} entries")
    for index, size in zip((row, column), matrix.shape):
        _within(index, size)
    return sp.coo_array((data, (row, column)), shape=matrix.shape)


def _whole(indices: Any) -> NDArray[np.int64]:
    array = np.asarray(indices)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"an index array of {array.ndim} dimensions and type {array.dtype}")
    return array.astype(np.int64)


def _within(indices: NDArray[np.int64], size: int) -> None:
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        wrong = int(indices.min()) if indices.min() < 0 else int(indices.max())
        raise ValueError(f"index {wrong} is outside of 0 to {size - 1}")
