"""`dpmsnc demo`: what a joint model of labels is for, as pictures, a table and a page to look at.

The graph is a chequerboard of which a tenth of the labels are known, and beside it a strip of which none is. Nodes have
no features; the rule behind the labels, which no method is told, is that neighbours differ. The demo shows

1. what a GCN, label propagation and DPM-SNC at its defaults make of the chequerboard;
2. a label of the strip that is revealed after the fit, and what `predict(known=...)` changes;
3. joint samples against independent draws from the same marginals, on a graph where neighbours differ mostly.

The page is `<out>/report.html`. Its pictures are `<out>/grid.svg` and `<out>/samples.svg`; the README has the first:

    dpmsnc demo && cp runs/demo/grid.svg docs/images/grid.svg
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpmsnc.baselines import GNN, LabelPropagation
from dpmsnc.config import Training
from dpmsnc.data.generated import gibbs_sample
from dpmsnc.data.grids import lattice, lattice_positions, side_by_side
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.estimators.node_classifier import NodeClassifier
from dpmsnc.files import make_folder, write_whole
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.metrics import accuracy, subgraph_accuracy
from dpmsnc.plots import figures
from dpmsnc.plots.figures import Labelling
from dpmsnc.plots.html import Page, Picture, text_table
from dpmsnc.targets import OneClass

KNOWN_SHARE = 0.1
STRIP_ROWS = 3
GAP = 1.5
"""Between chequerboard and strip, in the picture."""
COUPLING, SAMPLED_SHARE = -1.2, 0.5
"""Of the three-class Potts model that samples are drawn on, and how many of its labels are known. With 30 % the model
learned too weak a coupling: neighbours differed along 75 % of the edges of joint samples, and along 88 % in truth."""
NUM_SAMPLES = 64
HEADER = ("method", "accuracy", "subgraph accuracy", "CPU s")

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Question:
    """The graph with its known labels, and what is asked."""

    graph: Graph
    truth: Labels
    """Of the chequerboard; unknown in the strip, whose two colourings are equally good until a label is known."""
    positions: NDArray[np.float64]

    @classmethod
    def of(cls, columns: int, seed: int) -> Question:
        """A chequerboard of `columns` columns, and a strip of which one colour has a node more than the other."""
        if columns < 8 or columns % 2:
            raise InputError(f"the grid has {columns} columns; pass an even number of columns, at least 8")
        rows = columns - STRIP_ROWS - 1
        board, strip = lattice(rows, columns, cyclic=True), lattice(STRIP_ROWS, columns - 1)
        graph = side_by_side(board, strip)
        truth = np.where(np.arange(graph.num_nodes) < board.num_nodes, graph.y, UNKNOWN)
        drawn = np.random.default_rng(seed).permutation(board.num_nodes)[: round(KNOWN_SHARE * board.num_nodes)]
        below = lattice_positions(STRIP_ROWS, columns - 1) - [0, rows - 1 + GAP]
        positions = np.concatenate([lattice_positions(rows, columns), below])
        return cls(graph.hide(~np.isin(np.arange(graph.num_nodes), drawn)), truth, positions)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Nodes that are scored."""
        return (self.truth != UNKNOWN) & ~self.graph.known

    @property
    def strip(self) -> NDArray[np.bool_]:
        return self.truth == UNKNOWN

    def panel(self, labels: Labels, **marks: Any) -> Labelling:
        known = marks.pop("known", self.graph.known)
        edges = self.graph.edge_index[:, inside(self.positions, self.graph)]
        return Labelling(self.positions, edges, 2, labels, known, self.truth, **marks)


@dataclass(frozen=True)
class Result:
    """What one method answered."""

    name: str
    labels: Labels
    accuracy: float
    subgraph_accuracy: float
    seconds: float

    @property
    def row(self) -> tuple[str, ...]:
        return self.name, f"{self.accuracy:.1%}", f"{self.subgraph_accuracy:.1%}", f"{self.seconds:.1f}"


@dataclass(frozen=True)
class Reveal:
    """A label of the strip that turns out to be another than predicted, and the answer given it."""

    node: int
    labels: Labels
    changed: NDArray[np.bool_]


