"""Perfect matchings: what is drawn, what counts as one, and how methods are scored."""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import permutations

import numpy as np
import torch

from dpmsnc.evidence.experiments.matchings import MATCHINGS, table
from dpmsnc.evidence.run.experiment import Row, Run
from dpmsnc.reasoning.matchings import MatchingStream, MatchingTask, draw, matchings, valid
from dpmsnc.reasoning.tasks import generator


def perfect_matchings(n):
    """All of n nodes, as matrices."""
    found = set()
    for order in permutations(range(n)):
        pairs = list(zip(order[::2], order[1::2]))
        found.add(tuple(int((i, j) in pairs or (j, i) in pairs) for i in range(n) for j in range(n)))
    return found


def test_matchings_are_drawn_uniformly():
    drawn = Counter(tuple(y.flatten().int().tolist()) for y in matchings(3000, 4, generator(0, "train")))
    assert drawn.keys() == perfect_matchings(4) and all(abs(count - 1000) < 150 for count in drawn.values())


def test_all_matchings_of_a_graph_are_equally_likely():
    attributes, y = draw(60000, 4, generator(0, "train"))
    square = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]])  # a cycle of four has two
    counts = Counter(tuple(m.flatten().int().tolist()) for m in y[(attributes == square).all(dim=(1, 2))])
    one, other = counts.values()
    assert abs(one - other) < 5 * np.sqrt(one + other)


def test_the_valid_answers_are_the_perfect_matchings():
    attributes, y = draw(50, 6, generator(0, "train"))
    assert valid(attributes, y).all() and torch.equal(attributes, attributes.mT)
    assert not valid(1 - y, y).any() and not valid(attributes, 0 * y).any()
    matrices = (np.arange(2**16)[:, None] >> np.arange(16) & 1).reshape(-1, 4, 4)
    found = matrices[valid(1 - np.eye(4), matrices)]
    assert {tuple(matrix.flatten().tolist()) for matrix in found} == perfect_matchings(4)


def test_streams_are_those_of_their_seed():
    stream = MatchingStream(0)
    first, again, other = (s.draw(5, s.generator()) for s in (stream, stream, MatchingStream(1)))
    assert all(torch.equal(a, b) for one, two in zip(first, again) for a, b in zip(one, two))
    assert [y.shape for _, y in first] != [y.shape for _, y in other] or not torch.equal(first[0][0], other[0][0])
    ((attributes, _),) = stream.validation()
    assert attributes.shape == (256, 8, 8)


def test_runs_count_valid_answers():
    small = {"hidden_channels": 8, "num_layers": 1, "steps": 2}
    rows = {name: Row(row.method, small) for name, row in MATCHINGS.rows.items()}
    quick = replace(MATCHINGS, rows=rows, load=partial(MatchingTask, most_graphs=2))
    documents = [Run(quick, "perfect_matching", row, 0).execute() | {"row": row} for row in rows]
    selected = documents[0]["metrics"]["selected"]
    assert {"mse", "valid_sample", "valid_answer", "valid_sample_large"} <= selected.keys()
    assert [line[0] for line in table(documents).rows] == list(rows)
    trainings = [row.build(0, "perfect_matching").training for row in MATCHINGS.rows.values()]
    assert all(training.evaluate_every == training.steps for training in trainings)
