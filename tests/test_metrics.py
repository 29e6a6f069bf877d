import networkx as nx
import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import accuracy_score, f1_score, mean_absolute_error, r2_score, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from dpmsnc.estimators.number_report import NumberReport
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.metrics import (
    METRICS,
    accuracy,
    calibration_error,
    graph_accuracy,
    log_loss,
    macro_f1,
    mae,
    micro_f1,
    mse,
    pair_calibration_error,
    pair_log_score,
    pair_tables,
    product_of_marginals,
    r2,
    roc_auc,
    scores,
    simulated_calibration_error,
    subgraph_accuracy,
)
from dpmsnc.targets import OneClass


def from_networkx(graph):
    edges = np.array(sorted(tuple(sorted(edge)) for edge in graph.edges)).T.reshape(2, -1)
    n = graph.number_of_nodes()
    return Graph(num_nodes=n, edge_index=edges, x=None, y=np.full(n, -1), target=OneClass((0, 1, 2)), ids=np.arange(n))


@pytest.fixture(params=range(5))
def case(request):
    """A random graph with label-less nodes, a prediction right on about five nodes in six, and a mask."""
    rng = np.random.default_rng(request.param)
    network = nx.gnm_random_graph(80, 100, seed=request.param)
    truth = rng.integers(-1, 3, 80)
    predicted = np.where(rng.random(80) < 0.8, np.maximum(truth, 0), rng.integers(0, 3, 80))
    return network, from_networkx(network), predicted, truth, rng.random(80) < 0.6


def test_a_path_by_hand():
    graph = from_networkx(nx.path_graph(5))
    truth, predicted = np.array([0, 1, 0, 1, 0]), np.array([0, 1, 0, 0, 0])
    everywhere = np.ones(5, dtype=bool)
    assert accuracy(predicted, truth, everywhere) == pytest.approx(4 / 5)
    # node 3 is wrong and spoils 2, 3 and 4
    assert subgraph_accuracy(predicted, truth, everywhere, graph) == pytest.approx(2 / 5)
    # the mask says whom to ask about, not whom to look at: 2 is spoilt by 3 outside it
    assert subgraph_accuracy(predicted, truth, np.array([0, 1, 1, 0, 0], dtype=bool), graph) == pytest.approx(1 / 2)
    # a label-less node is neither asked about nor held against its neighbours
    truth[3] = -1
    assert accuracy(predicted, truth, everywhere) == 1
    assert subgraph_accuracy(predicted, truth, everywhere, graph) == 1


def test_subgraph_accuracy_equals_a_loop_over_neighbourhoods(case):
    network, graph, predicted, truth, mask = case

    def right(node):
        return all(predicted[j] == truth[j] for j in [node, *network[node]] if truth[j] != -1)

    asked = [i for i in network if mask[i] and truth[i] != -1]
    expected = sum(map(right, asked)) / len(asked)
    assert subgraph_accuracy(predicted, truth, mask, graph) == pytest.approx(expected)
    assert 0 < expected < accuracy(predicted, truth, mask) < 1


def test_accuracy_and_f1_equal_scikit_learn_on_the_labelled_nodes(case):
    _, _, predicted, truth, mask = case
    asked = mask & (truth >= 0)
    assert accuracy(predicted, truth, mask) == pytest.approx(accuracy_score(truth[asked], predicted[asked]))
    assert macro_f1(predicted, truth, mask) == pytest.approx(f1_score(truth[asked], predicted[asked], average="macro"))


def test_macro_f1_counts_a_rare_class_as_much_as_a_common_one():
    truth = np.array([0] * 98 + [1] * 2)
    assert macro_f1(np.zeros(100, dtype=int), truth, np.ones(100, dtype=bool)) == pytest.approx((2 * 98 / 198) / 2)


def test_no_answer_is_no_class_of_macro_f1():
    truth, answers, mask = np.array([0, 0, 1, 1]), np.array([0, -1, 1, 2]), np.ones(4, dtype=bool)
    assert macro_f1(answers, truth, mask) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert macro_f1(np.full(4, -1), truth, mask) == 0
    assert np.isnan(macro_f1(answers, truth, ~mask))


def test_log_loss_is_scikit_learns_of_the_nodes_asked_about_with_a_floor():
    rng = np.random.default_rng(0)
    p, truth, mask = rng.dirichlet(np.ones(3), size=50), rng.integers(-1, 3, size=50), rng.random(50) < 0.7
    asked = mask & (truth != -1)
    assert log_loss(p, truth, mask) == pytest.approx(sklearn_log_loss(truth[asked], p[asked], labels=[0, 1, 2]))
    certain = np.array([[1.0, 0.0]])
    assert log_loss(certain, np.array([1]), np.array([True])) == pytest.approx(-np.log(1e-12))


