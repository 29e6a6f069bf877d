"""Compressed tables are unpacked up to a limit and no further."""

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from dpmsnc import Graph, files
from dpmsnc.errors import InputError
from dpmsnc.graph.tables import read_table

LINES = 400_000


@pytest.fixture(autouse=True)
def low_limit(monkeypatch):
    """A limit that a test can pass without taking the memory of the true one."""
    monkeypatch.setattr(files, "SMALL_ARRAYS", 2**20)


def test_a_small_text_file_that_unpacks_to_much_is_refused_on_the_way(tmp_path):
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress(b"source,target\n" + b"a,b\n" * 20 * LINES, 9))
    tracemalloc.start()
    with pytest.raises(InputError, match=r"edges\.csv\.gz unpacks to more than 1,\d{3},\d{3} bytes.*gunzip"):
        Graph.from_tables(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 2**20 < 20 * 4 * LINES


def test_the_same_lines_are_read_where_they_are_not_compressed(tmp_path):
    (tmp_path / "edges.csv").write_bytes(b"source,target\n" + b"a,b\n" * LINES)
    assert len(read_table(tmp_path / "edges.csv", "edge", (), 2)) == LINES


def test_a_compressed_table_within_the_limit_is_read(tmp_path):
    (tmp_path / "edges.tsv.GZ").write_bytes(gzip.compress("\ufeffsource\ttarget\n01\té\n".encode()))
    assert read_table(tmp_path / "edges.tsv.GZ", "edge", (), 2).to_dict("list") == {"source": ["01"], "target": ["é"]}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": np.zeros(LINES, dtype=np.int64)}),
        pd.DataFrame({"id": ["a" * 1000] * 20_000}),
        pd.DataFrame({"id": [[1.0, 2.0]] * LINES}),
        pd.DataFrame({"id": [np.zeros(4 * LINES)]}),
        pd.DataFrame({"id": [["a" * 1000]] * 20_000}),
    ],
    ids=["numbers", "text", "lists", "one list", "lists of text"],
)
def test_a_small_parquet_file_that_unpacks_to_much_is_refused(tmp_path, frame):
    path = tmp_path / "nodes.parquet"
    frame.to_parquet(path)
    assert path.stat().st_size < 2**17
    with pytest.raises(InputError, match=r"nodes\.parquet unpacks to more than .*without compression"):
        read_table(path, "node", (), 1)
    frame.to_parquet(path, compression=None, use_dictionary=False)
    assert len(read_table(path, "node", (), 1)) == len(frame)


@pytest.mark.parametrize("cell", [{"a": "b"}, [[1.0]]], ids=["structure", "lists of lists"])
def test_cells_of_any_size_are_refused_before_they_are_unpacked(tmp_path, cell):
    pd.DataFrame({"id": [1], "parts": [cell]}).to_parquet(tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=r"the column 'parts' holds structures .* leave the column out"):
        read_table(tmp_path / "nodes.parquet", "node", (), 1)


def test_a_parquet_file_within_the_limit_is_read(tmp_path):
    frame = pd.DataFrame({"id": ["a", None, "b"], "x": [1.5, None, 2.0], "on": [True, False, True]})
    frame.to_parquet(tmp_path / "nodes.parquet")
    found = read_table(tmp_path / "nodes.parquet", "node", (), 1)
    pd.testing.assert_frame_equal(found, pd.read_parquet(tmp_path / "nodes.parquet"))
