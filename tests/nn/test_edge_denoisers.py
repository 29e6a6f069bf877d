"""Denoisers of edge labels: the same on blocks and lists, and blind to the order of nodes."""

import numpy as np
import pytest
import torch

from dpmsnc.diffusion.known import Known
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.nn.edges import EDGE_DENOISERS, tensors
from dpmsnc.nn.edges.tensors import Complete, EdgeTensors, Listed
from edge_graphs import complete_groups, listed_tensors

NAMES = ("gine", "triples", "ends", "recurrent", "lstm")


def network(name, node_channels=0, edge_channels=1, shows_known=False, **options):
    torch.manual_seed(0)
    made = EDGE_DENOISERS[name](node_channels, edge_channels, 1, hidden_channels=8, shows_known=shows_known, **options)
    return made.double()


def fields(rows, batch=3, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, batch, 1, generator=generator, dtype=torch.double)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_lists_of_edges_agree_in_answers_and_gradients(name):
    groups = [group.double() for group in complete_groups(((2, 3), (1, 6)), channels=2)]
    answers = []
    for graph in (EdgeTensors.complete(groups), listed_tensors(groups)):
        denoiser = network(name, edge_channels=2, num_layers=2)
        y_t = fields(graph.num_rows).requires_grad_()
        output = denoiser(y_t, 7, denoiser.encode(graph))
        output.square().sum().backward()
        gradients = [parameter.grad for parameter in denoiser.parameters() if parameter.grad is not None]
        with torch.no_grad():
            still = denoiser(y_t, 7, denoiser.precompute(graph, 10))
        answers.append([output.detach(), y_t.grad, still, *gradients])
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(answers[0][0], answers[0][2])


def sparse_graph(seed=0, n=9, directed=True, x=True):
    rng = np.random.default_rng(seed)
    edges = np.argwhere(rng.random((n, n)) < 0.3)
    features = rng.normal(size=(n, 3)).astype(np.float32) if x else None
    return Graph.build(edges, num_nodes=n, x=features, edge_attr=rng.normal(size=(len(edges), 2)), directed=directed)


def renamed(graph, order):
    """The same graph with node `order[i]` in the place of i, and where its edges went."""
    place = np.argsort(order)
    edges = place[graph.edge_index]
    if not graph.directed:
        edges = np.sort(edges, axis=0)
    row = np.lexsort(edges[::-1])
    made = Graph.build(
        edges[:, row].T,
        num_nodes=graph.num_nodes,
        x=graph.x[order],
        edge_attr=graph.edge_attr[row],
        directed=graph.directed,
    )
    return made, torch.from_numpy(row)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_permuting_nodes_permutes_the_answer(name, directed):
    graph = sparse_graph(directed=directed)
    other, row = renamed(graph, np.random.default_rng(1).permutation(graph.num_nodes))
    denoiser, features = network(name, 3, 2).float(), Features.fit(graph, "raw")
    y_t = fields(graph.num_edges).float()
    answer = denoiser(y_t, 5, denoiser.encode(EdgeTensors.of(graph, features)))
    permuted = denoiser(y_t[row], 5, denoiser.encode(EdgeTensors.of(other, features)))
    torch.testing.assert_close(permuted, answer[row], atol=1e-5, rtol=1e-4)
    assert answer.shape == y_t.shape


