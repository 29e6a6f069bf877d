import pytest
import torch

from dpmsnc.nn.dropout import dropout, keep_mask, relu_dropout


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.6, 0.9])
def test_rate_and_mean(rate):
    h = torch.ones(1000, 1001)
    out = dropout(h, rate, generator())
    standard_error = (rate * (1 - rate) / h.numel()) ** 0.5
    assert (out == 0).float().mean() == pytest.approx(rate, abs=1 / 512 + 5 * standard_error)
    assert out.mean() == pytest.approx(1, abs=5 * standard_error / (1 - rate))
    assert len(out.unique()) == 2


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_entries_are_dropped_independently(rate):
    keep = keep_mask(10**6, rate, generator())[0].float()
    for lag in (1, 7, 8, 64):
        correlation = torch.corrcoef(torch.stack([keep[:-lag], keep[lag:]]))[0, 1]
        assert abs(correlation) < 5e-3


def test_a_mask_has_exactly_the_size_asked_for():
    for size in (1, 7, 8, 9, 63, 64, 65):
        assert all(keep_mask(size, rate, generator())[0].shape == (size,) for rate in (0.5, 0.3))


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_same_seed_same_mask_and_a_generator_moves_on(rate):
    h = torch.randn(20, 3, 4)
    source = generator(1)
    first, second = dropout(h, rate, source), dropout(h, rate, source)
    assert torch.equal(first, dropout(h, rate, generator(1)))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("rate", [0.5, 0.25])
def test_gradient_passes_through_kept_entries_only(rate):
    h = torch.rand(30, 5).add_(1).requires_grad_()
    out = dropout(h, rate, generator())
    out.sum().backward()
    torch.testing.assert_close(h.grad, (out != 0) / (1 - rate))


def test_evaluation_is_the_identity():
    h = torch.randn(5, 2)
    assert dropout(h, 0.5, None) is h
    assert dropout(h, 0.0, generator()) is h


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5])
def test_rectified_dropout_is_the_two_in_turn(rate):
    torch.manual_seed(0)
    z = torch.randn(50, 3, 8, dtype=torch.float64, requires_grad=True)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    fused, plain = relu_dropout(z * 1, rate, generators[0]), dropout(torch.relu(z), rate, generators[1])
    torch.testing.assert_close(fused, plain)
    grad = torch.randn_like(z)
    gradients = [torch.autograd.grad(h, z, grad)[0] for h in (fused, plain)]
    torch.testing.assert_close(*gradients)
