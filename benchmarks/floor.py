r"""The products that a case cannot do without, and nothing else: a floor under the time of any implementation.

Dense and sparse matrix products with outputs allocated beforehand; no activation, dropout, noise, loss or optimiser.
What depends on x alone is multiplied once. In training every product has those of its input and weight gradients; in
guided sampling weights have none, and gradients only rows that labelled nodes reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from benchmarks.problem import PAPER, Problem
from dpmsnc.graph.features import Features
from dpmsnc.nn.operator import symmetric_normalised

WIDTH, HEADS = PAPER["hidden_channels"], 8


@dataclass
class Products:
    """A list of products, run in order; equal shapes share their memory."""

    tasks: list[Callable[[], object]] = field(default_factory=list)
    memory: dict[tuple[str, int, int], Tensor] = field(default_factory=dict)

    def run(self) -> None:
        for task in self.tasks:
            task()

    def dense(self, rows: int, inner: int, columns: int) -> None:
        """rows x inner times inner x columns, written whichever way round is faster."""
        if columns < 16 < inner:
            self._product(self.place("b", columns, inner), self.place("a", rows, inner).T)
        else:
            self._product(self.place("a", rows, inner), self.place("b", inner, columns))

    def weight_gradient(self, rows: int, inner: int, columns: int) -> None:
        a, b = self.place("a", rows, inner), self.place("b", rows, columns)
        self._product(*((b.T, a) if columns < inner else (a.T, b)))

    def sparse(self, matrix: sp.csr_array, width: int, times: int = 1) -> None:
        m, (rows, columns) = csr_tensor(matrix), matrix.shape
        b, out = self.place("b", columns, width), self.place("out", rows, width)
        # unlike torch.mm(..., out=), this neither fills with zeros first nor copies after
        self.tasks.extend([lambda: torch.addmm(out, m, b, beta=0, out=out)] * times)

    def _product(self, a: Tensor, b: Tensor) -> None:
        out = self.place("out", a.shape[0], b.shape[1])
        self.tasks.append(lambda: torch.mm(a, b, out=out))

    def at_edges(self, matrix: sp.csr_array, width: int, times: int) -> None:
        """Inner products of rows, at the entries of a sparse matrix."""
        m, (rows, columns) = csr_tensor(matrix), matrix.shape
        a, b, out = self.place("a", rows, width), self.place("b", columns, width).T, csr_tensor(matrix)
        self.tasks.extend([lambda: torch.sparse.sampled_addmm(m, a, b, beta=0, out=out)] * times)

    def place(self, role: str, rows: int, columns: int) -> Tensor:
        return self.memory.setdefault((role, rows, columns), torch.rand(rows, columns))


def csr_tensor(matrix: sp.csr_array) -> Tensor:
    indices = (torch.from_numpy(part.astype(np.int32)) for part in (matrix.indptr, matrix.indices))
    return torch.sparse_csr_tensor(*indices, torch.from_numpy(matrix.data).float(), size=matrix.shape)


class Floor:
    """The products of a GCN on a batch of label fields: `once`, and then `forward` and a backward as often as asked."""

    self_loop = 2.0

    def __init__(self, problem: Problem, batch: int) -> None:
        self.products, self.batch, self.layers = Products(), batch, problem.num_layers
        self.classes, self.labels = problem.num_classes, problem.label_channels
        self.A = symmetric_normalised(problem.graph.adjacency, self.self_loop)
        self.x = Features.fit(problem.graph, PAPER["scaling"]).transform(problem.graph)
        self.nodes = self.A.shape[0]
        self.reached = [problem.train.numpy()]
        for _ in range(self.layers):
            self.reached.append(self.A @ self.reached[-1].astype(float) > 0)

    @property
    def fields(self) -> int:
        return self.nodes * self.batch

    def rows(self, hops: int) -> int:
        """Rows of a gradient that has come so many hops from the labelled nodes, times the batch."""
        return int(self.reached[hops].sum()) * self.batch

    def hop(self, hops: int) -> sp.csr_array:
        """A from the nodes at so many hops to those one hop further."""
        return sp.csr_array(self.A[self.reached[hops + 1]][:, self.reached[hops]])

    def encode(self) -> None:
        self.features()
        self.products.sparse(self.A, WIDTH)

    def features(self, transposed: bool = False) -> None:
        """x times a weight, or its transpose times a gradient."""
        if sp.issparse(self.x):
            self.products.sparse(sp.csr_array(self.x.T) if transposed else self.x, WIDTH)
        elif transposed:
            self.products.weight_gradient(*self.x.shape, WIDTH)
        else:
            self.products.dense(*self.x.shape, WIDTH)

    def forward(self) -> None:
        p = self.products
        p.sparse(self.A, self.labels * self.batch)  # A y, for all layers
        for layer in range(self.layers):
            p.dense(self.fields, self.labels, WIDTH)
            if layer:
                p.dense(self.fields, WIDTH, WIDTH)
                p.sparse(self.A, WIDTH * self.batch)
        self.head()

    def head(self) -> None:
        self.products.dense(self.fields, WIDTH, self.classes)
        self.products.dense(self.fields, self.labels, self.classes)

    def train_backward(self) -> None:
        self.head_backward()
        p = self.products
        for layer in reversed(range(self.layers)):
            p.weight_gradient(self.fields, self.labels, WIDTH)
            if layer:
                p.sparse(self.A, WIDTH * self.batch)
                p.weight_gradient(self.fields, WIDTH, WIDTH)
                p.dense(self.fields, WIDTH, WIDTH)

    def encode_backward(self) -> None:
        self.products.sparse(self.A, WIDTH)
        self.features(transposed=True)

    def head_backward(self) -> None:
        self.products.weight_gradient(self.fields, WIDTH, self.classes)
        self.products.weight_gradient(self.fields, self.labels, self.classes)
        self.products.dense(self.fields, self.classes, WIDTH)

    def guided_backward(self) -> None:
        self.guided_head_backward()
        p = self.products
        for hops in range(self.layers):
            p.dense(self.rows(hops), WIDTH, self.labels)
            if hops < self.layers - 1:
                p.sparse(self.hop(hops), WIDTH * self.batch)
                p.dense(self.rows(hops + 1), WIDTH, WIDTH)
        p.sparse(self.hop(self.layers - 1), self.labels * self.batch)  # of y, for all layers

    def guided_head_backward(self) -> None:
        self.products.dense(self.rows(0), self.classes, WIDTH)
        self.products.dense(self.rows(0), self.classes, self.labels)


class GATFloor(Floor):
    """Every field and head has a sparse matrix of its own; its gradient is asked for at the edges."""

    self_loop = 1.0

    def encode(self) -> None:
        self.features()

    def forward(self) -> None:
        p = self.products
        for layer in range(self.layers):
            p.dense(self.fields, self.labels, WIDTH)
            if layer:
                p.dense(self.fields, WIDTH, WIDTH)
            p.dense(self.fields, WIDTH, 2 * HEADS)
            p.sparse(self.A, WIDTH // HEADS, HEADS * self.batch)
        self.head()

    def train_backward(self) -> None:
        self.head_backward()
        p = self.products
        for layer in reversed(range(self.layers)):
            self.attention_backward(self.A, self.fields)
            p.weight_gradient(self.fields, WIDTH, 2 * HEADS)
            p.weight_gradient(self.fields, self.labels, WIDTH)
            if layer:
                p.weight_gradient(self.fields, WIDTH, WIDTH)
                p.dense(self.fields, WIDTH, WIDTH)

    def encode_backward(self) -> None:
        self.features(transposed=True)

    def attention_backward(self, matrix: sp.csr_array, rows: int) -> None:
        self.products.sparse(matrix, WIDTH // HEADS, HEADS * self.batch)
        self.products.at_edges(matrix, WIDTH // HEADS, HEADS * self.batch)
        self.products.dense(rows, 2 * HEADS, WIDTH)

    def guided_backward(self) -> None:
        self.guided_head_backward()
        for hops in range(self.layers):
            self.attention_backward(self.hop(hops), self.rows(hops + 1))
            self.products.dense(self.rows(hops + 1), WIDTH, self.labels)
            if hops < self.layers - 1:
                self.products.dense(self.rows(hops + 1), WIDTH, WIDTH)


class GCNIIFloor(Floor):
    """One linear map, and then as many convolutions as there are layers left."""

    self_loop = 1.0

    def encode(self) -> None:
        self.features()

    def forward(self) -> None:
        self.products.dense(self.fields, self.labels, WIDTH)
        for _ in range(self.layers - 1):
            self.products.sparse(self.A, WIDTH * self.batch)
            self.products.dense(self.fields, WIDTH, WIDTH)
        self.head()

    def train_backward(self) -> None:
        self.head_backward()
        for _ in range(self.layers - 1):
            self.products.weight_gradient(self.fields, WIDTH, WIDTH)
            self.products.dense(self.fields, WIDTH, WIDTH)
            self.products.sparse(self.A, WIDTH * self.batch)
        self.products.weight_gradient(self.fields, self.labels, WIDTH)

    def encode_backward(self) -> None:
        self.features(transposed=True)

    def guided_backward(self) -> None:
        self.guided_head_backward()
        for hops in range(self.layers - 1):
            self.products.dense(self.rows(hops), WIDTH, WIDTH)
            self.products.sparse(self.hop(hops), WIDTH * self.batch)
        self.products.dense(self.rows(self.layers - 1), WIDTH, self.labels)


FLOORS: dict[str, type[Floor]] = {"gcn": Floor, "gat": GATFloor, "gcnii": GCNIIFloor}


def train_step(problem: Problem) -> Callable[[], None]:
    """The products of one M-step, ready to run, a few draws at a time where the cache is too small for all."""
    parts = problem.denoiser().chunks(problem.graph.num_nodes, PAPER["training"].time_draws)
    products = Products()
    for index, part in enumerate(parts):
        floor = FLOORS[problem.network](problem, part.stop - part.start)
        floor.products = products
        if index == 0:
            floor.encode()
        floor.forward()
        floor.train_backward()
        if index == 0:
            floor.encode_backward()
    return products.run


def sample(problem: Problem) -> Callable[[], None]:
    """The products of one reverse process, ready to run."""
    once, step = (FLOORS[problem.network](problem, problem.num_samples) for _ in range(2))
    once.encode()
    step.forward()
    if not problem.amortised:
        step.guided_backward()
    steps = problem.sampling.steps or PAPER["schedule"].num_steps

    def run() -> None:
        once.products.run()
        for _ in range(steps):
            step.products.run()

    return run
