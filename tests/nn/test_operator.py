import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpmsnc.nn.operator import GraphTensors, Operator
from random_graphs import graph_of, random_graph

CPU = torch.device("cpu")


def random_matrix(rows, columns, symmetric=False):
    matrix = sp.random_array((rows, columns), density=0.4, rng=np.random.default_rng(0), format="csr")
    return sp.csr_array(matrix + matrix.T) if symmetric else matrix


@pytest.mark.parametrize("trailing", [(5,), (3, 5)], ids=["features", "batch"])
@pytest.mark.parametrize(("rows", "columns", "symmetric"), [(7, 7, True), (7, 7, False), (9, 4, False), (4, 9, False)])
def test_product_equals_the_dense_one(rows, columns, symmetric, trailing):
    matrix = random_matrix(rows, columns, symmetric)
    operator = Operator(matrix, CPU, torch.float64)
    h = torch.randn(columns, *trailing, dtype=torch.float64, requires_grad=True)
    expected = torch.tensordot(torch.from_numpy(matrix.toarray()), h, dims=1)
    torch.testing.assert_close(operator(h), expected)
    assert torch.autograd.gradcheck(operator, h)


def test_a_symmetric_matrix_is_stored_once():
    assert (symmetric := Operator(random_matrix(7, 7, True), CPU, torch.float32)).transpose is symmetric.matrix
    assert (other := Operator(random_matrix(7, 7), CPU, torch.float32)).transpose is not other.matrix


def test_product_takes_fields_that_are_not_contiguous():
    operator = Operator(random_matrix(6, 6), CPU, torch.float64)
    h = torch.randn(3, 6, 2, dtype=torch.float64).transpose(0, 1)
    torch.testing.assert_close(operator(h), operator(h.contiguous()))
    grads = []
    for grad in (torch.ones(1, 1, 1).double().expand(6, 3, 2), torch.ones(6, 3, 2).double()):
        leaf = h.detach().clone().requires_grad_()
        operator(leaf).backward(grad)
        grads.append(leaf.grad)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("name", ["gcn", "gcn-improved", "sum", "mean", "neighbours", "mean-with-self"])
def test_propagation_against_its_formula(name):
    graph = random_graph()
    A, eye = graph.adjacency.toarray().astype(np.float64), np.eye(graph.num_nodes)
    degree = A.sum(axis=1)
    expected = {
        "gcn": (A + eye) / np.sqrt(np.outer(degree + 1, degree + 1)),
        "gcn-improved": (A + 2 * eye) / np.sqrt(np.outer(degree + 2, degree + 2)),
        "sum": A,
        "mean": A / np.maximum(degree, 1)[:, None],
        "neighbours": A / np.sqrt(np.maximum(np.outer(degree, degree), 1)),
        "mean-with-self": (A + eye) / (degree + 1)[:, None],
    }[name]
    operator = GraphTensors.of(graph, dtype=torch.float64).operator(name)
    np.testing.assert_allclose(operator(torch.eye(graph.num_nodes, dtype=torch.float64)), expected, atol=1e-7)


def test_edges_with_loops_are_sorted_by_target():
    graph = random_graph()
    source, target = GraphTensors.of(graph).edges_with_loops
    assert (target.diff() >= 0).all()
    found = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(found, (target.numpy(), source.numpy()), 1)
    np.testing.assert_array_equal(found, graph.adjacency.toarray() + np.eye(graph.num_nodes))


def test_tensors_of_a_graph_are_made_once_for_each_use():
    graph = random_graph()
    assert GraphTensors.of(graph).x is GraphTensors.of(graph).x
    assert GraphTensors.of(graph).x is not GraphTensors.of(graph, "binary").x
    assert GraphTensors.of(graph).operator("gcn") is GraphTensors.of(graph).operator("gcn")


def test_a_graph_without_features_gets_ones():
    graph = random_graph()
    bare = GraphTensors.of(type(graph)(20, graph.edge_index, None, graph.y, graph.target, graph.ids))
    assert bare.num_features == 1
    assert torch.equal(bare.x, torch.ones(20, 1))


def test_a_graph_without_edges_has_operators():
    tensors = GraphTensors.of(graph_of(np.zeros((2, 0)), np.eye(3, dtype=np.float32)))
    h = torch.randn(3, 2, 4)
    torch.testing.assert_close(tensors.operator("gcn")(h), h)
    assert torch.equal(tensors.operator("mean")(h), torch.zeros_like(h))
