"""Features are scaled as decided at the fit, on any graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from torch import Tensor

from dpmsnc.errors import InputError
from dpmsnc.graph import Graph
from dpmsnc.graph.features import Features
from dpmsnc.graph.structure import structure_features
from dpmsnc.nn.operator import GraphTensors


def graph_of(x, names=None):
    return Graph.build([], num_nodes=x.shape[0], x=x, feature_names=names)


def dense(x):
    return x.toarray() if sp.issparse(x) else x


def scaled(x, scaling):
    return dense(Features.fit(graph_of(x), scaling).transform(graph_of(x)))


@pytest.mark.parametrize("wrap", [sp.csr_array, np.asarray], ids=["sparse", "dense"])
class TestScaling:
    x = np.array([[1, 3, 0], [0, 0, 0], [0, 0, 5]], dtype=np.float32)

    def scaled(self, wrap, scaling):
        return scaled(wrap(self.x), scaling)

    def test_rows_sum_to_one_and_empty_rows_stay_empty(self, wrap):
        np.testing.assert_allclose(self.scaled(wrap, "rows"), [[0.25, 0.75, 0], [0, 0, 0], [0, 0, 1]])

    def test_binary(self, wrap):
        np.testing.assert_array_equal(self.scaled(wrap, "binary"), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])

    def test_raw(self, wrap):
        np.testing.assert_array_equal(self.scaled(wrap, "raw"), self.x)


@pytest.mark.parametrize("scaling", ["unit", "rows"])
def test_columns_that_are_hardly_ever_zero_are_measurements_and_standardised(scaling):
    year_and_score = np.array([[2001, 0.1], [1950, 0.9], [1990, 0.5], [2010, 0.2]], dtype=np.float32)
    found = scaled(year_and_score, scaling)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(found.std(axis=0), 1, atol=1e-4)
    constant = scaled(np.ones((4, 2), dtype=np.float32), scaling)  # with degrees, it says something
    assert (constant == constant[0, 0]).all() and constant[0, 0] > 0
    flags = np.array([[1, 0], [1, 1], [1, 0], [1, 1]], dtype=np.float32)  # one is set everywhere
    np.testing.assert_allclose(scaled(flags, "rows").sum(axis=1), 1)
    words = np.eye(4, dtype=np.float32) + np.eye(4, k=1, dtype=np.float32)
    np.testing.assert_allclose(scaled(words, "rows").sum(axis=1), 1)


def test_many_large_and_small_measurements_are_standardised_all_the_same():
    rng = np.random.default_rng(0)
    year = rng.integers(1990, 2021, size=300_000)
    x = np.stack([year, rng.random(len(year)) * 1e-9 + 1e-9, np.full(len(year), 2000.1)], axis=1).astype(np.float32)
    found = scaled(x, "unit")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(axis=0, dtype=np.float64), 0, atol=1e-3)
    np.testing.assert_allclose(found.std(axis=0, dtype=np.float64), [1, 1, 0], atol=1e-3)


def test_dense_signed_features_are_standardised_by_column():
    x = np.random.default_rng(0).normal(3, 2, size=(50, 4)).astype(np.float32)
    x[:, 3] = -1  # a constant column must not divide by zero
    found = scaled(x, "rows")
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=0), [1, 1, 1, 0], atol=1e-5)


def test_another_graph_is_scaled_by_what_was_fitted():
    rng = np.random.default_rng(0)
    fitted, other = (graph_of(rng.normal(m, 2, size=(50, 3)).astype(np.float32)) for m in (5, 9))
    found = Features.fit(fitted, "unit").transform(other)
    expected = (other.x - fitted.x.mean(axis=0)) / fitted.x.std(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(Features.fit(fitted, "unit").transform(graph_of(sp.csr_array(other.x))), found)


def test_words_stay_words_on_a_graph_where_they_look_like_measurements():
    words = graph_of(np.eye(4, dtype=np.float32))
    counts = graph_of(np.arange(1, 17, dtype=np.float32).reshape(4, 4))
    np.testing.assert_allclose(np.linalg.norm(Features.fit(words, "unit").transform(counts), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    "names, message",
    [
        (("a", "b"), "lacks 'c'"),
        (("a", "b", "c", "d"), "adds 'd'"),
        (("a", "c", "b"), "another order"),
        (None, "has 2 features a node, the fitted one 3"),
    ],
)
def test_other_features_are_refused_by_name(names, message):
    features = Features.fit(graph_of(np.ones((2, 3)), ("a", "b", "c")), "unit")
    with pytest.raises(InputError, match=message):
        features.transform(graph_of(np.ones((2, len(names or "ab"))), names))


class TestStructure:
    star = Graph.build([(0, leaf) for leaf in range(1, 6)])
    path = Graph.build([(0, 1), (1, 2), (2, 3)])

    def test_it_stands_in_for_features_that_are_missing(self):
        features = Features.fit(self.star, "unit", structure=True)
        found = dense(features.transform(self.star))
        assert features.num_features == 0 and found.shape == (6, features.width) and found.dtype == np.float32
        np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(np.unique(found.std(axis=0).round(5)), [0, 1])  # 0: columns that do not vary

    def test_without_being_asked_for_it_there_is_none(self):
        features = Features.fit(self.star, "unit")
        assert features.transform(self.star) is None and features.width == 1 and features.key == "unit"
        assert "longest_walk" not in features.state()[0]

    def test_features_that_are_there_are_used(self):
        graph = graph_of(np.eye(3, dtype=np.float32))
        features = Features.fit(graph, "unit", structure=True)
        assert features.longest_walk is None and features.width == features.num_features == 3
        np.testing.assert_array_equal(dense(features.transform(graph)), np.eye(3))

    def test_another_graph_is_scaled_by_the_fitted_one(self):
        features = Features.fit(self.star, "unit", structure=True)
        walk = features.longest_walk
        assert walk is not None and features.mean is not None and features.std is not None
        expected = (structure_features(self.path, walk) - features.mean) / features.std
        np.testing.assert_allclose(dense(features.transform(self.path)), expected, rtol=1e-6)
        with pytest.raises(InputError, match="has 2 features a node, the fitted one 0"):
            features.transform(graph_of(np.ones((2, 2))))

    def test_it_is_saved_and_states_without_it_are_read(self):
        for features in (Features.fit(self.star, "unit", structure=True), Features.fit(self.star, "unit")):
            again = Features.from_state(*features.state())
            assert (again.key, again.width, again.longest_walk) == (features.key, features.width, features.longest_walk)
        assert features.key != Features.fit(self.star, "unit", structure=True).key

    @pytest.mark.parametrize("walk", [3, 2, -1, 10**9, "6"])
    def test_a_state_that_contradicts_itself_is_refused(self, walk):
        values, arrays = Features.fit(self.star, "unit", structure=True).state()
        with pytest.raises(ValueError, match=f"walks of {walk} steps"):
            Features.from_state(values | {"longest_walk": walk}, arrays)

    def test_networks_take_it(self):
        tensors = GraphTensors.of(self.path, Features.fit(self.path, "unit", structure=True))
        assert isinstance(tensors.x, Tensor) and tensors.x.shape == (4, tensors.num_features)
