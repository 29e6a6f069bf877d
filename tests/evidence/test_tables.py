import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from scipy.special import stdtr
from scipy.stats import ttest_ind_from_stats

from dpmsnc.cli.main import main
from dpmsnc.data import benchmarks
from dpmsnc.estimators import base as methods
from dpmsnc.estimators.base import Method
from dpmsnc.evidence.experiments import (
    datasets,
    registry,
    table1_synthetic,
    table2_homophilic,
    table3_heterophilic,
    table4_inductive,
    table5_reasoning,
)
from dpmsnc.evidence.run.experiment import Experiment, Row, Run
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.search.config_files import Config
from dpmsnc.evidence.show import compare as comparison
from dpmsnc.evidence.show import stored_runs, tried
from dpmsnc.evidence.show.compare import compare, welch
from dpmsnc.evidence.show.paper import Figure
from dpmsnc.evidence.show.stored_runs import StoredRuns
from dpmsnc.evidence.show.table import Table
from dpmsnc.graph import Graph
from made_documents import document, run

PRINTED = {
    "synthetic": table1_synthetic.PAPER,
    "homophilic": table2_homophilic.PAPER,
    "heterophilic": table3_heterophilic.PAPER,
    "inductive": table4_inductive.PAPER,
    "reasoning": table5_reasoning.PAPER,
}
KEYS = ["dataset", "method", "backbone", "metric", "mean", "std", "seeds", "last_mean", "paper_mean", "paper_std"]


@pytest.fixture
def results(tmp_path):
    """Ten runs of gcn and two of dpm-snc (gat) on Cora."""
    store = Store(tmp_path / "results")
    for seed in range(10):
        store.put(document(run("gcn", seed), 0.80 + 0.002 * seed))
    for seed in range(2):
        store.put(document(run("dpm-snc (gat)", seed), 0.85 + 0.01 * seed, last=0.84))
    return tmp_path / "results"


def planned(name):
    """How many runs an experiment has."""
    experiment = registry.EXPERIMENTS.find(name)
    return len(experiment.rows) * len(experiment.datasets) * len(experiment.seeds)


def shown(results, name="homophilic"):
    return StoredRuns.of(registry.EXPERIMENTS.find(name), results).table()


@pytest.mark.parametrize(
    "ours, theirs",
    [((83.5, 0.8, 3), (83.2, 0.5, 10)), ((50, 3, 5), (60, 1, 5)), ((68.0, 0.0, 4), (68.1, 0.3, 10))],
)
def test_welch_is_the_textbook_s(ours, theirs):
    ours, theirs = Figure(*ours), Figure(*theirs)
    # by the textbook: t is the difference over its standard error, with Satterthwaite's degrees of freedom
    a, b = ours.std**2 / ours.seeds, theirs.std**2 / theirs.seeds
    freedom = (a + b) ** 2 / (a**2 / (ours.seeds - 1) + b**2 / (theirs.seeds - 1))
    expected = 2 * stdtr(freedom, -abs(ours.mean - theirs.mean) / np.sqrt(a + b))
    assert welch(ours, theirs) == pytest.approx(expected, rel=1e-9)
    assert welch(theirs, ours) == pytest.approx(expected, rel=1e-9)


def test_welch_says_nothing_where_the_spread_is_not_known():
    assert welch(Figure(83.5, None, 1), Figure(83.2, 0.5, 10)) is None
    assert welch(Figure(68.1, 0.0, 10), Figure(68.1, 0.0, 10)) is None
    assert welch(Figure(0.1, 0.01, 3), Figure(0.0011, None, None)) is None


