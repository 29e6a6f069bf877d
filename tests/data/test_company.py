import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import log_softmax

from dpmsnc.data.company import (
    CONTACTS,
    EARLIEST,
    HIRED,
    HIRED_DEVIATION,
    OFFICES,
    REMOTE,
    SALARY,
    SALARY_DEVIATION,
    SALARY_GAPS,
    SHAPE,
    SHARES,
    TEAMS,
    company,
    office_shares,
)


def by_cells(people):
    """log p(cells of a row | team), up to a constant a row."""
    found = np.zeros((len(people), len(TEAMS)))
    salary = people["salary"].astype(float).to_numpy()[:, None]
    paid = np.log(1 - SALARY_GAPS) + stats.norm.logpdf(np.log(salary), SALARY, SALARY_DEVIATION)
    found += np.where(np.isnan(salary), np.log(SALARY_GAPS), paid)
    office = people["office"].map({name: k for k, name in enumerate(OFFICES)}).to_numpy()
    found += np.where(np.isnan(office)[:, None], 0, np.log(office_shares()).T[np.nan_to_num(office).astype(int)])
    days = (pd.to_datetime(people["hired"]) - pd.Timestamp(EARLIEST)).dt.days.to_numpy()[:, None]
    found += np.nan_to_num(stats.norm.logpdf(days, HIRED, HIRED_DEVIATION))
    remote = people["remote"].map({"yes": 1.0, "no": 0.0}).to_numpy()[:, None]
    return found + np.nan_to_num(np.log(np.where(remote == 1, REMOTE, 1 - REMOTE)) + 0 * remote)


def by_contacts(tables, y):
    """log p(contacts of a person | team, teams of all others), up to a constant a person."""
    position = {name: k for k, name in enumerate(tables.truth["person"])}
    found, size = np.zeros((len(y), len(TEAMS))), np.bincount(y)
    for kind, how in CONTACTS.items():
        rows = tables.contacts[tables.contacts["kind"] == kind]
        source, target = (rows[end].map(position).to_numpy() for end in ("from", "to"))
        for own, other in ((source, target), (target, source)):
            same = y[other][:, None] == np.arange(len(TEAMS))
            scale = how.hours / SHAPE * np.where(same, how.ratio, 1.0)
            chosen = same * how.within / size[y[other]][:, None] + (1 - how.within) / len(y)
            hours = stats.gamma.logpdf(rows["hours"].to_numpy()[:, None] - 0.04, SHAPE, scale=scale)
            np.add.at(found, own[source != target], (np.log(chosen) + hours)[source != target])
    return found


def gain(evidence, y):
    """How much the log-probability of the true team rises on average, and how often the most probable one is right."""
    posterior = log_softmax(np.log(SHARES) + evidence, axis=1)
    return (posterior[np.arange(len(y)), y] - np.log(SHARES)[y]).mean(), (posterior.argmax(axis=1) == y).mean()


def test_cells_and_labels_of_contacts_are_worth_the_same():
    gains = []
    for seed in range(10):
        tables = company(seed)
        y = tables.truth["team"].map({name: k for k, name in enumerate(TEAMS)}).to_numpy()
        cells, contacts = by_cells(tables.people), by_contacts(tables, y)
        gains.append([*gain(cells, y), *gain(contacts, y), *gain(cells + contacts, y)])
    of_cells, right_by_cells, of_contacts, right_by_contacts, of_both, right = np.mean(gains, axis=0)
    assert of_cells == pytest.approx(of_contacts, rel=0.05)
    assert of_both > 1.5 * of_cells and right > max(right_by_cells, right_by_contacts) + 0.05


def test_the_tables_are_as_untidy_as_described(tmp_path):
    tables = company(3)
    people = tables.people
    assert people["team"].notna().sum() == 120 and set(people["team"].dropna()) == set(TEAMS)
    assert all(people[name].isna().any() for name in ("age", "salary", "office", "hired", "remote"))
    assert people["badge"].is_unique and not tables.contacts.duplicated(["from", "to", "kind"]).all()
    assert people["office"].value_counts().min() < 8 < people["office"].value_counts().max()
    assert (tables.contacts["hours"] > 0).all() and set(tables.contacts["kind"]) == set(CONTACTS)
    known = people["team"].notna()
    assert (people["team"][known] == tables.truth["team"][known]).all()
    tables.write(tmp_path)
    again = pd.read_csv(tmp_path / "people.csv")
    assert list(again.columns) == list(people.columns) and again["badge"].tolist() == people["badge"].tolist()


def test_a_seed_fixes_the_tables_and_another_gives_others():
    first, again, other = company(1), company(1), company(2)
    for name in ("people", "contacts", "truth"):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(again, name))
        assert not getattr(first, name).equals(getattr(other, name))
