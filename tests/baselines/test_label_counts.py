import numpy as np
from sklearn.linear_model import LogisticRegression

from dpmsnc.baselines import LabelCounts
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import Graph


def weighted(seed=0, n=40):
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < 0.2
    edges, weight = np.stack([i[kept], j[kept]]), rng.gamma(2.0, size=kept.sum())
    y = [("u", "v", "w")[k % 3] if k % 4 else None for k in range(n)]
    return Graph.build(edges, num_nodes=n, x=rng.normal(size=(n, 2)), y=y, edge_weight=weight)


def test_it_is_five_lines_of_scikit_learn():
    graph = weighted()
    known = graph.known
    counts = graph.adjacency.toarray() @ np.eye(4)[graph.y][:, :3]  # class -1 is the column that is cut off
    table = np.concatenate([graph.x, counts], axis=1)
    for balanced, weights in ((False, None), (True, "balanced")):
        theirs = LogisticRegression(class_weight=weights, max_iter=300).fit(table[known], graph.y[known])
        ours = LabelCounts(scaling="raw", balanced=balanced).fit(graph).predict_proba(clamp_known=False)
        np.testing.assert_allclose(ours, theirs.predict_proba(table), atol=1e-3)


def test_no_label_is_learned_from_itself_and_new_labels_count():
    graph = weighted()
    clf = LabelCounts().fit(graph)
    p = clf.predict_proba(clamp_known=False)
    other = clf.predict_proba(known={1: "u" if graph.decode(graph.y)[1] != "u" else "v"}, clamp_known=False)
    changed = np.flatnonzero(abs(p - other).max(axis=1) > 1e-12)
    assert set(changed) == set(graph.adjacency[[1]].indices)


def test_it_is_saved_and_answers_without_features(tmp_path):
    for graph in (weighted(), Graph.build([(0, 1), (1, 2), (2, 3)], y=["a", "a", "b", None])):
        clf = LabelCounts().fit(graph)
        clf.save(tmp_path / str(graph.num_nodes))
        assert np.array_equal(Estimator.load(tmp_path / str(graph.num_nodes)).predict_proba(), clf.predict_proba())
