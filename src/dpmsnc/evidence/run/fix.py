"""Settings that a user fixes with `--fix`: refused by name before anything runs, or put into rows of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from dpmsnc.baselines.initialiser import INITIALISERS, make_initialiser
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.estimators import declared_types, has_groups, with_settings
from dpmsnc.evidence.run.experiment import Experiment
from dpmsnc.evidence.run.settings import Nested, flat, merged

NOT_SETTINGS = ("seed", "backbone")
"""What a run or its row says; a configuration with them would be another run under the same name."""
IN_WORDS = {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "null"}


def with_fixed(experiment: Experiment, settings: Nested, rows: Iterable[str]) -> Experiment:
    """The experiment with the same settings in all of these rows, over those that they have."""
    if refused := [name for name in NOT_SETTINGS if name in settings]:
        raise InputError(f"--fix is for settings, not for the {refused[0]}, which the rows or --seeds say")
    changed = dict(experiment.rows)
    for label in rows:
        row = experiment.rows[label]
        check_settings(label, row.build(), settings)
        fixed = {dataset: merged(row.by_dataset.get(dataset, {}), settings) for dataset in experiment.datasets}
        changed[label] = replace(row, by_dataset=fixed)
    return replace(experiment, rows=changed)


def check_settings(name: str, model: Any, settings: Nested) -> None:
    """Complain about settings that an estimator does not have, and about values that it does not take."""
    own, types = flat(model.method_params()), declared_types(type(model))
    for option, value in flat(settings).items():
        if option not in own:
            there_are = ", ".join(one for one in own if one not in NOT_SETTINGS)
            raise InputError(f"{name} has no setting {option} to fix; it has {there_are}")
        hint = types.get(option, Any)
        infinite = value == "inf" and has_groups(model)  # as these write it down, and read it
        if option == "initialiser":
            check_initialiser(model, value)
        elif not fits(1.0 if infinite else value, hint):
            raise InputError(f"{option} cannot be {value!r}; it is {in_words(hint)}")


def check_initialiser(model: Any, value: Any) -> None:
    """Complain about what is no initialiser: neither a name nor one with settings that it takes."""
    match value:
        case str(name) if name in INITIALISERS:
            pass
        case [str(name), Mapping() as settings] if name in INITIALISERS and settings:
            initialiser = make_initialiser(with_settings(model, {"initialiser": value}))
            initialiser._check_settings()
        case _:
            raise InputError(
                f"initialiser cannot be {value!r}: it is one of {', '.join(INITIALISERS)}, or one with settings, as in "
                'initialiser=["lp", {"num_layers": 3}]'
            )


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was written down is of a declared type; a whole number is one with a fraction, too.

    Example:
        >>> fits("False", bool), fits(1, float), fits(0.5, int), fits("auto", float | Literal["auto"]), fits(None, int)
        (False, True, False, True, False)
    """
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if hint is float:
        return type(value) in (int, float) and isfinite(value)
    return hint is Any or type(value) is (origin or hint)


def in_words(hint: Any) -> str:
    """A declared type as a user would say it.

    Example:
        >>> in_words(float | Literal["auto"]), in_words(int | None)
        ('a number or one of auto', 'a whole number or null')
    """
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    return " or ".join(map(in_words, get_args(hint))) or IN_WORDS.get(hint, str(hint))
