"""`compare`: every method on every split, cheap ones first, within a budget.

A method is begun only if its splits fit into what is left of the budget, where a split is expected to take as long as
the longest so far of any method before it; after its first split its own time counts. The first split is stopped as
soon as it takes more than its share of what is left, since all splits together would not fit then; a later one is
stopped at the end of the budget (`dpmsnc.deadline`). A method that was stopped is left out, and so are those after it,
which are expected to take no less. The initialiser of a split is chosen once for `crf`, `masked-labels` and `dpm-snc`,
and is part of the CPU time that each of them is shown with.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpmsnc import metrics
from dpmsnc.comparison.budget import Budget, seconds
from dpmsnc.comparison.contestants import Contestant, chosen, unsuited
from dpmsnc.comparison.leaderboard import METRICS, Comparison, Row, Run
from dpmsnc.comparison.splits import Split, draw_splits
from dpmsnc.config import LARGEST_SEED, check_number
from dpmsnc.deadline import OutOfTime, check_time, until
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.several import listed
from dpmsnc.graph import Graph
from dpmsnc.nn.process import threads
from dpmsnc.progress import shown, spelled
from dpmsnc.targets import OneClass

LOGGER = logging.getLogger(__name__)
THREADS = 1
"""Processor threads, so that CPU seconds can be compared; fits this small gain nothing by more."""


def compare(
    graph: Graph,
    *,
    methods: Sequence[str] | None = None,
    splits: int = 5,
    by: str = "accuracy",
    budget: float | str | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Comparison:
    """Which method suits a graph, by labels that are known but hidden from it.

    Args:
        graph: A graph with a class for some of its nodes.
        methods: Names; by default all that are worth their time on the graph.
        splits: How often the known labels are divided; every label is asked for once.
        by: What the recommendation goes by: "accuracy", "macro_f1", "log_loss" or "calibration_error".
        budget: Seconds, or a text such as "5m": methods that do not fit are stopped or left out, and named.
        seed: Fixes the splits and what methods draw.
        verbose: Print a line for every method and split.

    Example:
        >>> path = Graph.build([(i, i + 1) for i in range(9)], y=["a"] * 5 + ["b"] * 5)
        >>> compare(path, methods=["majority", "lp"], splits=2).recommended
        'lp'
    """
    contestants = chosen(methods)
    check_number("seed", seed, 0, LARGEST_SEED - splits, whole=True)
    check_number("splits", splits, 2, whole=True)
    if by not in METRICS:
        raise InputError(f"by={by!r} is not one of {', '.join(METRICS)}")
    seconds(budget)
    check_graph(graph)
    race = Race(graph, draw_splits(graph, splits, seed), Budget(budget), asked=methods is not None)
    with shown(verbose, "comparison"), threads(THREADS), threadpool_limits(THREADS):
        return race.run(contestants, by)


def check_graph(graph: Any) -> None:
    """Raise `InputError` unless it is one graph whose nodes have classes."""
    if len(listed(graph, "compare")) > 1 or not isinstance(graph, Graph) or graph.member is not None:
        raise InputError("compare divides the labels of one graph; pass a single one")
    if not isinstance(graph.target, OneClass) or graph.target.on != "node":
        raise InputError(f"compare is for classes of nodes, and a label here is a {graph.target.kind}")


class Race:
    """Methods on the same splits."""

    def __init__(self, graph: Graph, splits: list[Split], budget: Budget, asked: bool) -> None:
        self.graph, self.splits, self.budget, self.asked = graph, splits, budget, asked
        self.longest = 0.0
        self.left_out: dict[str, str] = {}

    def run(self, contestants: Sequence[Contestant], by: str) -> Comparison:
        import_module("sklearn.metrics")  # else the first split would be charged for it
        rows = []
        for contestant in contestants:
            runs = self.runs_of(contestant)
            if contestant.name not in self.left_out:
                rows.append(Row(contestant, tuple(runs)))
        if not rows:
            raise InputError(f"no method could be fitted: {'; '.join(f'{n}: {r}' for n, r in self.left_out.items())}")
        return Comparison(self.graph, tuple(rows), self.left_out, by)

    def runs_of(self, contestant: Contestant) -> list[Run]:
        """On all splits, or on none that count."""
        runs: list[Run] = []
        reason = None if self.asked else unsuited(contestant, self.graph)
        expected = self.longest
        while reason is None and len(runs) < len(self.splits):
            left = len(self.splits) - len(runs)
            if not self.budget.allows(left * expected) and (runs or self.longest):
                reason = f"its splits would not have fitted into the budget, at {spelled(expected)} or more each"
                break
            started = time.monotonic()
            try:
                with until(self.budget.ends if runs else self.budget.share(left)):
                    runs.append(run(contestant, self.splits[len(runs)], self.graph))
            except OutOfTime:
                taken = time.monotonic() - started
                self.longest = max(self.longest, taken)
                check_time()  # of who asked for the comparison
                reason = f"stopped by the budget in split {len(runs) + 1} of {len(self.splits)}, after {spelled(taken)}"
                break
            except InputError as error:
                reason = str(error)
                break
            expected = time.monotonic() - started
            self.longest = max(self.longest, expected)
            self.tell(contestant, runs)
        if reason is not None:
            self.left_out[contestant.name] = reason
            LOGGER.info("%-21s left out: %s", contestant.name, reason)
        return runs

    def tell(self, contestant: Contestant, runs: list[Run]) -> None:
        last, of = runs[-1], f"split {len(runs)} of {len(self.splits)}"
        LOGGER.info(
            "%-21s %s: accuracy %.1f %%, %s", contestant.name, of, 100 * last.scores["accuracy"], spelled(last.cpu_s)
        )


def run(contestant: Contestant, split: Split, truth: Graph) -> Run:
    """One method on one split."""
    shared, already = 0.0, "initialiser" in vars(split)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the leaderboard says how good it is
        model = fitted(contestant, split)
        predicted, proba = truth.encode(model.predict()), model.predict_proba()
    cpu_s = time.process_time() - started
    if contestant.corrects and already:
        shared = split.initialiser_cpu_s
    asked, y = split.asked, truth.y
    scores = {
        "accuracy": metrics.accuracy(predicted, y, asked),
        "macro_f1": metrics.macro_f1(predicted, y, asked),
        "log_loss": metrics.log_loss(proba, y, asked),
        "calibration_error": metrics.calibration_error(proba, y, asked),
    }
    return Run(
        scores, cpu_s + shared, np.flatnonzero(asked), int(split.graph.known.sum()), predicted[asked], proba[asked]
    )


def fitted(contestant: Contestant, split: Split) -> Any:
    """The method, fitted to what the split shows."""
    if contestant.name == "crf":
        return split.initialiser
    if contestant.corrects:
        return contestant.build(split.seed, initialiser=split.initialiser).fit(split.graph, split.validation)
    return contestant.build(split.seed).fit(split.graph)
