"""Graphs in the format graph6 of nauty: one graph a line, printable characters only.

A character c holds the 6 bits of c - 63, the highest first. A line is n, then the upper triangle of the adjacency
matrix column by column, (0,1), (0,2), (1,2), (0,3), ..., filled up with zeros to whole characters. n is one character
up to 62; beyond that "~" and three characters, and from 258048 on "~~" and six.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

LARGEST_FILE = 16 * 2**20
"""Bytes of the largest file that is read; a line of so many is a graph of 14,000 nodes."""
HEADER = b">>graph6<<"
OTHER_FORMATS = {b":": "sparse6", b";": "incremental sparse6", b"&": "digraph6"}
LOW, HIGH, BITS = 63, 126, 6


def read_graph6(path: str | os.PathLike[str]) -> list[Graph]:
    """The graphs of a file, without attributes or labels; blank lines do not count."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error}); name a file of graph6 lines") from error
    if len(content) > LARGEST_FILE:
        raise InputError(f"{path} is larger than {LARGEST_FILE:,} bytes; split it into several files")
    graphs = []
    for number, line in enumerate(content.removeprefix(HEADER).splitlines(), start=1):
        if line.strip():
            try:
                graphs.append(parse_graph6(line.strip()))
            except InputError as error:
                raise InputError(f"{path}, line {number}: {error}") from error
    if not graphs:
        raise InputError(f"{path} holds no graph; write one graph6 string a line")
    return graphs


def parse_graph6(line: bytes | str) -> Graph:
    """The graph of one line.

    Example:
        >>> parse_graph6("Bw").edge_index.tolist()  # a triangle
        [[0, 0, 1], [1, 2, 2]]
    """
    line = line.encode() if isinstance(line, str) else line
    line = line.removeprefix(HEADER)
    if line[:1] in OTHER_FORMATS:
        raise InputError(f"this is {OTHER_FORMATS[line[:1]]}, not graph6; nauty's copyg -g converts it")
    values = np.frombuffer(line, dtype=np.uint8)
    foreign = np.flatnonzero((values < LOW) | (values > HIGH))
    if len(foreign):
        first = int(foreign[0])
        raise InputError(f"character {first + 1} is {line[first : first + 1]!r}; graph6 has only ? to ~")
    num_nodes, body = _size(values - LOW)
    if num_nodes == 0:
        raise InputError("this is the graph without nodes; leave it out")
    num_pairs = num_nodes * (num_nodes - 1) // 2
    expected = -(-num_pairs // BITS)
    if len(body) != expected:
        raise InputError(
            f"a graph of {num_nodes:,} nodes takes {expected:,} characters after its size, not {len(body):,}"
        )
    bits = np.unpackbits(body[:, None], axis=1)[:, 8 - BITS :].ravel()
    if bits[num_pairs:].any():
        raise InputError("the bits after the last pair of nodes are not 0; the line is damaged")
    # a bit is the pair (i, j) with i < j at j (j - 1) / 2 + i
    position = np.flatnonzero(bits)
    j = np.floor((1 + np.sqrt(1 + 8 * position.astype(np.float64))) / 2).astype(np.int64)
    edges = np.stack([position - j * (j - 1) // 2, j])
    return replace(_empty(num_nodes), edge_index=edges[:, np.lexsort(edges[::-1])])


def _size(values: NDArray[np.uint8]) -> tuple[int, NDArray[np.uint8]]:
    """The number of nodes, and what comes after it."""
    skipped, length = next(
        (case for case in ((2, 6), (1, 3)) if len(values) >= case[0] and (values[: case[0]] == HIGH - LOW).all()),
        (0, 1),
    )
    if len(values) < skipped + length:
        raise InputError("the line ends before its number of nodes is complete")
    digits = values[skipped : skipped + length].tolist()
    return sum(digit << BITS * k for k, digit in enumerate(reversed(digits))), values[skipped + length :]


@lru_cache(maxsize=16)
def _empty(num_nodes: int) -> Graph:
    """Nodes without edges: checking names and labels once a size is what makes a file of many graphs fast to read."""
    return replace(Graph.build([], num_nodes=num_nodes), notes=())
