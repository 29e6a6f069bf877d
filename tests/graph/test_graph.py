import subprocess
import sys
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.edges import MOST_NODES
from dpmsnc.nn.operator import GraphTensors


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 8))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    labels = draw(st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n))
    return n, edges, labels, draw(st.permutations(range(n)))


@given(graphs())
def test_edges_are_unique_ordered_and_exactly_those_given(case):
    n, edges, labels, _ = case
    graph = Graph.build(edges, num_nodes=n, y=labels)
    i, j = graph.edge_index
    assert (i < j).all()
    assert sorted(zip(i.tolist(), j.tolist())) == sorted({(min(e), max(e)) for e in edges if e[0] != e[1]})
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert graph.adjacency.max() <= 1


@given(graphs())
def test_permuting_the_node_rows_permutes_the_result(case):
    n, edges, labels, order = case
    x = np.arange(2 * n).reshape(n, 2)
    graph = Graph.build(edges, ids=list(range(n)), x=x, y=labels)
    shuffled = Graph.build(edges, ids=list(order), x=x[list(order)], y=[labels[k] for k in order])
    at = shuffled.index(range(n))
    assert (shuffled.x[at] == graph.x).all() and (shuffled.y[at] == graph.y).all()
    assert shuffled.classes == graph.classes
    assert (shuffled.adjacency.toarray()[np.ix_(at, at)] == graph.adjacency.toarray()).all()


def test_two_by_two_array_is_two_rows_and_a_list_is_pairs():
    assert Graph.build(np.array([[0, 2], [1, 3]])).edge_index.T.tolist() == [[0, 1], [2, 3]]
    assert Graph.build([[0, 2], [1, 3]]).edge_index.T.tolist() == [[0, 2], [1, 3]]
    assert Graph.build(np.array([[0, 1], [1, 2], [2, 3]])).edge_index.T.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_integer_edges_are_ids_where_ids_are_integers_and_positions_where_they_are_text():
    assert Graph.build([(30, 10)], ids=[10, 20, 30]).edge_index.T.tolist() == [[0, 2]]
    assert Graph.build([(1, 0)], ids=[2, 1, 0]).edge_index.T.tolist() == [[1, 2]]
    assert Graph.build([(0, 2)], ids=["a", "b", "c"]).edge_index.T.tolist() == [[0, 2]]


def test_tuples_can_be_node_ids():
    graph = Graph.build([((0, 0), (0, 1)), ((0, 1), (1, 1))])
    assert graph.ids.tolist() == [(0, 0), (0, 1), (1, 1)]
    assert graph.index([(1, 1)]).tolist() == [2]


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, "", "  "], ids=lambda v: repr(v)
)
def test_every_kind_of_missing_label_is_unknown(missing):
    graph = Graph.build([(0, 1)], y=["a", missing])
    assert graph.classes == ("a",) and graph.y.tolist() == [0, -1]


def test_minus_one_is_unknown_among_whole_numbers_unless_it_is_a_class():
    assert Graph.build([(0, 1)], y=np.array([3, -1])).classes == (3,)
    assert Graph.build([(0, 1)], y=[2.0, float("nan")]).classes == (2,)
    plus_minus = Graph.build([(0, 1)], y=[1, -1], classes=[-1, 1])
    assert plus_minus.y.tolist() == [1, 0]
    assert plus_minus.encode([-1, None]).tolist() == [0, -1]


def test_classes_keep_the_order_given_and_integers_can_point_into_them():
    assert Graph.build([(0, 1)], y=["a", "c"], classes=["c", "b", "a"]).y.tolist() == [2, 0]
    assert Graph.build([(0, 1)], y=np.array([1, -1]), classes=["no", "yes"]).y.tolist() == [1, -1]


def test_cleaning_is_noted_with_counts():
    graph = Graph.build([(0, 0), (0, 1), (0, 1), (1, 0), (1, 2)], num_nodes=6)
    assert graph.notes == (
        "1 self-loop removed",
        "1 duplicate edge removed",
        "directions ignored: 1 edge listed in one direction, 1 in both",
        "3 isolated nodes: predicted from their own features alone",
    )
    assert Graph.build([(0, 1), (2, 3)]).notes == (
        "2 connected components: known labels do not reach from one to another",
    )


