"""Networks of the baselines on edges: their formulas, written out on a tiny graph."""

import pytest
import torch
from torch.nn.functional import linear, relu

from dpmsnc.diffusion.known import Known
from dpmsnc.nn.edges import EDGE_DENOISERS
from dpmsnc.nn.edges.energy import STEP_SIZE, STEPS, STEPS_ASKED
from dpmsnc.nn.edges.recurrent import LONGER
from dpmsnc.nn.edges.tensors import EdgeTensors
from edge_graphs import complete_groups, listed_tensors

N = 3


def network(name, **options):
    torch.manual_seed(0)
    return EDGE_DENOISERS[name](0, 1, 1, hidden_channels=8, **options).double()


def tiny():
    """One graph of three nodes, its attributes (3, 3), and labels of its edges (3, 3)."""
    (group,) = complete_groups(((1, N),))
    labels = torch.randn(N, N, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    return EdgeTensors.complete([group.double()]), group[0, :, :, 0].double(), labels


def answer(made, y, generator=None):
    graph, _, _ = tiny()
    return made.evaluate(y.reshape(-1, 1, 1), 5, made.encode(graph), generator=generator)


def gine(made, index, h, a, y):
    """A layer of GINEConv, edge by edge."""
    rows = []
    for j in range(N):
        total = h[j]
        for i in range(N):
            e = torch.cat([made.embed_attr(a[i, j].view(1)), made.embed_label(y[i, j].view(1))])
            total = total + relu(h[i] + made.of_edge[index](e))
        rows.append(made.of_node[index](total))
    return torch.stack(rows)


def on_ends(made, h):
    """The head on both ends of every edge."""
    pairs = [torch.cat([h[i], h[j]]) for i in range(N) for j in range(N)]
    return linear(torch.stack(pairs), made.head.weight, made.head.bias)


def test_an_edge_is_answered_from_its_ends():
    made, (_, a, y) = network("ends"), tiny()
    h = torch.zeros(N, 1, dtype=torch.double)
    for index in range(3):
        h = gine(made, index, h, a, y)
    torch.testing.assert_close(answer(made, y)[:, 0], on_ends(made, h))
    assert not any(name.startswith("time") for name in made.state_dict())


def first_layer(made, a, y):
    return gine(made, 0, torch.zeros(N, 1, dtype=torch.double), a, y)


def test_the_tied_network_repeats_one_layer_and_recalls_its_input():
    made, (_, a, y) = network("recurrent", num_layers=2), tiny()
    first = h = first_layer(made, a, y)
    expected = []
    for _ in range(2 * LONGER):
        h = gine(made, 1, made.norm(h), a, y) + made.recall(first)
        expected.append(on_ends(made, h))
    torch.testing.assert_close(answer(made, y, torch.Generator())[:, 0], expected[1])
    torch.testing.assert_close(answer(made, y)[:, 0], expected[-1])


def test_the_lstm_is_shown_the_same_in_every_round():
    made, (_, a, y) = network("lstm", num_layers=2), tiny()
    first = first_layer(made, a, y)
    lstm = torch.nn.LSTM(8, 8).double()
    lstm.load_state_dict({f"{name}_l0": value for name, value in made.cell.state_dict().items()})
    for rounds, generator in ((2, torch.Generator()), (2 * LONGER, None)):
        states, _ = lstm(first.expand(rounds, N, 8))
        expected = on_ends(made, gine(made, 1, states[-1], a, y))
        torch.testing.assert_close(answer(made, y, generator)[:, 0], expected)


def test_pondering_halts_by_the_state_of_the_graph():
    made, (_, a, y) = network("ponder", num_layers=3), tiny()
    first = h = first_layer(made, a, y)
    answers, p, left = [], [], 1.0
    for n in range(3):
        h = gine(made, 1, made.norm(h), a, y) + made.recall(first)
        answers.append(on_ends(made, h))
        halts = made.halt(h.amax(dim=0)).sigmoid() if n < 2 else torch.ones(1)
        p.append(left * halts)
        left = left * (1 - halts)
    output = answer(made, y, torch.Generator())[:, 0]
    torch.testing.assert_close(output[:, :3], torch.cat(answers, dim=1))
    torch.testing.assert_close(output[:, 3:].exp(), torch.cat(p).double().expand(N * N, 3))


def test_graphs_are_pooled_alike_in_blocks_and_lists():
    groups = complete_groups(((2, 3), (1, 4)))
    blocks, listed = EdgeTensors.complete(groups).part, listed_tensors(groups).part
    nodes = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    pooled = torch.stack([nodes[first:last].amax(dim=0) for first, last in ((0, 3), (3, 6), (6, 10))])
    of_graph = torch.tensor([0] * 9 + [1] * 9 + [2] * 16)
    for part in (blocks, listed):
        torch.testing.assert_close(part.graph_max(nodes), pooled)
        torch.testing.assert_close(part.to_rows(pooled), pooled[of_graph])
        assert part.num_graphs == 3


def energy_of(made, a, y):
    """The energy of one graph, written out."""
    h = torch.zeros(N, 1, dtype=torch.double)
    for index in range(3):
        h = gine(made, index, h, a, y)
    return made.head(h.amax(dim=0)).squeeze()


def test_labels_descend_the_energy():
    made, (_, a, y) = network("energy"), tiny()
    slope = torch.autograd.functional.jacobian
    for steps, generator in ((STEPS, torch.Generator()), (STEPS_ASKED, None)):
        expected = y
        for _ in range(steps):
            expected = expected - STEP_SIZE * slope(lambda labels: energy_of(made, a, labels), expected)
        torch.testing.assert_close(answer(made, y, generator).view(N, N), expected)


def test_only_the_last_step_is_differentiated():
    made, (_, a, y) = network("energy"), tiny()
    target = torch.ones(N, N, dtype=torch.double)
    output = answer(made, y, torch.Generator()).view(N, N)
    (output - target).square().sum().backward()
    gradients = [weight.grad for weight in made.parameters()]
    before = y
    for _ in range(STEPS - 1):
        before = before - STEP_SIZE * torch.autograd.functional.jacobian(lambda y: energy_of(made, a, y), before)
    before = before.detach().requires_grad_()
    (slope,) = torch.autograd.grad(energy_of(made, a, before), before, create_graph=True)
    loss = (before.detach() - STEP_SIZE * slope - target).square().sum()
    expected = torch.autograd.grad(loss, list(made.parameters()), allow_unused=True)
    for one, other in zip(gradients, expected, strict=True):
        assert (one is None or not one.any()) if other is None else torch.allclose(one, other)
    torch.testing.assert_close(made.reached.view(N, N), output.detach())


def test_labels_that_are_shown_do_not_descend():
    made, (graph, _, y) = network("energy", shows_known=True), tiny()
    mask = torch.eye(N, dtype=torch.bool).flatten()
    known = Known.of(torch.full((N * N, 1), 7.0, dtype=torch.double), mask)
    with torch.inference_mode():
        output = made(y.reshape(-1, 1, 1), 5, made.encode(graph), known)
    assert (output[mask] == 7).all() and not (output[~mask, 0, 0] == y.flatten()[~mask]).any()


@pytest.mark.parametrize("name", ["ponder", "energy"])
def test_the_order_of_nodes_and_the_form_of_a_graph_do_not_matter(name):
    groups = [group.double() for group in complete_groups(((2, 4),))]
    made, order = network(name), torch.tensor([2, 0, 3, 1])
    y = torch.randn(32, 1, 1, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    forms = EdgeTensors.complete(groups), listed_tensors(groups)
    answers = [made.evaluate(y, 5, made.encode(graph)) for graph in forms]
    torch.testing.assert_close(*answers)
    moved = EdgeTensors.complete([groups[0][:, order][:, :, order]])
    y_moved = y.view(2, 4, 4)[:, order][:, :, order].reshape(32, 1, 1)
    expected = answers[0].view(2, 4, 4, -1)[:, order][:, :, order].reshape(32, 1, -1)
    torch.testing.assert_close(made.evaluate(y_moved, 5, made.encode(moved)), expected)
