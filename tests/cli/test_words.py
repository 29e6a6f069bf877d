"""What the command line says when something is wrong: flags, and the first thing first."""

import pytest

from dpmsnc.cli.fit import Fit
from dpmsnc.cli.main import main
from dpmsnc.cli.words import as_flags
from tiny_tables import write_tables


@pytest.mark.parametrize(
    "message, said",
    [
        ("validation=1.5 is not a share; pass None", "--validation 1.5 is not a share; pass None"),
        ("hidden_channels must be at least 1, got 0", "--hidden-channels must be at least 1, got 0"),
        ("lower training.learning_rate (now 3)", "lower --training.learning-rate (now 3)"),
        ("use start='random' or wait", "use --start random or wait"),
        ("seed must be at least 0", "--seed must be at least 0"),
        ("a label of the graph is a class", "a label of the graph is a class"),
        (
            "--hidden-channels is taken; my_hidden_channels is not",
            "--hidden-channels is taken; my_hidden_channels is not",
        ),
    ],
)
def test_arguments_are_called_by_their_flags(tmp_path, message, said):
    assert as_flags(message, Fit(out=tmp_path)) == said
    assert as_flags(message, None) == message


def test_a_missing_label_is_the_first_complaint(tmp_path, capsys):
    flags = write_tables(tmp_path)
    at = flags.index("--label")
    for command in (["fit", "--out", str(tmp_path / "model"), "--validation", "7"], ["compare"]):
        assert main([*command, *flags[:at], *flags[at + 2 :]]) == 2
        assert capsys.readouterr().err.endswith("(it has name, side, heat, rank): --label COLUMN\n")
    assert not (tmp_path / "model").exists()


def test_a_wrong_share_is_said_of_the_flag(tmp_path, capsys):
    assert main(["fit", *write_tables(tmp_path), "--out", str(tmp_path / "model"), "--validation", "7"]) == 2
    assert "error: --validation 7 is not a share" in capsys.readouterr().err


def test_compare_prints_a_leaderboard_and_writes_a_page(tmp_path, capsys):
    flags = [*write_tables(tmp_path), "--methods", "majority", "lp", "--splits", "2"]
    assert main(["compare", *flags, "--out", str(tmp_path / "page.html"), "--budget", "1h"]) == 0
    out = capsys.readouterr()
    assert "macro-F1, %" in out.out and "lp" in out.out and "split 2 of 2" in out.err
    assert ">Leaderboard</h2>" in (tmp_path / "page.html").read_text()
    assert main(["compare", *flags, "--out", str(tmp_path / "page.csv")]) == 2
    assert "end it with .html" in capsys.readouterr().err
    assert main(["compare", *flags, "--budget", "soon"]) == 2
    assert "--budget soon is no length of time" in capsys.readouterr().err
