import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse as sp

from dpmsnc.baselines import NeighbourhoodFeatures
from dpmsnc.data.company import company
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Estimator
from dpmsnc.graph import Graph
from dpmsnc.graph.batch import GraphBatch
from dpmsnc.graph.columns import Columns

EDGES = pd.DataFrame({"s": ["a", "b", "c", "d", "e", "f"], "t": ["b", "c", "d", "e", "f", "a"]})
TABLE = pd.DataFrame(
    {
        "id": list("abcdef"),
        "age": [30, np.nan, 50, 40, 20, 60],
        "city": ["Rome", "Rome", "Oslo", "Oslo", None, "Bern"],
        "paid": ["yes", "no", "yes", None, "no", "no"],
        "since": ["2020-01-03", "2020-01-01", None, "2020-02-01", "2021-01-01", "2020-01-02"],
        "code": ["x1", "x2", "x3", "x4", "x5", "x6"],
        "note": [f"a long note number {k}" for k in range(6)],
    }
)


def read(nodes=TABLE, **options):
    return Graph.from_tables(EDGES, nodes, **options)


def features(graph):
    return dict(zip(graph.feature_names, graph.x.T.tolist()))


def test_every_kind_of_column_becomes_features():
    found = features(read())
    assert found == {
        "age": [30, 40, 50, 40, 20, 60],
        "age (missing)": [0, 1, 0, 0, 0, 0],
        "city=Oslo": [0, 0, 1, 1, 0, 0],
        "city=Rome": [1, 1, 0, 0, 0, 0],
        "city (other)": [0, 0, 0, 0, 0, 1],
        "city (missing)": [0, 0, 0, 0, 1, 0],
        "paid": [1, 0, 1, 0, 0, 0],
        "paid (missing)": [0, 0, 0, 1, 0, 0],
        "since": [2, 0, 2, 31, 366, 1],
        "since (missing)": [0, 0, 1, 0, 0, 0],
    }


def test_the_summary_says_what_was_done_to_each_column():
    graph = read(columns={"paid": "drop"})
    said = dict(graph.summary().columns)
    assert list(said) == list(TABLE.columns.drop("id"))
    assert "1 gap filled with the median (40)" in said["age"] and "days since 2020-01-01" in said["since"]
    assert "1 rare one together ('Bern')" in said["city"] and "as asked for" in said["paid"]
    assert "identifier" in said["code"] and "free text" in said["note"]
    assert "column      code: left out" in str(graph.summary())
    assert "ignored node columns: 'paid', 'code', 'note'" in graph.notes


def test_whole_numeric_tables_have_the_features_that_they_always_had():
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(
        {
            "id": np.arange(50),
            "big": rng.integers(10**12, size=50),
            "x": rng.normal(size=50),
            "flag": rng.random(50) < 0.5,
        }
    )
    graph = Graph.from_tables(pd.DataFrame({"s": [0], "t": [1]}), numbers)
    expected = numbers[["big", "x", "flag"]].to_numpy(dtype=np.float32)
    assert graph.x.dtype == np.float32 and np.array_equal(graph.x, expected)
    assert graph.feature_names == ("big", "x", "flag") and graph.notes[:1] != ("ignored",)


def test_another_table_is_encoded_as_the_fitted_one():
    fitted = read()
    other = TABLE[["since", "city", "age", "paid", "id"]].assign(
        age=[np.nan, 1, 2, 3, 4, 5], city=["Nice", None, "Bern", "Rome", "Oslo", "Oslo"], since="2019-12-31"
    )
    graph = read(other, id="id", columns_like=fitted)
    found = features(graph)
    assert graph.feature_names == fitted.feature_names
    assert found["age"] == [40, 1, 2, 3, 4, 5] and found["since"] == [-1] * 6
    assert found["city (other)"] == [1, 0, 1, 0, 0, 0] and found["city (missing)"] == [0, 1, 0, 0, 0, 0]
    with pytest.raises(InputError, match="has no column 'paid', which the fitted one has"):
        read(other.drop(columns="paid"), id="id", columns_like=fitted)
    with pytest.raises(InputError, match=r"'since' holds 'soon' in row 2 of the node table \(node 'c'\).*YYYY-MM-DD"):
        read(other.assign(since=["2019-12-31"] * 2 + ["soon"] + [None] * 3), id="id", columns_like=fitted)
    with pytest.raises(InputError, match="'age' holds 'old' in row 5"):
        read(other.assign(age=[*"12345", "old"]), id="id", columns_like=fitted)
    with pytest.raises(InputError, match="leave features= and columns= out"):
        read(TABLE, columns_like=fitted, features=["age"])


