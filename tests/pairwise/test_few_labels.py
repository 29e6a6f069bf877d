"""Other graphs of which fewer labels are known than where couplings were learned."""

import networkx as nx
import numpy as np
import pytest
import torch

from dpmsnc import Graph, NodeClassifier
from dpmsnc.baselines.crf import CRF, as_known
from dpmsnc.config import Training
from dpmsnc.errors import ModelFileError
from dpmsnc.pairwise.denoiser import PairwiseDenoiser
from dpmsnc.pairwise.few_labels import Trust, certainty, pooled, share_known

BRIEF = Training(steps=10, evaluate_every=5)
CLASSES = ["c0", "c1", "c2"]


def blocks(seed, count, n=150):
    """Three dense blocks without features, so many labels of which are known, and all of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    edges = np.argwhere(np.triu(rng.random((n, n)) < np.where(y[:, None] == y, 0.12, 0.01), 1))
    known = rng.permutation(n)[:count]
    labels = [f"c{y[k]}" if k in known else None for k in range(n)]
    return Graph.build(edges, num_nodes=n, y=labels, classes=CLASSES), y


def tree(seed, count, n=200):
    """A tree whose neighbours always differ."""
    drawn = nx.random_labeled_tree(n, seed=seed)
    y = np.array([side for _, side in sorted(nx.bipartite.color(drawn).items())])
    known = np.random.default_rng(seed).permutation(n)[:count]
    return Graph.build(list(drawn.edges), num_nodes=n, y=[int(y[k]) if k in known else None for k in range(n)]), y


def log_loss(model, asked, y):
    p = model.predict_proba(asked)
    return -np.log(p[~asked.known, y[~asked.known]]).mean()


@pytest.fixture(scope="module")
def crf():
    return CRF().fit(blocks(0, 60)[0], validation=None)


@pytest.fixture(scope="module", params=["crf", "dpm-snc"])
def model(request, crf):
    if request.param == "crf":
        return crf
    return NodeClassifier(initialiser=crf, training=BRIEF).fit(crf.graph_, validation=None)


PATHS = torch.tensor([0, 0, 1, 1])
"""The components of two paths of two nodes."""


def test_couplings_count_in_full_where_as_many_labels_are_known_as_usual():
    share = torch.tensor([0.0, 0.1, 0.4, 0.8])
    assert Trust(0.4, 1.0).at(share).tolist() == pytest.approx([0, 0.25, 1, 1])
    assert Trust(0.4, 0.5).at(share).tolist() == pytest.approx([0, 0.5, 1, 1])
    assert Trust(0.4, 0.0).at(share).tolist() == [1, 1, 1, 1]


def test_every_component_and_every_entry_of_a_batch_has_its_own_share():
    mask = torch.tensor([[True, False], [True, False], [False, True], [False, False]])
    assert share_known(PATHS, mask).tolist() == [[1, 0], [1, 0], [0, 0.5], [0, 0.5]]


def test_what_y_t_tells_counts_as_known():
    mask, evidence = torch.zeros(4, 1, dtype=torch.bool), torch.zeros(4, 1, 3)
    evidence[2, 0, 1] = 100.0
    assert share_known(PATHS, mask, evidence).flatten().tolist() == pytest.approx([0, 0, 0.5, 0.5], abs=1e-5)
    p = torch.tensor([[0.89, 0.11]])
    assert certainty(p.log()).item() == pytest.approx(1 + (p * p.log2()).sum().item(), abs=1e-6)


def test_pooled_logits_are_between_those_with_couplings_and_those_without():
    coupled, alone = torch.tensor([[[4.0, 0.0]]]), torch.tensor([[[0.0, 2.0]]])
    for trust, expected in [(0.0, [0, 2]), (0.25, [1, 1.5]), (1.0, [4, 0])]:
        assert pooled(coupled, alone, torch.tensor([[trust]])).flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("count", "factor"), [(1, 0.25), (4, 0.5), (20, 1.5)])
def test_few_labels_of_a_new_graph_are_not_taken_for_many(model, count, factor):
    """With full trust the log-loss of one label is 8 and more; guessing has 1.10."""
    crf = getattr(model, "initialiser_", model)
    questions = [blocks(seed, count) for seed in (1, 2, 3)]
    losses, trust = [log_loss(model, *question) for question in questions], crf.trust_
    crf.trust_ = None
    full = [log_loss(model, *question) for question in questions]
    crf.trust_ = trust
    assert np.mean(losses) < min(factor * np.mean(full) + 0.05, 2.0)


def test_few_labels_name_classes_as_well_as_before(crf):
    """Without features, pooling makes answers less sure, but hardly changes them."""
    asked, _ = blocks(2, 12)
    before, crf.trust_ = crf.trust_, None
    full = crf.predict(asked)
    crf.trust_ = before
    assert (crf.predict(asked) == full).mean() > 0.97


def test_where_a_rule_has_no_exceptions_one_label_settles_a_new_graph():
    crf = CRF().fit(tree(0, 60)[0], validation=None)
    asked, y = tree(1, 1)
    assert crf.trust_ is None
    assert (crf.predict(asked) == y).mean() > 0.99
    assert crf.predict_proba(asked).max(axis=1).min() > 0.9


def test_the_fitted_graph_is_answered_with_the_couplings_as_they_were_learned(crf):
    graph = crf.graph_
    assert crf.trust_["power"] > 0
    few = graph.hide(np.arange(150) > 3)
    for asked in (few, graph.grown(["new"], [("new", 0)])):
        assert (unlabelled := crf._unlabelled(asked, asked.y, None)) is None or unlabelled.trust is None
    asked, _ = blocks(1, 4)
    assert crf._unlabelled(asked, asked.y, None).trust is not None


def test_samples_end_with_the_couplings_as_they_were_learned(crf):
    """Where y_t is certain, logits are those of full trust."""
    asked, y = blocks(1, 4)
    pooling = crf.asked_denoiser(asked)
    plain = PairwiseDenoiser(pooling.propagation, pooling.theta)
    known = as_known(crf._one_hot(asked.y))
    certain = torch.where(torch.arange(3) == torch.from_numpy(y).unsqueeze(1), 30.0, 0.0).unsqueeze(1)

    def difference(evidence):
        p, q = (denoiser.given(known)(evidence).softmax(dim=-1) for denoiser in (pooling, plain))
        return (p - q).abs().max()

    assert difference(certain) < 1e-3 and difference(torch.zeros_like(certain)) > 0.3


def test_a_graph_is_answered_alike_alone_and_among_others(crf):
    asked, other = blocks(1, 4)[0], blocks(2, 30)[0]
    together = crf.predict_proba([other, crf.graph_, asked])
    np.testing.assert_allclose(together[2], crf.predict_proba(asked), atol=1e-3)
    np.testing.assert_allclose(together[0], crf.predict_proba(other), atol=1e-3)


def test_the_usual_share_is_that_around_the_labels(crf):
    """Nodes that no label is near do not make known labels rarer where there are some."""
    graph = crf.graph_
    labels = [None if k < 0 else graph.classes[k] for k in graph.y]
    beside = Graph.build(graph.edge_index.T, num_nodes=400, y=labels + [None] * 250)
    assert CRF().fit(beside, validation=None).trust_["usual"] == pytest.approx(crf.trust_["usual"], rel=0.01)


def test_a_saved_model_trusts_as_before(crf, tmp_path):
    asked, _ = blocks(1, 4)
    crf.save(tmp_path / "model")
    loaded = CRF.load(tmp_path / "model")
    assert loaded.trust_ == crf.trust_
    np.testing.assert_array_equal(loaded.predict_proba(asked), crf.predict_proba(asked))
    np.testing.assert_array_equal(loaded.sample(3, asked, seed=1), crf.sample(3, asked, seed=1))


@pytest.mark.parametrize("change", [{"usual": 0.0}, {"power": -1.0}, {"power": float("nan")}, {"usual": "1"}, {"a": 1}])
def test_a_damaged_trust_is_refused(crf, change):
    before, crf.trust_ = crf.trust_, crf.trust_ | change
    try:
        with pytest.raises(ModelFileError, match="damaged"):
            crf._check_state()
    finally:
        crf.trust_ = before
