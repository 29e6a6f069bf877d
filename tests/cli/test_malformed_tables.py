"""Tables of the invented company with one thing wrong in each: a message that names the place, and nothing written."""

import gzip
from functools import cache

import numpy as np
import pytest

from dpmsnc.cli.main import main
from dpmsnc.data.company import company

PEOPLE = 120


@cache
def tables():
    """The company of the first people, as text, and who they are."""
    whole = company(0)
    people = whole.people[:PEOPLE]
    inside = whole.contacts[["from", "to"]].isin(set(people["person"])).all(axis=1)
    return people, whole.contacts[inside].reset_index(drop=True)


def cell(table, column, value, row=4):
    """A copy with another value in one cell; row 4 is line 6 of the file."""
    changed = table.astype({column: object})
    changed.loc[row, column] = value
    return changed


def cells(table, column, values):
    return table.assign(**{column: values})


def line(table, edit, row=4):
    """The text with one line edited; row -1 is the header."""
    lines = table.to_csv(index=False).splitlines()
    lines[row + 1] = edit(lines[row + 1])
    return "\n".join(lines) + "\n"


def numbered(table, columns, write):
    """The same with numbers for ids, written as `write` does."""
    return table.assign(**{name: table[name].str[1:].astype(int).map(write) for name in columns})


def separated(table, mark):
    return table.to_csv(index=False, sep=mark)


def with_row_names(table):
    """As R writes it: a name before every row but none in the header."""
    first, *rest = table.to_csv(index=False).splitlines()
    return "\n".join([first, *(f"{k},{row}" for k, row in enumerate(rest))]) + "\n"


P, C = tables()
WEIGHT = ["--weight", "hours"]
COMMAS = str.maketrans(",.", ".,")
SALARIES = [None if np.isnan(s) else f"{s:,.2f}".translate(COMMAS) for s in P["salary"].astype(float)]
DAYS = [None if day is None else f"0{1 + k % 9}/0{1 + k % 7}/20{10 + k % 10}" for k, day in enumerate(P["hired"])]
NUMBERED = numbered(P, ["person"], str)
HERE = "line 6 of people.csv"
THERE = "line 6 of contacts.csv"

