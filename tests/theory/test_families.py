"""Known pairs of graphs: what 1-WL leaves equal, and what AGG-WL makes of it."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from attributed_graphs import relabelled, same_partition
from dpmsnc.data.benchmarks import data_folder
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.theory import families
from dpmsnc.theory.families import (
    CSL41_SKIPS,
    FILES,
    Counts,
    Family,
    classes,
    csl,
    csl_pairs,
    cycle,
    equal_pairs,
    rook_and_shrikhande,
    six_node_pair,
    stored,
    two_triangles,
)
from dpmsnc.theory.graph6 import read_graph6
from dpmsnc.theory.wl import (
    TOKEN,
    Union,
    agg_wl_colours,
    agg_wl_round,
    single_marks,
    subset_marks,
    wl_colours,
    wl_round,
)

FOLDER = data_folder() / "expressiveness"
needs_files = pytest.mark.skipif(
    not all((FOLDER / file).is_file() for file in FILES), reason="the graph6 files are not in the folder DPMSNC_DATA"
)
BREC = {
    "brec_basic.g6": (60, 60),
    "brec_regular.g6": (50, 50),
    "brec_str.g6": (50, 0),
    "brec_extension.g6": (100, 100),
    "brec_cfi.g6": (100, 41),
    "brec_4vtx.g6": (20, 0),
    "brec_dr.g6": (20, 0),
}
"""Pairs, and how many of them one mark separates."""


def as_networkx(graph):
    there = nx.empty_graph(graph.num_nodes)
    there.add_edges_from(graph.edge_index.T.tolist())
    return there


def networkx_colour(graph, marks=None):
    """A hash of the graph; labels have one width, since networkx joins them without separators."""
    there = as_networkx(graph)
    labels = np.full(graph.num_nodes, TOKEN) if marks is None else marks
    nx.set_node_attributes(there, {v: str(label + 1) for v, label in enumerate(labels)}, "z")
    return nx.weisfeiler_lehman_graph_hash(there, node_attr="z", iterations=graph.num_nodes)


def networkx_agg_colour(graph):
    return sorted(networkx_colour(graph, marks) for marks in [None, *single_marks(graph.num_nodes)])


@pytest.fixture(scope="module")
def graph8c():
    return read_graph6(FOLDER / "graph8c.g6")


def test_c6_and_two_triangles():
    assert wl_round(cycle(6), two_triangles()) is None
    assert agg_wl_round(cycle(6), two_triangles()) == 2  # distance 2 from the mark: there is none in a triangle


def test_lemma_3_the_six_node_pair():
    pair = six_node_pair()
    assert [graph.num_edges for graph in pair] == [7, 7]
    *_, stable = Union(pair).rounds()
    assert all(sorted(np.bincount(found[0]).tolist()) == [2, 4] for found in Union(pair).split(stable))
    assert wl_round(*pair) is None
    assert agg_wl_round(*pair) is not None


def test_lemma_3_no_mark_on_a_looks_like_any_mark_on_b():
    union = Union(six_node_pair(), single_marks)
    *_, stable = union.rounds()
    a, b = np.split(union.copy_colours(stable), 2)
    assert a[0] == b[0] and not set(a[1:]) & set(b[1:])
    assert sorted(np.bincount(a[1:])[np.unique(a[1:])]) == sorted(np.bincount(b[1:])[np.unique(b[1:])]) == [2, 4]


@pytest.mark.parametrize("num_nodes", range(8, 26))
def test_lemma_4_circular_skip_links(num_nodes):
    pairs = csl_pairs(num_nodes)
    assert len(pairs) == num_nodes // 2 - 3
    for pair in pairs:
        assert all(graph.num_edges == 2 * num_nodes for graph in pair)
        assert wl_round(*pair) is None
        assert agg_wl_round(*pair) == 2


@pytest.mark.parametrize("num_nodes", [9, 11, 25])
def test_the_range_of_lemma_4_cannot_be_wider(num_nodes):
    """For odd n, doubling all numbers turns CSL(n, (n - 1) / 2) into CSL(n, 2)."""
    last = csl(num_nodes, (num_nodes - 1) // 2)
    doubled = relabelled(last, 2 * np.arange(num_nodes) % num_nodes)
    assert (doubled.edge_index == csl(num_nodes, 2).edge_index).all()
    assert agg_wl_round(last, csl(num_nodes, 2)) is None


def test_csl_41_into_ten_classes():
    """The benchmark: copies of ten graphs with shuffled nodes."""
    rng = np.random.default_rng(0)
    graphs = [relabelled(csl(41, skip), rng.permutation(41)) for skip in CSL41_SKIPS for _ in range(3)]
    assert len(set(wl_colours(graphs).tolist())) == 1
    assert same_partition(agg_wl_colours(graphs).tolist(), np.repeat(np.arange(10), 3).tolist())


def test_rook_and_shrikhande_are_what_their_names_say():
    rook, shrikhande = rook_and_shrikhande()
    assert nx.is_isomorphic(as_networkx(rook), nx.line_graph(nx.complete_bipartite_graph(4, 4)))
    for graph in (rook, shrikhande):
        assert nx.is_strongly_regular(as_networkx(graph)) and graph.num_edges == 48
    neighbourhoods = [
        sorted(len(part) for part in nx.connected_components(there.subgraph(there[0])))
        for there in map(as_networkx, (rook, shrikhande))
    ]
    assert neighbourhoods == [[3, 3], [6]]  # two triangles, and a hexagon


def test_rook_and_shrikhande_need_two_marks():
    pair = rook_and_shrikhande()
    assert wl_round(*pair) is None and agg_wl_round(*pair) is None
    assert agg_wl_round(*pair, subset_marks(2)) is not None


@needs_files
def test_graph8c(graph8c):
    assert len(graph8c) == 11117
    assert equal_pairs(wl_colours(graph8c)) == 312
    assert equal_pairs(agg_wl_colours(graph8c)) == 0


@needs_files
def test_classes_are_those_of_all_graphs_at_once(graph8c):
    part = graph8c[::5]
    plain, augmented = classes(part)
    assert (plain == wl_colours(part)).all()
    assert same_partition(augmented.tolist(), agg_wl_colours(part).tolist())
    twice = [*part[:40], *part[:40]]
    assert equal_pairs(classes(twice)[1]) == 40


@needs_files
def test_networkx_agrees_on_graph8c(graph8c):
    plain = wl_colours(graph8c)
    alike = [np.flatnonzero(plain == colour) for colour in np.flatnonzero(np.bincount(plain) > 1)]
    for members in alike[::12]:
        graphs = [graph8c[i] for i in members]
        hashes = {networkx_colour(graph) for graph in graphs}
        assert len(hashes) == 1
        assert len({tuple(networkx_agg_colour(graph)) for graph in graphs}) == len(graphs)
    spread = [networkx_colour(graph) for graph in graph8c[::60]]
    assert same_partition(plain[::60].tolist(), spread)


@needs_files
def test_brec():
    for file, (pairs, separated) in BREC.items():
        family = Family(file, read_graph6(FOLDER / file), "consecutive")
        assert family.count() == Counts(pairs, wl_equal=pairs, agg_wl_equal=pairs - separated), file
    assert sum(pairs for pairs, _ in BREC.values()) == 400 and sum(found for _, found in BREC.values()) == 251


@needs_files
@pytest.mark.parametrize("file", BREC)
def test_networkx_agrees_on_brec(file):
    graphs = read_graph6(FOLDER / file)
    small = [pair for pair in zip(graphs[::2], graphs[1::2]) if pair[0].num_nodes <= 40]
    for first, second in small[:: max(1, len(small) // 3)][:3]:
        equal = networkx_agg_colour(first) == networkx_agg_colour(second)
        assert equal == (agg_wl_round(first, second) is None)


@needs_files
def test_sr25_needs_two_marks():
    family = Family("SR25", read_graph6(FOLDER / "sr25.g6"))
    assert family.count() == Counts(105, 105, 105)
    assert family.count(subset_marks(2)) == Counts(105, 105, 0)


@needs_files
@pytest.mark.slow
@pytest.mark.parametrize("file, separated", [("brec_str.g6", 50), ("brec_4vtx.g6", 20), ("brec_dr.g6", 18)])
def test_two_marks_on_the_regular_parts_of_brec(file, separated):
    counts = Family(file, read_graph6(FOLDER / file), "consecutive").count(subset_marks(2))
    assert counts.pairs - counts.agg_wl_equal == separated


def test_pairs_and_counts():
    graphs = [cycle(6), two_triangles(), cycle(5), relabelled(cycle(6), [3, 1, 4, 0, 5, 2])]
    assert list(Family("f", graphs).pairs()) == list(combinations(range(4), 2))
    assert Family("f", graphs).count() == Counts(pairs=6, wl_equal=3, agg_wl_equal=1)
    assert list(Family("f", graphs, "consecutive").pairs()) == [(0, 1), (2, 3)]
    assert Family("f", graphs, "consecutive").count() == Counts(pairs=2, wl_equal=1, agg_wl_equal=0)
    assert Family("f", graphs).largest == 6


def test_families_that_cannot_be_compared():
    with pytest.raises(InputError, match="even number"):
        Family("f", [cycle(3)] * 3, "consecutive")
    with pytest.raises(InputError, match="at least two"):
        Family("f", [cycle(3)])
    with pytest.raises(InputError, match="at least 3"):
        cycle(2)
    for skip in (1, 7, 8):
        with pytest.raises(InputError, match="skip"):
            csl(8, skip)


def test_what_1wl_separates_is_not_marked(monkeypatch):
    monkeypatch.setattr(families, "agg_wl_round", lambda *_: pytest.fail("marked"))
    monkeypatch.setattr(families, "agg_wl_colours", lambda *_: pytest.fail("marked"))
    for pairing in ("all", "consecutive"):
        assert Family("f", [cycle(5), cycle(6)], pairing).count() == Counts(1, 0, 0)


def test_stored_families_name_what_is_missing(tmp_path):
    (tmp_path / "sr25.g6").write_text("Bw\nB?\n")
    found, missing = stored(tmp_path)
    assert [family.name for family in found] == ["SR25"] and set(missing) == FILES.keys() - {"sr25.g6"}
    assert isinstance(found[0].graphs[0], Graph)