def test_simulated_calibration_error_is_that_of_labels_drawn_from_the_probabilities():
    rng = np.random.default_rng(0)
    p, mask = rng.dirichlet(np.ones(3), size=400), np.arange(400) < 300
    draws = [(p.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1) for _ in range(300)]
    expected = np.mean([calibration_error(p, drawn, mask) for drawn in draws])
    assert simulated_calibration_error(p, mask) == pytest.approx(expected, rel=0.05)
    assert simulated_calibration_error(p, mask, seed=3) == simulated_calibration_error(p, mask, seed=3)
    assert simulated_calibration_error(np.eye(3)[[0, 1]], np.array([True, True])) == 0


@pytest.mark.parametrize("bins", [1, 5, 15])
def test_calibration_error_equals_a_loop_over_bins(case, bins):
    _, _, _, truth, mask = case
    probabilities = np.random.default_rng(0).dirichlet([0.5] * 3, size=80)
    asked = np.flatnonzero(mask & (truth >= 0))
    confidence, expected = probabilities.max(axis=1), 0.0
    for b in range(bins):
        members = [i for i in asked if b / bins < confidence[i] <= (b + 1) / bins]
        if members:
            hits = np.mean([probabilities[i].argmax() == truth[i] for i in members])
            expected += len(members) / len(asked) * abs(hits - confidence[members].mean())
    assert calibration_error(probabilities, truth, mask, bins) == pytest.approx(expected)


def test_certainty_is_calibrated_exactly_when_it_is_right():
    truth = np.array([0, 1, 1, 0])
    certain = np.eye(2)[[0, 1, 0, 0]]
    assert calibration_error(certain, truth, np.array([1, 1, 0, 1], dtype=bool)) == 0
    assert calibration_error(certain, truth, np.ones(4, dtype=bool)) == pytest.approx(1 / 4)


def test_scores_name_every_metric_and_are_nan_without_nodes(case):
    _, graph, predicted, truth, mask = case
    probabilities = np.eye(3)[predicted]
    result = scores(predicted, truth, mask, graph, probabilities)
    names = ["accuracy", "subgraph_accuracy", "macro_f1", "micro_f1", "roc_auc", "calibration_error"]
    assert list(result) == names and result["micro_f1"] == pytest.approx(result["accuracy"])
    assert result["calibration_error"] == pytest.approx(1 - result["accuracy"])
    assert "calibration_error" not in scores(predicted, truth, mask, graph)
    assert all(np.isnan(v) for v in scores(predicted, truth, mask & False, graph, probabilities).values())


def test_metrics_do_not_depend_on_the_order_of_nodes(case):
    network, graph, predicted, truth, mask = case
    order = np.random.default_rng(1).permutation(80)
    position = np.argsort(order)
    moved = from_networkx(nx.relabel_nodes(network, dict(enumerate(position.tolist()))))
    assert scores(predicted[order], truth[order], mask[order], moved) == pytest.approx(
        scores(predicted, truth, mask, graph)
    )


# nodes 0 and 1 always differ, node 2 is 0 in half of the samples whatever they are
COUPLED = np.array([[0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 0, 1]])
PAIRS = np.array([[0, 0], [1, 2]])


def test_coupled_labels_gain_log_two_and_independent_ones_nothing():
    tables = pair_tables(COUPLED, PAIRS, num_classes=2, alpha=0)
    assert np.array_equal(tables, [[[0, 0.5], [0.5, 0]], [[0.25, 0.25], [0.25, 0.25]]])
    truth = np.array([1, 0, 1])
    assert pair_log_score(tables, truth, PAIRS) == pytest.approx(np.log([1 / 2, 1 / 4]))
    assert pair_log_score(product_of_marginals(tables), truth, PAIRS) == pytest.approx(np.log([1 / 4, 1 / 4]))


def test_smoothing_is_that_of_the_marginals_and_makes_up_no_dependence():
    # each label is any class with probability 2 / (4 + 2)
    tables = pair_tables(COUPLED, PAIRS, num_classes=2, alpha=2)
    assert tables[0] == pytest.approx(np.array([[5, 13], [13, 5]]) / 36)
    assert tables[1] == pytest.approx(np.full((2, 2), 1 / 4))
    certain = pair_tables(np.tile([0, 1, 1], (4, 1)), PAIRS, num_classes=3, alpha=1)
    assert certain == pytest.approx(product_of_marginals(certain))
    # (n + alpha / C) / (S + alpha)
    assert certain[0].sum(axis=1) == pytest.approx(np.array([4 + 1 / 3, 1 / 3, 1 / 3]) / 5)


def test_pair_tables_equal_a_loop_over_samples():
    rng = np.random.default_rng(0)
    samples, pairs = rng.integers(0, 3, (50, 10)), rng.integers(0, 10, (2, 7))
    channel = (50 * np.eye(3) + 1 / 3) / 51
    expected = np.zeros((7, 3, 3))
    for sample in samples:
        for e, (i, j) in enumerate(pairs.T):
            expected[e] += np.outer(channel[sample[i]], channel[sample[j]]) / 50
    assert pair_tables(samples, pairs, num_classes=3) == pytest.approx(expected)