@dataclass(frozen=True)
class Samples:
    """Labellings (samples, nodes) of a graph whose neighbours mostly differ."""

    graph: Graph
    positions: NDArray[np.float64]
    truth: Labels
    joint: Labels
    independent: Labels

    def equal(self, labels: Labels) -> NDArray[np.bool_]:
        """Edges, of one labelling or of several, whose ends have the same label."""
        i, j = self.graph.edge_index
        return np.asarray(labels[..., i] == labels[..., j])

    def differing(self, labels: Labels) -> float:
        """Share of edges whose ends differ, among those that are not known at both ends."""
        open_edge = ~self.graph.known[self.graph.edge_index].all(axis=0)
        return 1 - float(self.equal(labels)[..., open_edge].mean())


def run(out: Path = Path("runs/demo"), columns: int = 20, seed: int = 0, training: Training | None = None) -> None:
    """Fit the three methods, print what they reach, and write pictures and page.

    Args:
        out: The folder of the page.
        columns: Of the chequerboard, an even number; also the side of the graph for samples.
        seed: Of the known labels and of every method.
        training: How DPM-SNC is trained; by default as `NodeClassifier` is.
    """
    question = Question.of(columns, seed)
    make_folder(out)
    known, asked = int(question.graph.known.sum()), int(question.asked.sum())
    print(f"A chequerboard without features: {known} labels are known, {asked} are asked for")
    settings: dict[str, Any] = {"seed": seed, "training": training or Training()}
    clf = NodeClassifier(**settings, verbose=True)
    models = {"GCN": GNN("gcn", seed=seed), "label propagation": LabelPropagation(), "DPM-SNC": clf}
    results = [solve(name, model, question) for name, model in models.items()]
    revealed, samples = reveal(clf, question, results[-1].labels), draw(NodeClassifier(**settings), columns)
    print(
        f"\n{text_table(HEADER, [result.row for result in results])}\n\n{told(question, revealed)}\n{agreed(samples)}\n"
    )
    panels, pairs = board_panels(question, results, revealed), sample_panels(samples)
    write_whole(out / "grid.svg", figures.svg(figures.grids(panels)))
    write_whole(out / "samples.svg", figures.svg(figures.grids(pairs)))
    build_page(question, results, told(question, revealed), panels, samples, clf).write(out / "report.html")
    print(f"Open {out / 'report.html'} in a browser.")


def solve(name: str, model: Any, question: Question) -> Result:
    """Fit on the known labels, of which a part chooses among what was learned, and predict from all of them."""
    started = time.process_time()
    graph, truth, asked = question.graph, question.truth, question.asked
    labels = graph.encode(model.fit(graph, validation=0.2).predict())
    seconds = time.process_time() - started
    scores = accuracy(labels, truth, asked), subgraph_accuracy(labels, truth, asked, graph)
    print(f"{name}: {scores[0]:.1%} after {seconds:.1f} CPU seconds", flush=True)
    return Result(name, labels, *scores, seconds)


