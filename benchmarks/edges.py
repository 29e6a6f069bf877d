"""`python -m benchmarks.edges`: a training step of the paper's network on edges, ours against plain PyG, in a process.

Both have the same weights and are trained on the same graphs, times and noise: 64 graphs of 2 to 10 nodes, 8 time
draws, one time for all graphs of a draw as in the authors' code. Before anything is timed, loss and gradients are
checked to be the same. A step is forward, backward and Adam; steps of both alternate, and medians of CPU time count.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv

from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.nn.denoiser import sinusoid
from dpmsnc.nn.edges.gine import GINEDenoiser
from dpmsnc.nn.process import keep_freed_memory, threads
from dpmsnc.reasoning.tasks import TASKS, generator
from dpmsnc.targets import RealValue
from dpmsnc.training.fresh import Groups, labelled
from dpmsnc.training.gradient import Draw, accumulate

GRAPHS, DRAWS = 64, 8
OBJECTIVE = Objective(Schedule(80), "epsilon", target=RealValue(on="edge"))


class PlainGINE(nn.Module):
    """The paper's network on PyG's layers, with the weights of ours."""

    def __init__(self, ours: GINEDenoiser) -> None:
        super().__init__()
        self.ours, self.convs = ours, nn.ModuleList()
        for of_edge, of_node in zip(ours.of_edge, ours.of_node):
            conv = GINEConv(nn.Linear(of_node.in_features, 1), edge_dim=of_edge.in_features)
            conv.nn, conv.lin = of_node, of_edge  # not before, since PyG begins with new weights
            self.convs.append(conv)

    def forward(self, edge_index: Tensor, edge_attr: Tensor, y_t: Tensor, t: Tensor, num_nodes: int) -> Tensor:
        """The output (edges, 1) for one label field, with a time for every node."""
        ours, h = self.ours, torch.zeros(num_nodes, 1, dtype=y_t.dtype)
        embedded = torch.cat([ours.embed_attr(edge_attr), ours.embed_label(y_t)], dim=-1)
        for conv in self.convs:
            h = conv(h, edge_index, embedded) + ours.time(sinusoid(t).to(y_t))
        both = torch.cat([h[edge_index[0]], h[edge_index[1]], y_t], dim=-1)
        return ours.head(ours.decoder(both).relu())


@dataclass(frozen=True)
class Batch:
    """What a step is trained on, as both see it."""

    draw: Draw
    edge_index: Tensor
    num_nodes: int

    @classmethod
    def of(cls, groups: Groups, seed: int = 0) -> Batch:
        graphs, source = labelled(groups), torch.Generator().manual_seed(seed)
        y_0 = OBJECTIVE.target.field(graphs.labels).expand(-1, DRAWS, -1)
        t = OBJECTIVE.draw_times(DRAWS, source)
        weights = torch.full(y_0.shape[:2], 1 / y_0[..., 0].numel())
        draw = Draw(graphs.graph, y_0, t, torch.randn(y_0.shape, generator=source), weights)
        ends, first = [], 0
        for attributes, _ in groups:
            n = attributes.shape[1]
            pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
            ends += [pairs + first + k * n for k in range(len(attributes))]
            first += n * len(attributes)
        return cls(draw, torch.cat(ends).T.contiguous(), first)


def plain_gradient(plain: PlainGINE, batch: Batch) -> float:
    """The loss, whose gradient is added: one time draw after the other."""
    total, draw = 0.0, batch.draw
    for k in range(DRAWS):
        y_t = OBJECTIVE.corrupt(draw.y_0[:, k : k + 1], draw.t[k : k + 1], draw.eps[:, k : k + 1])[:, 0]
        t = draw.t[k].expand(batch.num_nodes)
        output = plain(batch.edge_index, draw.graph.edge_attr, y_t, t, batch.num_nodes)  # type: ignore[attr-defined]
        loss = nn.functional.mse_loss(output, draw.eps[:, k]) / DRAWS
        loss.backward()
        total += loss.item()
    return total


def our_gradient(ours: GINEDenoiser, batch: Batch) -> float:
    return accumulate(ours, OBJECTIVE, batch.draw, torch.Generator())  # type: ignore[arg-type]


def check_equal(ours: GINEDenoiser, batch: Batch, tolerance: float = 1e-4) -> None:
    """Raise `AssertionError` where losses or gradients differ."""
    plain, gradients = PlainGINE(copy.deepcopy(ours)), []
    losses = plain_gradient(plain, batch), our_gradient(ours, batch)
    for network in (plain.ours, ours):
        gradients.append({name: parameter.grad.clone() for name, parameter in network.named_parameters()})
        network.zero_grad()
    assert abs(losses[0] - losses[1]) <= tolerance * losses[0], losses
    for name, theirs in gradients[0].items():
        atol = tolerance * float(theirs.abs().max() + 1e-6)
        torch.testing.assert_close(gradients[1][name], theirs, rtol=0, atol=atol)


def step(network: nn.Module, gradient: Callable[[], float], adam: torch.optim.Optimizer) -> float:
    """CPU seconds of one step."""
    started = time.process_time()
    adam.zero_grad()
    gradient()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.step()
    return time.process_time() - started


def measure(repeats: int) -> dict[str, float]:
    """Median CPU seconds of a step of either, and their ratio."""
    torch.manual_seed(0)
    ours, task, stream = GINEDenoiser(0, 1, 1), TASKS["shortest_path"], generator(0, "train")
    check_equal(ours, Batch.of(task.draw_mixed(GRAPHS, stream)))
    plain = PlainGINE(copy.deepcopy(ours))
    adams = [torch.optim.Adam(network.parameters(), 3e-4) for network in (plain, ours)]
    found: list[list[float]] = [[], []]
    for k in range(repeats + 2):
        batch = Batch.of(task.draw_mixed(GRAPHS, stream), k)
        found[0].append(step(plain, lambda: plain_gradient(plain, batch), adams[0]))  # noqa: B023 (called at once)
        found[1].append(step(ours, lambda: our_gradient(ours, batch), adams[1]))  # noqa: B023
    reference, mine = (statistics.median(times[2:]) for times in found)
    return {"reference_cpu_s": reference, "ours_cpu_s": mine, "ratio": reference / mine}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    with threads(1), keep_freed_memory():
        for name, value in measure(parser.parse_args().repeats).items():
            print(f"{name:<18}{value:.4f}")


if __name__ == "__main__":
    main()
