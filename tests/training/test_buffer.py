import torch

from dpmsnc.targets import OneClass
from dpmsnc.training.buffer import Buffer


def buffer(size=4, nodes=10):
    labels, mask = torch.zeros(nodes, dtype=torch.long), torch.zeros(nodes, dtype=torch.bool)
    labels[:2], mask[:2] = 1, True
    return Buffer(size, OneClass((0, 1)), labels, mask, expected=torch.tensor([0.5, 0.5], dtype=torch.float64))


def labelling(seed, nodes=10):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 2
    return y[torch.randperm(nodes, generator=generator)]


def test_keeps_the_newest_and_puts_true_labels_on_training_nodes():
    b = buffer()
    entries = torch.stack([labelling(s) for s in range(6)])
    b.add(entries)
    assert len(b.entries) == 4
    assert torch.equal(b.entries[:, 2:], entries[2:, 2:]) and (b.entries[:, :2] == 1).all()


def test_a_collapsed_labelling_never_enters():
    b = buffer()
    b.add(torch.stack([torch.zeros(10, dtype=torch.long), labelling(0), torch.ones(10, dtype=torch.long)]))
    assert len(b.entries) == 1 and b.refused == 2
    b.add(torch.zeros(3, 10, dtype=torch.long))
    assert len(b.entries) == 1 and b.refused == 5


def test_draws_are_uniform_over_entries():
    b = buffer()
    b.add(torch.stack([labelling(s) for s in range(4)]))
    drawn = b.draw(8000, torch.Generator().manual_seed(0))
    shares = [(drawn == entry).all(dim=1).double().mean().item() for entry in b.entries]
    assert all(abs(share - 0.25) < 0.02 for share in shares)


def test_mean_is_the_class_frequency_of_each_node():
    b = buffer()
    b.add(torch.stack([torch.arange(10) % 2, (torch.arange(10) // 2) % 2]))
    agree = (torch.arange(10) % 2) == ((torch.arange(10) // 2) % 2)
    agree[:2] = True
    assert torch.equal(b.mean.amax(dim=1) == 1, agree)
    assert torch.allclose(b.mean.sum(dim=1), torch.ones(10))
