import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.split import split_known


def path_graph(labels, **options):
    return Graph.build([(k, k + 1) for k in range(len(labels) - 1)], num_nodes=len(labels), y=labels, **options)


@given(
    st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=40).map(lambda rest: ["a", "a", *rest]),
    st.floats(0.01, 0.99),
    st.integers(0, 100),
)
def test_a_share_divides_the_known_nodes_class_by_class(labels, share, seed):
    graph = path_graph(labels)
    train, validation = split_known(graph, share, seed)
    assert train.dtype == validation.dtype == bool
    assert not (train & validation).any() and ((train | validation) == graph.known).all()
    assert validation.any()
    for k in range(graph.num_classes):
        size = (graph.y == k).sum()
        assert (train & (graph.y == k)).any()
        assert (validation & (graph.y == k)).sum() >= min(np.floor(share * size), size - 1)
    again = split_known(graph, share, seed)
    assert (again[0] == train).all() and (again[1] == validation).all()


def test_a_share_holds_back_that_many_even_where_each_class_alone_would_round_to_none():
    graph = path_graph(["a", "b", "c", "d", "e"] * 3)
    assert split_known(graph, 0.2, 0)[1].sum() == 3
    big = path_graph(["a"] * 100 + ["b"] * 20)
    validation = split_known(big, 0.25, 0)[1]
    assert [validation[:100].sum(), validation[100:].sum()] == [25, 5]


def test_seeds_differ():
    graph = path_graph(["a", "b"] * 50)
    assert (split_known(graph, 0.5, 0)[1] != split_known(graph, 0.5, 1)[1]).any()


def test_ids_masks_and_nothing():
    graph = path_graph(["a", "b", "a", None], ids=["p", "q", "r", "s"])
    expected = [False, True, True, False]
    for validation in (
        ["q", "r"],
        ("r", "q"),
        np.array(["q", "r"]),
        pd.Series(["q", "r"]),
        expected,
        np.array(expected),
        torch.tensor(expected),
        pd.Series(expected),
    ):
        train, held_back = split_known(graph, validation, 0)
        assert held_back.tolist() == expected and train.tolist() == [True, False, False, False]
    assert split_known(graph, "q", 0)[1].tolist() == [False, True, False, False]
    train, held_back = split_known(graph, None, 0)
    assert train.tolist() == graph.known.tolist() and not held_back.any()


def test_integers_are_ids_and_a_mask_given_is_not_changed():
    graph = Graph.build([(1, 0)], ids=[1, 0, 5], y=["a", "b", "a"])
    assert split_known(graph, [0, 1], 0)[1].tolist() == [True, True, False]
    mask = np.array([True, False, False])
    split_known(graph, mask, 0)[1][:] = True
    assert mask.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (0.0, "between 0 and 1"),
        (1, "between 0 and 1"),
        (-0.2, "between 0 and 1"),
        (float("nan"), "between 0 and 1"),
        (["s"], "validation node s has no known label"),
        ([False, False, False, True], "validation node s has no known label"),
        (["nobody"], "no node 'nobody'"),
        ([True, False], "one entry per node, 4"),
        ([], "names no node"),
        (["p", "q", "r"], "no known label is left to train on"),
    ],
)
def test_what_cannot_be_a_validation_set_is_refused(validation, message):
    graph = path_graph(["a", "b", "a", None], ids=["p", "q", "r", "s"])
    with pytest.raises(InputError, match=message):
        split_known(graph, validation, 0)


@pytest.mark.parametrize("wrap", [np.array, torch.tensor, list, pd.Series], ids=["array", "tensor", "list", "series"])
def test_zeros_and_ones_are_refused_with_the_two_things_they_could_mean(wrap):
    graph = path_graph(["a", "b", "a", "b"])
    with pytest.raises(
        InputError, match=r"if it is a mask, .*astype\(bool\).*names the nodes 0 and 1, .* distinct ids"
    ):
        split_known(graph, wrap([0, 1, 1, 0]), 0)


def test_zero_and_one_are_ids_in_a_list_but_not_in_an_array_as_long_as_the_graph():
    graph = Graph.build([(0, 1)], ids=[0, 1], y=["a", "b"])
    assert split_known(graph, [1], 0)[1].tolist() == [False, True]
    with pytest.raises(InputError, match="holds 0 and 1 alone"):
        split_known(graph, np.array([0, 1]), 0)
    assert split_known(path_graph(["a", "b", "a"]), np.array([0, 1]), 0)[1].tolist() == [True, True, False]


def test_a_node_listed_twice_is_refused():
    with pytest.raises(InputError, match="validation lists node 2 3 times; list every id once"):
        split_known(path_graph(["a", "b", "a"]), [0, 2, 2, 2], 0)


@pytest.mark.parametrize("validation", [object(), pd.DataFrame({"a": [1]}), np.array([[0, 1], [1, 2]])])
def test_a_wrong_type_is_refused(validation):
    with pytest.raises(InputError):
        split_known(path_graph(["a", "b", "a"]), validation, 0)


def test_a_share_in_a_tensor_or_array_is_a_share():
    graph = path_graph(["a", "b"] * 5)
    for share in (torch.tensor(0.5), np.array(0.5), np.float32(0.5)):
        assert (split_known(graph, share, 3)[1] == split_known(graph, 0.5, 3)[1]).all()


@pytest.mark.parametrize("target, y", [("tags", [{"a"}, {"b"}, None, {"a", "b"}, ()]), ("value", [1, 2, None, 3, 4])])
def test_a_share_of_tags_or_numbers_is_drawn_from_the_known_ones(target, y):
    graph = path_graph(y, kind=target)
    train, held_back = split_known(graph, 0.5, 0)
    assert train.sum() == held_back.sum() == 2 and ((train | held_back) == graph.known).all()


def test_labels_too_few_to_share_are_refused():
    with pytest.raises(InputError, match="no class has two known labels"):
        split_known(path_graph(["a", "b", None]), 0.5, 0)
    with pytest.raises(InputError, match="no known label is left"):
        split_known(path_graph([None, None]), None, 0)
