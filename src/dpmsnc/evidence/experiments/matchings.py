"""Where the joint matters: a graph has several perfect matchings, and any of them is right.

A diffusion model draws one; its mean over samples, and a direct regression, which learns the same mean, hold parts of
all of them. Counted are answers that are a perfect matching once they are rounded.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.store import Document
from dpmsnc.evidence.show.summary import cpu, percent
from dpmsnc.evidence.show.table import Table
from dpmsnc.reasoning import methods  # noqa: F401 (which registers them)
from dpmsnc.reasoning.matchings import GRAPHS, TESTED, MatchingTask

DATASETS = ("perfect_matching",)
STEPS = 10000
# weights are those of the last step: by squared errors, a sample that is no matching may well be the better one
AT_THE_END = {"perfect_matching": {"training": {"evaluate_every": STEPS}}}
ROWS = {
    "dpm-snc (triples)": Row("dpm-snc-triples", {"steps": STEPS}, by_dataset=AT_THE_END),
    "direct (triples)": Row("direct-triples", {"steps": STEPS}, by_dataset=AT_THE_END),
}
COLUMNS = {f"{name}, n={n}": f"valid_{name}{end}" for n, end in TESTED.items() for name in ("sample", "answer")}
NOTES = (
    f"Share of {GRAPHS} test graphs in %, mean over seeds, whose rounded answer is a perfect matching;",
    "sample: one joint sample; answer: the mean of 16 samples, of the direct network its output, as is its sample.",
)


def table(documents: Sequence[Document]) -> Table:
    """A line per method."""
    rows = []
    for row in ROWS:
        if runs := [run for run in documents if run["row"] == row]:
            means = [statistics.fmean(run["metrics"]["selected"][name] for run in runs) for name in COLUMNS.values()]
            rows.append([row, *map(percent, means), cpu(runs), str(len(runs))])
    return Table("One of several perfect matchings", ("method", *COLUMNS, "CPU s", "seeds"), rows, NOTES, labels=1)


MATCHINGS = Experiment("matchings", DATASETS, ROWS, (0, 1, 2), table=table, load=MatchingTask)