@pytest.mark.parametrize(
    "key, figure",
    [
        (("synthetic", "grid_localized", "dpm-snc", "gcn", "accuracy"), (90.9, 3.4, 5)),
        (("homophilic", "amazon_computers", "gcn-lpa", "gat", "accuracy"), (84.4, 1.0, 10)),
        (("homophilic", "pubmed", "dpm-snc", "gcnii", "subgraph_accuracy"), (61.6, 0.9, 10)),
        (("heterophilic", "amazon_ratings", "dpm-snc", "gat-sep", "accuracy"), (54.66, 0.39, 10)),
        (("inductive", "citeseer_ego", "spn", "gcn", "graph_accuracy"), (51.02, 1.06, 10)),
        (("inductive", "ppi", "dpm-snc", "gat", "micro_f1"), (99.63, 0.01, 5)),
        (("reasoning", "connected_components", "programmatic", None, "mse_large"), (3.1381, None, None)),
    ],
)
def test_figures_are_the_papers(key, figure):
    table, *cell = key
    assert PRINTED[table].figure(*cell) == figure


def test_every_cell_of_the_paper_is_there():
    sizes = {name: len(printed.figures) for name, printed in PRINTED.items()}
    assert sizes == {"synthetic": 10, "homophilic": 160, "heterophilic": 30, "inductive": 70, "reasoning": 36}
    assert [printed.number for printed in PRINTED.values()] == [1, 2, 3, 4, 5]
    assert PRINTED["synthetic"].figure("grid_scattered", "dpm-snc-paper", "gcn(improved=True)", "accuracy").mean == 98.5


def test_a_line_says_who_wins_and_how_sure_that_is(results):
    table = shown(results)
    rows = {tuple(row[:2]): row[2:7] for row in table.rows}
    expected = ttest_ind_from_stats(80.9, 0.6055, 10, 81.4, 0.8, 10, equal_var=False).pvalue
    assert list(table.header[2:7]) == ["accuracy", "paper", "diff", "wins", "p"]
    assert rows["cora", "gcn"] == ["80.9±0.6", "81.4±0.8", "-0.5", "paper", f"{expected:.3f}"]
    assert rows["cora", "gmnn (gat)"][:2] == ["-", "82.3±0.7"] and "Not implemented here" not in str(table)
    assert "of ours dpm-snc (gat) with 85.5, of the paper's dpm-snc (gcnii) with 85.3" in str(table)


def test_rows_that_only_the_paper_has_are_named():
    table = compare("", [], ("cora",), {"gcn": Row("gcn")}, paper=PRINTED["homophilic"])
    assert ["cora", "gmnn (gat)", "-", "82.3±0.7"] in [list(row[:4]) for row in table.rows]
    assert "Not implemented here: lp, pta, gcn-lpa (gcn), gmnn (gcn)" in str(table)


def test_less_error_wins():
    errors = [
        {"dataset": "edge_copy", "row": "dpm-snc", "seed": seed, "stability": None, "cpu_s": 1,
         "metrics": {"selected": {"mse": value}, "last": None}}
        for seed, value in enumerate([0.0005, 0.0007])
    ]  # fmt: skip
    outcome = comparison.Outcome.of(errors, "mse", PRINTED["reasoning"].figure("edge_copy", "dpm-snc", None, "mse"))
    assert outcome.cells(4) == ["0.0006±0.0001", "0.0011", "-0.0005", "ours", "-"]


def test_json_has_a_record_per_line_and_metric(results, capsys):
    assert main(["table", "homophilic", "--format", "json", "--results", str(results)]) == 0
    out, err = capsys.readouterr()
    records, count = json.loads(out), planned("homophilic")
    assert all(list(record) == KEYS for record in records) and f"{count - 12} of {count} runs are missing" in err
    found = {(r["dataset"], r["method"], r["backbone"], r["metric"]): r for r in records}
    assert len(found) == len(records) == 160
    dpm = found["cora", "dpm-snc", "gat", "accuracy"]
    assert (dpm["mean"], dpm["seeds"], dpm["last_mean"]) == (85.5, 2, 84.0)
    assert (dpm["paper_mean"], dpm["paper_std"]) == (83.8, 0.7) and dpm["std"] == pytest.approx(0.7071)
    assert found["cora", "gmnn", "gat(attention_dropout=True)", "accuracy"]["paper_mean"] == 82.3
    assert found["cora", "dpm-snc", "gcnii(time=False)", "accuracy"]["paper_mean"] == 85.3
    nothing = found["pubmed", "lp", None, "subgraph_accuracy"]
    assert (nothing["mean"], nothing["seeds"], nothing["paper_mean"]) == (None, 0, 45.7)


