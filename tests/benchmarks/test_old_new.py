import argparse
from pathlib import Path

import pytest

from benchmarks import old_new


def test_old_and_new_alternate_and_the_median_ratio_counts(monkeypatch, capsys):
    asked = []
    seconds = {"old": iter([0.1, 0.2, 0.1]), "new": iter([0.11, 0.2, 0.3])}

    def measured(source: Path, backbone: str, options: argparse.Namespace):
        asked.append(source.name)
        return dict.fromkeys(old_new.WORKS, next(seconds[source.name]))

    monkeypatch.setattr(old_new, "measured", measured)
    assert old_new.main(["old", "new", "--pairs", "3", "--backbones", "gcn"]) == 0
    assert asked == ["old", "new", "new", "old", "old", "new"]
    step = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("gcn train_step"))
    assert step.split()[2:] == ["100.0", "200.0", "1.100"]


def test_both_folders_must_be_given(capsys):
    with pytest.raises(SystemExit):
        old_new.main(["old"])
    assert "OLD_SRC" in capsys.readouterr().err
