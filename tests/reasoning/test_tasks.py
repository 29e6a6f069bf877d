"""The tasks of table 5: exact answers against scipy and networkx, streams, and what trivial rules score."""

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components, shortest_path

from dpmsnc.reasoning.tasks import PURPOSES, SIZES, TASKS, generator


@pytest.mark.parametrize("n", [1, 2, 3, 10, 15])
def test_distances_are_those_of_scipy_and_networkx(n):
    attributes, answers = TASKS["shortest_path"].draw(5, n, generator(0, "test", n))
    for a, y in zip(attributes.double().numpy(), answers.numpy()):
        np.testing.assert_allclose(y, shortest_path(a, directed=False), atol=1e-5)
        graph = nx.from_numpy_array(a)
        for i, lengths in nx.all_pairs_dijkstra_path_length(graph):
            np.testing.assert_allclose(y[i], [lengths[j] for j in range(n)], atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 9, 10, 15, 33])
def test_components_are_those_of_scipy_and_networkx(n):
    attributes, answers = TASKS["connected_components"].draw(5, n, generator(0, "test", n))
    for a, y in zip(attributes.numpy(), answers.numpy()):
        _, label = connected_components(a, directed=True, connection="weak")
        np.testing.assert_array_equal(y, label[:, None] == label[None])
        graph = nx.from_numpy_array(a, create_using=nx.DiGraph)
        for nodes in nx.weakly_connected_components(graph):
            assert set(np.flatnonzero(y[min(nodes)])) == nodes


def test_a_path_of_nodes_is_one_component():
    n = 40
    path = torch.diag(torch.ones(n - 1), 1).unsqueeze(0)
    assert TASKS["connected_components"].answer(path).all()


def test_attributes_are_as_the_authors_draw_them():
    draw = {name: task.draw(2000, 10, generator(0, "train"))[0] for name, task in TASKS.items()}
    copy, few, lengths = draw["edge_copy"], draw["connected_components"], draw["shortest_path"]
    assert copy.abs().max() <= 1 and abs(copy.var().item() - 1 / 3) < 0.01 and not torch.equal(copy, copy.mT)
    assert abs(few.mean().item() - 0.05) < 0.005 and few.diagonal(dim1=1, dim2=2).any() and not torch.equal(few, few.mT)
    assert torch.equal(lengths, lengths.mT) and not lengths.diagonal(dim1=1, dim2=2).any()
    apart = lengths[:, ~torch.eye(10, dtype=bool)]
    assert abs(apart.mean().item() - 1) < 0.01 and abs(apart.var().item() - 1 / 6) < 0.01


@pytest.mark.parametrize(
    "name, same, large",
    [("edge_copy", 0, 0), ("shortest_path", 0.0029, 0.0054)],
)
def test_trivial_rules_score_what_they_are_known_to(name, same, large):
    for n, expected in ((10, same), (15, large)):
        attributes, answers = TASKS[name].draw(2048, n, generator(0, "test", n))
        found = (TASKS[name].rule(attributes) - answers).square().mean().item()
        assert found == pytest.approx(expected, abs=3e-4)


def test_two_hops_are_a_part_of_the_component():
    attributes, answers = TASKS["connected_components"].draw(500, 10, generator(0, "test"))
    rule = TASKS["connected_components"].rule(attributes)
    assert (rule <= answers).all() and (rule < answers).any()
    longest = torch.diag(torch.ones(3), 1).unsqueeze(0)  # a path of three edges
    expected = [[1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]]
    assert TASKS["connected_components"].rule(longest)[0].tolist() == expected


def test_streams_differ_by_purpose_and_seed_and_are_repeatable():
    drawn = {
        (seed, purpose): torch.rand(4, generator=generator(seed, purpose)) for seed in (0, 1) for purpose in PURPOSES
    }
    values = [tuple(value.tolist()) for value in drawn.values()]
    assert len(set(values)) == 6
    assert torch.equal(drawn[0, "test"], torch.rand(4, generator=generator(0, "test")))
    assert not torch.equal(drawn[0, "test"], torch.rand(4, generator=generator(0, "test", 15)))


def test_mixed_graphs_come_by_size():
    groups = TASKS["edge_copy"].draw_mixed(900, generator(0, "train"))
    assert [a.shape[-1] for a, _ in groups] == list(SIZES) and sum(len(a) for a, _ in groups) == 900
    assert all(60 < len(a) < 140 for a, _ in groups)


def test_a_task_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="shortest_path"):
        TASKS.find("longest_path")
