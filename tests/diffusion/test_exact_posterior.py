"""Samples against enumeration: the samplers around an exact denoiser, and a trained model."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpmsnc.config import Guidance, Sampling
from dpmsnc.evidence.experiments.exact import DDIM, WEAK, PairwiseModel, Row, Study, table, total_variation
from dpmsnc.graph import Graph

MODEL = PairwiseModel(num_nodes=4, num_classes=2, coupling=-2.0, field=0.5)
STUDY = Study(model=MODEL, test_graphs=3)
ALL_DDIM = Sampling(method="ddim", steps=None, progressive=0.0)
ALL_ANCESTRAL = Sampling(method="ancestral", steps=None, progressive=0.0)


def sampled_tv(study: Study, row: Row) -> list[float]:
    return study.run(0, [row])["rows"][0]["tv"]


def test_enumeration_equals_the_formula_state_by_state():
    model = PairwiseModel(num_nodes=3, num_classes=4, coupling=1.3, field=1.0, max_extra_edges=1)
    graph = model.draw_graph(np.random.default_rng(0))
    weights = {}
    for y in itertools.product(range(4), repeat=3):
        equal = sum(y[i] == y[j] for i, j in graph.edge_index.T)
        weights[y] = math.exp(1.3 * equal + sum(float(graph.x[k, y[k]]) for k in range(3)))
    total = sum(weights.values())
    p = model.probabilities(graph)
    assert [tuple(state) for state in model.states.tolist()] == list(weights)
    assert np.allclose(p, [w / total for w in weights.values()])
    assert model.code(model.states.T).tolist() == list(range(64))


def test_graphs_are_connected_and_simple():
    rng = np.random.default_rng(0)
    for _ in range(50):
        graph = PairwiseModel().draw_graph(rng)
        assert graph.connectivity == (1, 0) and 5 <= graph.num_edges <= 7
        assert (graph.edge_index[0] < graph.edge_index[1]).all() and graph.adjacency.max() == 1


def test_posterior_is_the_conditional_of_the_joint():
    graph = MODEL.draw_graph(np.random.default_rng(0)).with_labels(np.array([-1, 1, -1, 0]))
    p, joint = MODEL.posterior(graph), MODEL.probabilities(graph)
    agrees = (MODEL.states[:, 1] == 1) & (MODEL.states[:, 3] == 0)
    assert np.allclose(p[agrees], joint[agrees] / joint[agrees].sum()) and not p[~agrees].any()


def test_a_coupled_pair_without_fields_is_half_away_from_its_marginals():
    pair = PairwiseModel(num_nodes=2, coupling=30.0)
    graph = Graph(2, np.array([[0], [1]]), np.zeros((2, 2), np.float32), np.array([-1, -1]), (0, 1), np.arange(2))
    p = pair.probabilities(graph)
    assert np.allclose(p, [0.5, 0, 0, 0.5], atol=1e-9)
    assert total_variation(pair.product_of_marginals(p), p) == pytest.approx(0.5)


def test_exact_denoiser_is_the_posterior_mean():
    p = MODEL.probabilities(MODEL.draw_graph(np.random.default_rng(0)))
    y_t, t = torch.randn(4, 3, 2, generator=torch.Generator().manual_seed(0)), 60
    alpha_bar = STUDY.schedule.alpha_bar[t]
    one_hot = np.eye(2)[MODEL.states]
    for b in range(3):
        distance = ((y_t[:, b].numpy() - alpha_bar**0.5 * one_hot) ** 2).sum(axis=(1, 2))
        w = p * np.exp(-distance / (2 * (1 - alpha_bar)))
        expected = np.tensordot(w / w.sum(), one_hot, axes=1)
        assert np.allclose(MODEL.denoiser(p, STUDY.schedule)(y_t, t).y0[:, b], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("sampling", "variance"),
    [(DDIM, "posterior"), (ALL_DDIM, "posterior"), (ALL_ANCESTRAL, "posterior"), (ALL_ANCESTRAL, "beta")],
    ids=["ddim-20", "ddim-all", "ancestral-posterior", "ancestral-beta"],
)
@pytest.mark.parametrize("num_known", [0, 1])
def test_samplers_around_the_exact_denoiser_draw_the_exact_joint(sampling, variance, num_known):
    study = replace(STUDY, schedule=replace(STUDY.schedule, variance=variance), num_known=num_known)
    assert max(sampled_tv(study, Row("amortised", "exact", sampling))) < 0.03


def test_a_chain_that_must_alternate_comes_out_whole():
    study = replace(STUDY, model=PairwiseModel(num_nodes=6, coupling=-12.0, field=0.0, max_extra_edges=0), num_known=0)
    result = study.run(0, [Row("amortised", "exact", DDIM)])
    assert max(result["rows"][0]["tv"]) < 0.03 and min(result["product"]) > 0.9


def test_guidance_is_biased_even_around_the_exact_denoiser():
    study = replace(STUDY, num_samples=4000)
    papers = replace(DDIM, guidance=Guidance(norm="square"))
    weak, default, paper = (np.mean(sampled_tv(study, Row("guided", "exact", s))) for s in (WEAK, DDIM, papers))
    exact = np.mean(sampled_tv(study, Row("amortised", "exact", DDIM)))
    assert exact < 0.03 < weak < default < paper


@pytest.mark.slow
def test_a_trained_model_samples_the_exact_posterior():
    study = replace(Study(), test_graphs=4, training=replace(Study().training, steps=4000))
    result = study.run(0, [Row("amortised", "label", DDIM)])
    assert np.mean(result["product"]) >= 0.3
    assert np.mean(result["rows"][0]["tv"]) <= 0.1
    assert "amortised" in table(result)