def test_frequencies_of_the_true_distribution_are_calibrated_pair_by_pair():
    # the pair is (0, 0) in three of four cases and (1, 1) in one, and is told so
    truth = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    pairs = np.arange(8).reshape(4, 2).T
    tables = np.tile([[0.75, 0], [0, 0.25]], (4, 1, 1))
    assert pair_calibration_error(tables, truth, pairs) == pytest.approx(0)
    # its marginals are the same, but their product has too little confidence in (0, 0): 9 / 16
    assert pair_calibration_error(product_of_marginals(tables), truth, pairs) == pytest.approx(3 / 16)


def test_metrics_of_other_targets_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (2, 30, 4))
    mask = rng.random(30) < 0.8
    truth[3] = -1
    asked = mask & (np.arange(30) != 3)
    for average, metric in (("micro", micro_f1), ("macro", macro_f1)):
        expected = f1_score(truth[asked], predicted[asked], average=average, zero_division=0)
        assert metric(predicted, truth, mask) == pytest.approx(expected)
    proba = rng.random((30, 4))
    assert roc_auc(proba, truth, mask) == pytest.approx(roc_auc_score(truth[asked], proba[asked]))
    binary, two = truth[:, 0], np.stack([1 - proba[:, 0], proba[:, 0]], axis=1)
    assert roc_auc(two, binary, mask) == pytest.approx(roc_auc_score(binary[asked], two[asked, 1]))
    values = np.array([1.0, np.nan, 3.0])
    assert mse(np.array([2.0, 0.0, 3.0]), values, np.ones(3, dtype=bool)) == pytest.approx(0.5)


def test_errors_of_numbers_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted, mask = rng.normal(size=30), rng.normal(size=30), rng.random(30) < 0.7
    truth[:5] = np.nan
    asked = mask & ~np.isnan(truth)
    assert mae(predicted, truth, mask) == pytest.approx(mean_absolute_error(truth[asked], predicted[asked]))
    assert r2(predicted, truth, mask) == pytest.approx(r2_score(truth[asked], predicted[asked]))
    assert np.isnan(r2(np.zeros(2), np.ones(2), np.ones(2, dtype=bool)))
    report = NumberReport.of(predicted, truth, mask, "edge")
    assert report.r2 == pytest.approx(1 - report.mse / report.mse_of_mean) and report.num_rows == asked.sum()
    assert report.mae_of_mean == pytest.approx(np.abs(truth[asked] - truth[asked].mean()).mean())
    assert str(report).splitlines()[0].split() == ["edges", str(asked.sum())]


def test_a_graph_is_right_if_all_its_nodes_are():
    truth, predicted = np.array([0, 1, 1, 0, -1]), np.array([0, 1, 0, 0, 1])
    member, everywhere = np.array([0, 0, 1, 2, 2]), np.ones(5, dtype=bool)
    assert graph_accuracy(predicted, truth, everywhere, member) == pytest.approx(2 / 3)
    assert graph_accuracy(predicted, truth, member < 2, member) == pytest.approx(1 / 2)
    assert METRICS["mse"].gain(np.array([1.0]), np.array([3.0]), np.array([True])) == -4


@pytest.mark.parametrize("seed", range(5))
def test_graph_accuracy_of_a_union_is_a_loop_over_its_graphs(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, 30)
    graphs = [from_networkx(nx.path_graph(size)) for size in sizes]
    truths = [rng.integers(-1, 3, size) for size in sizes]
    truths[0][:] = -1  # a graph about which nothing is asked is not counted
    answers = [np.where(rng.random(len(y)) < 0.8, y, rng.integers(0, 3, len(y))) for y in truths]
    right = [(p == y)[y != -1].all() for p, y in zip(answers, truths) if (y != -1).any()]
    assert 0 < np.mean(right) < 1
    batch = GraphBatch.of(graphs)
    truth, predicted = np.concatenate(truths), np.concatenate(answers)
    predicted[truth == -1] = rng.integers(0, 3, (truth == -1).sum())
    _, component = connected_components(batch.graph.adjacency, directed=False)
    everywhere = np.ones(len(truth), dtype=bool)
    for member in (batch.member, component, rng.permutation(30)[batch.member] * 10):
        assert graph_accuracy(predicted, truth, everywhere, member) == pytest.approx(np.mean(right))
    order = rng.permutation(len(truth))
    shuffled = graph_accuracy(predicted[order], truth[order], everywhere, batch.member[order])
    assert shuffled == pytest.approx(np.mean(right))
    assert np.isnan(graph_accuracy(predicted, truth, truth == -1, batch.member))


def test_answers_on_nodes_without_a_label_count_in_no_metric(case):
    _, graph, predicted, truth, mask = case
    member, probabilities = np.arange(80) // 8, np.random.default_rng(0).dirichlet(np.ones(3), 80)
    other = np.where(truth == -1, (predicted + 1) % 3, predicted)
    other_p = np.where((truth == -1)[:, None], probabilities[:, [1, 2, 0]], probabilities)
    assert (other != predicted).any()
    assert scores(predicted, truth, mask, graph, probabilities) == scores(other, truth, mask, graph, other_p)
    assert graph_accuracy(predicted, truth, mask, member) == graph_accuracy(other, truth, mask, member)
