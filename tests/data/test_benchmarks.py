import numpy as np
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data

from dpmsnc.baselines import LabelPropagation
from dpmsnc.data import Task, benchmarks, load
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.metrics import accuracy

needs_data = pytest.mark.skipif(
    not benchmarks.data_folder().joinpath("cora.npz").is_file(), reason="no data sets: set DPMSNC_DATA to their folder"
)


def small_data(num_splits=None):
    """Six nodes in a path and two apart, of which the last has neither features nor, in truth, a label."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 2], [1, 2, 3, 4, 5, 2]])
    x = torch.eye(8)[:, :5] + torch.eye(8)[:, 3:]
    x[7] = 0
    masks = torch.zeros(3, 8, dtype=torch.bool)
    masks[0, [0, 5]] = masks[1, [1, 6]] = masks[2, [2, 3, 4]] = True
    if num_splits:
        masks = torch.stack([masks.roll(k, dims=1) for k in range(num_splits)], dim=2)
    named = dict(zip(["train_mask", "val_mask", "test_mask"], masks))
    y = torch.tensor([0, 0, 0, 2, 2, 2, 1, 0])
    return Data(x=x, y=y, edge_index=torch.cat([edges, edges.flip(0)], dim=1), **named)


@pytest.fixture
def offline_pyg(monkeypatch):
    """PyG's data set classes, giving small data instead of downloading."""
    asked = []

    def planetoid(root, name):
        asked.append(name)
        return [small_data()]

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", planetoid)
    monkeypatch.setattr(torch_geometric.datasets, "Amazon", lambda root, name: [small_data()])
    monkeypatch.setattr(torch_geometric.datasets, "HeterophilousGraphDataset", lambda root, name: [small_data(3)])
    return asked


def test_a_download_is_converted_once_and_read_again(tmp_path, offline_pyg):
    task = load("cora", root=tmp_path, download=True)
    again = load("cora", root=tmp_path, download=True)
    assert offline_pyg == ["Cora"] and sorted(p.name for p in tmp_path.iterdir()) == ["cora.npz"]
    for t in (task, again):
        assert t.graph.edge_index.T.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
        assert t.graph.x.toarray().tolist() == small_data().x.tolist()
        assert t.truth.tolist() == [0, 0, 0, 2, 2, 2, 1, 0] and t.graph.classes == (0, 1, 2)
        assert np.flatnonzero(t.train).tolist() == [0, 5] and np.flatnonzero(t.validation).tolist() == [1, 6]
        assert t.graph.y.tolist() == [0, 0, -1, -1, -1, 2, 1, -1]


def test_citeseer_nodes_that_pyg_calls_class_zero_have_no_label(tmp_path, offline_pyg):
    assert load("citeseer", root=tmp_path, download=True).truth.tolist() == [0, 0, 0, 2, 2, 2, 1, -1]


def test_the_seed_picks_one_of_the_official_splits(tmp_path, offline_pyg):
    masks = small_data(3).train_mask.numpy()
    for seed in range(6):
        task = load("minesweeper", seed=seed, root=tmp_path, download=True)
        assert (task.train == masks[:, seed % 3]).all()


def test_the_largest_component_keeps_ids_features_and_labels(tmp_path, offline_pyg):
    task = load("minesweeper", seed=2, root=tmp_path, download=True, largest_component=True)
    whole = load("minesweeper", seed=2, root=tmp_path)
    assert task.graph.ids.tolist() == list(range(6)) and task.graph.num_edges == 5
    assert (task.truth == whole.truth[:6]).all() and (task.test == whole.test[:6]).all()
    assert (task.graph.x.toarray() == whole.graph.x.toarray()[:6]).all()


def test_missing_files_and_names_are_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"cora\.npz is missing.*download=True.*DPMSNC_DATA"):
        load("cora")
    with pytest.raises(InputError, match=r"chameleon_filtered\.npz is missing.*heterophilous-graphs"):
        load("chameleon_filtered", download=True)
    with pytest.raises(InputError, match=r"unknown data set 'kora'; choose one of cora, .*grid_localized"):
        load("kora")


def test_a_failed_download_is_the_users_to_mend(tmp_path, monkeypatch):
    def unreachable(root, name):
        raise OSError("no route to host")

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", unreachable)
    with pytest.raises(InputError, match=r"could not download PubMed: no route to host.*pubmed\.npz"):
        load("pubmed", root=tmp_path, download=True)
    assert not (tmp_path / "pubmed.npz").exists()