def test_an_experiment_with_a_table_of_its_own_has_records_too(results, monkeypatch):
    own = Experiment("own", ("cora",), {"gcn": Row("gcn")}, (0,), lambda runs: Table("t", ["a"], [["b"]]))
    monkeypatch.setitem(registry.EXPERIMENTS, "own", own)
    Store(results).put(document(run("gcn", 0, experiment="own"), 0.5))
    record = shown(results, "own").records[0]
    assert (record["method"], record["mean"], record["paper_mean"]) == ("gcn", 50.0, None)


@pytest.mark.parametrize("format", ["text", "markdown", "latex", "json"])
def test_a_table_of_an_empty_store_says_what_to_run(tmp_path, capsys, format):
    folder = tmp_path / "none"
    assert main(["table", "synthetic", "--format", format, "--results", str(folder)]) == 0
    text = "".join(capsys.readouterr()).replace("\\_", "_").replace("\n", " ")
    count = planned("synthetic")
    assert f"{count} of {count} runs are missing" in text and f"dpmsnc reproduce synthetic --results {folder}" in text
    assert not folder.exists()


def test_older_runs_are_marked_and_stand_back_behind_newer_ones(results, monkeypatch):
    gcn = methods.METHODS["gcn"]
    monkeypatch.setitem(methods.METHODS, "gcn", Method(gcn.build, version=2))
    old = shown(results)
    assert "gcn†" in [row[1] for row in old.rows] and "dpm-snc (gat)†" not in [row[1] for row in old.rows]
    count = planned("homophilic")
    assert f"{count - 2} of {count} runs are missing or older" in str(old) and "gcn on cora (10)" in str(old)
    for seed in range(10):
        Store(results).put(document(run("gcn", seed), 0.5))
    new = shown(results)
    row = next(row for row in new.rows if row[:2] == ["cora", "gcn"])
    assert row[2] == "50.0±0.0" and "†" not in str(new)


def test_runs_on_other_splits_are_marked_and_stand_back_whatever_their_method_s_version(results, monkeypatch):
    benchmark = replace(benchmarks.BENCHMARKS["cora"], split_version=2)
    monkeypatch.setitem(methods.METHODS, "gcn", Method(methods.METHODS["gcn"].build, version=2))
    Store(results).put(document(run("gcn", 0), 0.9))
    monkeypatch.setitem(benchmarks.BENCHMARKS, "cora", benchmark)
    assert ["cora", "gcn†"] in [list(row[:2]) for row in shown(results).rows]
    made = document(run("gcn", 0), 0.5, version=1) | {"split_version": 2}
    Store(results).put(made)
    first = next(d for d in StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), results).documents if d["seed"] == 0)
    assert first["metrics"] == made["metrics"]


def test_a_run_from_before_an_option_was_added_is_older(results):
    Store(results).put(document(run("pta", 0), 0.8, drop=("lr",)))
    Store(results).put(document(run("lp", 0), 0.7) | {"config": {"another": "setting"}})
    table = shown(results)
    assert ["cora", "pta†", "80.0"] in [
        row[:3] for row in table.rows
    ] and "settings that are not in this table: 1 run." in str(table)
    assert ["cora", "lp", "-"] in [row[:3] for row in table.rows]


