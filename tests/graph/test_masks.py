"""Masks that come with data hide the labels a model is tested on."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.split import split_known
from dpmsnc.targets import RealValue

EDGES = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 4], [1, 2, 3, 4, 0, 1, 2, 3]])


def mask(*nodes):
    return torch.isin(torch.arange(5), torch.tensor(nodes))


def data(**masks):
    return Data(edge_index=EDGES, y=torch.tensor([0, 1, 0, 2, 2]), num_nodes=5, **masks)


SPLIT = {"train_mask": mask(0, 1), "val_mask": mask(2), "test_mask": mask(3)}


@pytest.mark.parametrize(
    ("masks", "known", "note"),
    [
        (SPLIT, [0, 1, 2], "2 labels outside train_mask and val_mask hidden"),
        ({"train_mask": mask(0, 1)}, [0, 1], "3 labels outside train_mask hidden"),
        ({"train_mask": mask(0, 1), "test_mask": mask(3)}, [0, 1], "3 labels outside train_mask hidden"),
        ({"test_mask": mask(3)}, [0, 1, 2, 4], "1 label inside test_mask hidden"),
        ({"val_mask": mask(2)}, [0, 1, 2, 3, 4], "val_mask ignored"),
        ({"train_mask": mask(0, 1).byte(), "val_mask": mask(2).long()}, [0, 1, 2], "2 labels"),
        ({"train_mask": mask(0, 1, 2, 3, 4)}, [0, 1, 2, 3, 4], None),
        ({}, [0, 1, 2, 3, 4], None),
    ],
)
def test_labels_outside_training_and_validation_are_hidden_and_counted(masks, known, note):
    graph = Graph.from_pyg(data(**masks))
    assert np.flatnonzero(graph.known).tolist() == known
    assert graph.classes == (0, 1, 2)  # a class that only test nodes have is still one of the classes
    assert [n for n in graph.notes if "mask" in n][:1] == [] if note is None else any(note in n for n in graph.notes)


def test_every_label_is_there_for_the_asking():
    graph = Graph.from_pyg(data(**SPLIT), all_labels=True)
    assert graph.known.all() and any("ignored: every label" in note for note in graph.notes)


def test_the_validation_mask_goes_straight_into_fit():
    source = data(**SPLIT)
    train, held_back = split_known(Graph.from_pyg(source), source.val_mask, 0)
    assert np.flatnonzero(train).tolist() == [0, 1] and np.flatnonzero(held_back).tolist() == [2]


def test_one_of_several_splits_is_chosen():
    several = {"train_mask": torch.stack([mask(0, 1), mask(3, 4)], dim=1), "val_mask": torch.stack([mask(2)] * 2, 1)}
    assert np.flatnonzero(Graph.from_pyg(data(**several), split=1).known).tolist() == [2, 3, 4]
    for split in (None, 2, -1):
        with pytest.raises(InputError, match=r"train_mask holds 2 splits; choose one of split=0 to split=1"):
            Graph.from_pyg(data(**several), split=split)
    assert Graph.from_pyg(data(**several), all_labels=True).known.all()


@pytest.mark.parametrize("wrong", [torch.tensor([0, 3]), torch.tensor([0, 1, 2, 3, 4]), torch.ones(2, 2, 5)])
def test_what_is_no_mask_is_refused(wrong):
    with pytest.raises(InputError, match=r"train_mask of shape .* one boolean per node"):
        Graph.from_pyg(data(train_mask=wrong))


def test_masks_in_a_file_hide_labels_too(tmp_path):
    parts = {name: value.numpy()[None] for name, value in SPLIT.items()}
    np.savez(tmp_path / "one.npz", edge_index=EDGES.numpy(), y=[0, 1, 0, 2, 2], **parts)
    assert Graph.from_npz(tmp_path / "one.npz").y.tolist() == [0, 1, 0, -1, -1]
    assert Graph.from_npz(tmp_path / "one.npz", all_labels=True).known.all()
    np.savez(tmp_path / "flat.npz", edge_index=EDGES.numpy(), y=[0, 1, 0, 2, 2], train_mask=parts["train_mask"][0])
    assert Graph.from_npz(tmp_path / "flat.npz").y.tolist() == [0, 1, -1, -1, -1]
    several = {"train_mask": np.concatenate([parts["train_mask"], parts["test_mask"]])}
    np.savez(tmp_path / "two.npz", edge_index=EDGES.numpy(), y=[0, 1, 0, 2, 2], **several)
    assert Graph.from_npz(tmp_path / "two.npz", split=1).y.tolist() == [-1, -1, -1, 2, -1]
    with pytest.raises(InputError, match="choose one of split=0 to split=1"):
        Graph.from_npz(tmp_path / "two.npz")


def test_hidden_numbers_do_not_leak_through_the_scale():
    source = data(train_mask=mask(0, 1))
    source.y = torch.tensor([1.0, 3.0, 1e6, -1e6, 5e5])
    graph = Graph.from_pyg(source, kind="value")
    assert graph.target == RealValue(shift=2.0, scale=1.0)
    np.testing.assert_array_equal(graph.y, [1, 3, np.nan, np.nan, np.nan])