def test_what_no_fitted_row_had_is_noted():
    whole = TABLE.assign(age=range(6), city=["Rome", "Oslo"] * 3)
    fitted = read(whole, features=["age", "city"])
    graph = read(whole.assign(age=[np.nan, *range(5)], city=["Nice"] * 6), columns_like=fitted)
    assert "gaps in column 'age' filled with 2.5: 1" in graph.notes
    assert "new levels of column 'city' count as none: 'Nice'" in graph.notes
    assert graph.x[0].tolist() == [2.5, 0, 0]


def test_the_user_says_what_a_column_is(tmp_path):
    table = TABLE[["id", "code", "note"]].assign(zip=[1010, 1010, 1010, 1020, 1020, 1020])
    found = features(read(table, columns={"zip": "category", "note": "text", "code": "drop"}))
    assert found["zip=1010"] == [1, 1, 1, 0, 0, 0] and found["note:long"] == [1] * 6
    assert features(read(table, features=["code"])) == {"code (other)": [1] * 6}
    table.assign(zip=["0101"] * 3 + ["0102"] * 3).to_csv(tmp_path / "nodes.csv", index=False)
    assert features(read(tmp_path / "nodes.csv", columns={"zip": "category"}))["zip=0101"] == [1, 1, 1, 0, 0, 0]
    with pytest.raises(InputError, match="'zip' cannot be 'words'; a column is one of numeric"):
        read(table, columns={"zip": "words"})
    with pytest.raises(InputError, match="no column 'zap'; its columns are 'code', 'note', 'zip'"):
        read(table, columns={"zap": "drop"})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "2", "3", "4", "5", "6", "7", "8", "9", "1O"], "'v' holds '1O' in row 9 .*numeric"),
        (["1,5"] * 10, "'v' holds '1,5' in row 0 .*number such as 12.5"),
        (["$1,500.00"] * 10, r"'v' holds '\$1,500.00' in row 0"),
        (["2020-01-01"] * 9 + ["yesterday"], "'v' holds 'yesterday' in row 9 .*date"),
        (["2020-01-01"] * 9 + ["2020-13-01"], "'v' holds '2020-13-01' in row 9 .*date"),
        (["01/02/2020"] * 10, "day and month cannot be told apart"),
    ],
)
def test_cells_that_do_not_fit_their_column_are_named(cells, message):
    with pytest.raises(InputError, match=message):
        Columns.fit(pd.DataFrame({"v": cells}), where=lambda row: f"row {row} ")
    assert Columns.fit(pd.DataFrame({"v": cells}), kinds={"v": "category"}).names


@pytest.mark.parametrize(
    "cells",
    [["3.1.2020", "2.1.2020"], ["2020/01/03", "2020/1/2"], ["13/01/2020", "12/01/2020"], ["1/13/2020", "1/12/2020"]],
)
def test_dates_are_read_in_their_format(cells):
    columns = Columns.fit(pd.DataFrame({"day": cells}))
    assert columns.encode(pd.DataFrame({"day": cells}))[0].tolist() == [[1], [0]]


def test_frames_of_other_libraries_are_tables_too():
    class Frame:  # as polars has it
        columns = tuple(TABLE.columns)

        def to_pandas(self):
            return TABLE

    for nodes in (pyarrow.Table.from_pandas(TABLE), Frame()):
        graph = Graph.from_tables(pyarrow.Table.from_pandas(EDGES), nodes)
        assert features(graph) == features(read())


def test_a_matrix_beside_a_table_of_ids_holds_the_features():
    words = sp.random_array((6, 40), density=0.1, random_state=0, format="coo")
    graph = read(TABLE, x=words)
    assert sp.issparse(graph.x) and np.allclose(graph.x.toarray(), words.toarray(), atol=1e-6)
    assert any(note.startswith("ignored node columns: 'age'") for note in graph.notes)
    with pytest.raises(InputError, match="6 nodes; pass one row per node"):
        read(TABLE, x=words.tocsr()[:5])
    with pytest.raises(InputError, match="x= holds the features in place of columns"):
        read(TABLE, x=words, features=["age"])


