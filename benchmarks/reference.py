r"""The paper as it reads: PyG convolutions on [x || y_t], one pass per time draw, one graph copy per joint sample.

    h_0 = x || y_t,      h_l = act(conv_l(h_{l-1}) + f(t)) || y_t,      output = g(h_L)                (appendix C.1)

Nothing is shared between passes, and `backward` also reaches weights that a sampler does not train: this is how the
authors' code spends its time. The code is our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCN2Conv, GCNConv

from benchmarks.problem import PAPER, Problem
from benchmarks.weights import copy_weights
from dpmsnc.nn.denoiser import TIME_CHANNELS, sinusoid

HEADS = 8
Draw = Callable[[Tensor], Tensor]
"""Normal draws, shaped like the tensor that is given."""


class PlainNetwork(nn.Module):
    """GCN or GAT on the concatenated input, with the weights of the package's network."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        hidden, labels = PAPER["hidden_channels"], problem.label_channels
        self.attends, self.dropout = problem.network == "gat", problem.dropout
        self.convs = nn.ModuleList(self.layers(problem.graph.num_features, hidden, labels, problem.num_layers))
        self.time = nn.Sequential(nn.Linear(TIME_CHANNELS, TIME_CHANNELS), nn.ELU(), nn.Linear(TIME_CHANNELS, hidden))
        self.head = nn.Linear(hidden + labels, problem.num_classes)
        self.to(problem.dtype)

    def layers(self, in_channels: int, hidden: int, labels: int, num_layers: int) -> list[nn.Module]:
        widths = [in_channels + labels, *[hidden + labels] * (num_layers - 1)]
        if self.attends:
            return [GATConv(width, hidden // HEADS, heads=HEADS) for width in widths]
        return [GCNConv(width, hidden, improved=True) for width in widths]

    def forward(self, x: Tensor, y: Tensor, t: int, edge_index: Tensor) -> Tensor:
        f = self.time(sinusoid(torch.tensor([t])).to(y.dtype))
        h = torch.cat([x, y], dim=1)
        for conv in self.convs:
            z = conv(h, edge_index) if self.attends else conv(h, edge_index, y.new_ones(edge_index.shape[1]))
            z = nn.functional.elu(z + f) if self.attends else torch.relu(z + f)
            h = torch.cat([nn.functional.dropout(z, self.dropout, self.training), y], dim=1)
        return self.head(h)


class PlainGCNII(PlainNetwork):
    """Labels enter at the input and at the head; no layer is told the time."""

    def layers(self, in_channels: int, hidden: int, labels: int, num_layers: int) -> list[nn.Module]:
        deep = [GCN2Conv(hidden, alpha=0.1, theta=0.5, layer=layer) for layer in range(1, num_layers)]
        return [nn.Linear(in_channels + labels, hidden), *deep]

    def forward(self, x: Tensor, y: Tensor, t: int, edge_index: Tensor) -> Tensor:
        first, *rest = self.convs
        h = h_0 = self.leave(first(torch.cat([x, y], dim=1)))
        for conv in rest:
            h = self.leave(conv(h, h_0, edge_index))
        return self.head(torch.cat([h, y], dim=1))

    def leave(self, z: Tensor) -> Tensor:
        return nn.functional.dropout(torch.relu(z), self.dropout, self.training)


@dataclass(frozen=True)
class Shown:
    """Labels an amortised network is shown: `mask` (nodes, 1) and one-hot `y` (nodes, classes)."""

    mask: Tensor
    y: Tensor

    def __call__(self, y_t: Tensor) -> Tensor:
        return torch.cat([torch.where(self.mask, self.y, y_t), self.mask.to(y_t.dtype)], dim=1)


class Reference:
    """A problem the way the paper reads: dense features, an edge list, a plain network."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.schedule = problem, PAPER["schedule"]
        x = problem.graph.x.toarray() if sp.issparse(problem.graph.x) else problem.graph.x
        self.x = torch.from_numpy(x > 0).to(problem.dtype)
        both = np.concatenate([problem.graph.edge_index, problem.graph.edge_index[::-1]], axis=1)
        self.edge_index = torch.from_numpy(both)
        self.labelled = problem.train.nonzero().squeeze(1)
        one_hot = nn.functional.one_hot(problem.labels, problem.num_classes).to(problem.dtype)
        self.y = one_hot * problem.train.unsqueeze(1)
        self.network = (PlainGCNII if problem.network == "gcnii" else PlainNetwork)(problem)
        copy_weights(problem.denoiser(), self.network)
        options = PAPER["training"]
        self.adam = torch.optim.Adam(
            self.network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        self.buffer = torch.multinomial(problem.initialiser(), options.samples_per_refresh, replacement=True).T

    def train_step(self) -> None:
        """The M-step of Algorithm 1 on labellings, times and noise of its own drawing."""
        draws, train = PAPER["training"].time_draws, self.problem.train
        filled = torch.where(train, self.problem.labels, self.buffer[torch.randint(len(self.buffer), (draws,))])
        y_0 = nn.functional.one_hot(filled, self.problem.num_classes).to(self.x)
        shown = [self.show_some() for _ in range(draws)] if self.problem.amortised else [None] * draws
        times = torch.randint(1, self.schedule.num_steps + 1, (draws,))
        self.descend(y_0, times.tolist(), torch.randn(y_0.shape), shown)

    def show_some(self) -> Shown:
        """A random share of the training labels."""
        mask = (torch.rand(len(self.x)) < torch.rand(1)) & self.problem.train
        return Shown(mask.unsqueeze(1), self.y)

    def descend(self, y_0: Tensor, times: list[int], eps: Tensor, shown: list[Shown | None]) -> float:
        """One step of Adam on the mean over draws; y_0 and eps are (draws, nodes, classes). Returns the loss."""
        self.network.train()
        self.adam.zero_grad()
        losses = []
        for k, t in enumerate(times):
            alpha_bar = float(self.schedule.alpha_bar[t])
            y_t = alpha_bar**0.5 * y_0[k] + (1 - alpha_bar) ** 0.5 * eps[k]
            known = shown[k]
            output = self.network(self.x, known(y_t) if known else y_t, t, self.edge_index)
            losses.append(self.loss((eps[k] - output).square().sum(dim=1), known))
        loss = torch.stack(losses).mean()
        loss.backward()
        self.adam.step()
        return loss.item()

    def loss(self, error: Tensor, shown: Shown | None) -> Tensor:
        """Mean over labelled nodes plus mean over unlabelled ones, of those whose label is not shown."""
        asked = ~shown.mask.squeeze(1) if shown else torch.ones_like(self.problem.train)
        groups = (asked & self.problem.train, asked & ~self.problem.train)
        return sum(error[group].sum() / max(int(group.sum()), 1) for group in groups)  # type: ignore[return-value]

    def sample(self, steps: int | None = None, draw: Draw = torch.randn_like) -> Tensor:
        """The last y (samples, nodes, classes), by the sampler the problem asks for; `steps` shortens it."""
        steps = steps or self.problem.sampling.steps
        stack = Stack(self, self.problem.num_samples)
        with torch.set_grad_enabled(not self.problem.amortised):
            y = stack.deterministic(steps) if self.problem.sampling.method == "ddim" else stack.ancestral(steps, draw)
        return y.view(self.problem.num_samples, -1, self.problem.num_classes)


class Stack:
    """Copies of the graph stacked into one with as many components, one for each joint sample."""

    def __init__(self, reference: Reference, copies: int) -> None:
        nodes = len(reference.x)
        self.problem, self.schedule, self.copies = reference.problem, reference.schedule, copies
        self.network = reference.network.eval()
        self.x, self.y = reference.x.repeat(copies, 1), reference.y.repeat(copies, 1)
        shifts = range(0, copies * nodes, nodes)
        self.edge_index = torch.cat([reference.edge_index + shift for shift in shifts], dim=1)
        self.labelled = torch.cat([reference.labelled + shift for shift in shifts])
        mask = reference.problem.train.repeat(copies).unsqueeze(1)
        self.shown = Shown(mask, self.y) if reference.problem.amortised else None

    def ancestral(self, steps: int | None, draw: Draw) -> Tensor:
        """Ancestral steps; unless labels are shown, those of Algorithm 2, with its gradient and its projection."""
        y = draw(self.y)
        for t, s in pairwise(self.schedule.grid(steps)):
            alpha_bar_t, alpha_bar_s = (float(self.schedule.alpha_bar[time]) for time in (t, s))
            alpha = alpha_bar_t / alpha_bar_s
            y_t = y.detach().requires_grad_(self.shown is None)
            eps, y0 = self.estimate(y_t, t)
            guide = self.gradient(y_t, y0) if self.shown is None else None
            with torch.no_grad():
                y = (y_t - (1 - alpha) / (1 - alpha_bar_t) ** 0.5 * eps) / alpha**0.5 + (1 - alpha) ** 0.5 * draw(y_t)
                if guide is not None:
                    y = y - guide
                    projected = alpha_bar_s**0.5 * self.y + (1 - alpha_bar_s) ** 0.5 * draw(y_t)
                    y[self.labelled] = projected[self.labelled]
        return y

    def gradient(self, y_t: Tensor, y0: Tensor) -> Tensor:
        """gamma d/dy_t ||y_L - y0_hat_L||^2 with gamma = 1 / ||y_L - y0_hat_L||^2 of each copy."""
        r2 = (self.y[self.labelled] - y0[self.labelled]).square().view(self.copies, -1).sum(dim=1)
        r2.sum().backward()
        assert y_t.grad is not None
        return y_t.grad / r2.detach().repeat_interleave(len(y_t) // self.copies).unsqueeze(1)

    def deterministic(self, steps: int | None) -> Tensor:
        """DDIM with eta = 0 from y_T = 0."""
        y = torch.zeros_like(self.y)
        for t, s in pairwise(self.schedule.grid(steps)):
            eps, y0 = self.estimate(y, t)
            alpha_bar_s = float(self.schedule.alpha_bar[s])
            y = alpha_bar_s**0.5 * y0 + (1 - alpha_bar_s) ** 0.5 * eps
        return y

    def estimate(self, y_t: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """(eps, y_0) from the noise that the network predicts, or from the labels that it predicts."""
        alpha_bar = float(self.schedule.alpha_bar[t])
        predicts_noise = self.problem.parameterisation == "epsilon"
        given = y_t if predicts_noise else alpha_bar**0.5 * y_t
        output = self.network(self.x, self.shown(given) if self.shown else given, t, self.edge_index)
        if predicts_noise:
            return output, (y_t - (1 - alpha_bar) ** 0.5 * output) / alpha_bar**0.5
        y0 = output.softmax(dim=1)
        return (y_t - alpha_bar**0.5 * y0) / (1 - alpha_bar) ** 0.5, y0
