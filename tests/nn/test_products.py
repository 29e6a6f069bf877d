import torch

from dpmsnc.nn.products import combine, narrow, project


def doubles(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_combine_is_a_sum_and_has_its_gradient():
    torch.manual_seed(0)
    for encoded in (doubles(4, 1, 6), doubles(4, 3, 6)):
        for shift in (doubles(6), doubles(3, 6), doubles(4, 3, 6), doubles()):
            spread, weight = doubles(4, 3, 2), doubles(2, 6)
            expected = encoded + spread @ weight + shift
            torch.testing.assert_close(combine(encoded, spread, weight, shift), expected)
            with torch.no_grad():
                torch.testing.assert_close(combine(encoded, spread, weight, shift), expected)
            assert torch.autograd.gradcheck(combine, (encoded, spread, weight, shift))


def test_combine_leaves_what_it_is_given():
    encoded = torch.randn(4, 1, 6)
    before = encoded.clone()
    with torch.no_grad():
        combine(encoded, torch.randn(4, 1, 2), torch.randn(2, 6), torch.zeros(()))
    assert torch.equal(encoded, before)


def test_project_is_a_linear_map_of_the_concatenation():
    torch.manual_seed(0)
    h, y, weight, bias = doubles(4, 3, 6), doubles(4, 3, 2), doubles(2, 8), doubles(2)
    expected = torch.nn.functional.linear(torch.cat([h, y], dim=-1), weight, bias)
    torch.testing.assert_close(project(h, y, weight, bias), expected)
    assert torch.autograd.gradcheck(project, (h, y, weight, bias))
    with torch.no_grad():
        torch.testing.assert_close(project(h, y, weight, bias), expected)
        torch.testing.assert_close(narrow(h, weight[:, :6]), h @ weight[:, :6].T)