def test_every_edge_listed_in_both_directions_is_no_news():
    assert Graph.build([(0, 1), (1, 0), (1, 2), (2, 1)]).notes == ()


def test_features_keep_their_kind_and_the_caller_keeps_theirs():
    sparse = sp.csr_matrix(np.array([[0, 2], [0, 0]], dtype=np.float32))
    graph = Graph.build([(0, 1)], x=sparse)
    graph.x.data[:] = 7
    assert isinstance(graph.x, sp.csr_array) and sparse.data.tolist() == [2]
    dense = np.zeros((2, 3), dtype=np.float32)
    assert not np.shares_memory(Graph.build([(0, 1)], x=dense).x, dense)


def test_the_columns_of_a_table_name_the_features():
    x = pd.DataFrame({"age": [1, 2], "size": [3.0, 4.0]})
    graph = Graph.build([(0, 1)], x=x, y=pd.DataFrame({"label": ["a", None]}))
    assert (
        graph.feature_names == ("age", "size") and graph.x.tolist() == [[1, 3], [2, 4]] and graph.y.tolist() == [0, -1]
    )


NAN = [[0.0, 1.0], [2.0, float("nan")]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": []}, "empty: pass at least one edge"),
        ({"edges": [(0, 1)], "x": NAN}, "column 1 of node 1 is NaN or infinite; fill"),
        ({"edges": [("a", "b")], "ids": ["a", "b"], "x": sp.csr_array(NAN)}, "column 1 of node 'b' is NaN or infinite"),
        ({"edges": [(0, 1)], "x": [[1e300], [0]]}, "column 0 of node 0 is NaN or infinite"),
        ({"edges": [(0, 1)], "num_nodes": 2, "x": np.ones((3, 1))}, "3 rows for 2 nodes; pass one row per node"),
        ({"edges": [(0, 1)], "x": np.ones(2)}, r"x.reshape\(-1, 1\)"),
        ({"edges": [(0, 1)], "x": [["tall"], ["short"]]}, "array of numbers"),
        ({"edges": [(0, 1), (1, 5)], "num_nodes": 2}, r"edge 1 \(1, 5\) names node 5, .* add that node"),
        ({"edges": [(0, -1)], "num_nodes": 2}, "names node -1"),
        ({"edges": [("a", "zz")], "ids": ["a", "b"]}, "names node 'zz'"),
        ({"edges": [(0, 1)], "y": ["a", "q"], "classes": ["a"]}, "outside the classes: 'q'; the classes are 'a'"),
        ({"edges": [(0, 1)], "y": [0, 7], "classes": ["a", "b"]}, "outside the classes: .*7"),
        ({"edges": [(0, 1)], "y": ["a"], "num_nodes": 2}, "1 labels for 2 nodes"),
        ({"edges": [(0, 1)], "y": np.eye(2)}, "one label per node"),
        ({"edges": [(0, 1)], "y": [["a"], ["b"]]}, "single value"),
        ({"edges": [(0, 1)], "classes": ["a", "a"]}, "listed twice"),
        ({"edges": [("a", "b")], "ids": ["a", "b", "a"]}, "'a' occurs more than once; keep one"),
        ({"edges": [("a", "b")], "y": ["u", "v"]}, "pass ids="),
        ({"edges": [(0, 1)], "ids": ["a", "b"], "num_nodes": 3}, "leave num_nodes out"),
        ({"edges": [[0, 1, 2], [1, 2, 3]]}, "2 x E numpy array"),
        ({"edges": np.ones((3, 4))}, r"shape \(3, 4\)"),
        ({"edges": pd.DataFrame({"s": [0], "t": [1]})}, "type DataFrame; .* read by Graph.from_tables"),
        ({"edges": "edges.csv"}, "type str; .* read by Graph.from_tables"),
        ({"edges": sp.eye_array(2)}, "read by Graph.from_scipy"),
        ({"edges": nx.path_graph(2)}, "read by Graph.from_networkx"),
        ({"edges": None}, "type NoneType; pass a list of"),
        ({"edges": {0: 1}}, "type dict; pass a list of"),
        ({"edges": Graph.build([(0, 1)])}, "type Graph; pass a list of"),
        ({"edges": [("a", None)]}, "an end of edge 0 is missing"),
        ({"edges": [(["a"], "b")]}, r"an end of edge 0 is \['a'\]; a node is called by"),
        ({"edges": [("a", "b")], "ids": ["a", "b", None]}, "id 2 is missing"),
        ({"edges": [(0, 1)], "x": 5}, "x is 5; pass a sequence"),
        ({"edges": [(0, 1)], "y": "ab"}, "y is 'ab'; pass a sequence"),
        ({"edges": [("a", "b")], "ids": "ab"}, "ids is 'ab'; pass a sequence"),
        ({"edges": [(0, 1)], "y": ["a", "b"], "classes": "ab"}, "classes is 'ab'; pass a sequence"),
        ({"edges": [(0, 1)], "y": [1, 2], "classes": [1], "kind": "value"}, "has none; leave it out"),
        ({"edges": [(0, 1)], "y": [[1, 0], [0, 1]], "kind": "tags"}, r"lists of 0 and 1: pass a matrix"),
        ({"edges": np.array([[0, 1], [1, np.nan], [1, 2]])}, "an end of edge 1 is missing"),
        ({"edges": [(0, 1)], "num_nodes": 2.5}, "num_nodes is 2.5; pass a whole number"),
        ({"edges": [(0, 1)], "kind": "tag"}, "unknown kind of target 'tag'; there are class"),
        ({"edges": [(0, 1)], "kind": ["class"]}, "unknown kind of target"),
        ({"edges": [(0, 1)], "x": np.eye(2), "feature_names": ["a"]}, "1 feature names for 2 features"),
        ({"edges": [(0, 1)], "edge_attr": [[1, 2]], "edge_feature_names": ["a"]}, "one per column of edge_attr"),
        ({"edges": [(0, 10**10)]}, "more than the 3,037,000,499 .* pass these as ids="),
        ({"edges": [(0, 1)], "num_nodes": 2**62}, "more than the 3,037,000,499"),
    ],
)
def test_what_cannot_be_used_is_said_with_what_to_do(arguments, message):
    with pytest.raises(InputError, match=message):
        Graph.build(**arguments)


