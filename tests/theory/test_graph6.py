import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmsnc.errors import InputError
from dpmsnc.theory import graph6
from dpmsnc.theory.graph6 import parse_graph6, read_graph6


def as_networkx(graph):
    there = nx.empty_graph(graph.num_nodes)
    there.add_edges_from(graph.edge_index.T.tolist())
    return there


@given(st.integers(1, 70), st.floats(0, 1), st.integers(0, 100))
def test_what_networkx_writes_is_read(num_nodes, density, seed):
    written = nx.gnp_random_graph(num_nodes, density, seed=seed)
    read = parse_graph6(nx.to_graph6_bytes(written, header=bool(seed % 2)).strip())
    assert nx.utils.graphs_equal(as_networkx(read), written)
    assert (read.edge_index[0] < read.edge_index[1]).all()
    assert (np.lexsort(read.edge_index[::-1]) == np.arange(read.num_edges)).all()


@pytest.mark.parametrize("line", ["~??~", "~~?????@"])
def test_long_forms_of_the_number_of_nodes(line):
    num_nodes = 63 if line == "~??~" else 1
    pairs = num_nodes * (num_nodes - 1) // 2
    assert parse_graph6(line + "?" * -(-pairs // 6)).num_nodes == num_nodes


@pytest.mark.parametrize(
    "line, says",
    [
        ("B", "takes 1 characters after its size, not 0"),
        ("Bww", "takes 1 characters after its size, not 2"),
        ("B~", "not 0; the line is damaged"),
        ("B w", "character 2 is b' '"),
        ("Bé", "only"),
        ("~", "ends before its number of nodes"),
        ("~~??", "ends before its number of nodes"),
        ("~~~~~~~~", "takes .* characters after its size, not 0"),
        ("", "ends before its number of nodes"),
        ("?", "without nodes"),
        (":An", "sparse6"),
        ("&AG", "digraph6"),
    ],
)
def test_malformed_lines_are_named(line, says, tmp_path):
    with pytest.raises(InputError, match=says):
        parse_graph6(line)
    path = tmp_path / "graphs.g6"
    path.write_text(f"Bw\n\n{line}\nBw\n")
    if line:
        with pytest.raises(InputError, match=rf"graphs.g6, line 3: .*{says}"):
            read_graph6(path)


def test_files(tmp_path, monkeypatch):
    path = tmp_path / "graphs.g6"
    path.write_bytes(b">>graph6<<Bw\r\n\nB?\n")
    assert [graph.num_edges for graph in read_graph6(path)] == [3, 0]
    with pytest.raises(InputError, match="cannot read"):
        read_graph6(tmp_path / "missing.g6")
    with pytest.raises(InputError, match="cannot read"):
        read_graph6(tmp_path)
    path.write_text("\n")
    with pytest.raises(InputError, match="no graph"):
        read_graph6(path)
    monkeypatch.setattr(graph6, "LARGEST_FILE", 5)
    path.write_text("Bw\nBw\n")
    with pytest.raises(InputError, match="larger than 5 bytes"):
        read_graph6(path)


def test_graphs_of_one_size_share_nothing_that_changes():
    first, second = parse_graph6("Bw"), parse_graph6("B?")
    first.cached("made", lambda: 1)
    assert second.cached("made", lambda: 2) == 2 and second.num_edges == 0