CASES = {
    # people, contacts, more flags, what the message says
    "id twice": (cell(P, "person", P["person"][0]), C, [], "more than once, in line 2 of people.csv and in " + HERE),
    "id missing": (cell(P, "person", None), C, [], HERE + " has no 'person'"),
    "id of blanks": (cell(P, "person", "  "), C, [], HERE + " has no 'person'"),
    "word among numbers": (cell(P, "age", "forty"), C, [], "column 'age' holds 'forty' in " + HERE),
    "letter in a number": (cell(P, "age", "4O"), C, [], "column 'age' holds '4O' in " + HERE),
    "decimal comma": (cell(P, "age", "41,5"), C, [], "column 'age' holds '41,5' in " + HERE),
    "two numbers": (cell(P, "age", "40-45"), C, [], "column 'age' holds '40-45' in " + HERE),
    "a unit": (cell(P, "age", "41 years"), C, [], "column 'age' holds '41 years' in " + HERE),
    "question mark": (cell(P, "age", "?"), C, [], "column 'age' holds '?' in " + HERE),
    "infinite": (cell(P, "age", "inf"), C, [], "column 'age' holds inf in " + HERE),
    "minus infinite": (cell(P, "age", "-inf"), C, [], "column 'age' holds -inf in " + HERE),
    "too large": (cell(P, "age", "1e60"), C, [], "column 'age' holds 1e+60 in " + HERE),
    "money": (cell(P, "salary", "$42000"), C, [], "column 'salary' holds '$42000' in " + HERE),
    "word for a gap": (cell(P, "salary", "unknown"), C, [], "column 'salary' holds 'unknown' in " + HERE),
    "comma in all numbers": (cells(P, "salary", SALARIES), C, [], "column 'salary' holds '"),
    "month 13": (cell(P, "hired", "2020-13-01"), C, [], "column 'hired' holds '2020-13-01' in " + HERE),
    "no such day": (cell(P, "hired", "2021-02-30"), C, [], "column 'hired' holds '2021-02-30' in " + HERE),
    "word among dates": (cell(P, "hired", "yesterday"), C, [], "column 'hired' holds 'yesterday' in " + HERE),
    "year among dates": (cell(P, "hired", "2019"), C, [], "column 'hired' holds '2019' in " + HERE),
    "dates of two formats": (cell(P, "hired", "03.04.2019"), C, [], "column 'hired' holds '03.04.2019' in " + HERE),
    "day or month": (cells(P, "hired", DAYS), C, [], "day and month cannot be told apart"),
    "maybe": (cell(P, "remote", "maybe"), C, ["--column", "remote=boolean"], "'remote' holds 'maybe' in " + HERE),
    "category as numbers": (P, C, ["--column", "office=numeric"], "column 'office' holds '"),
    "category as dates": (P, C, ["--column", "office=date"], "column 'office' holds '"),
    "category as yes and no": (P, C, ["--column", "office=boolean"], "column 'office' holds '"),
    "column misspelt": (P, C, ["--column", "offise=category"], "no column 'offise'; its columns are 'age'"),
    "kind misspelt": (P, C, ["--column", "office=word"], "column 'office' cannot be 'word'"),
    "column without kind": (P, C, ["--column", "office"], "--column is 'office'; write name=kind"),
    "feature misspelt": (P, C, ["--features", "agee"], "no column 'agee'"),
    "label misspelt": (P, C, ["--label", "teem"], "no column 'teem'; its columns are 'person', 'team'"),
    "id misspelt": (P, C, ["--id", "persn"], "the node table has no column 'persn'"),
    "source misspelt": (P, C, ["--source", "frm"], "the edge table has no column 'frm'"),
    "target misspelt": (P, C, ["--target", "too"], "the edge table has no column 'too'"),
    "source is target": (P, C, ["--source", "to", "--target", "to"], "source and target are both the column 'to'"),
    "weight misspelt": (P, C, ["--weight", "hour"], "the edge table has no column 'hour'"),
    "weight of words": (P, C, ["--weight", "kind"], "line 2 of contacts.csv"),
    "weight 0": (P, cell(C, "hours", 0), WEIGHT, f"the weight of {THERE} is 0"),
    "weight negative": (P, cell(C, "hours", -1.5), WEIGHT, f"the weight of {THERE} is -1.5"),
    "weight missing": (P, cell(C, "hours", None), WEIGHT, f"the weight of {THERE} is missing"),
    "weight NaN": (P, cell(C, "hours", "NaN"), WEIGHT, f"the weight of {THERE} is missing"),
    "weight infinite": (P, cell(C, "hours", "inf"), WEIGHT, THERE),
    "weight minus infinite": (P, cell(C, "hours", "-inf"), WEIGHT, THERE),
    "weight too large": (P, cell(C, "hours", "1e39"), WEIGHT, THERE),
    "weight with a unit": (P, cell(C, "hours", "2h"), WEIGHT, f"column 'hours' holds '2h' in {THERE}"),
    "weight with a comma": (P, cell(C, "hours", "1,5"), WEIGHT, f"column 'hours' holds '1,5' in {THERE}"),
    "unknown source": (P, cell(C, "from", "e9999"), [], THERE + ", the edge (e9999, "),
    "unknown target": (P, cell(C, "to", "boss"), [], "names node 'boss', which is not among the 120 rows"),
    "source missing": (P, cell(C, "from", None), [], THERE + " has no 'from'"),
    "target missing": (P, cell(C, "to", ""), [], THERE + " has no 'to'"),
    "blank behind an id": (P, cell(C, "to", C["to"][4] + " "), [], f"did you mean '{C['to'][4]}'?"),
    "capital in an id": (P, cell(C, "to", C["to"][4].upper()), [], f"did you mean '{C['to'][4]}'?"),
    "ids as 1.0": (NUMBERED, numbered(C, ["from", "to"], "{}.0".format), [], "line 2 of contacts.csv"),
    "zeros before ids": (NUMBERED, numbered(C, ["from", "to"], "{:05}".format), [], "did you mean '"),
    "cell too many": (line(P, "{},extra".format), C, [], "line 6 of the node table"),
    "cell too few": (line(P, lambda text: text.rpartition(',"')[0]), C, [], "line 6 of the node table"),
    "comma not quoted": (line(P, lambda text: text.replace('"', "")), C, [], "line 6 of the node table"),
    "quote not closed": (line(P, lambda text: text.replace('"', "", 1)), C, [], "of the node table"),
    "row names of R": (with_row_names(P), C, [], "as R writes row names"),
    "column twice": (line(P, lambda text: text.replace("salary", "age"), -1), C, [], "line 1 of the node table"),
    "no header": (P.to_csv(index=False, header=False), C, [], "the node table has no column 'team'"),
    "semicolons": (separated(P, ";"), C, [], "separates columns by semicolons"),
    "tabs": (separated(P, "\t"), C, [], "separates columns by tabs"),
    "bars": (separated(P, "|"), C, [], "separates columns by bars"),
    "empty": ("", C, [], "people.csv: it is empty"),
    "blank lines alone": ("\n\n\n", C, [], "people.csv: it is empty"),
    "header alone": (P[:0], C, [], "the node table has no row"),
    "UTF-16": (P.to_csv(index=False).encode("utf-16"), C, [], "people.csv is not in UTF-8"),
    "Latin-1": (line(P, lambda text: text.replace("e", "é", 1)).encode("latin-1"), C, [], "people.csv is not in UTF-8"),
    "bytes of a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), C, [], "people.csv is not in UTF-8"),
    "no label": (cells(P, "team", None), C, [], "no node has a known label"),
    "one class": (cells(P, "team", "sales"), C, [], "every known label is 'sales'"),
    "words as values": (P, C, ["--kind", "value"], "'support'"),
    "words as 0 and 1": (P, C, ["--kind", "tags", "--label", "team", "office"], "a column of a tag holds 0 and 1"),
    "kind of label misspelt": (P, C, ["--kind", "klass"], "unknown kind of target 'klass'"),
    "edge: cell too many": (P, line(C, "{},1".format), [], "line 6 of the edge table"),
    "edge: cell too few": (P, line(C, lambda text: text.rpartition(",")[0]), [], "line 6 of the edge table"),
    "edge: row names of R": (P, with_row_names(C), [], "line 2 of the edge table"),
    "edge: column twice": (P, line(C, lambda text: text.replace("to", "from"), -1), [], "column called 'from'"),
    "edge: no header": (P, C.to_csv(index=False, header=False), [], "the edge table seems to lack a header"),
    "edge: one column": (P, C[["from"]], [], "an edge needs a source and a target"),
    "edge: semicolons": (P, separated(C, ";"), [], "line 1 of the edge table"),
    "edge: empty": (P, "", [], "contacts.csv: it is empty"),
    "tables swapped": (C, P, [], "line 2 of contacts.csv has no 'team'"),
}  # fmt: skip


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else content.to_csv(index=False), encoding="utf-8")
    return path


