import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import G3NN
from dpmsnc.baselines.base import one_hot
from dpmsnc.baselines.g3nn import BlockModel, Generative, LatentSpace, Seen
from dpmsnc.data import grid_scattered
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.metrics import accuracy
from dpmsnc.nn.operator import GraphTensors

QUICK = {"epochs": 60, "hidden_channels": 16}


def fitted(task, **options):
    return G3NN(**{**QUICK, **options}).fit(task.graph, task.validation)


@pytest.mark.parametrize("backbone, edge_model", [("gcn", "lsm"), ("gcn", "sbm"), ("gat", "lsm")])
def test_clusters_are_told_apart(backbone, edge_model):
    task = clusters()
    proba = fitted(task, backbone=backbone, edge_model=edge_model).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


@pytest.fixture
def dense():
    """Features, class vectors, and all pairs of a small graph as edges (upper half) and others (lower half)."""
    rng = np.random.default_rng(0)
    x, r = rng.random((6, 4)), rng.dirichlet(np.ones(3), 6)
    i, j = np.indices((6, 6)).reshape(2, -1)
    return x, r, (i[i < j], j[i < j]), (i[i >= j], j[i >= j])


def tensors_of(x, r, edges, others):
    edges, others = ((torch.from_numpy(i), torch.from_numpy(j)) for i, j in (edges, others))
    return torch.from_numpy(x), torch.from_numpy(r), edges, others


def test_the_latent_space_model_is_a_logistic_model_of_both_ends(dense):
    x, r, edges, others = dense
    model = LatentSpace(4, 3).double()
    u = np.maximum(x @ model.weight.detach().numpy(), 0)
    weight, bias = model.ends.weight.detach().numpy(), model.ends.bias.detach().numpy().sum()
    likelihood = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            score = np.concatenate([u[i], r[i], u[j], r[j]]) @ np.concatenate([weight[0], weight[1]]) + bias
            likelihood[i, j] = 1 / (1 + np.exp(-score))
    expected = -np.log(likelihood[edges]).mean() - np.log(1 - likelihood[others]).mean()
    assert float(model(*tensors_of(*dense)).detach()) == pytest.approx(expected, abs=1e-12)


def test_the_block_model_counts_agreement_with_fixed_odds(dense):
    _, r, edges, others = dense
    agree = (r[:, None] * r[None]).mean(axis=2)
    expected = -np.log(9) * agree[edges].mean() - np.log(1 / 9) * agree[others].mean()
    assert float(BlockModel(4, 3)(*tensors_of(*dense))) == pytest.approx(expected, abs=1e-12)


def test_the_loss_is_the_formula_and_one_sign_sharpens_where_the_other_softens():
    rng = np.random.default_rng(0)
    q, p = rng.dirichlet(np.ones(3), 5), rng.dirichlet(np.ones(3), 5)
    y, U = torch.tensor([0, -1, 2, -1, -1]), [1, 3, 4]
    known = -np.log([p[0, 0], p[2, 2]]).mean() - 10 * np.log([q[0, 0], q[2, 2]]).mean()
    cross, entropy = -(q * np.log(p))[U].mean(), -(q * np.log(q))[U].mean()
    log_q, log_p, edges = (torch.from_numpy(np.asarray(v)) for v in (np.log(q), np.log(p), 0.25))
    for sign in (1.0, -1.0):
        loss = G3NN(constraint_weight=10, entropy_sign=sign)._loss(y, log_q, log_p, edges)
        assert float(loss) == pytest.approx(0.25 + known + cross + sign * entropy, abs=1e-12)
    task = clusters()
    sharp, soft = (fitted(task, entropy_sign=sign).predict_proba(**OWN) for sign in (1.0, -1.0))
    assert sharp.max(axis=1).mean() > soft.max(axis=1).mean()


class Witness(torch.nn.Module):
    def forward(self, x, r, edges, others):
        self.seen = r, edges, others
        return r.sum()


def test_the_edge_model_is_told_labels_where_known_and_the_prior_elsewhere():
    task = clusters()
    parts = Generative(task.graph.num_features, 3, G3NN())
    parts.edge_model = Witness()
    seen = Seen(GraphTensors.of(task.graph), one_hot(np.where(task.train, task.truth, -1), 3))
    _, log_p, _ = parts(seen, 0.0, torch.Generator().manual_seed(0))
    r, (i, j), (k, _) = parts.edge_model.seen
    torch.testing.assert_close(r[task.train], seen.Y0[task.train])
    torch.testing.assert_close(r[~task.train], log_p.exp()[~task.train])
    assert len(i) == len(k) == 2 * task.graph.num_edges and (task.graph.adjacency.toarray()[i, j] > 0).all()


def test_graphs_without_features_or_edges_or_unlabelled_nodes():
    task = grid_scattered(columns=20)
    proba = fitted(task, epochs=5).predict_proba(**OWN)
    np.testing.assert_allclose(proba, np.tile(proba[0], (40, 1)), atol=1e-5)  # nothing tells the nodes of a ring apart
    loose = Graph.build(np.zeros((0, 2), dtype=int), x=np.eye(4), y=["a", "b", "a", "b"])
    assert np.isfinite(G3NN(epochs=3, dropout=0.0).fit(loose).predict_proba(**OWN)).all()


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted, epochs=20)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


@pytest.mark.parametrize("wrong", [{"backbone": "gnc"}, {"edge_model": "er"}, {"constraint_weight": -1}, {"epochs": 0}])
def test_impossible_options_are_explained(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(clusters(), **wrong)


def test_graphs_without_labels_are_not_learned_from():
    task = clusters()
    alone = G3NN(**QUICK).fit([task.graph], validation=None)
    strange = Graph.build([(0, 1)], x=100 * np.ones((2, task.graph.num_features)))
    beside = G3NN(**QUICK)
    union = GraphBatch.of([task.graph, strange]).graph
    beside._learn(union, union.y, np.full_like(union.y, UNKNOWN))
    np.testing.assert_allclose(
        beside._marginals(union, union.y)[:-2], alone.predict_proba(clamp_known=False), atol=1e-5
    )
