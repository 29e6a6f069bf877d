"""`dpmsnc demo`: joint label prediction on a grid where a plain GNN can only guess, as a table and a page to look at.

Three methods are fitted on a 2 x n cyclic grid with scattered known labels (section 6.1 of the paper) beside a grid of
2 x 20 that is small enough to draw (the paper's figure 1). The table scores the test nodes of the large grid. The page
is `<out>/report.html`; the small grid is also written as `<out>/grid.svg`, which is how the README gets its picture:

    dpmsnc demo && cp runs/demo/grid.svg docs/images/grid.svg
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpmsnc.baselines import GNN, MaskedLabels
from dpmsnc.config import Training
from dpmsnc.data.grids import grid_positions, grid_scattered
from dpmsnc.data.task import Task
from dpmsnc.diffusion.objective import Estimate
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.files import make_folder, write_whole
from dpmsnc.graph import UNKNOWN
from dpmsnc.metrics import accuracy, subgraph_accuracy
from dpmsnc.plots import figures
from dpmsnc.plots.figures import Labelling
from dpmsnc.plots.html import Page, Picture, text_table
from dpmsnc.training.trainer import History

TRAINING = Training(steps=600)
"""Shorter than the default: this grid is solved within a few hundred steps."""
EXTRA_COLUMNS = 20
HEADER = ("method", "accuracy", "subgraph accuracy", "runs", "first run", "CPU s")


@dataclass
class Trace:
    """Accuracy of the label estimate on test nodes, at every reverse step of every run; a callback of `predict`."""

    task: Task
    runs: list[list[float]] = field(default_factory=list)
    last_t: int = 0

    def __call__(self, t: int, y_t: Tensor, estimate: Estimate) -> None:
        if t >= self.last_t:
            self.runs.append([])
        self.last_t = t
        labels = estimate.y0[:, 0].argmax(dim=-1).cpu().numpy()
        self.runs[-1].append(accuracy(labels, self.task.truth, self.task.test))


@dataclass(frozen=True)
class Result:
    """What one method answered, and how it got there."""

    name: str
    labels: NDArray[np.int64]
    accuracy: float
    subgraph_accuracy: float
    seconds: float
    runs: list[list[float]]
    history: History

    @property
    def row(self) -> tuple[str, ...]:
        scores = (self.accuracy, self.subgraph_accuracy)
        return (
            self.name,
            *(f"{score:.1%}" for score in scores),
            str(len(self.runs)),
            f"{self.runs[0][-1]:.1%}",
            f"{self.seconds:.1f}",
        )


def run(out: Path = Path("runs/demo"), columns: int = 1000, seed: int = 0, training: Training | None = None) -> None:
    """Fit the three methods, print the table, and write the page.

    Args:
        out: The folder of the page.
        columns: Length of the large grid, an even number.
        seed: Of the split and of every method.
        training: How masked-labels and DPM-SNC are trained; by default shorter than `NodeClassifier` would.
    """
    training = training or TRAINING
    task = grid_scattered(columns, seed, extra_grid=True)
    make_folder(out)
    print(f"A cyclic grid of 2 x {columns} nodes without features, of which {task.test.sum()} are test nodes")
    gcn = solve("GCN", GNN("gcn", hidden_channels=16, num_layers=1, seed=seed), task)
    masked = solve("masked-labels", MaskedLabels(seed=seed, training=training, verbose=True), task)
    dpm = solve("DPM-SNC", NodeClassifier(seed=seed, training=training, verbose=True), task)
    results = [gcn, masked, dpm]
    print("\n" + text_table(HEADER, [result.row for result in results]) + "\n")
    write_whole(out / "grid.svg", figures.svg(figures.grids(panels(task, results))))
    build_page(task, gcn, masked, dpm).write(out / "report.html")
    print(f"Open {out / 'report.html'} in a browser.")


def solve(name: str, model: Any, task: Task) -> Result:
    """Fit on training labels, choose by validation labels, predict from training labels, score on test nodes."""
    started, trace = time.process_time(), Trace(task)
    model.fit(task.graph, validation=task.validation)
    history = getattr(model, "history_", History())
    watched = {"callback": trace} if history.step else {}
    labels = model.predict(condition_on="train", **watched)
    # what a user gets: where a label is known, no method is asked
    labels = np.where(task.train, task.truth, task.graph.encode(labels))
    seconds = time.process_time() - started
    result = Result(
        name=name,
        labels=labels,
        accuracy=accuracy(labels, task.truth, task.test),
        subgraph_accuracy=subgraph_accuracy(labels, task.truth, task.test, task.graph),
        seconds=seconds,
        runs=trace.runs or [[accuracy(labels, task.truth, task.test)]],
        history=history,
    )
    print(f"{name}: {result.accuracy:.1%} after {seconds:.1f} CPU seconds")
    return result


def panels(task: Task, results: list[Result]) -> dict[str, Labelling]:
    """The small grid, which stands behind the large one: what is asked, and what each method answers."""
    small = np.arange(task.graph.num_nodes) >= task.graph.num_nodes - 2 * EXTRA_COLUMNS
    offset = int(np.argmax(small))
    edges = task.graph.edge_index[:, small[task.graph.edge_index].all(axis=0)] - offset
    known, truth = task.train[small], task.truth[small]
    positions = grid_positions(EXTRA_COLUMNS)
    answers = {"the question": np.where(task.train, task.truth, UNKNOWN)}
    answers |= {result.name: result.labels for result in results}
    return {
        name: Labelling(positions, edges, task.num_classes, labels[small], known, truth)
        for name, labels in answers.items()
    }


def build_page(task: Task, gcn: Result, masked: Result, dpm: Result) -> Page:
    results = [gcn, masked, dpm]
    page = Page("Predicting all labels of a graph together")
    page.paragraph(introduction(task))
    page.heading("How often each method is right").table(HEADER, [result.row for result in results])
    page.note(
        "Accuracy: share of test nodes that are right. Subgraph accuracy: share of test nodes that are right together "
        "with all their neighbours. In both, the known labels are filled in for every method. Runs: where repeating "
        "validates better, a method adopts its most confident answers as known and answers the rest again, run after "
        "run; first run: accuracy without that. CPU s: processor seconds of training and prediction."
    )
    page.paragraph(
        "GCN classifies each node on its own, from its surroundings in the graph; here all surroundings look the same, "
        "so it gives one answer for all nodes. masked-labels is DPM-SNC without diffusion: the same network, trained "
        "in the same way on known labels of which a random part is shown and the rest is asked for, but in a run every "
        "node is answered once, without regard to the answers of the others. DPM-SNC answers in many small steps, each "
        "of which sees what the step before has made of all labels, so that a node can learn from its neighbours."
    )
    page.paragraph(comparison(masked, dpm))
    add_grids(page, task, results)
    page.heading("Step by step").paragraph(
        "Accuracy on test nodes of the labels that DPM-SNC would answer at each step of its first run. At the first "
        "step it has nothing but the known labels, as masked-labels has; from then on it also sees its own answers."
    )
    page.figures(reverse_picture(gcn, masked, dpm))
    page.heading("Training").paragraph(
        "Loss and accuracy on validation nodes, at each evaluation during training; the weights with the best "
        "validation accuracy are kept. The losses of the two methods are not on the same footing: DPM-SNC also sees "
        "noisy labels, which makes many of its questions easier."
    )
    return page.figures(*training_pictures([dpm, masked]))


def introduction(task: Task) -> str:
    columns = task.graph.num_nodes // 2 - EXTRA_COLUMNS
    return (
        "Three methods predict the unknown labels of a graph whose labels depend on each other and on nothing else. "
        f"The graph is a cyclic grid: two rings of {columns} nodes, with a link between each node and its partner on "
        "the other ring. Nodes have no features and all have three neighbours, so only known labels tell one node "
        "from another. The rule behind the labels, which no method is told, is that neighbours differ. The labels of "
        "30 % of the nodes, chosen at random, are known; another 30 % serve to choose the weights and to end training; "
        "the remaining 40 % are the test. A second grid of two rings of 20 nodes, of which 8 are known, stands beside "
        "the large one to be drawn below."
    )


def comparison(masked: Result, dpm: Result) -> str:
    """What the numbers say about diffusion, whichever way they fall."""
    gap, first_gap = dpm.accuracy - masked.accuracy, dpm.runs[0][-1] - masked.runs[0][-1]
    text = (
        "The difference between these two is what diffusion adds. In a single run it is "
        f"{100 * first_gap:+.1f} points ({dpm.runs[0][-1]:.1%} against {masked.runs[0][-1]:.1%}); as they are used, "
        f"DPM-SNC with {len(dpm.runs)} and masked-labels with {len(masked.runs)} runs, it is {100 * gap:+.1f} points. "
    )
    if abs(gap) < 0.005:
        verdict = "So in the end both do equally well on this grid"
        cheaper = min(masked, dpm, key=lambda result: result.seconds)
        return text + f"{verdict}, and {cheaper.name} needed less time for it."
    better = dpm if gap > 0 else masked
    return text + f"So on this grid {better.name} is the better of the two."


def add_grids(page: Page, task: Task, results: list[Result]) -> None:
    page.heading("What it looks like").paragraph(
        "The small grid as each method answers it. Light and dark are the two classes, a ring means that the label was "
        "given, a cross that the answer is wrong."
    )
    pictures = []
    for name, panel in panels(task, results).items():
        asked, wrong = int((~panel.known).sum()), int(panel.wrong.sum())
        is_question = bool((panel.labels == UNKNOWN).any())
        words = f"{asked} labels are asked for" if is_question else f"{asked - wrong} of {asked} right"
        figure = figures.grids({name: panel}, legend=False)
        pictures.append(Picture(figures.svg(figure), f"Grid, {name}: {words}", words))
    legend = Picture(figures.svg(figures.grid_legend(task.num_classes)), "Legend: class 0, class 1, known, wrong")
    page.image(legend).figures(*pictures)


def reverse_picture(gcn: Result, masked: Result, dpm: Result) -> Picture:
    accuracies = dpm.runs[0]
    figure = figures.lines(
        {"DPM-SNC": (range(1, len(accuracies) + 1), accuracies)},
        "reverse step",
        "accuracy on test nodes",
        y_range=accuracy_range([*accuracies, gcn.accuracy]),
        levels={"masked-labels, one run": masked.runs[0][-1], "GCN": gcn.accuracy},
    )
    words = f"Accuracy goes from {accuracies[0]:.1%} to {accuracies[-1]:.1%} in {len(accuracies)} steps."
    return Picture(figures.svg(figure), words, words)


def training_pictures(results: list[Result]) -> list[Picture]:
    losses = {r.name: (r.history.step, r.history.loss) for r in results}
    accuracies = {r.name: (r.history.step, r.history.validation_score) for r in results}
    y_range = accuracy_range([value for _, values in accuracies.values() for value in values])
    return [
        Picture(figures.svg(figures.lines(losses, "training step", "loss")), "Loss over training steps"),
        Picture(
            figures.svg(figures.lines(accuracies, "training step", "validation accuracy", y_range=y_range)),
            "Validation accuracy over training steps",
        ),
    ]


def accuracy_range(values: list[float]) -> tuple[float, float]:
    """Down to guessing between two classes, or further where a value lies below."""
    return min(0.45, *values) - 0.02, 1.02
