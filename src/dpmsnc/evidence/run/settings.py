"""Settings of an estimator as plain values: nested in groups as its constructor has them, or flat by dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Nested = Mapping[str, Any]


def merged(below: Nested, above: Nested) -> dict[str, Any]:
    """Both, group by group; where both have a value, the one of `above`."""
    result = dict(below)
    for name, value in above.items():
        if not isinstance(value, Mapping):
            result[name] = value
        elif isinstance(group := below.get(name, {}), Mapping):
            result[name] = merged(group, value)
        else:
            raise TypeError(f"{name} is not a group")
    return result


def flat(settings: Nested, group: str = "") -> dict[str, Any]:
    """Values by dotted name.

    Example:
        >>> flat({"dropout": 0.5, "training": {"steps": 10}})
        {'dropout': 0.5, 'training.steps': 10}
    """
    result: dict[str, Any] = {}
    for name, value in settings.items():
        result |= flat(value, f"{group}{name}.") if isinstance(value, Mapping) else {f"{group}{name}": value}
    return result


def nested(settings: Nested) -> dict[str, Any]:
    """Values by dotted name, in their groups."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        result = merged(result, value)
    return result