@pytest.mark.parametrize("name", NAMES)
def test_permuting_the_nodes_of_a_complete_graph_permutes_the_answer(name):
    (group,) = complete_groups(((2, 5),))
    order = torch.tensor([3, 1, 4, 0, 2])
    denoiser, y_t = network(name).float(), fields(50).float()
    answer = denoiser(y_t, 5, denoiser.encode(EdgeTensors.complete([group])))
    moved = group[:, order][:, :, order]
    y_moved = y_t.view(2, 5, 5, 3, 1)[:, order][:, :, order].reshape(50, 3, 1)
    permuted = denoiser(y_moved, 5, denoiser.encode(EdgeTensors.complete([moved])))
    expected = answer.view(2, 5, 5, 3, 1)[:, order][:, :, order].reshape(50, 3, 1)
    torch.testing.assert_close(permuted, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_answer_for_a_graph_does_not_depend_on_the_others(name):
    groups = [group.double() for group in complete_groups(((2, 4), (1, 30)))]
    denoiser = network(name, num_layers=2)
    together, alone = listed_tensors(groups), EdgeTensors.complete(groups[:1])
    y_t = fields(together.num_rows)
    of_all = denoiser(y_t, 5, denoiser.encode(together))
    of_one = denoiser(y_t[: alone.num_rows], 5, denoiser.encode(alone))
    torch.testing.assert_close(of_all[: alone.num_rows], of_one)


@pytest.mark.parametrize("name", NAMES)
def test_known_labels_are_read_and_hide_the_noise(name):
    graph = EdgeTensors.complete([group.double() for group in complete_groups(((1, 4),))])
    denoiser = network(name, shows_known=True)
    context, y_t = denoiser.encode(graph), fields(16)
    mask = torch.zeros(16, dtype=torch.bool)
    mask[3] = True
    known = Known.of(torch.full((16, 1), 2.0, dtype=torch.double), mask)
    noisier = y_t.clone()
    noisier[3] += 10
    first, second = (denoiser(y, 5, context, known) for y in (y_t, noisier))
    torch.testing.assert_close(first, second)
    assert not torch.allclose(first, denoiser(y_t, 5, context))


def test_rounds_grow_with_the_graph():
    denoiser = network("triples")
    sizes = {1: 4, 2: 4, 10: 4, 17: 4, 18: 5, 33: 5, 50: 6}
    assert denoiser.rounds(torch.tensor(list(sizes))).tolist() == list(sizes.values())


def test_rounds_vary_in_training_alone():
    graph, denoiser = EdgeTensors.complete(complete_groups(((1, 4),))), network("triples").float()
    y_t, context = fields(16).float(), denoiser.encode(graph)
    still = [denoiser(y_t, 5, context) for _ in range(2)]
    torch.testing.assert_close(*still, rtol=0, atol=0)
    source = torch.Generator().manual_seed(0)
    drawn = {denoiser(y_t, 5, context, generator=source).sum().item() for _ in range(12)}
    assert len(drawn) == 3 and still[0].sum().item() in drawn


def test_triples_of_a_list_are_all_there_are():
    graph = sparse_graph(n=12)
    source, target = (torch.from_numpy(ends.copy()) for ends in graph.edge_index)
    first, second, closing = Listed(source, target, 12).triples
    pairs = list(zip(source.tolist(), target.tolist()))
    expected = {
        (pairs.index((i, k)), pairs.index((k, j)), pairs.index((i, j)))
        for i, k in pairs
        for start, j in pairs
        if start == k and (i, j) in pairs
    }
    assert set(zip(first.tolist(), second.tolist(), closing.tolist())) == expected and len(first) == len(expected)


def test_too_many_paths_are_refused(monkeypatch):
    monkeypatch.setattr(tensors, "MOST_PATHS", 10)
    part = listed_tensors(complete_groups(((1, 4),))).part
    with pytest.raises(InputError, match="gine"):
        part.triple_max(torch.zeros(16, 1, 1), torch.zeros(16, 1, 1))


def listed(seed=0):
    source, target = (torch.rand(20, 20, generator=torch.Generator().manual_seed(seed)) < 0.4).nonzero(as_tuple=True)
    return Listed(source, target, 21)


def test_triples_found_a_few_at_a_time_are_the_same_in_the_same_order(monkeypatch):
    expected = listed().triples
    for paths in (1, 7, 100):
        monkeypatch.setattr(tensors, "PATHS_AT_A_TIME", paths)
        assert all(torch.equal(a, b) for a, b in zip(listed().triples, expected))
    assert [len(rows) for rows in Listed(*torch.zeros(2, 0, dtype=torch.long), 3).triples] == [0, 0, 0]


def test_triples_worked_on_in_parts_give_the_same_numbers_gradients_and_take_less_memory(monkeypatch):
    part, generator = listed(), torch.Generator().manual_seed(1)
    a, b = (torch.randn(part.num_rows, 2, 3, generator=generator).round(decimals=1) for _ in range(2))
    kept = []

    def found():
        kept.append(0)
        leaves = [each.clone().requires_grad_() for each in (a, b)]
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x: (kept.append(kept.pop() + x.numel()), x)[1], lambda x: x
        ):
            best = part.triple_max(*leaves)
        best.square().sum().backward()
        with torch.no_grad():
            return [best.detach(), part.triple_max(a, b), *(leaf.grad for leaf in leaves)]

    expected = found()
    assert torch.equal(expected[0], expected[1]) and (expected[0] == 0).any()
    for name in ("ENTRIES_AT_A_TIME", "MOST_KEPT"):
        monkeypatch.setattr(tensors, name, 50)
    assert all(torch.equal(x, y) for x, y in zip(found(), expected))
    assert kept[1] < kept[0] / 2


def test_too_many_triples_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(tensors, "MOST_TRIPLES", 10)
    with pytest.raises(InputError, match=r'triples of edges.*network="gine".*Graph\.subgraph'):
        _ = listed().triples


def test_triples_of_complete_graphs_are_min_plus_up_to_signs():
    lengths = torch.rand(2, 6, 6)
    found = -Complete([(2, 6)]).triple_max(-lengths.view(72, 1, 1), -lengths.view(72, 1, 1))
    expected = (lengths.unsqueeze(3) + lengths.unsqueeze(1)).amin(dim=2)
    torch.testing.assert_close(found.view(2, 6, 6), expected)


def test_the_gradient_of_the_best_stop_goes_to_one_stop_alone_where_several_are_as_good():
    part, a = Complete([(2, 3), (1, 4)]), torch.zeros(34, 2, 1, requires_grad=True)
    b = torch.zeros_like(a, requires_grad=True)
    part.triple_max(a, b).sum().backward()
    assert a.grad.sum() == b.grad.sum() == 68
    assert sorted(a.grad[:9, 0, 0].tolist()) == [0] * 6 + [3] * 3