def test_a_graph_without_labels_exists_but_cannot_train():
    with pytest.raises(InputError, match=r"no node has a known label.*graph.reveal"):
        Graph.build([(0, 1)]).check_trainable()
    with pytest.raises(InputError, match=r"every known label is 'a'; label at least one node of another class"):
        Graph.build([(0, 1)], y=["a", None], classes=["a", "b"]).check_trainable()
    Graph.build([(0, 1)], y=["a", "b"]).check_trainable()


def test_index_names_the_unknown_id_and_hints_at_text():
    graph = Graph.build([("7", "8")])
    assert graph.index(["8", "7"]).tolist() == [1, 0] and graph.index("8").tolist() == [1]
    with pytest.raises(InputError, match="no node 'x'"):
        graph.index(["7", "x"])
    with pytest.raises(InputError, match=r"no node 7 .*did you mean '7'"):
        graph.index([7])


def test_encode_and_decode_are_inverse_and_refuse_strangers():
    graph = Graph.build([(0, 1)], y=["red", "blue"])
    names = np.array([["red", None], ["blue", "red"]], dtype=object)
    indices = np.array([[1, -1], [0, 1]])
    assert (graph.decode(indices) == names).all()
    assert graph.encode(names.ravel()).tolist() == indices.ravel().tolist()
    with pytest.raises(InputError, match="'green'"):
        graph.encode(["red", "green"])
    with pytest.raises(InputError, match="from 0 to 1"):
        graph.decode([2])


