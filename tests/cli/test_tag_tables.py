"""Tags in tables, in one column or in one for each tag: through fit, predict, sample and evaluate, and back."""

from __future__ import annotations

import pandas as pd
import pytest

from dpmsnc import Graph
from dpmsnc.cli.answer_tables import read_labels
from dpmsnc.cli.main import main
from dpmsnc.errors import InputError
from dpmsnc.graph.tag_text import join_tags, split_tags
from dpmsnc.targets import Tags
from tiny_tables import fast

NUM_NODES = 24


def tags_of(k: int) -> list[str]:
    """Nodes of the first half are red, those of the second blue, and every sixth node has no tag at all."""
    return [] if k % 6 == 5 else ["red" if k < NUM_NODES // 2 else "blue", *(["old"] if k % 4 == 0 else [])]


def is_known(k: int) -> bool:
    return k % 3 > 0


@pytest.fixture
def folder(tmp_path):
    """Two rings with a bridge; the same tags in one column ("nodes.csv", with | in "bars.csv") and in three."""
    ids, half = [f"n{k}" for k in range(NUM_NODES)], NUM_NODES // 2
    ends = [(k, (k + 1) % half + k // half * half) for k in range(NUM_NODES)] + [(0, half)]
    pd.DataFrame([(ids[i], ids[j]) for i, j in ends], columns=["a", "b"]).to_csv(tmp_path / "edges.csv", index=False)
    for name, separator in (("nodes", ";"), ("bars", "|")):
        cells = [join_tags(tags_of(k), separator) if is_known(k) else "" for k in range(NUM_NODES)]
        pd.DataFrame({"id": ids, "tags": cells}).to_csv(tmp_path / f"{name}.csv", index=False)
    columns = {t: [int(t in tags_of(k)) if is_known(k) else None for k in range(NUM_NODES)] for t in TAGS}
    pd.DataFrame({"id": ids} | columns).astype(dict.fromkeys(TAGS, "Int64")).to_csv(
        tmp_path / "columns.csv", index=False
    )
    truth = {t: [int(t in tags_of(k)) for k in range(NUM_NODES)] for t in TAGS}
    pd.DataFrame({"id": ids} | truth).to_csv(tmp_path / "truth_columns.csv", index=False)
    cells = [join_tags(tags_of(k)) for k in range(NUM_NODES)]
    pd.DataFrame({"id": ids, "tags": cells}).to_csv(tmp_path / "truth.csv", index=False)
    return tmp_path


TAGS = ["blue", "old", "red"]
ONE = ["--label", "tags"]


def run(*words: object) -> int:
    return main([str(word) for word in words])


def fit(folder, *words: object, nodes: str = "nodes.csv") -> None:
    data = ["--edges", folder / "edges.csv", "--nodes", folder / nodes, "--id", "id", "--kind", "tags"]
    assert run("fit", "--out", folder / "model", "--overwrite", *data, *words) == 0


def table(folder, *words: object) -> pd.DataFrame:
    assert run("predict", folder / "model", "--out", folder / "out.csv", *words) == 0
    return pd.read_csv(folder / "out.csv", keep_default_na=False).set_index("id")


def test_a_cell_is_read_as_it_was_written():
    for tags in ((), ("a",), ("b", "a")):
        for separator in (";", ",", "|"):
            assert split_tags(join_tags(tags, separator), separator) == tags
    assert split_tags(" a ;; b;a ") == ("a", "b") and split_tags(" ") is None and split_tags(["a"]) == ["a"]
    with pytest.raises(InputError, match="another --tag-separator"):
        join_tags(["a;b"])
    with pytest.raises(InputError, match="give a mark such as"):
        split_tags("a b", " ")


def test_both_forms_of_a_table_are_the_same_graph(folder):
    graphs = [
        Graph.from_tables(folder / "edges.csv", folder / "nodes.csv", label="tags", kind="tags"),
        Graph.from_tables(folder / "edges.csv", folder / "bars.csv", label="tags", kind="tags", tag_separator="|"),
        Graph.from_tables(folder / "edges.csv", folder / "columns.csv", label=TAGS, kind="tags"),
    ]
    for graph in graphs:
        assert graph.target == Tags(tuple(TAGS)) and graph.x is None
        expected = [tuple(sorted(tags_of(k))) if is_known(k) else None for k in range(NUM_NODES)]
        assert graph.decode(graph.y).tolist() == expected


def test_a_model_of_tags_from_fit_to_evaluate(folder, capsys):
    fit(folder, *ONE, *fast())
    assert "validation micro-F1" in capsys.readouterr().out
    answers = table(folder)
    assert list(answers) == ["label", *TAGS, *(f"probability of {tag}" for tag in TAGS), "known"]
    for k in filter(is_known, range(NUM_NODES)):
        assert answers.loc[f"n{k}", "label"] == join_tags(sorted(tags_of(k)))
    for _, row in answers.iterrows():
        assert set(split_tags(row["label"])) == {tag for tag in TAGS if row[tag] == 1}
    capsys.readouterr()
    found = []
    for truth, labels in (("truth.csv", ONE), ("truth_columns.csv", [w for tag in TAGS for w in ("--label", tag)])):
        assert run("evaluate", folder / "out.csv", "--truth", folder / truth, *labels) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    scores = dict(line.split() for line in found[0].splitlines())
    assert scores["nodes"] == "8" and set(scores) == {"nodes", "micro_f1", "macro_f1"}
    right = sum(len({*split_tags(answers.loc[f"n{k}", "label"])} & {*tags_of(k)}) for k in range(0, NUM_NODES, 3))
    said = sum(len(split_tags(answers.loc[f"n{k}", "label"])) for k in range(0, NUM_NODES, 3))
    true = sum(len(tags_of(k)) for k in range(0, NUM_NODES, 3))
    assert float(scores["micro_f1"]) == pytest.approx(2 * right / (said + true), abs=1e-4)


def test_tags_that_are_revealed_come_back_in_whatever_form_they_were_given(folder):
    fit(folder, *ONE, "--method", "lp")
    (folder / "known.csv").write_text("id,tags\nn0,blue|red\nn3,|\n")
    (folder / "known_columns.csv").write_text("id,red,blue,old\nn0,1,1,0\nn3,0,0,0\nn6,,,\n")
    bars = ["--known", folder / "known.csv", "--tag-separator", "|"]
    columns = ["--known", folder / "known_columns.csv", *[w for tag in TAGS for w in ("--label", tag)]]
    for words, separator in ((bars, "|"), (columns, ";")):
        answers = table(folder, *words)
        assert answers.loc["n0", "label"] == f"blue{separator}red" and answers.loc["n3", "label"] == separator
        assert answers.loc[["n0", "n3", "n6"], "known"].tolist() == [True, True, False]


def test_samples_are_cells_of_tags(folder):
    fit(folder, "--label", *TAGS, "--method", "lp", nodes="columns.csv")
    assert run("sample", folder / "model", "--num-samples", 2, "--out", folder / "samples.csv") == 0
    samples = pd.read_csv(folder / "samples.csv", keep_default_na=False).set_index("id")
    assert samples.loc["n4"].tolist() == ["old;red"] * 2 and samples.loc["n5"].tolist() == [";"] * 2
    assert all(set(split_tags(cell)) <= set(TAGS) for cell in samples.to_numpy().ravel())


def test_labels_of_several_columns_are_read_as_one(folder):
    labels = read_labels(folder / "columns.csv", "known", label=TAGS)
    assert labels["n4"] == "old;red" and labels["n5"] == ";" and "n3" not in labels
    same = read_labels(folder / "nodes.csv", "known")
    assert {name: {*split_tags(cell)} for name, cell in labels.items()} == {
        name: {*split_tags(cell)} for name, cell in same.items()
    }


def test_tags_that_are_called_like_other_columns_have_columns_of_their_own(tmp_path, capsys):
    names = ["graph", "id", "known", "label", "tag label"]
    cells = [join_tags([names[k % 5]]) if k % 3 else "" for k in range(15)]
    (tmp_path / "edges.csv").write_text("a,b\n" + "".join(f"{k},{k + 5}\n" for k in range(10)))
    for name, kept in (("nodes", cells), ("truth", [names[k % 5] for k in range(15)])):
        pd.DataFrame({"node": range(15), "tags": kept}).to_csv(tmp_path / f"{name}.csv", index=False)
    fit(tmp_path, *ONE, "--method", "lp", "--id", "node")
    answers = table(tmp_path)
    columns = ["tag graph", "tag id", "tag known", "tag tag label", "tag label"]
    assert list(answers) == ["label", *columns, *(f"probability of {name}" for name in names), "known"]
    assert answers["label"].tolist() == [names[k % 5] for k in range(15)]
    for k, column in enumerate(columns):
        assert answers[column].tolist() == [int(row % 5 == k) for row in range(15)]
    assert answers["known"].tolist() == [bool(cell) for cell in cells]
    assert run("evaluate", tmp_path / "out.csv", "--truth", tmp_path / "truth.csv") == 0
    assert "micro_f1                  1.0000" in capsys.readouterr().out