def test_alternatives_say_what_they_changed_and_what_it_gave(results, monkeypatch, capsys):
    wide = Experiment(
        "homophilic", ("cora",), {"gcn": Row("gcn", {"lr": 0.5, "scaling": "rows"})}, (0,), lambda runs: None
    )
    for seed in (0, 1):
        Store(results).put(document(Run(wide, "cora", "gcn", seed), 0.7) | {"backbone": "gcn"})
    other = [["stack", {"members": {"pta": {}, "gcn": {"lr": 0.1}}, "repeats": 3}], ["pta", {"lr": 0.1}]]
    for seed, start in enumerate(other):
        changed = document(run("dpm-snc (gcn)", seed), 0.8) | {"backbone": "gcn"}
        Store(results).put(changed | {"config": changed["config"] | {"initialiser": start}})
    assert main(["table", "homophilic", "--tried", "--format", "json", "--results", str(results)]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [(r["row"], r["accuracy"], r["seeds"], r["differs_in"]) for r in records if r["method"] == "gcn"] == [
        ("gcn", 80.9, 10, []),
        ("gcn", 70.0, 2, ["lr=0.5", "scaling=rows"]),
    ]
    assert sorted(r["differs_in"] for r in records if r["row"] == "dpm-snc (gcn)") == [
        ["initialiser=pta(lr=0.1)"], ["initialiser=stack(members=(pta, gcn=(lr=0.1)), repeats=3)"]
    ]  # fmt: skip
    monkeypatch.setitem(methods.METHODS, "gcn", Method(methods.METHODS["gcn"].build, version=2))
    homophilic = StoredRuns.of(registry.EXPERIMENTS.find("homophilic"), results)
    assert "lr=0.5, scaling=rows, older  " in str(tried.table(homophilic))


@pytest.mark.parametrize(
    "change, label, words",
    [
        ({"method": "gone"}, "gone", ["a method that is gone"]),
        ({"method": "appnp"}, "appnp", ["nothing"]),
        ({"drop": ("lr",)}, "gcn", ["dropout=0.7", "no lr yet"]),
        ({"split_version": 0}, "gcn", ["dropout=0.7", "older"]),
    ],
)
def test_alternatives_without_a_row_and_from_long_ago_are_named_too(results, change, label, words):
    rows = {"gcn": Row("gcn", {"dropout": 0.2})}
    few = Experiment("few", ("cora",), rows, (0,), lambda runs: Table("", [], []))
    ran = Run(few, "cora", "gcn", 0)
    made = document(ran, 0.7, drop=change.pop("drop", ())) | {"backbone": "gcn"}
    made["config"] |= {"dropout": 0.7} if label == "gcn" else {}
    if label == "appnp":
        made["config"] = methods.METHODS["appnp"].build(0).configuration()
    Store(results).put(made | change)
    found = StoredRuns.of(few, results)
    assert tried.difference(found, found.unlisted[0]) == (label, words)
    assert "not in this table: 1 run." in str(found.table())


def test_a_run_without_an_option_is_only_one_of_its_default(results, monkeypatch):
    rows = {"slow": Row("gcn"), "fast": Row("gcn", {"lr": 0.123})}
    own = Experiment("own", ("cora",), rows, (0,), lambda runs: Table("t", ["a"], [[run["row"]] for run in runs]))
    monkeypatch.setitem(registry.EXPERIMENTS, "own", own)
    Store(results).put(document(run("slow", 0, experiment="own"), 0.5, drop=("lr",)))
    assert StoredRuns.of(own, results).older == {("cora", "slow"): [0]}
    assert [document["row"] for document in StoredRuns.of(own, results).documents] == ["slow"]


@pytest.mark.parametrize("newest", ["lr", "patience"])
def test_of_several_older_runs_the_newest_is_shown(results, newest):
    for name in ("lr", "patience"):
        time = f"2026-02-0{2 if name == newest else 1}T00:00:00+00:00"
        made = document(run("pta", 0), 0.8 if name == newest else 0.6, drop=(name,))
        Store(results).put(made | {"timestamp": time})
    assert ["cora", "pta†", "80.0"] in [row[:3] for row in shown(results).rows]


def test_seeds_beyond_the_experiments_own_count(results):
    Store(results).put(document(run("gcn", 17), 0.9))
    assert next(row for row in shown(results).rows if row[:2] == ["cora", "gcn"])[-1] == "11 (10)"


def test_runs_with_found_settings_are_shown_with_their_folder(results, monkeypatch, tmp_path):
    tuned = {"gcn": Row("gcn", by_dataset={"cora": {"lr": 0.123}})}
    plain = registry.EXPERIMENTS.find("homophilic")
    found = Experiment(plain.name, plain.datasets, plain.rows | tuned, plain.seeds, plain.table)
    monkeypatch.setattr(stored_runs, "configured", lambda experiment, folder: found)
    Store(results).put(document(Run(found, "cora", "gcn", 0), 0.9))
    table = StoredRuns.of(plain, results, tmp_path).table()
    assert ["cora", "gcn", "90.0"] in [row[:3] for row in table.rows]
    assert f"--configs {tmp_path}" in str(table)
    assert ["cora", "gcn", "80.9±0.6"] in [row[:3] for row in shown(results).rows]


def test_markdown_cells_cannot_break_out():
    text = Table("a*b*", ["x|y", "n"], [["a_b|<i>", "1\n2"]], ["a line", "goes on.", "Another."]).markdown()
    assert text.splitlines() == [
        r"**a\*b\***", "", r"| x\|y | n |", "| :--- | ---: |", r"| a\_b\|\<i> | 1 2 |",
        "", "- a line goes on.", "- Another.",
    ]  # fmt: skip


def test_latex_is_escaped_and_has_the_rules_of_booktabs():
    table = Table("50 % & more", ["d", "m", "n"], [["a", "x_1", "1.0±0.1"], ["b", "{\\}†", "-0.5"]], ["<#1>"], 2, True)
    lines = table.latex().splitlines()
    assert r"\caption{50 \% \& more}" in lines and r"\begin{tabular}{llr}" in lines
    assert lines[lines.index(r"\toprule") :] == [
        r"\toprule", r"d & m & n \\", r"\midrule", r"a & x\_1 & 1.0$\pm$0.1 \\", r"\midrule",
        r"b & \{\textbackslash{}\}$\dagger$ & $-0.5$ \\", r"\bottomrule", r"\end{tabular}",
        r"\par\smallskip\footnotesize $<$\#1$>$", r"\end{table}",
    ]  # fmt: skip


def test_text_sets_words_left_and_groups_apart():
    lines = str(Table("t", ["d", "m", "n"], [["a", "x", "1"], ["bb", "yy", "10"]], (), 2, True)).splitlines()
    assert lines == ["t", "", "d   m    n", "----------", "a   x    1", "----------", "bb  yy  10", "----------"]


def test_long_words_go_on_in_lines_of_their_own_and_numbers_do_not():
    settings = ", ".join(f"setting={n}" for n in range(10))
    table = Table("t", ["method", "settings", "accuracy"], [["a", settings, "1 " * 40], ["b", "", "2"]], labels=2)
    rows = str(table).splitlines()[4:-1]
    assert rows[0].startswith("a       setting=0, ") and rows[0].endswith("1 1")
    assert all(row.startswith("        setting=") and "1 1" not in row for row in rows[1:-1])
    assert rows[-1].split() == ["b", "2"]
    assert max(len(row) for row in rows[1:-1]) <= 8 + 48
    words = [rows[0].rstrip("1 "), *rows[1:-1]]
    assert " ".join(" ".join(words).split()[1:]) == settings
    assert settings in table.markdown()


def test_rows_that_neither_has_are_left_out():
    table = compare(
        "t", [], ("cora",), {"gcn": Row("gcn"), "sage": Row("sage")}, paper=PRINTED["homophilic"], others=False
    )
    assert [row[1] for row in table.rows] == ["gcn"]


def test_sizes_of_data_sets_stand_beside_the_papers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DPMSNC_DATA", str(tmp_path))
    graph = Graph.build([(0, 1), (1, 2), (0, 2), (2, 3)], num_nodes=5, x=np.eye(5, 3), y=[0, 1, 1, 0, 0])
    graph.to_npz(tmp_path / "cora.npz")
    masks = dict(zip(benchmarks.MASKS, np.eye(3, 5, dtype=bool)[:, None]))
    with np.load(tmp_path / "cora.npz") as arrays:
        np.savez(tmp_path / "cora.npz", **arrays, **masks)
    assert main(["table", "datasets", "--format", "json"]) == 0
    records = {record["dataset"]: record for record in json.loads(capsys.readouterr().out)}
    assert [records["cora"][size] for size in ("graphs", *datasets.SIZES)] == [1, 5, 4, 3, 2, "1/1/1"]
    assert (records["cora"]["paper_edges"], records["ppi"]["nodes"]) == (5429, None)
    # nodes 0, 1 and 2 are in one triangle; 2 has a neighbour more
    ego = [records["cora_ego"][size] for size in ("graphs", *datasets.SIZES)]
    assert ego == [3, "3.0/3.0/4.0", "3.0/3.0/4.0", 3, 2, "1/1/1"]
    assert records["ppi"]["paper_split"] == "20/2/2" and "twitch" not in records
    assert main(["table", "datasets"]) == 0
    text = capsys.readouterr().out
    assert "5429 (a)" in text and "34493 (b)" in text and "50 features and 121 labels" in text
    rows, _, notes = text.partition("Ours:")
    assert "minesweeper" not in rows and "twitch" not in rows and "No file here for pubmed" in notes
    assert "minesweeper" in notes and "twitch" in notes


class Links(HTMLParser):
    """What a page would load or lead to, and its text."""

    def __init__(self, html):
        super().__init__()
        self.addresses, self.texts = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data):
        self.texts.append(data)