def test_random_splits_have_the_declared_sizes():
    y = np.repeat([0, 1, 2, -1], [100, 200, 60, 7])
    train, validation, test = benchmarks.per_class(20, 30)(y, {}, seed=4)
    assert np.bincount(y[train]).tolist() == [20] * 3 and np.bincount(y[validation]).tolist() == [30] * 3
    assert np.bincount(y[test & (y >= 0)]).tolist() == [50, 150, 10]
    train, validation, test = benchmarks.at_random(0.5, 0.25)(y, {}, seed=4)
    assert (train.sum(), validation.sum(), test.sum()) == (180, 90, 90)
    assert not (train | validation | test)[y == -1].any()


def test_random_splits_of_tags_are_those_of_their_rows():
    y = np.eye(4, dtype=np.int64)[np.arange(50) % 4]
    y[7] = y[20:29] = -1
    parts = benchmarks.at_random(0.5, 0.25)(y, {}, seed=4)
    assert [part.shape for part in parts] == [(50,)] * 3 and [part.sum() for part in parts] == [20, 10, 10]
    assert (sum(part.astype(int) for part in parts) == (y[:, 0] != -1)).all()
    graph = Graph.build([(0, 1)], num_nodes=50, y=y, kind="tags")
    task = Task.hiding("tags", graph, *parts)
    assert (task.graph.known == parts[0] | parts[1]).all() and (task.truth == y).all()


def test_grids_are_benchmarks_that_need_no_file():
    assert load("grid_scattered", seed=1).graph.num_nodes == 2000
    assert load("grid_localized", seed=1).graph.num_nodes == 200


@needs_data
@pytest.mark.parametrize(
    "name, nodes, edges, sizes",
    [
        ("cora", 2708, 5278, (140, 500, 1000)),
        ("citeseer", 3327, 4552, (120, 500, 1000)),
        ("pubmed", 19717, 44324, (60, 500, 1000)),
        ("amazon_photo", 7650, 119081, (160, 240, 7250)),
        ("minesweeper", 10000, 39402, (5000, 2500, 2500)),
        ("chameleon_filtered", 890, 8854, (409, 287, 194)),
        ("roman_empire_nofeat", 22662, 32927, (11331, 5665, 5666)),
    ],
)
def test_real_sets_have_the_published_sizes_and_hide_test_labels(name, nodes, edges, sizes):
    task = load(name)
    assert (task.graph.num_nodes, task.graph.num_edges) == (nodes, edges)
    assert (task.train.sum(), task.validation.sum(), task.test.sum()) == sizes
    assert (task.graph.y[task.test] == -1).all() and (task.truth[task.test] >= 0).all()


@needs_data
def test_the_largest_component_of_photo_has_the_size_printed_in_the_paper():
    task = load("amazon_photo", largest_component=True)
    assert (task.graph.num_nodes, task.graph.num_edges, task.test.sum()) == (7487, 119043, 7087)


@needs_data
@pytest.mark.parametrize("name, mean, std", [("amazon_photo", 81.0, 2.0), ("amazon_computers", 69.9, 2.9)])
def test_label_propagation_has_the_papers_mean_and_spread_on_its_random_splits(name, mean, std):
    """Over all nodes without a training label: it does not use validation labels."""
    tasks = [load(name, seed=seed) for seed in range(10)]
    models = [LabelPropagation().fit(task.graph, validation=task.validation) for task in tasks]
    answers = [task.graph.encode(model.predict(condition_on="train")) for task, model in zip(tasks, models)]
    accuracies = [100 * accuracy(answer, task.truth, ~task.train) for answer, task in zip(answers, tasks)]
    assert (round(np.mean(accuracies), 1), round(np.std(accuracies), 1)) == (mean, std)


def test_files_as_their_authors_published_them_are_read(tmp_path, offline_pyg):
    ours = load("minesweeper", seed=1, root=tmp_path, download=True)
    arrays = np.load(tmp_path / "minesweeper.npz")
    graph = ours.graph.with_labels(ours.truth)
    published = {
        "node_features": graph.x.toarray(),
        "node_labels": graph.y,
        "edges": graph.edge_index.T,
        **{f"{mask}s": arrays[mask] for mask in ("train_mask", "val_mask", "test_mask")},
    }
    np.savez(tmp_path / "amazon_ratings.npz", **published)
    theirs = load("amazon_ratings", seed=1, root=tmp_path)
    assert (theirs.graph.edge_index == ours.graph.edge_index).all() and (theirs.truth == ours.truth).all()
    assert (theirs.graph.x == graph.x.toarray()).all()
    for mask in ("train", "validation", "test"):
        assert (getattr(theirs, mask) == getattr(ours, mask)).all()


def test_the_heterophilous_graphs_that_have_to_be_fetched_are_named(tmp_path):
    for name in ("roman_empire", "amazon_ratings"):
        with pytest.raises(InputError, match=rf"{name}\.npz is missing.*load\(\"{name}\", download=True\)"):
            load(name, root=tmp_path)
