r"""Samples against the exact posterior, on graphs small enough to enumerate every labelling.

Labels follow a known pairwise model on random connected graphs, with local fields b that the nodes carry as features:

    p(y | G) ∝ exp( J sum_{(i,j) in E} [y_i = y_j] + sum_i b_i[y_i] )

A denoiser is trained on many such graphs with exact labels (`training/full.py`). On new graphs with some labels known
it draws joint samples, whose frequencies are compared with p(y_U | G, y_L) by total variation. Beside it stand what
sampling noise alone would give (floor), the product of the exact marginals, which is all that independent predictions
can reach, and the same samplers around the exact denoiser

    E[y_0 | y_t] = sum_y y w(y) / sum_y w(y),     w(y) = p(y) exp( sqrt(alpha_bar_t) <y_t, y> / (1 - alpha_bar_t) ),

which shows what a sampler loses by itself. Run `python -m dpmsnc.evidence.experiments.exact`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.config import ConditioningName, Guidance, ParameterisationName, Sampling, Training
from dpmsnc.diffusion.guidance import Guided
from dpmsnc.diffusion.known import Known
from dpmsnc.diffusion.objective import Estimate, Objective
from dpmsnc.diffusion.posterior import Posterior
from dpmsnc.diffusion.sampler import STEPS, Denoise, Noise, reverse
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.nn.operator import GraphTensors
from dpmsnc.targets import OneClass
from dpmsnc.training.full import FullyLabelled, LabelledGraphs
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.trainer import Trainer

Array = NDArray[Any]
CHUNK = 1000
"""Samples drawn at a time."""


@dataclass(frozen=True)
class PairwiseModel:
    """p(y | G) above; a negative coupling J makes neighbours differ, and odd cycles leave them no way to."""

    num_nodes: int = 6
    num_classes: int = 2
    coupling: float = -2.0
    field: float = 0.3
    """Standard deviation of the local fields."""
    max_extra_edges: int = 2
    """Edges beyond those of a spanning tree, from none to so many."""

    @cached_property
    def states(self) -> NDArray[np.int64]:
        """Every labelling (states, nodes), in the order of `code`."""
        return np.array(list(itertools.product(range(self.num_classes), repeat=self.num_nodes)))

    def code(self, labels: Array) -> Array:
        """Position in `states` of labellings (nodes, ...)."""
        return np.tensordot(self.num_classes ** np.arange(self.num_nodes)[::-1], labels, axes=1)

    def probabilities(self, graph: Graph) -> Array:
        """p(y | G) of every state."""
        assert isinstance(graph.x, np.ndarray)
        i, j = graph.edge_index
        agreeing = (self.states[:, i] == self.states[:, j]).sum(axis=1)
        fields = graph.x[np.arange(self.num_nodes), self.states].sum(axis=1)
        p = np.exp(self.coupling * agreeing + fields.astype(np.float64))
        return p / p.sum()

    def draw_graph(self, rng: np.random.Generator) -> Graph:
        """A random connected graph; features are the fields and the degree (one-hot, since means do not show it)."""
        n = self.num_nodes
        order = rng.permutation(n)
        edges = {tuple(sorted((order[k], order[rng.integers(k)]))) for k in range(1, n)}
        others = [pair for pair in itertools.combinations(range(n), 2) if pair not in edges]
        extra = rng.permutation(len(others))[: rng.integers(self.max_extra_edges + 1)]
        edge_index = np.array([*edges, *(others[k] for k in extra)]).T
        fields = self.field * rng.standard_normal((n, self.num_classes))
        x = np.concatenate([fields, np.eye(n)[np.bincount(edge_index.ravel(), minlength=n)]], axis=1)
        unlabelled, target = np.full(n, UNKNOWN), OneClass(tuple(range(self.num_classes)))
        return Graph(n, edge_index, x.astype(np.float32), unlabelled, target, np.arange(n))

    def draw_labels(self, graph: Graph, count: int, rng: np.random.Generator) -> Array:
        """Exact samples (nodes, count) of p(y | G)."""
        return self.states[rng.choice(len(self.states), size=count, p=self.probabilities(graph))].T

    def posterior(self, graph: Graph) -> Array:
        """p(y | G, y_L) of every state, given the labels the graph has."""
        agrees = (self.states[:, graph.known] == graph.y[graph.known]).all(axis=1)
        p = self.probabilities(graph) * agrees
        return p / p.sum()

    def product_of_marginals(self, p: Array) -> Array:
        one_hot = np.eye(self.num_classes)[self.states]
        marginals = np.tensordot(p, one_hot, axes=1)
        return np.prod((one_hot * marginals).sum(axis=2), axis=1)

    def frequencies(self, labels: Array) -> Array:
        """Share of each state among labellings (nodes, samples)."""
        return np.bincount(self.code(labels), minlength=len(self.states)) / labels.shape[1]

    def denoiser(self, p: Array, schedule: Schedule) -> Denoise:
        """The exact denoiser of labels that follow p."""
        one_hot = torch.eye(self.num_classes)[torch.from_numpy(self.states)].flatten(start_dim=1)
        log_p = torch.from_numpy(p).clamp_min(1e-30).log().float()

        def denoise(y_t: Tensor, t: int) -> Estimate:
            alpha_bar = float(schedule.alpha_bar[t])
            flat = y_t.transpose(0, 1).flatten(start_dim=1)
            w = (log_p + flat @ one_hot.T * (alpha_bar**0.5 / (1 - alpha_bar))).softmax(dim=-1)
            y0 = (w @ one_hot).view(-1, *y_t.shape[::2]).transpose(0, 1)
            return Estimate((y_t - alpha_bar**0.5 * y0) / (1 - alpha_bar) ** 0.5, y0)

        return denoise


def total_variation(p: Array, q: Array) -> float:
    return float(abs(p - q).sum() / 2)


def known_labels(graph: Graph) -> Known:
    mask = torch.from_numpy(graph.known).unsqueeze(1)
    y = torch.nn.functional.one_hot(torch.from_numpy(graph.y).clamp_min(0), graph.num_classes).float()
    return Known(mask, (y * mask).unsqueeze(1))


@dataclass(frozen=True)
class Row:
    """One line of the table: how known labels condition, what the denoiser was trained for, how samples are drawn."""

    conditioning: ConditioningName
    denoiser: Literal["label", "epsilon", "exact"]
    sampling: Sampling


DDIM = Sampling(method="ddim", steps=20, progressive=0.0)
ANCESTRAL = replace(DDIM, method="ancestral", steps=50)
WEAK = replace(DDIM, guidance=Guidance(strength=0.1))
ROWS = (
    *(Row("amortised", "exact", sampling) for sampling in (DDIM, replace(DDIM, steps=None), ANCESTRAL)),
    *(Row("guided", "exact", sampling) for sampling in (DDIM, WEAK)),
    *(Row("amortised", "label", sampling) for sampling in (DDIM, ANCESTRAL)),
    Row("amortised", "epsilon", DDIM),
    *(Row("guided", "label", sampling) for sampling in (DDIM, WEAK)),
)


@dataclass(frozen=True)
class Study:
    """Sizes of the experiment; the defaults are those of the reported figures."""

    model: PairwiseModel = PairwiseModel()
    schedule: Schedule = Schedule(num_steps=100, variance="posterior")  # noqa: RUF009
    num_graphs: int = 4000
    labellings: int = 8
    graphs_per_batch: int = 100
    hidden_channels: int = 64
    num_layers: int = 5
    training: Training = Training(steps=6000, learning_rate=3e-3, weight_decay=0.0)  # noqa: RUF009
    test_graphs: int = 6
    num_known: int = 1
    num_samples: int = 20000

    def test_set(self, seed: int) -> list[Graph]:
        """New graphs, each with the labels of `num_known` nodes out of one exact labelling."""
        rng = np.random.default_rng([seed, 1])
        graphs = []
        for _ in range(self.test_graphs):
            graph = self.model.draw_graph(rng)
            y = self.model.draw_labels(graph, 1, rng)[:, 0]
            hidden = rng.permutation(len(y))[self.num_known :]
            y[hidden] = UNKNOWN
            graphs.append(graph.with_labels(y))
        return graphs

    def train(self, row: Row, seed: int) -> tuple[Denoiser, Objective]:
        """The denoiser of a row, with its averaged weights."""
        rng = np.random.default_rng([seed, 0])
        graphs = [self.model.draw_graph(rng) for _ in range(self.num_graphs)]
        labels = [self.model.draw_labels(graph, self.labellings, rng) for graph in graphs]
        batches = [
            LabelledGraphs.of(graphs[k], torch.from_numpy(np.concatenate(labels[k])), features="raw")
            for k in (slice(i, i + self.graphs_per_batch) for i in range(0, self.num_graphs, self.graphs_per_batch))
        ]
        torch.manual_seed(seed)
        denoiser = Denoiser(
            "sage",
            graphs[0].num_features,
            self.model.num_classes,
            self.hidden_channels,
            self.num_layers,
            dropout=0.0,
            head_layers=2,
            shows_known=row.conditioning == "amortised",
        )
        predicts: ParameterisationName = "epsilon" if row.denoiser == "epsilon" else "label"
        objective = Objective(self.schedule, predicts, target=graphs[0].target)
        optimiser, generator = Optimiser(denoiser, self.training), torch.Generator().manual_seed(seed)
        source = FullyLabelled(optimiser, objective, batches, self.training, generator)
        Trainer(optimiser, objective, source, self.training, generator).run()
        return optimiser.averaged, objective

    def sample(self, row: Row, trained: tuple[Denoiser, Objective], graph: Graph, seed: int) -> Array:
        """Labellings (nodes, samples) of a graph from a trained denoiser."""
        denoiser, objective = trained
        tensors = GraphTensors.of(graph, "raw")
        posterior = Posterior(denoiser, objective, tensors, known_labels(graph), row.sampling)
        generator = torch.Generator().manual_seed(seed)
        chunks = [posterior.sample(CHUNK, 1.0, generator) for _ in range(self.num_samples // CHUNK)]
        return torch.cat(chunks, dim=1).numpy()

    def sample_exactly(self, row: Row, graph: Graph, seed: int) -> Array:
        """The same from the exact denoiser: of the posterior, or guided from the one that knows no labels."""
        known, step = known_labels(graph), STEPS[row.sampling.method](self.schedule)
        p = self.model.posterior(graph) if row.conditioning == "amortised" else self.model.probabilities(graph)
        if row.conditioning == "guided":
            step = Guided(step, known, row.sampling.guidance)
        shape = (graph.num_nodes, self.num_samples, graph.num_classes)
        noise = Noise(1.0, torch.Generator().manual_seed(seed))
        y = reverse(self.model.denoiser(p, self.schedule), step, shape, noise, known.y, row.sampling.steps)
        return torch.where(known.mask, known.y.argmax(dim=-1), y.argmax(dim=-1)).numpy()

    def run(self, seed: int = 0, rows: Sequence[Row] = ROWS) -> dict[str, Any]:
        """Total variations of every row, of the product of marginals and of as many exact samples."""
        graphs, model = self.test_set(seed), self.model
        posteriors = [model.posterior(graph) for graph in graphs]
        rng = np.random.default_rng([seed, 2])
        ideal = [rng.multinomial(self.num_samples, p) / self.num_samples for p in posteriors]
        trained: dict[tuple[str, str], tuple[Denoiser, Objective]] = {}
        results = []
        for row in rows:
            start, model_key = time.process_time(), (row.conditioning, row.denoiser)
            if row.denoiser == "exact":
                samples = [self.sample_exactly(row, graph, seed) for graph in graphs]
            else:
                if model_key not in trained:
                    trained[model_key] = self.train(row, seed)
                samples = [self.sample(row, trained[model_key], graph, seed) for graph in graphs]
            tv = [total_variation(model.frequencies(y), p) for y, p in zip(samples, posteriors)]
            results.append({"row": row, "tv": tv, "cpu_s": time.process_time() - start})
        return {
            "rows": results,
            "floor": [total_variation(q, p) for q, p in zip(ideal, posteriors)],
            "product": [total_variation(model.product_of_marginals(p), p) for p in posteriors],
        }


def run(seed: int = 0) -> dict[str, Any]:
    return Study().run(seed)


def table(result: dict[str, Any]) -> str:
    """Mean and worst total variation over the test graphs, one line per row."""
    lines = []
    for entry in result["rows"]:
        row: Row = entry["row"]
        strength = f"{row.sampling.guidance.strength:g}" if row.conditioning == "guided" else "-"
        steps = "all" if row.sampling.steps is None else str(row.sampling.steps)
        figures = [f"{np.mean(entry['tv']):.3f}", f"{np.max(entry['tv']):.3f}", f"{entry['cpu_s']:.0f}"]
        lines.append([row.conditioning, row.denoiser, row.sampling.method, steps, strength, *figures])
    header = ["conditioning", "denoiser", "sampler", "steps", "guidance", "mean TV", "worst TV", "CPU s"]
    notes = [f"{name}: mean {np.mean(result[name]):.3f}" for name in ("floor", "product")]
    return str(Table("Total variation to the exact posterior", header, lines, notes))


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(table(run()))