def test_the_report_is_one_escaped_page_with_tables_and_figures(results, monkeypatch, capsys):
    evil = "<script>alert(1)</script>"

    def picture(runs):
        figure = Picture()
        figure.subplots().plot([len(runs), 2])
        return figure

    own = Experiment("own", ("cora",), {"gcn": Row("gcn")}, (0,), lambda runs: Table(evil, [evil], [[evil]]), picture)
    monkeypatch.setitem(registry.EXPERIMENTS, "own", own)
    Store(results).put(document(run("gcn", 0, experiment="own"), 0.5))
    assert main(["report", "--results", str(results)]) == 0
    assert "report.html" in capsys.readouterr().out
    html = (results / "report.html").read_text()
    page = Links(html)
    own_page = ("data:image/svg+xml;base64,", "#section-")
    assert page.addresses and all(address.startswith(own_page) for address in page.addresses)
    # the title of a section is in the list of contents, too
    assert not re.search(r"<script|@import|url\(", html) and page.texts.count(evil) == 4
    assert "Table 2: homophilic graphs, 20 training labels a class" in page.texts and "80.9±0.6" in page.texts
    assert "Table 1" not in html and 'content="width=device-width' in html


def test_a_report_shows_experiments_without_a_configuration_at_their_defaults(results, monkeypatch, tmp_path, capsys):
    own = Experiment("own", ("grid_scattered",), {"lp": Row("lp")}, (0,), lambda runs: Table("t", ["a"], [["b"]]))
    monkeypatch.setitem(registry.EXPERIMENTS, "own", own)
    Config("lp", None, "grid_scattered", {"alpha": 0.123}, 0.9, 0.8, 20, [100]).write(tmp_path / "configs")
    words = ["report", "--results", str(results), "--out", str(tmp_path / "page.html"), "--configs"]
    assert main([*words, str(tmp_path / "configs")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "80.9±0.6" in page and f"reproduce homophilic --results {results} --configs" not in page
    assert main([*words, str(tmp_path / "another")]) == 2
    assert "another has no configuration for any row of" in capsys.readouterr().err


def test_a_report_of_nothing_is_not_written(tmp_path, capsys):
    assert main(["report", "--results", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 2
    assert "dpmsnc reproduce" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_new_networks_are_built_by_name():
    assert [methods.METHODS.find(name).build(3).backbone for name in ("gcn", "gat", "gcnii", "sage")] == [
        "gcn", "gat(attention_dropout=True)", "gcnii", "sage"
    ]  # fmt: skip
    assert methods.METHODS.find("gat").build(3, epochs=7).epochs == 7