def reveal(clf: NodeClassifier, question: Question, before: Labels) -> Reveal:
    """The label in the middle of the strip becomes known, and is not the predicted one."""
    graph, strip = question.graph, np.flatnonzero(question.strip)
    node = int(strip[len(strip) // 2])
    after = graph.encode(clf.predict(known={graph.ids[node]: clf.classes_[1 - before[node]]}))
    return Reveal(node, after, after != before)


def draw(clf: NodeClassifier, side: int) -> Samples:
    """Joint samples, and as many labellings whose nodes are drawn one by one from the same model's marginals."""
    graph, rng = lattice(side, side, cyclic=True), np.random.default_rng(clf.seed)
    truth = gibbs_sample(graph.edge_index, graph.num_nodes, 3, COUPLING, 1000, rng)
    known = rng.random(graph.num_nodes) < SAMPLED_SHARE
    graph = graph.with_labels(np.where(known, truth, UNKNOWN), OneClass((0, 1, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # three classes that little is known of; samples are the point here
        clf.fit(graph)
    joint = clf.sample(NUM_SAMPLES, seed=clf.seed)
    independent = Estimator.sample(clf, NUM_SAMPLES, seed=clf.seed)
    encoded = (np.stack([graph.encode(one) for one in drawn]) for drawn in (joint, independent))
    return Samples(graph, lattice_positions(side, side), truth, *encoded)


def board_panels(question: Question, results: list[Result], revealed: Reveal) -> dict[str, Labelling]:
    panels = {f"{result.name}: {result.accuracy:.0%} right": question.panel(result.labels) for result in results}
    known = question.graph.known.copy()
    known[revealed.node] = True
    after = question.panel(revealed.labels, known=known, changed=revealed.changed)
    return {**panels, f"one more label: {revealed.changed.sum()} change": after}


def sample_panels(samples: Samples) -> dict[str, Labelling]:
    """The truth, and the first labelling of either kind under the share of all of them."""
    edges, here = samples.graph.edge_index, inside(samples.positions, samples.graph)
    kinds = {"truth": samples.truth[None], "joint samples": samples.joint, "independent draws": samples.independent}
    return {
        f"{name}: {samples.differing(labels):.1%} differ": Labelling(
            samples.positions,
            edges[:, here],
            samples.graph.num_classes,
            labels[0],
            samples.graph.known,
            broken=samples.equal(labels[0])[here],
        )
        for name, labels in kinds.items()
    }


def inside(positions: NDArray[np.float64], graph: Graph) -> NDArray[np.bool_]:
    """Edges that are drawn: not those that join opposite borders."""
    i, j = graph.edge_index
    return np.asarray(np.linalg.norm(positions[i] - positions[j], axis=1) < GAP)


def told(question: Question, revealed: Reveal) -> str:
    """What the revealed label changed, in words."""
    strip = question.strip
    i, j = question.graph.edge_index
    obeyed = (revealed.labels[i] != revealed.labels[j])[strip[i]].mean()
    within, outside = int(revealed.changed[strip].sum()), int(revealed.changed[~strip].sum())
    return (
        "One label of the strip becomes known, and it is not the predicted one. Without a new fit, "
        f"{within} of the {strip.sum()} labels of the strip change, and {outside} of the others. "
        f"Neighbours then differ along {obeyed:.0%} of the edges of the strip."
    )


def agreed(samples: Samples) -> str:
    """What joint samples are worth, in words."""
    return (
        "Another graph has three classes. Neighbours differ along "
        f"{samples.differing(samples.truth):.1%} of its edges that are not known at both ends. In {NUM_SAMPLES} joint "
        f"samples it is {samples.differing(samples.joint):.1%}, and in independent draws from the same model's "
        f"marginals {samples.differing(samples.independent):.1%}."
    )


def build_page(
    question: Question,
    results: list[Result],
    change: str,
    panels: dict[str, Labelling],
    samples: Samples,
    clf: NodeClassifier,
) -> Page:
    page = Page("Predicting all labels of a graph together")
    legend = figures.grid_legend(2, "known", "wrong", "changed")
    page.paragraph(
        "The labels of this graph depend on each other and on nothing else. Nodes have no features, and the rule, "
        "which no method is told, is that neighbours differ. Opposite borders of the large grid are joined. Of its "
        f"labels {question.graph.known.sum()} are known, a tenth; {question.asked.sum()} are asked for. Of the strip "
        "below it no label is known."
    )
    page.image(Picture(figures.svg(legend), "Legend: class 0, class 1, known, wrong, changed"))
    page.figures(*pictures(panels))
    page.table(HEADER, [result.row for result in results])
    page.note(
        "Accuracy: share of the unknown labels of the large grid that are right. Subgraph accuracy: share of its nodes "
        "without a known label that are right together with all their neighbours. CPU s: processor seconds of "
        "training and prediction."
    )
    page.paragraph(
        "The GCN answers for each node from its surroundings, which look alike almost everywhere. Label propagation "
        "takes neighbours to be alike. DPM-SNC learns from the known labels how labels depend on each other, and "
        "answers for all nodes together. All settings are the defaults."
    )
    page.heading("A label that is learned later").paragraph(
        "Nothing tells which of its two colourings the strip has, so a method can only pick one. " + change
    )
    page.heading("Samples that agree with themselves").paragraph(agreed(samples)).figures(
        *pictures(sample_panels(samples))
    )
    page.note(
        "Shown are the truth and the first labelling of either kind. An edge is drawn thick where both ends are of one "
        "class. Marginals cannot say that two neighbours differ if each of them may be of either class."
    )
    page.heading("What the fit says of itself").notes(str(clf.report_).splitlines())
    history = clf.history_
    curve = figures.lines({"DPM-SNC": (history.step, history.validation_score)}, "training step", "validation score")
    words = "Validation score, the geometric mean of the probabilities of validation labels, over training steps"
    return page.figures(Picture(figures.svg(curve), words, words))


def pictures(panels: dict[str, Labelling]) -> list[Picture]:
    return [Picture(figures.svg(figures.grids({name: panel}, legend=False)), name) for name, panel in panels.items()]
