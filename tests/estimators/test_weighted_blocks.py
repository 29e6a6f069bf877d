import numpy as np
import pytest

from dpmsnc import NodeClassifier
from dpmsnc.graph import Graph


def weighted_blocks(seed, n=300, classes=3, degree=24, ratio=4.0):
    """All pairs are linked with the same probability, and edges within a class are heavier; a fifth is known."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < degree / n
    i, j = i[kept], j[kept]
    weight = rng.gamma(4.0, np.where(y[i] == y[j], ratio, 1.0) / 4)
    return Graph.build(np.stack([i, j]), num_nodes=n, y=y, edge_weight=weight), rng.random(n) < 0.2


@pytest.mark.slow
def test_classes_that_weights_alone_tell_are_found():
    graph, known = weighted_blocks(0)
    asked = graph.hide(~known)
    assert NodeClassifier().fit(asked, validation=0.2).score(graph) > 0.95
    blind = NodeClassifier().fit(asked.with_weights(None), validation=0.2)
    assert blind.score(graph.with_weights(None)) < 0.5
