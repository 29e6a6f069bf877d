"""The paper's network on edges equals PyG's layers, in answers and in gradients."""

import torch
from benchmarks.edges import Batch, PlainGINE, check_equal

from dpmsnc.nn.edges import EdgeTensors
from dpmsnc.nn.edges.gine import GINEDenoiser
from dpmsnc.reasoning.tasks import TASKS, generator
from edge_graphs import complete_groups, listed_tensors


def network():
    torch.manual_seed(0)
    return GINEDenoiser(0, 1, 1, hidden_channels=8)


def test_every_graph_may_have_a_time_of_its_own():
    groups = [group.double() for group in complete_groups()]
    graph, listed, ours = EdgeTensors.complete(groups), listed_tensors(groups), network().double()
    part, source = listed.part, torch.Generator().manual_seed(1)
    y_t = torch.randn(graph.num_rows, 3, 1, generator=source, dtype=torch.double)
    t = torch.randint(1, 80, (6, 3), generator=source)
    edges, plain = torch.stack([part.source, part.target]), PlainGINE(ours)
    fields = [plain(edges, graph.edge_attr, y_t[:, k], t[part.member, k], part.num_nodes) for k in range(3)]
    for one in (graph, listed):
        answer = ours(y_t, t[part.member[part.source]], ours.encode(one))
        torch.testing.assert_close(answer, torch.stack(fields, dim=1), atol=1e-10, rtol=1e-8)


def test_a_step_has_the_loss_and_the_gradient_of_the_reference():
    check_equal(network(), Batch.of(TASKS["shortest_path"].draw_mixed(6, generator(0, "train"))))
