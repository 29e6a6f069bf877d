r"""An invented company as raw tables: people of four teams, and who had how much to do with whom.

Half of the columns say nothing, the others say something about the team. Given the team y_i = c of a person, all
cells of the row are independent:

    salary    log-normal with a mean by team; more often missing in one team than in the others
    office    drawn from a list with rare levels, of which each team prefers some
    hired     a day, normal around a mean by team
    remote    yes or no, with a probability by team
    age, grade, badge, note   the same for all teams: a number, a category, an identifier and free text

A contact of kind k leads from a person drawn at random to one of the same team with probability h_k, else to anybody.
Its hours are Gamma(2) with a scale that is larger within a team:

    meeting   h = 0.20, hours 1.5 times as many within a team
    mail      h = 0, hours 2.5 times as many: only weights tell
    lift      h = 0, hours the same: noise

So there are two sources of knowledge about y_i: the cells of its row, and the labels of those that it has contacts
with. The constants make them worth the same: `tests/data/test_company.py` compares how much the probability of the true
team rises above its share, in nats, by either of them under the distributions above.

Labels are known for 15 % of the people, drawn at random. A seed fixes the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpmsnc.files import write_whole

NUM_PEOPLE = 800
KNOWN_SHARE = 0.15
TEAMS = ("sales", "engineering", "support", "legal")
SHARES = np.array([0.50, 0.28, 0.15, 0.07])

SALARY = np.log([42_000, 58_000, 39_000, 66_000])
SALARY_DEVIATION = 0.24
SALARY_GAPS = np.array([0.05, 0.05, 0.05, 0.30])
OFFICES = ("Berlin", "Lyon", "Porto", "Turin", "Oslo", "Graz", "Gent", "Brno", "Cork", "Bern", "Pula", "Vigo")
OFFICE_SHARES = np.array([0.30, 0.22, 0.16, 0.12, 0.09, 0.05, 0.025, 0.015, 0.008, 0.006, 0.004, 0.002])
PREFERENCE = 3.5
"""An office k is so many times as probable in the team k mod 4."""
EARLIEST = np.datetime64("2005-01-01")
HIRED = np.array([5200.0, 4000.0, 5800.0, 3000.0])
HIRED_DEVIATION = 1000.0
REMOTE = np.array([0.25, 0.75, 0.15, 0.50])
GAPS = {"age": 0.10, "office": 0.04, "hired": 0.06, "remote": 0.08}
"""Shares of missing cells, the same for all teams."""
WORDS = ("joined from a partner", "likes long walks", "ask about the printer", "moved last year", "trains the juniors")


@dataclass(frozen=True)
class Contacts:
    """How contacts of one kind come about."""

    number: int
    within: float
    """h, the probability to choose among the own team alone."""
    hours: float
    """Mean number of hours between teams."""
    ratio: float
    """So many times as many within a team."""


CONTACTS = {
    "meeting": Contacts(1200, 0.2, 2.0, 1.5),
    "mail": Contacts(1500, 0.0, 1.0, 2.5),
    "lift": Contacts(900, 0.0, 0.5, 1.0),
}
SHAPE = 2.0
"""Of the Gamma distribution of hours."""


@dataclass(frozen=True, eq=False)
class Company:
    """The tables as a user has them, and the truth."""

    people: pd.DataFrame
    """A row per person: `person`, `team` (missing where unknown) and the columns above."""
    contacts: pd.DataFrame
    """A row per contact: `from`, `to`, `kind` and `hours`; two people may have several."""
    truth: pd.DataFrame
    """`person` and `team` of everybody."""

    def write(self, folder: Path) -> None:
        """people.csv, contacts.csv and truth.csv."""
        for name in ("people", "contacts", "truth"):
            write_whole(folder / f"{name}.csv", getattr(self, name).to_csv(index=False))


def company(seed: int = 0) -> Company:
    """The company of a seed.

    Example:
        >>> tables = company()
        >>> len(tables.people), len(tables.contacts), int(tables.people["team"].notna().sum())
        (800, 3600, 120)
    """
    rng = np.random.default_rng(seed)
    y = rng.choice(len(TEAMS), size=NUM_PEOPLE, p=SHARES)
    names = np.array([f"e{k:04}" for k in rng.permutation(NUM_PEOPLE)])
    team = np.array(TEAMS, dtype=object)[y]
    known = np.isin(np.arange(NUM_PEOPLE), rng.permutation(NUM_PEOPLE)[: round(KNOWN_SHARE * NUM_PEOPLE)])
    people = pd.DataFrame({"person": names, "team": _with_gaps(team, ~known)} | _cells(y, rng))
    return Company(people, _contacts(y, names, rng), pd.DataFrame({"person": names, "team": team}))


def _cells(y: NDArray[np.int64], rng: np.random.Generator) -> dict[str, NDArray[np.object_]]:
    n = len(y)
    badges = rng.permutation(10**6)[:n]
    cells = {
        "age": rng.normal(41, 9, size=n).round().clip(18, 70),
        "salary": np.exp(SALARY[y] + SALARY_DEVIATION * rng.standard_normal(n)).round(-2),
        "office": np.array(OFFICES)[_drawn(office_shares()[y], rng)],
        "hired": EARLIEST + (HIRED[y] + HIRED_DEVIATION * rng.standard_normal(n)).round().clip(0).astype(int),
        "remote": np.where(rng.random(n) < REMOTE[y], "yes", "no"),
        "grade": rng.choice(["A", "B", "C", "D"], size=n),
        "badge": np.array([f"X{number:06}" for number in badges]),
        "note": np.array([f"{WORDS[k % 5]}, {WORDS[k // 5 % 5]}; file {k}" for k in badges]),
    }
    missing = {name: rng.random(n) < share for name, share in GAPS.items()}
    missing["salary"] = rng.random(n) < SALARY_GAPS[y]
    return {name: _with_gaps(values, missing.get(name)) for name, values in cells.items()}


def _with_gaps(values: NDArray[Any], missing: NDArray[np.bool_] | None) -> NDArray[np.object_]:
    cells = (values.astype(str) if values.dtype.kind == "M" else values).astype(object)
    cells[missing if missing is not None else []] = None
    return cells


def office_shares() -> NDArray[np.float64]:
    """How probable each office is in each team (teams, offices)."""
    preferred = np.arange(len(OFFICES)) % len(TEAMS) == np.arange(len(TEAMS))[:, None]
    shares = OFFICE_SHARES * np.where(preferred, PREFERENCE, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


def _contacts(y: NDArray[np.int64], names: NDArray[np.str_], rng: np.random.Generator) -> pd.DataFrame:
    parts = []
    for kind, how in CONTACTS.items():
        source, target = (rng.integers(len(y), size=how.number) for _ in range(2))
        order = np.argsort(y, kind="stable")
        first, last = (np.searchsorted(y[order], y[source], side=side) for side in ("left", "right"))
        of_team = order[(first + rng.random(how.number) * (last - first)).astype(int)]
        target = np.where(rng.random(how.number) < how.within, of_team, target)
        scale = how.hours / SHAPE * np.where(y[source] == y[target], how.ratio, 1.0)
        hours = (rng.gamma(SHAPE, scale) + 0.05).round(2)
        parts.append(pd.DataFrame({"from": names[source], "to": names[target], "kind": kind, "hours": hours}))
    return pd.concat(parts).sample(frac=1, random_state=rng.integers(2**32), ignore_index=True)


def _drawn(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A position in every row of probabilities."""
    return (rng.random((len(shares), 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(max=shares.shape[1] - 1)
