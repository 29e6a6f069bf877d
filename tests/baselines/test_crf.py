"""The conditional random field: which base it takes, what its parts may see, and what it answers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from clusters import OWN, clusters
from dpmsnc.baselines.choice import CLOSE, Candidate, Labels, compare, in_reach
from dpmsnc.baselines.couplings import ITS_PRICE, LISTENING, Trial, expected_coupling, log_probabilities
from dpmsnc.baselines.crf import (
    CRF,
    _bases,
    informative,
)
from dpmsnc.baselines.folds import NO_FOLD, answers, assign_folds
from dpmsnc.baselines.gnn import GNN
from dpmsnc.baselines.lp import LabelPropagation
from dpmsnc.baselines.uniform import Uniform
from dpmsnc.errors import ModelFileError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.pairwise.edges import Edges
from dpmsnc.pairwise.gibbs import Gibbs
from dpmsnc.pairwise.potentials import Potentials
from dpmsnc.pairwise.propagation import Propagation, Unaries
from dpmsnc.training.chains import Chains, ChainSampler
from pairwise_models import bipartite_tree


def coloured_path(num_nodes: int, known: int) -> Graph:
    colours = ["red", "blue"] * (num_nodes // 2)
    return Graph.build(
        [(i, i + 1) for i in range(num_nodes - 1)],
        y=colours[:known] + [None] * (num_nodes - known),
        num_nodes=num_nodes,
    )


def two_coloured_tree(num_nodes: int = 100, every: int = 5, seed: int = 0) -> tuple[Graph, NDArray[np.int64]]:
    """A tree with every fifth label of its two-colouring, and the whole of it."""
    graph, truth = bipartite_tree(num_nodes, seed)
    y = np.where(np.arange(num_nodes) % every == 0, truth, UNKNOWN)
    return Graph.build(graph.edge_index.T, num_nodes=num_nodes, y=y.tolist(), classes=[0, 1]), truth


@cache
def coloured_tree_model() -> tuple[Graph, CRF]:
    graph, _ = two_coloured_tree()
    return graph, CRF(base="uniform").fit(graph)


def by_features(num_nodes: int = 120, seed: int = 0) -> tuple[Graph, NDArray[np.int64]]:
    """Features tell the class, edges are at random; a third of the labels is known."""
    rng = np.random.default_rng(seed)
    truth = np.arange(num_nodes) % 3
    x = np.eye(3)[truth] + 0.3 * rng.normal(size=(num_nodes, 3))
    pairs = rng.integers(num_nodes, size=(num_nodes, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = np.where(np.arange(num_nodes) < num_nodes // 3, truth, UNKNOWN)
    return Graph.build(pairs, num_nodes=num_nodes, x=x, y=y.tolist(), classes=[0, 1, 2]), truth


def test_the_colouring_of_a_path_goes_on():
    predicted = CRF(base="uniform").fit(coloured_path(10, 6)).predict()
    assert predicted.tolist() == ["red", "blue"] * 5


def test_a_rule_between_neighbours_is_found_without_any_base():
    graph, truth = two_coloured_tree()
    crf = CRF().fit(graph)
    assert (crf.predict() == truth).all() and crf.coupling_ != "none" and crf.network_.H[0, 0] < crf.network_.H[0, 1]


class View(Uniform):
    """A base model whose answers are what they are."""

    def __init__(self, p: NDArray[np.float64]) -> None:
        self.p = p

    def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.p


def test_base_models_that_know_different_things_are_pooled_and_those_that_know_nothing_left_out(monkeypatch):
    graph, truth = by_features(270)
    noise = np.random.default_rng(0).normal(size=(2, 270, 3))
    other = np.concatenate([np.roll(np.arange(90), 45), np.roll(np.arange(90, 270), 45)])  # of the same class
    left = 1.5 * (1.5 * np.eye(3)[truth] + noise[0])
    logits = {"left": left, "right": left[other], "noise": noise[1]}
    views = {name: partial(View, np.exp(v) / np.exp(v).sum(axis=1, keepdims=True)) for name, v in logits.items()}

    def fitted(names: list[str]) -> tuple[CRF, float, float]:
        """A model, the score that it was chosen by, and the likelihood of labels that are not known."""
        builders = {"uniform": Uniform} | {name: views[name] for name in names}
        monkeypatch.setattr("dpmsnc.baselines.crf._bases", lambda graph, seed: builders)
        crf = CRF(coupling="none").fit(graph, validation=None)
        log_p = np.log(crf.predict_proba()[np.arange(270), truth])
        return crf, crf.choices_[0]["score"], log_p[~graph.known].mean()

    crf, score, likelihood = fitted(["noise", "left", "right"])
    assert {id(base.p) for base in crf.bases_} == {id(views[name].args[0]) for name in ("left", "right")}
    assert set(crf.choices_[0]["base"].split(" + ")) == {"left", "right"} and (crf.network_.a > 0.5).all()
    assert [c["coupling"] for c in crf.choices_] == ["none"] + 4 * [None]  # pools, and then single base models
    assert {c["base"] for c in crf.choices_[1:]} == {"uniform", "noise", "left", "right"}
    for name in ("left", "right"):
        alone, score_alone, likelihood_alone = fitted([name])
        assert len(alone.bases_) == 1 and score >= score_alone and likelihood >= likelihood_alone


def test_what_says_hardly_more_than_nothing_is_not_pooled():
    scores = {"best": -0.5, "good": -0.6, "hardly": -0.695, "uniform": -0.7}
    bases = [Candidate(name, iter(())) for name in scores]
    assert [base.name for base in informative(bases, scores)] == ["best", "good"]
    assert informative(bases[2:], scores) == [bases[3]]  # there has to be one, and that claims least
    assert informative(bases[2:3], {"hardly": -0.695}) == [bases[2]]
    assert informative(bases, scores | {"best": -0.69, "good": -0.7}) == [bases[3]]


def test_without_features_no_base_at_all_is_tried_too(monkeypatch):
    builders = {"uniform": Uniform, "lp": partial(LabelPropagation, clamp=True)}
    monkeypatch.setattr("dpmsnc.baselines.crf._bases", lambda graph, seed: builders)
    task = clusters(size=15)
    pools = []
    for x in (None, task.graph.x):
        graph = Graph.build(task.graph.edge_index.T, num_nodes=task.graph.num_nodes, x=x, y=task.graph.y.tolist())
        choices = CRF(coupling="none").fit(graph, validation=None).choices_
        pools.append([c["base"] for c in choices if c["coupling"]])
    assert pools == [["lp", "uniform"], ["lp"]]


def test_the_base_is_chosen_that_suits_the_graph(monkeypatch):
    quick = {"uniform": Uniform, "lp": partial(LabelPropagation, clamp=True), "gcn": partial(GNN, "gcn", epochs=1)}
    mlp_like = {**quick, "sage": partial(GNN, "sage", epochs=60, lr=0.05)}
    monkeypatch.setattr("dpmsnc.baselines.crf._bases", lambda graph, seed: mlp_like)
    graph, truth = by_features()
    crf = CRF().fit(graph)
    assert len(crf.bases_) == 1 and isinstance(crf.bases_[0], GNN) and crf.bases_[0].backbone == "sage"
    assert (crf.predict() == truth)[40:].mean() > 0.75 and abs(crf.network_.J.item()) <= 0.5  # edges say nothing
    homophilous = clusters()
    monkeypatch.setattr("dpmsnc.baselines.crf._bases", lambda graph, seed: quick)
    crf = CRF().fit(homophilous.graph, validation=homophilous.validation)
    assert [type(base) for base in crf.bases_] == [LabelPropagation]
    assert crf.choices_[0]["base"] == "lp" and {c["base"] for c in crf.choices_} == set(quick)


def test_a_coupling_that_labels_cannot_tell_from_none_is_a_moderate_one():
    assert expected_coupling(1.4, 1.0, 20, lambda J: -0.7, True)[0] == pytest.approx(LISTENING[0], abs=0.5)
    few, many = (expected_coupling(3.0, 1.0, size, lambda J: -0.7 - 0.1 * abs(J - 3), True)[0] for size in (10, 1000))
    assert LISTENING[0] <= few < 2.5 < many and many == pytest.approx(3, abs=0.05)


def test_a_rule_without_exceptions_has_a_strong_coupling():
    def score(J: float) -> float:
        return -float(np.log1p(np.exp(J))) if J else -float(np.log(2))

    found, _ = expected_coupling(-4.0, -1.0, 100, score, listens=True)
    assert -16 <= found < -4


@pytest.mark.parametrize("price, listens", [(0.9 * ITS_PRICE, True), (1.1 * ITS_PRICE, False)])
def test_labels_are_listened_to_where_that_costs_little(price, listens):
    def score(J: float) -> float:
        return -price * J / LISTENING[0]

    found, best = expected_coupling(0.05, 1.0, 10_000, score, listens=True)
    assert best == 0 and (found == LISTENING[0]) == listens and (listens or found == LISTENING[1])
    assert expected_coupling(0.05, 1.0, 10_000, score, listens=False)[0] < LISTENING[1]


def smoothed(seed: int = 0) -> tuple[Graph, NDArray[np.int64], NDArray[np.float64]]:
    """A ring of stretches of one class, a quarter of whose labels is known, and the answers of a base model that takes
    every fifth stretch for another class; of the first one, which is among them, no label is known."""
    stretch = np.arange(600) // 20
    truth = stretch % 3
    p = np.full((600, 3), 0.1)
    p[np.arange(600), np.where(stretch % 5 == 0, (truth + 1) % 3, truth)] = 0.8
    pairs = [(i, (i + k) % 600) for i in range(600) for k in (1, 2)]
    known = (np.random.default_rng(seed).random(600) < 0.25) & (stretch > 0)
    return Graph.build(pairs, num_nodes=600, y=np.where(known, truth, UNKNOWN).tolist(), classes=[0, 1, 2]), truth, p


def test_balanced_couplings_leave_answers_as_they_are_until_a_label_surprises():
    graph, truth, p = smoothed()
    crf = CRF(base=View(p), coupling="balanced").fit(graph, validation=None)
    alone = CRF(base=View(p), coupling="none").fit(graph, validation=None)
    assert crf.coupling_ == "balanced" and crf.network_.J.item() > 0.3
    before = crf.predict_proba()
    np.testing.assert_allclose(before[graph.y == UNKNOWN], alone.predict_proba()[graph.y == UNKNOWN], atol=0.02)
    wrong, far, shown = slice(4, 16), slice(60, 540), [5, 8, 11, 14]
    after = crf.predict_proba(known={node: int(truth[node]) for node in shown})
    assert (after[wrong, 0] > before[wrong, 0] + 0.1).all()
    np.testing.assert_allclose(after[far], before[far], atol=0.02)
    expected = crf.predict_proba(known={50: int(truth[50])})
    np.testing.assert_allclose(expected[wrong], before[wrong], atol=0.02)  # and where it is as expected, none changes


def test_labels_that_base_models_learned_from_are_recognised_on_changed_graphs():
    x = np.random.default_rng(0).normal(size=(8, 2))
    path = [(i, i + 1) for i in range(7)]
    graph = Graph.build(path, ids=[f"n{i}" for i in range(8)], x=x, y=[*"abababa", None])
    crf = CRF(base="neighbourhood", coupling="balanced").fit(graph, validation=None)
    assert np.array_equal(crf._seen(graph, graph.y), graph.y)
    assert (crf._seen(graph, np.full(8, UNKNOWN)) == UNKNOWN).all()
    other = crf._seen(graph, np.where(np.arange(8) == 3, 1 - graph.y, graph.y))
    assert other[3] == UNKNOWN and np.array_equal(np.delete(other, 3), np.delete(graph.y, 3))
    order = np.random.default_rng(1).permutation(8)  # nodes in another order, one with other features, one new
    moved = Graph.build(
        [(f"n{i}", f"n{j}") for i, j in path] + [("n0", "new")],
        ids=[*(f"n{i}" for i in order), "new"],
        x=np.vstack([np.where(order[:, None] == 2, x[order] + 0.01, x[order]), [[0.0, 0.0]]]),
        y=[*(graph.target.names[graph.y[i]] if graph.y[i] >= 0 else None for i in order), "a"],
        classes=["a", "b"],
    )
    expected = [*np.where(order == 2, UNKNOWN, graph.y[order]), UNKNOWN]
    assert crf._seen(moved, moved.y).tolist() == expected


def test_without_features_a_graph_of_the_same_ids_may_be_another():
    graph, *_ = smoothed()
    crf = CRF(base="neighbourhood", coupling="balanced").fit(graph, validation=None)
    grown = graph.grown([1000], [(1000, 100)])
    assert crf._seen(grown, grown.y).tolist() == [*graph.y.tolist(), UNKNOWN]
    pairs = np.random.default_rng(0).integers(600, size=(1200, 2)).tolist()
    other = Graph.build(pairs, num_nodes=600, y=graph.y.tolist(), classes=[0, 1, 2])
    assert (crf._seen(other, other.y) == UNKNOWN).all()


def test_couplings_do_not_tip_a_small_part_that_base_models_are_unsure_of():
    """Propagation that began with no messages would give it one class, far from what is revealed."""
    rng, truth = np.random.default_rng(0), np.arange(1200) // 100 % 3
    p = np.full((1240, 3), 0.1)
    p[np.arange(1200), np.where(rng.random(1200) < 0.2, rng.integers(3, size=1200), truth)] = 0.8
    p[1200:] = [0.32, 0.36, 0.32]
    ring = [(i, (i + k) % 1200) for i in range(1200) for k in (1, 2)]
    dense = (1200 + np.argwhere(np.triu(rng.random((40, 40)) < 0.5, k=1))).tolist()
    y = np.where(rng.random(1240) < 0.2, np.append(truth, np.zeros(40, dtype=int)), UNKNOWN)
    y[1200:] = UNKNOWN
    graph = Graph.build(ring + dense + [(0, 1200)], num_nodes=1240, y=y.tolist(), classes=[0, 1, 2])
    answers = [
        CRF(base=View(p), coupling=coupling).fit(graph, validation=None).predict_proba()[1200:]
        for coupling in ("none", "balanced")
    ]
    np.testing.assert_allclose(*answers, atol=1e-3)


def test_balanced_couplings_are_saved_with_the_labels_they_are_balanced_for(tmp_path):
    graph, *_ = smoothed()
    crf = CRF(base="neighbourhood", coupling="balanced").fit(graph, validation=None)
    crf.save(tmp_path / "model")
    np.testing.assert_array_equal(CRF.load(tmp_path / "model").predict_proba(), crf.predict_proba())
    for k, damaged in enumerate([None, crf.learned_[:1], crf.learned_.astype(float)]):
        crf.learned_ = damaged
        crf.save(tmp_path / f"damaged-{k}")
        with pytest.raises(ModelFileError, match="damaged"):
            CRF.load(tmp_path / f"damaged-{k}")


def test_balanced_couplings_are_tried_where_base_models_answer_what_they_learned():
    graph, *_ = smoothed()
    assert "balanced" not in {choice["coupling"] for choice in CRF(base="neighbourhood").fit(graph).choices_}
    graph = replace(graph, x=np.random.default_rng(0).normal(size=(600, 3)))
    tried = {
        base: {choice["coupling"] for choice in CRF(base=base).fit(graph, validation=None).choices_}
        for base in ("neighbourhood", "lp", "label-counts")
    }
    assert "balanced" in tried["neighbourhood"] and "balanced" not in tried["lp"] | tried["label-counts"]


def test_balanced_couplings_lose_to_a_matrix_that_is_clearly_better():
    matrix, balanced, none = (Trial([], Potentials(2), -0.5, bonus) for bonus in (-CLOSE, CLOSE, 0.0))
    assert balanced.rank > none.rank > matrix.rank
    assert replace(matrix, score=-0.46).rank > balanced.rank


def test_labels_alone_bound_balanced_couplings():
    """Where edges say nothing, no neighbour is to be changed by a label, however little that would cost."""
    graph, _ = by_features(300)
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(graph.y)
        crf = CRF(base="uniform", coupling="balanced").fit(graph.with_labels(shuffled), validation=None)
        assert abs(crf.network_.J.item()) <= 0.25


def test_couplings_have_the_sign_that_labels_alone_tell():
    tried: list[float] = []
    found, _ = expected_coupling(-2.0, 1.0, 100, lambda J: tried.append(J) or J, listens=True)
    assert min(tried) == 0 and found > 0
    assert expected_coupling(2.0, -1.0, 100, lambda J: -J, listens=True)[0] < 0


def test_what_is_far_behind_is_not_fitted_again():
    graph, truth = by_features()
    fits: dict[str, int] = {}

    class Sure(Uniform):
        """Sure of the first class everywhere, or of the right one."""

        def __init__(self, name: str) -> None:
            self.name = name

        def _fit(self, *arguments: Any) -> None:
            fits[self.name] = fits.get(self.name, 0) + 1

        def _marginals(self, graph: Graph, y: NDArray[np.int64]) -> NDArray[np.float64]:
            right = np.eye(3)[truth if self.name == "right" else np.zeros_like(truth)]
            return 0.9 * right + 0.1 / 3

    labels = Labels.of(graph.y, np.full_like(graph.y, UNKNOWN), assign_folds(graph.y, 0))
    builders = {name: partial(Sure, name) for name in ("wrong", "right")}
    left, scores = compare(builders, graph, graph.y, labels)
    assert [c.name for c in left] == ["right"] and fits == {"wrong": 1, "right": 4}
    assert scores["right"] > -0.01 and scores["wrong"] == pytest.approx(-np.log(3), abs=0.1)


def test_reach_is_a_matter_of_chance():
    rng = np.random.default_rng(0)
    best = rng.normal(size=100)
    assert in_reach(best, best) and in_reach(best - 0.09, best) and not in_reach(best - 0.11, best)
    noise = rng.normal(size=100)
    assert in_reach(best - noise - 0.1, best) and not in_reach(best - noise - 1, best)


@pytest.mark.parametrize("counts", [(10, 7, 3), (1, 1), (2, 0, 1)])
def test_folds_have_equally_many_labels_of_every_class(counts):
    y = np.concatenate([np.repeat(np.arange(len(counts)), counts), [UNKNOWN] * 5])
    fold = assign_folds(np.random.default_rng(0).permutation(y), 3)
    y = np.random.default_rng(0).permutation(y)
    assert ((fold == NO_FOLD) == (y == UNKNOWN)).all() and fold.max() + 1 == min(4, sum(counts))
    for c in range(len(counts)):
        spread = np.bincount(fold[y == c], minlength=fold.max() + 1)
        assert spread.max() - spread.min() <= 1


@pytest.mark.parametrize("name", ["uniform", "lp", "neighbourhood", "pta (rows)", "gcn", "sage"])
def test_no_base_answers_with_a_label_that_it_is_not_given(name):
    """Other labels of the graph, and those of a fold, change nothing in the answers of that fold."""
    task = clusters(size=15)
    build = _bases(task.graph, 0)[name]
    short = {"pta (rows)": {"max_epochs": 5}, "gcn": {"epochs": 3}, "sage": {"epochs": 3}}.get(name, {})
    y = np.where(task.train, task.truth, UNKNOWN)
    fold = assign_folds(y, 0)
    node = np.flatnonzero(fold == 1)[0]
    poisoned = y.copy()
    poisoned[node] = (y[node] + 1) % 3
    wrong = np.where(fold == 1, (task.truth + 1) % 3, np.where(task.train, task.truth, (task.truth + 1) % 3))

    def answer(labels: NDArray[np.int64], graph: Graph) -> list[NDArray[np.float64]]:
        return list(answers(partial(build, **short), graph, labels, fold))

    honest, other = answer(y, task.graph), answer(poisoned, task.graph.with_labels(wrong))
    assert np.array_equal(honest[1], other[1])
    if name != "uniform":
        assert not np.array_equal(honest[0], other[0])  # where it is given, it does matter


def chain_sampler(graph: Graph, build: Any, y: NDArray[np.int64], fold: NDArray[np.int64], J: float) -> ChainSampler:
    potentials, edges = Potentials(graph.num_classes, "one", J=J).requires_grad_(False), Edges(graph)

    unary = log_probabilities(np.stack(list(answers(build, graph, y, fold)), axis=1))
    propagation = Propagation(potentials, edges, edges.mean_log)
    return ChainSampler(Unaries(unary, None), propagation, Gibbs(potentials, edges, edges.mean_log), y, fold)


def at_T(sampler: ChainSampler, chains: Chains) -> torch.Tensor:
    """The initial denoiser (chains, nodes, classes) where y_t says nothing."""
    logits = sampler.logits(chains, torch.zeros(chains.labels.shape[1], len(chains.labels), 1))
    return logits.log_softmax(dim=-1).transpose(0, 1)


@pytest.mark.parametrize("shows_own", [False, True])
@pytest.mark.parametrize("build", [LabelPropagation, partial(GNN, epochs=3)], ids=["lp", "gcn"])
def test_what_a_chain_is_given_does_not_depend_on_the_labels_it_hides(build, shows_own):
    task = clusters(size=15)
    y = np.where(task.train, task.truth, UNKNOWN)
    fold = assign_folds(y, 0)
    node, k = np.flatnonzero(fold == 2)[0], 2
    poisoned = y.copy()
    poisoned[node] = (y[node] + 1) % 3
    honest, other = (chain_sampler(task.graph, build, labels, fold, 1.0) for labels in (y, poisoned))
    first, second = (sampler.draw(torch.Generator().manual_seed(0), shows_own) for sampler in (honest, other))
    assert torch.equal(honest.denoiser.theta[:, k], other.denoiser.theta[:, k])  # answers of base models
    # all folds stop together, when the last one has converged, so the rest may differ by the tolerance
    torch.testing.assert_close(honest.messages[:, k], other.messages[:, k], atol=1e-3, rtol=0)
    assert first.labels[k, node] == y[node] and second.labels[k, node] == poisoned[node]
    assert torch.equal(first.shown[k], second.shown[k]) and not first.shown[k, fold == k].any()
    if not shows_own:
        true = first.shown[k]
        assert torch.equal(first.labels[k, true], second.labels[k, true])
        torch.testing.assert_close(at_T(honest, first)[k], at_T(other, second)[k], atol=1e-3, rtol=0)
    # its own labels are drawn given the hidden one; of that, the denoiser knows what is shown and no more
    torch.testing.assert_close(at_T(honest, first)[k], at_T(other, first)[k], atol=1e-3, rtol=0)
    # where the label is given, it does matter
    assert not torch.allclose(at_T(honest, first)[0], at_T(other, second)[0], atol=0.1)


def test_a_chain_is_drawn_given_the_labels_that_it_hides():
    path = Graph.build([(i, i + 1) for i in range(5)], num_nodes=6, classes=[0, 1])
    y, fold = np.array([1] + [UNKNOWN] * 5), np.array([0] + [NO_FOLD] * 5)
    sampler = chain_sampler(path, Uniform, y, fold, -20.0)
    chains = sampler.draw(torch.Generator().manual_seed(0), False)
    assert chains.labels.tolist() == [[1, 0, 1, 0, 1, 0]] and not chains.shown.any()
    torch.testing.assert_close(at_T(sampler, chains).exp(), torch.full((1, 6, 2), 0.5))


@pytest.mark.parametrize("shows_own", [False, True])
def test_chains_have_true_labels_and_show_those_of_other_folds(shows_own):
    task = clusters(size=15)
    y = np.where(task.train, task.truth, UNKNOWN)
    fold = assign_folds(y, 0)
    sampler = chain_sampler(task.graph, Uniform, y, fold, 1.0)
    chains = sampler.draw(torch.Generator().manual_seed(0), shows_own)
    train, of_node = torch.from_numpy(task.train), torch.from_numpy(fold)
    assert chains.labels.shape == chains.shown.shape == (4, len(y)) and chains.fold.tolist() == [0, 1, 2, 3]
    assert (chains.labels[:, train] == torch.from_numpy(y)[train]).all()
    for k in range(4):
        assert chains.shown[k, train & (of_node != k)].all() and not chains.shown[k, of_node == k].any()
    own = chains.shown[:, ~train].float().mean(dim=1)
    assert (own <= 0.75).all() and own.max() > 0 if shows_own else (own == 0).all()


def test_validation_labels_change_the_choice_and_nothing_that_is_learned():
    task = clusters(size=15)
    wrong = np.where(task.validation, (task.truth + 1) % 3, task.truth)
    first, second = (
        CRF(base="lp", coupling="none").fit(graph, validation=task.validation)
        for graph in (task.graph, task.graph.with_labels(np.where(task.graph.known, wrong, UNKNOWN)))
    )
    assert np.array_equal(first.predict_proba(**OWN), second.predict_proba(**OWN))
    assert first.choices_[0]["score"] > second.choices_[0]["score"] + 0.1


def test_another_graph_is_answered_for_by_the_rule_that_was_learned():
    _, crf = coloured_tree_model()
    other, truth = two_coloured_tree(80, every=80, seed=5)
    assert (crf.predict(other) == truth).all()  # one label is enough
    for y in crf.sample(5, other, seed=0):
        assert (y == truth).mean() > 0.9


@pytest.mark.parametrize("base", ["uniform", ("lp", {"clamp": True})])
def test_the_order_of_nodes_does_not_matter(base, monkeypatch):
    graph, _ = two_coloured_tree(40)
    order = np.random.default_rng(0).permutation(40)
    place = np.argsort(order)
    moved = Graph.build(place[graph.edge_index].T, num_nodes=40, y=graph.y[order].tolist(), classes=[0, 1])
    fitted = CRF(base=base).fit(graph)
    expected = fitted.predict_proba(clamp_known=False)[order]
    np.testing.assert_allclose(fitted.predict_proba(moved, clamp_known=False), expected, atol=1e-3)
    fold = assign_folds(graph.y, 0)  # folds are drawn in the order of nodes: the same ones again
    monkeypatch.setattr("dpmsnc.baselines.crf.assign_folds", lambda y, seed, member: fold[order])
    again = CRF(base=base).fit(moved)
    np.testing.assert_allclose(again.predict_proba(clamp_known=False), expected, atol=5e-3)


def test_a_revealed_label_is_heard_of_along_the_path():
    _, crf = coloured_tree_model()
    unlabelled = Graph.build([(i, i + 1) for i in range(5)], num_nodes=6, classes=[0, 1])
    np.testing.assert_allclose(crf.predict_proba(unlabelled), np.tile(prior(crf), (6, 1)), atol=0.02)
    p = crf.predict_proba(unlabelled, known={0: 1})
    assert p[0].tolist() == [0, 1] and (p.argmax(axis=1) == [1, 0, 1, 0, 1, 0]).all()


def prior(crf: CRF) -> NDArray[np.float64]:
    return crf.network_.b.softmax(dim=0).numpy()


def test_joint_samples_keep_known_labels_and_the_rule_where_nothing_is_known():
    graph, crf = coloured_tree_model()
    assert (crf.sample(4, seed=0)[:, graph.known] == graph.y[graph.known]).all()
    star = Graph.build([(0, i) for i in range(1, 6)], num_nodes=6, classes=[0, 1])
    y = crf.sample(200, star, seed=0)
    assert (y[:, :1] != y[:, 1:]).mean() > 0.9 and 0.25 < np.mean(y[:, 0] == 0) < 0.75


@pytest.mark.parametrize("validation", [None, [9]])
def test_one_or_two_labels_are_enough(validation):
    path = Graph.build([(i, i + 1) for i in range(9)], y=["red"] + [None] * 8 + ["blue"])
    p = CRF().fit(path, validation=validation).predict_proba()
    assert np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1)


def test_a_graph_without_edges_has_the_class_frequencies():
    graph = Graph.build(np.zeros((0, 2), int), num_nodes=40, y=["red"] * 24 + ["blue"] * 8 + [None] * 8)
    for coupling in ("auto", "full"):
        p = CRF(coupling=coupling).fit(graph).predict_proba(clamp_known=False)
        assert (p[32:, 1] > 0.55).all() and np.ptp(p[32:, 1]) < 1e-6
    assert CRF(base="uniform", coupling="one").fit(graph).sample(2).shape == (2, 40)