def refusal(folder, capsys, people, contacts, *flags):
    """What `fit` says of two files, after a check that it says nothing else and writes nothing."""
    before = sorted(folder.rglob("*"))
    label = [] if "--label" in flags else ["--label", "team"]
    words = ["fit", "--edges", contacts, "--nodes", people, *label, *flags, "--method", "lp", "--out", folder / "model"]
    assert main([str(word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == "" or captured.out.startswith("Graph\n")  # what was read, where nothing can be learned
    assert sorted(folder.rglob("*")) == before
    return captured.err


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_named_and_nothing_is_written(tmp_path, capsys, name):
    people, contacts, flags, message = CASES[name]
    files = write(tmp_path / "people.csv", people), write(tmp_path / "contacts.csv", contacts)
    assert message in refusal(tmp_path, capsys, *files, *flags)


def test_files_that_are_not_what_their_names_say(tmp_path, capsys):
    people, contacts = write(tmp_path / "people.csv", P), write(tmp_path / "contacts.csv", C)
    whole = gzip.compress(people.read_bytes())
    P.astype({"age": float, "salary": float}).to_parquet(tmp_path / "people.parquet")
    numbered(P, ["person"], int)[["person", "team"]].to_parquet(tmp_path / "numbers.parquet")
    C.to_parquet(tmp_path / "contacts.parquet")
    (tmp_path / "folder.csv").mkdir()
    cases = {
        write(tmp_path / "cut.csv.gz", whole[:-50]): "cut.csv.gz",
        write(tmp_path / "plain.csv.gz", P): "plain.csv.gz",
        write(tmp_path / "text.parquet", P): "text.parquet",
        write(tmp_path / "cut.parquet", (tmp_path / "people.parquet").read_bytes()[:-100]): "cut.parquet",
        write(tmp_path / "commas.tsv", P): "separates columns by commas",
        write(tmp_path / "people.xlsx", P): "use .csv, .tsv or .parquet",
        tmp_path / "absent.csv": "there is no node table",
        tmp_path / "folder.csv": "there is no node table",
    }
    for path, message in cases.items():
        assert message in refusal(tmp_path, capsys, path, contacts)
    typed = refusal(tmp_path, capsys, tmp_path / "numbers.parquet", tmp_path / "contacts.parquet")
    assert "the ids of the node table are numbers and those in column 'from' of the edge table are text" in typed


def test_the_tables_themselves_are_sound(tmp_path, capsys):
    people, contacts = write(tmp_path / "people.csv", P), write(tmp_path / "contacts.csv", C)
    words = ["--edges", contacts, "--nodes", people, "--label", "team", *WEIGHT, "--method", "lp"]
    assert main([str(word) for word in ("fit", *words, "--out", tmp_path / "model")]) == 0
    assert "column      office: category" in capsys.readouterr().out and len(CASES) >= 80
    asked = [tmp_path / "model", "--edges", contacts, "--nodes", people, *WEIGHT, "--out", tmp_path / "answers.csv"]
    assert main([str(word) for word in ("predict", *asked)]) == 0
    assert "ignored node columns: 'team', 'badge', 'note'" in capsys.readouterr().err
    asked[-1] = tmp_path / "never.csv"
    assert main([str(word) for word in ("predict", *(word for word in asked if word not in WEIGHT))]) == 2
    assert "--weight" in capsys.readouterr().err and not (tmp_path / "never.csv").exists()
