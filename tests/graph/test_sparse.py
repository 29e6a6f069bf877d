"""Damaged sparse matrices are refused; they are tried in a process of their own, which a crash would end."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from dpmsnc.graph import Graph
from dpmsnc.graph.sparse import checked

DAMAGED = """
import sys
import numpy as np
import scipy.sparse as sp
from dpmsnc.errors import InputError
from dpmsnc.graph import Graph

def square(kind):
    return getattr(sp, f"{kind}_array")(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0.0]]))

def damaged(kind, change):
    matrix = sp.bsr_array(square("csr"), blocksize=(2, 2)) if kind == "bsr" else square(kind)
    change(matrix)
    return matrix

def put(name, place, value):
    def change(matrix):
        getattr(matrix, name)[place] = value
    return change

def swap(name, value):
    return lambda matrix: setattr(matrix, name, value)

FAR = 2**31 - 2
cases = {}
for kind in ("csr", "csc", "bsr"):
    cases[f"{kind} index beyond"] = damaged(kind, put("indices", 0, FAR))
    cases[f"{kind} index at the end"] = damaged(kind, put("indices", -1, 4 if kind != "bsr" else 2))
    cases[f"{kind} index negative"] = damaged(kind, put("indices", 0, -7))
    cases[f"{kind} indptr falls"] = damaged(kind, put("indptr", 1, FAR))
    cases[f"{kind} indptr ends at 0"] = damaged(kind, put("indptr", -1, 0))
    cases[f"{kind} indptr ends beyond"] = damaged(kind, put("indptr", -1, 10**6))
    cases[f"{kind} indptr starts late"] = damaged(kind, put("indptr", 0, 1))
    cases[f"{kind} indptr negative"] = damaged(kind, put("indptr", 1, -FAR))
    cases[f"{kind} indptr too short"] = damaged(kind, swap("indptr", np.array([0, 1])))
    cases[f"{kind} indices of numbers"] = damaged(kind, swap("indices", np.full(6, np.nan)))
    cases[f"{kind} fewer data than indices"] = damaged(kind, lambda m: setattr(m, "data", m.data[:1]))
for name in ("row", "col"):
    cases[f"coo {name} beyond"] = damaged("coo", put(name, 0, FAR))
    cases[f"coo {name} negative"] = damaged("coo", put(name, 0, -FAR))
cases["coo fewer data"] = damaged("coo", swap("data", np.ones(1)))
cases["lil column beyond"] = damaged("lil", put("rows", 0, [10**6]))
cases["lil column negative"] = damaged("lil", put("rows", 0, [-5]))
cases["lil fewer data"] = damaged("lil", put("data", 0, []))
cases["dok beyond"] = damaged("dok", lambda m: m._dict.update({(10**6, 0): 1.0}))
cases["dia too few offsets"] = damaged("dia", swap("offsets", np.array([0])))
cases["dia offset beyond"] = damaged("dia", put("offsets", 0, 10**6))
for name, matrix in cases.items():
    for reader in (lambda m: Graph.from_scipy(m), lambda m: Graph.build([(0, 1)], num_nodes=4, x=m)):
        print(name, end=": ", flush=True)
        try:
            graph = reader(matrix)
            graph.adjacency.toarray()
            print("ACCEPTED")
        except InputError as error:
            print(error)
        sys.stdout.flush()
"""


def test_damaged_matrices_are_refused_and_do_not_crash():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", DAMAGED], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()[-3:]
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * (3 * 11 + 5 + 3 + 1 + 2)
    assert [line for line in lines if "must be a sound sparse matrix" not in line] == []


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_sound_matrices_keep_every_entry(kind, family):
    dense = np.array([[0, 2, 0, 0], [0, 0, 0, 5], [0, 0, 0, 0], [1, 0, 0, 0.0]])
    matrix = getattr(sp, f"{kind}_{family}")(dense)
    np.testing.assert_array_equal(checked(matrix, "features").toarray(), dense)
    np.testing.assert_array_equal(Graph.build([(0, 1)], num_nodes=4, x=matrix).x.toarray(), dense)
    assert Graph.from_scipy(matrix).edge_index.T.tolist() == [[0, 1], [0, 3], [1, 3]]
    np.testing.assert_array_equal(matrix.toarray(), dense)


def test_a_matrix_that_claims_to_be_sorted_and_free_of_duplicates_is_not_believed():
    matrix = sp.csr_array((np.ones(3), np.array([1, 0, 1]), np.array([0, 3, 3])), shape=(2, 2))
    matrix.has_canonical_format = matrix.has_sorted_indices = True
    assert Graph.build([(0, 1)], x=matrix).x.data.tolist() == [1, 2]
