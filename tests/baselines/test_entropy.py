import numpy as np
import pytest
import torch

from clusters import OWN, clusters, seeded_answers
from dpmsnc.baselines import GNN, EntropySharpening
from dpmsnc.baselines.entropy import entropy
from dpmsnc.errors import InputError
from dpmsnc.metrics import accuracy

QUICK = {"epochs": 60, "hidden_channels": 16}


def fitted(task, **options):
    return EntropySharpening(**{**QUICK, **options}).fit(task.graph, task.validation)


@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_clusters_are_told_apart(backbone):
    task = clusters()
    proba = fitted(task, backbone=backbone).predict_proba(**OWN)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    assert accuracy(proba.argmax(axis=1), task.truth, task.test) >= 0.8


def test_entropies_of_any_order_agree_with_their_definition():
    p = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], dtype=torch.float64)
    log_p = p.clamp(min=1e-300).log()
    torch.testing.assert_close(entropy(log_p, 2), 1 - p.square().sum(dim=1))
    torch.testing.assert_close(entropy(log_p, 1), torch.special.entr(p).sum(dim=1))
    torch.testing.assert_close(entropy(log_p, 1.0001), entropy(log_p, 1), atol=1e-3, rtol=0)


def test_the_loss_is_cross_entropy_plus_entropies_of_both_groups():
    logits, y = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, -1, 2, -1, -1])
    p = logits.softmax(dim=1)
    gini = 1 - p.square().sum(dim=1)
    expected = -(p[0, 0].log() + p[2, 2].log()) / 2 + 0.7 * gini[[1, 3, 4]].mean() - 0.2 * gini[[0, 2]].mean()
    model = EntropySharpening(entropy_weight=0.7, labelled_entropy_weight=-0.2)
    torch.testing.assert_close(model._loss(logits, y), expected)
    everywhere = torch.tensor([0, 1, 2, 0, 1])
    assert model._loss(logits, everywhere).isfinite()


def test_unlabelled_nodes_become_surer_than_in_a_plain_gnn():
    task = clusters()
    unlabelled = task.test | task.validation
    plain = GNN(**QUICK).fit(task.graph).predict_proba(**OWN)
    without, sharp = (
        EntropySharpening(**QUICK, entropy_weight=weight, labelled_entropy_weight=0)
        .fit(task.graph)
        .predict_proba(**OWN)
        for weight in (0.0, 1.0)
    )
    np.testing.assert_allclose(without, plain, atol=1e-5)
    doubt, plain_doubt = (1 - p[unlabelled].max(axis=1).mean() for p in (sharp, plain))
    assert doubt < 0.75 * plain_doubt


def test_seeds_fix_the_answer_and_test_labels_are_not_seen():
    answer, same, other = seeded_answers(fitted)
    np.testing.assert_array_equal(answer, same)
    assert (answer != other).any()


@pytest.mark.parametrize("wrong", [{"backbone": "gnc"}, {"scaling": "none"}, {"epochs": 0}, {"dropout": 1.5}])
def test_impossible_options_are_explained(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        fitted(clusters(), **wrong)


def test_asking_before_fitting_is_explained():
    with pytest.raises(InputError, match="EntropySharpening is not fitted"):
        EntropySharpening().predict()