@pytest.mark.parametrize(
    "known", [{"c": "v"}, pd.Series({"c": "v", "a": None}), ["u", None, "v"], {"c": "v", "b": float("nan")}]
)
def test_reveal_adds_labels_and_leaves_the_graph_as_it_was(known):
    graph = Graph.build([("a", "b"), ("b", "c")], ids=["a", "b", "c"], y=["u", None, None], classes=["u", "v"])
    assert graph.reveal(known).y.tolist() == [0, -1, 1]
    assert graph.y.tolist() == [0, -1, -1]


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"z": "u"}, "no node 'z'"),
        ({"a": "q"}, "outside the classes: 'q'"),
        (["u"], "one label per node"),
        (pd.Series(["u", "v"], index=["a", "a"]), "listed twice"),
    ],
)
def test_reveal_refuses_what_it_cannot_place(known, message):
    graph = Graph.build([("a", "b"), ("b", "c")], ids=["a", "b", "c"], y=["u", "v", None])
    with pytest.raises(InputError, match=message):
        graph.reveal(known)


@settings(max_examples=40)
@given(graphs())
def test_summary_agrees_with_networkx(case):
    n, edges, labels, _ = case
    reference = nx.Graph(e for e in edges if e[0] != e[1])
    reference.add_nodes_from(range(n))
    summary = Graph.build(edges, num_nodes=n, y=labels).summary()
    both = [(labels[i], labels[j]) for i, j in reference.edges if labels[i] and labels[j]]
    assert summary.num_components == nx.number_connected_components(reference)
    assert summary.num_isolated == nx.number_of_isolates(reference)
    assert summary.num_unknown == labels.count(None)
    assert summary.class_counts == {name: labels.count(name) for name in ("a", "b") if name in labels}
    if both:
        assert summary.homophily == pytest.approx(np.mean([a == b for a, b in both]))
    else:
        assert summary.homophily is None


def test_summary_reads_well_and_states_memory():
    graph = Graph.build([(0, 0), (0, 1), (1, 2)], x=np.eye(3), y=["a", "a", None])
    summary = graph.summary(hidden_channels=1000, num_layers=3, draws=5)
    assert summary.memory_mb == pytest.approx((4 * 3 * 5 * 1000 * 3 * 6 + 36) / 1e6)
    assert str(summary).splitlines() == [
        "Graph",
        "  nodes       3",
        "  edges       2",
        "  features    3 (33.3% non-zero)",
        "  labels      2 known, 1 unknown",
        "  classes     a (2)",
        "  homophily   1.00 over 1 edges with both labels known",
        "  components  1 (0 isolated nodes)",
        "  memory      about 1 MB to fit",
        "  note        1 self-loop removed",
    ]


def test_importing_the_graph_imports_nothing_heavy():
    heavy = "{'torch', 'pandas', 'networkx', 'pyarrow', 'torch_geometric'}"
    code = f"import sys, dpmsnc.graph, dpmsnc.graph.readers, dpmsnc.graph.split; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_nodes_than_can_be_numbered_are_refused_without_being_made():
    assert MOST_NODES**2 <= 2**63 < (MOST_NODES + 1) ** 2
    with pytest.raises(InputError, match="more than the"):
        Graph.from_scipy(sp.coo_array((MOST_NODES + 1, MOST_NODES + 1)))


def test_ids_that_are_large_numbers_are_names():
    assert Graph.build([(10**15, 10**18)], ids=[10**18, 10**15]).edge_index.T.tolist() == [[0, 1]]


def test_a_copy_with_other_features_does_not_remember_the_old_ones():
    graph = Graph.build([(0, 1)], x=np.eye(2, dtype=np.float32), y=[0, None])
    before = GraphTensors.of(graph).x
    other = replace(graph, x=np.ones((2, 2), dtype=np.float32))
    assert not torch.equal(GraphTensors.of(other).x, before)
    assert GraphTensors.of(graph.with_labels(graph.y)).x is before


def test_notebooks_show_the_summary_with_names_escaped():
    graph = Graph.build([(0, 1)], num_nodes=2, y=["<b>", "a & b"])
    shown = graph._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown and "a &amp; b" in shown
    assert shown.startswith("<pre>") and shown.count("\n") == str(graph.summary()).count("\n")