def test_columns_survive_a_file_a_model_folder_and_new_nodes(tmp_path):
    labelled = TABLE.assign(side=["u", "v", "u", "v", "u", "v"])
    graph = read(labelled, label="side")
    graph.to_npz(tmp_path / "graph.npz")
    again = Graph.from_npz(tmp_path / "graph.npz")
    assert again.columns.key == graph.columns.key and again.columns.report == graph.columns.report
    clf = NeighbourhoodFeatures().fit(graph)
    clf.save(tmp_path / "model")
    loaded = Estimator.load(tmp_path / "model")
    new = read(TABLE.assign(city="Nice"), columns_like=loaded)
    assert loaded.predict(new).tolist() == clf.predict(new).tolist()
    larger = graph.grown(["g"], [("a", "g")], x=TABLE[:1].drop(columns="id").assign(age=None))
    assert larger.x[-1].tolist() == [40, 1, 0, 1, 0, 0, 1, 0, 2, 0]
    assert clf.predict(larger)[:6].tolist() == ["u", "v"] * 3
    with pytest.raises(InputError, match="columns_like="):
        clf.predict(read(TABLE.assign(since="2024-01-01")))
    with pytest.raises(InputError, match="columns_like="):
        GraphBatch.of([read(), read(TABLE.assign(age=[1, None, 3, 4, 5, 6]))])


def test_a_damaged_description_of_columns_is_refused(tmp_path):
    read().to_npz(tmp_path / "graph.npz")
    parts = dict(np.load(tmp_path / "graph.npz"))
    state = json.loads(str(parts["columns"]))
    for change in ({"encodings": []}, {"encodings": [{"code": "pickle"}]}, {"report": 5}):
        np.savez(tmp_path / "graph.npz", **(parts | {"columns": np.array(json.dumps(state | change))}))
        with pytest.raises(InputError, match=r"graph\.npz"):
            Graph.from_npz(tmp_path / "graph.npz")


def test_the_order_of_rows_does_not_matter():
    people = company(0).people
    columns, turned = Columns.fit(people.drop(columns="team")), Columns.fit(people.drop(columns="team")[::-1])
    assert columns.key == turned.key
    x, _ = columns.encode(people)
    assert np.array_equal(turned.encode(people[::-1])[0][::-1], x) and np.isfinite(x).all()


def test_the_company_is_read_as_it_is(tmp_path):
    company(0).write(tmp_path)
    graph = Graph.from_tables(tmp_path / "contacts.csv", tmp_path / "people.csv", label="team")
    said = dict(graph.columns.report)
    assert "identifier" in said["badge"] and "free text" in said["note"] and said["remote"].startswith("boolean")
    assert said["hired"].startswith("date") and said["office"].startswith("category") and graph.known.sum() == 120
    assert replace(graph, columns=None).feature_names[:2] == ("age", "age (missing)")


def test_codes_keep_their_zeros_in_text_files(tmp_path):
    (tmp_path / "e.csv").write_text("a,b\nx,y\n")
    (tmp_path / "n.csv").write_text("id,zip\nx,01234\ny,02345\nz,01234\nu,02345\n")
    graph = Graph.from_tables(tmp_path / "e.csv", tmp_path / "n.csv", columns={"zip": "category"})
    assert graph.feature_names == ("zip=01234", "zip=02345")


def test_columns_that_nobody_asked_for_are_not_read():
    nodes = pd.DataFrame({"id": range(20), "age": range(20), "note": [*map(str, range(19)), "?"]})
    edges = pd.DataFrame({"a": [0], "b": [1]})
    assert Graph.from_tables(edges, nodes, features=["age"]).feature_names == ("age",)


def test_a_column_without_values_is_refused_where_it_is_asked_for():
    nodes, edges = pd.DataFrame({"id": [0, 1], "d": [None, None]}), pd.DataFrame({"a": [0], "b": [1]})
    for kind in ("category", "date", "numeric"):
        with pytest.raises(InputError, match="has no value to learn from"):
            Graph.from_tables(edges, nodes, columns={"d": kind})


def test_columns_like_needs_columns():
    nodes, edges = pd.DataFrame({"id": [0, 1], "d": [1, 2]}), pd.DataFrame({"a": [0], "b": [1]})
    with pytest.raises(InputError, match="columns_like is a Graph that was read from tables"):
        Graph.from_tables(edges, nodes, columns_like=Graph.build([(0, 1)]))
