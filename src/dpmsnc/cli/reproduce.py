"""`dpmsnc reproduce`: a table of the paper, of which what is missing is run; and how seeds and settings are written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from dpmsnc.errors import InputError


@dataclass(frozen=True)
class Reproduce:
    """Run what is missing of a table of the paper, and print it; the same command goes on after an interrupt."""

    name: tyro.conf.Positional[str]
    """The experiment, for example synthetic."""
    seeds: str | None = None
    """Seeds, for example 0-4 or 0,2,7; by default the experiment's."""
    methods: tuple[str, ...] | None = None
    """Methods; by default all of the experiment."""
    datasets: tuple[str, ...] | None = None
    """Data sets; by default all of the experiment."""
    results: Path = Path("results")
    """Folder of stored runs; a stored run is not run again."""
    force: bool = False
    """Run again what is stored."""
    jobs: int | None = None
    """Runs at a time, each in a worker process; by default one after the other in this process."""
    ray: tuple[str, ...] | None = None
    """Run on the Ray cluster at this address; without an address, on one that lives as long as the command."""
    configs: Path | None = None
    """Folder of configurations that `tune` wrote; a row is run with the one that it finds there for a data set."""
    fix: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting that all rows asked for have in place of their own, as name=value: to try something else. It is
    stored beside the runs of the table; `table --tried` shows it."""
    fast: bool = False
    """One seed on the small data sets of the experiment, unless --seeds or --datasets says otherwise."""

    def run(self) -> int:
        from dpmsnc.evidence.run.runner import reproduce

        flags: dict[str, Any] = {
            "seeds": None if self.seeds is None else parse_seeds(self.seeds),
            "methods": self.methods,
            "datasets": self.datasets,
            "results": self.results,
            "force": self.force,
            "jobs": self.jobs,
            "ray": self._ray_address(),
            "configs": self.configs,
            "fix": parse_settings(self.fix) or None,
            "fast": self.fast,
        }
        flags = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
        failed = reproduce(self.name, **{name: value for name, value in flags.items() if value is not None})
        return 1 if failed else 0

    def _ray_address(self) -> str | None:
        if self.ray is not None and len(self.ray) > 1:
            raise InputError(f"--ray takes one address; there are {len(self.ray)}: {' '.join(self.ray)}")
        return None if self.ray is None else next(iter(self.ray), "local")


def parse_seeds(text: str, flag: str = "--seeds") -> list[int]:
    """Seeds written as numbers and ranges.

    Example:
        >>> parse_seeds("0-2,7")
        [0, 1, 2, 7]
    """
    try:
        ends = [[int(end) for end in part.split("-", 1)] for part in text.split(",")]
    except ValueError:
        ends = [[]]
    if not all(pair and pair[0] <= pair[-1] for pair in ends):
        raise InputError(f"{flag} {text} is not a list of numbers; write for example 0-4 or 0,2,7")
    return [seed for pair in ends for seed in range(pair[0], pair[-1] + 1)]


def parse_settings(words: Sequence[str], flag: str = "--fix") -> dict[str, Any]:
    """Settings in groups, from name=value each; a value that is no JSON is a string.

    Example:
        >>> parse_settings(["scaling=binary", "training.decay=false"])
        {'scaling': 'binary', 'training': {'decay': False}}
    """
    from dpmsnc.evidence.run.settings import nested

    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise InputError(f"{flag} takes name=value, for example scaling=binary, not {word!r}")
        if name in found:
            raise InputError(f"{flag} says twice what {name} is")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        if isinstance(found[name], dict):
            raise InputError(f"{flag} takes one setting at a time, for example {name}.steps=100, not a group")
    try:
        return nested(found)
    except TypeError as error:
        raise InputError(f"{flag} contradicts itself: {error}") from error
