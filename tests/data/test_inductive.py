import numpy as np
import pytest
import torch
import torch_geometric.datasets
from torch_geometric.data import Data

from dpmsnc.data import INDUCTIVE, InductiveTask, Task, benchmarks, load
from dpmsnc.data.catalogue import missing_files
from dpmsnc.data.inductive import PPI, TWITCH, ppi_files
from dpmsnc.errors import InputError
from dpmsnc.files import pack_arrays, write_whole
from dpmsnc.graph import Graph
from dpmsnc.graph.npz import npz_parts


def ppi_graph(part, number):
    """Four proteins with PPI's 50 features and 121 tags; the last of them interacts with none."""
    rng = np.random.default_rng([*PPI].index(part) * 100 + number)
    edges = torch.tensor([[0, 1, 1, 2, 1], [1, 0, 2, 1, 1]])
    x = torch.from_numpy(rng.normal(size=(4, 50))).float()
    return Data(x=x, y=torch.from_numpy(rng.integers(0, 2, (4, 121))).float(), edge_index=edges)


@pytest.fixture
def offline_ppi(monkeypatch):
    asked = []

    def ppi(root, split):
        asked.append(split)
        return [ppi_graph(split, number) for number in range(PPI[split])]

    monkeypatch.setattr(torch_geometric.datasets, "PPI", ppi)
    return asked


def test_ppi_is_downloaded_once_and_read_again(tmp_path, offline_ppi):
    task = load("ppi", root=tmp_path, download=True)
    again = load("ppi", root=tmp_path)
    assert offline_ppi == ["train", "val", "test"] and missing_files("ppi", tmp_path) == []
    assert sorted(path.name for path in (tmp_path / "ppi").iterdir()) == sorted(f[4:] for f in ppi_files())
    for t in (task, again):
        assert (len(t.train), len(t.validation), len(t.test)) == (20, 2, 2)
        assert t.num_classes == 121 and t.target.kind == "tags"
        assert all(g.num_features == 50 and g.num_nodes == 4 for g in (*t.train, *t.validation, *t.test))
        assert t.train[7].edge_index.T.tolist() == [[0, 1], [1, 2]]
        np.testing.assert_array_equal(t.train[7].x, ppi_graph("train", 7).x)
        np.testing.assert_array_equal(t.train[7].y, ppi_graph("train", 7).y)
        np.testing.assert_array_equal(t.validation[1].y, ppi_graph("val", 1).y)
        np.testing.assert_array_equal(t.truth[1], ppi_graph("test", 1).y)
        assert not any(g.known.any() for g in t.test)


def test_a_graph_of_ppi_that_is_missing_is_named(tmp_path, offline_ppi, monkeypatch):
    load("ppi", root=tmp_path, download=True)
    (tmp_path / "ppi" / "val_01.npz").unlink()
    with pytest.raises(InputError, match=r"ppi/val_01\.npz is missing: load\(\"ppi\", download=True\).*DPMSNC_DATA"):
        load("ppi", root=tmp_path)

    def unreachable(root, split):
        raise OSError("no route to host")

    monkeypatch.setattr(torch_geometric.datasets, "PPI", unreachable)
    with pytest.raises(InputError, match="could not download PPI: no route to host; put the files"):
        load("ppi", root=tmp_path, download=True)


def test_twitch_is_trained_on_four_languages_and_tested_on_two(tmp_path):
    languages = [language for part in TWITCH for language in part]
    for number, language in enumerate(languages):
        y = [0, 1] if language != "zhtw" else [1, -1]
        Graph.build([(0, 1)], x=np.eye(2) * (number + 1), y=y).to_npz(tmp_path / f"twitch_{language}.npz")
    task = load("twitch", root=tmp_path)
    assert [int(g.x.max()) for part in (task.train, task.validation, task.test) for g in part] == list(range(1, 8))
    assert (len(task.train), len(task.validation), len(task.test)) == (4, 1, 2)
    # one graph shows class 1 alone and the others both
    assert {g.classes for g in (*task.train, *task.validation, *task.test)} == {(0, 1)}
    assert [labels.tolist() for labels in task.truth] == [[0, 1], [1, -1]]
    (tmp_path / "twitch_ru.npz").unlink()
    with pytest.raises(InputError, match=r"twitch_ru\.npz is missing: it is the graph RU of snap\.stanford\.edu"):
        load("twitch", root=tmp_path)


def test_ego_sets_are_made_of_the_official_split_whatever_the_seed(tmp_path):
    graph = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3)], num_nodes=5, x=np.eye(5), y=[0, 1, 1, 0, 0])
    masks = dict(zip(benchmarks.MASKS, np.eye(3, 5, dtype=bool)[:, None]))
    write_whole(tmp_path / "cora.npz", pack_arrays(npz_parts(graph) | masks))
    for seed in (0, 5):
        task = load("cora_ego", seed=seed, root=tmp_path)
        assert [g.ids.tolist() for g in (*task.train, *task.validation, *task.test)] == [
            [0, 1, 2], [0, 1, 2], [0, 1, 2, 3]
        ]  # fmt: skip
        assert task.train[0].y.tolist() == [0, 1, 1] and task.truth[0].tolist() == [0, 1, 1, 0]
        assert task.test[0].y.tolist() == [-1] * 4 and task.test[0].num_edges == 4
    with pytest.raises(InputError, match=r"pubmed\.npz is missing: load\(\"pubmed\", download=True\)"):
        load("pubmed_ego", root=tmp_path)
    with pytest.raises(InputError, match="cora_ego has many graphs"):
        load("cora_ego", root=tmp_path, largest_component=True)
    with pytest.raises(InputError, match=r"unknown data set 'ego'; choose one of cora, .*twitch, ppi, grid_scattered"):
        load("ego", root=tmp_path)


def test_files_that_are_missing_are_known_before_anything_is_read(tmp_path):
    assert [path.name for path in missing_files("citeseer_ego", tmp_path)] == ["citeseer.npz"]
    assert [path.name for path in missing_files("minesweeper", tmp_path)] == ["minesweeper.npz"]
    assert len(missing_files("ppi", tmp_path)) == 24 and missing_files("grid_scattered", tmp_path) == []
    assert not set(INDUCTIVE) & set(benchmarks.BENCHMARKS)


@pytest.mark.skipif(missing_files("twitch") != [], reason="no data sets: set DPMSNC_DATA to their folder")
def test_the_real_twitch_graphs_agree():
    task = load("twitch")
    assert isinstance(task, InductiveTask) and task.num_classes == 2
    assert [g.num_nodes for g in (*task.train, *task.validation, *task.test)] == [
        9498, 7126, 4648, 6549, 1912, 4385, 2772
    ]  # fmt: skip
    assert {g.num_features for g in (*task.train, *task.validation, *task.test)} == {3170}


@pytest.mark.skipif(missing_files("blogcatalog") != [], reason="no data sets: set DPMSNC_DATA to their folder")
def test_blogcatalog_is_one_graph_of_tags_that_a_seed_splits():
    task, other = load("blogcatalog"), load("blogcatalog", seed=1)
    assert isinstance(task, Task) and task.graph.target.kind == "tags" and task.num_classes == 39
    assert (task.graph.num_nodes, task.graph.num_edges, task.graph.x) == (10312, 333983, None)
    assert (task.train.sum(), task.validation.sum(), task.test.sum()) == (5156, 2578, 2578)
    assert (task.graph.y[task.test] == -1).all() and task.truth[task.test].sum(axis=1).min() >= 1
    assert (task.train != other.train).any()
