"""Whatever stored documents hold, tables, pages and reproductions of them end in words and not in a traceback."""

import json
import shutil
import warnings
from pathlib import Path

import pytest

from dpmsnc.cli.main import main, parse
from dpmsnc.evidence.experiments import registry
from dpmsnc.evidence.run.experiment import Experiment, Run
from dpmsnc.evidence.run.store import Store
from dpmsnc.evidence.show.stored_runs import made_of

RESULTS = Path(__file__).parents[2] / "results"
NAMES = ["cora", "steps", "first-figure", "temperature", "pairs", "number-of-samples", "accuracy-over-steps",
         "time-vs-accuracy"]  # fmt: skip
WRONG = [None, "words", 3, [], {}, [None], -1, 1e300]


def holes(value, path=()):
    """The places of a nested value, of each list the first entry alone."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, part in parts:
        yield from holes(part, (*path, name))


def with_hole(value, path, wrong):
    """A copy in which something else stands in one place, or nothing at all where that is `missing`."""
    copy = json.loads(json.dumps(value))
    *above, last = path
    place = copy
    for name in above:
        place = place[name]
    if wrong == "missing":
        del place[last]
    else:
        place[last] = wrong
    return copy


@pytest.fixture
def stored(tmp_path, request):
    """Two stored runs of an experiment, the first of which is to be broken."""
    experiment = registry.EXPERIMENTS.find(request.param)
    name = experiment.stored_as or experiment.name
    dataset, row = experiment.datasets[0], next(iter(experiment.rows))
    own = {RESULTS / Run(experiment, dataset, row, seed).key.path for seed in experiment.seeds}
    paths = sorted((RESULTS / name / dataset).glob("*.json"), key=lambda path: (path not in own, path))
    kept = [path for path in paths if json.loads(path.read_text())["method"] == experiment.rows[row].method]
    for path in kept[:2]:
        (tmp_path / path.relative_to(RESULTS)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(RESULTS))
    return experiment.name, tmp_path, tmp_path / kept[0].relative_to(RESULTS)


@pytest.mark.parametrize("stored", NAMES, indirect=True)
def test_a_value_that_is_missing_or_of_another_type_is_no_traceback(stored, capsys):
    name, results, path = stored
    whole = json.loads(path.read_text())
    unread = ("config", "versions", "validation_curve") if name != "cora" else ("versions", "validation_curve")
    places = [place for place in holes(whole) if place and place[0] not in unread]
    tables = [parse(["table", name, "--results", str(results), *f]) for f in ([], ["--format", "json"], ["--tried"])]
    for number, place in enumerate(places):
        for wrong in ("missing", WRONG[number % len(WRONG)]):
            path.write_text(json.dumps(with_hole(whole, place, wrong)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for table in tables:
                    assert table.run() == 0, (place, wrong)
    assert [path.suffix for path in results.rglob("*.json*")] == [".json", ".json"]  # nothing was renamed


@pytest.mark.parametrize("stored", ["pairs"], indirect=True)
def test_a_document_without_what_its_experiment_measured_is_named_and_left_out(stored, capsys):
    name, results, path = stored
    assert main(["table", name, "--results", str(results), "--format", "markdown"]) == 0
    both = capsys.readouterr().out
    path.write_text(json.dumps(with_hole(json.loads(path.read_text()), ("metrics", "pairs"), "missing")))
    with pytest.warns(UserWarning, match=f"{path.name} cannot be shown and is left out"):
        assert main(["table", name, "--results", str(results), "--format", "markdown"]) == 0
    one = capsys.readouterr().out
    assert " | 2 |\n" in both and " | 2 |\n" not in one and " | 1 |\n" in one


@pytest.mark.parametrize("stored", ["number-of-samples"], indirect=True)
def test_pages_and_reproductions_leave_it_out_too(stored, capsys, monkeypatch):
    name, results, path = stored
    path.write_text(json.dumps(with_hole(json.loads(path.read_text()), ("metrics", "number_of_samples"), 3)))
    seeds = ",".join(str(document["seed"]) for document in Store(results).all("one-fit"))
    with pytest.warns(UserWarning, match="is left out"):
        assert main(["report", "--results", str(results), "--out", str(results / "page.html")]) == 0
        assert main(["reproduce", name, "--results", str(results), "--datasets", "cora", "--seeds", seeds]) == 0
    assert "figure: " in capsys.readouterr().out


def test_an_error_in_every_document_leaves_none(recwarn):
    documents = [{"experiment": "a", "dataset": "b", "method": "c", "config": {}, "seed": seed} for seed in (0, 1)]
    assert made_of(documents, lambda runs: runs[0]["nothing"]) is None and len(recwarn) == 2
    assert made_of([], Experiment) is None
