"""scikit-learn's contract for settings, without scikit-learn: an object whose constructor only stores its arguments.

`get_params`, `set_params` and `repr` derive from the signature of the constructor, so `sklearn.base.clone` and
`ParameterGrid` work. Settings that are dataclasses, such as `Training`, are reached as in `training__steps=10`.
scikit-learn itself takes about a second to import, which the command line must not pay.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from html import escape
from typing import Any, ClassVar, Self

from dpmsnc.errors import InputError
from dpmsnc.files import json_value

RUN_TIME = frozenset({"seed", "device", "threads", "verbose"})
"""Arguments that say where and how a fit runs, and not which method it is."""


class Parameters:
    """What a constructor was given, by name."""

    added_later: ClassVar[Mapping[str, Any]] = {}
    """Arguments that came when there were stored runs already, with the value that those runs had without saying so;
    those within a group of settings as in "training.select_by"."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; with `deep`, also the fields of those that are settings or estimators."""
        params = {name: getattr(self, name) for name in _defaults(type(self))}
        if deep:
            for name, value in list(params.items()):
                params |= {f"{name}__{part}": inner for part, inner in _parts(value).items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Replace arguments by name, with a double underscore before a field of one: `training__steps=10`."""
        whole, within = _grouped(type(self).__name__, list(_defaults(type(self))), params)
        for name, value in whole.items():
            setattr(self, name, value)
        for name, changes in within.items():
            setattr(self, name, _replaced(name, getattr(self, name), changes))
        return self

    def nested_params(self) -> dict[str, Any]:
        """The constructor's arguments, with groups of settings as dictionaries."""
        params = self.get_params(deep=False)
        return {name: asdict(value) if _is_settings(value) else value for name, value in params.items()}

    def method_params(self) -> dict[str, Any]:
        """The arguments that make the method what it is, as JSON values."""
        return json_value({name: value for name, value in self.nested_params().items() if name not in RUN_TIME})

    def configuration(self) -> dict[str, Any]:
        """What stored runs are found by: `method_params`, but for what was `added_later` and is as it was before."""
        return _leaving_out(self.method_params(), self.added_later)

    def __repr__(self) -> str:
        return _shown(self, _defaults(type(self)))

    def _repr_html_(self) -> str:
        """For notebooks: the settings that are not the defaults, and what the fit reached."""
        report = getattr(self, "report_", None)
        state = "not fitted" if not hasattr(self, "graph_") else "fitted" if report is None else f"fitted\n{report}"
        return f"<pre>{escape(f'{self!r}, {state}')}</pre>"


def _defaults(kind: Any) -> dict[str, Any]:
    """Every argument of a constructor with its default."""
    made = {f.name: f.default_factory for f in fields(kind)} if is_dataclass(kind) else {}
    arguments = [
        a for a in inspect.signature(kind).parameters.values() if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)
    ]
    return {
        a.name: made[a.name]() if made.get(a.name, MISSING) is not MISSING else a.default  # type: ignore[operator]
        for a in arguments
    }


def _leaving_out(params: dict[str, Any], values: Mapping[str, Any], group: str = "") -> dict[str, Any]:
    """Nested parameters but for those, by dotted name, that have the given values."""
    return {
        name: _leaving_out(value, values, f"{group}{name}.") if isinstance(value, dict) else value
        for name, value in params.items()
        if f"{group}{name}" not in values or value != values[f"{group}{name}"]
    }


def _is_settings(value: Any) -> bool:
    """Whether a value is a group of settings: a dataclass that is no estimator."""
    return is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params")


def _parts(value: Any) -> dict[str, Any]:
    """The settings within a value, with a double underscore where they lie deeper."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return value.get_params(deep=True)
    if not _is_settings(value):
        return {}
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    deeper = {f"{name}__{part}": inner for name, v in parts.items() for part, inner in _parts(v).items()}
    return parts | deeper


def _grouped(owner: str, names: list[str], changes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Changes of whole arguments, and changes within an argument."""
    whole: dict[str, Any] = {}
    within: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        name, _, rest = path.partition("__")
        if name not in names:
            raise InputError(f"{owner} has no setting {name!r}; it has {', '.join(names)}")
        if rest:
            within.setdefault(name, {})[rest] = value
        else:
            whole[name] = value
    return whole, within


def _replaced(owner: str, value: Any, changes: dict[str, Any]) -> Any:
    """The value of an argument with some of its own settings replaced."""
    if hasattr(value, "set_params"):
        return value.set_params(**changes)
    if not _is_settings(value):
        raise InputError(f"{owner} is {value!r}, which has no settings of its own; set {owner} as a whole")
    whole, within = _grouped(owner, [field.name for field in fields(value)], changes)
    value = replace(value, **whole)
    return replace(value, **{name: _replaced(name, getattr(value, name), inner) for name, inner in within.items()})


def _shown(value: Any, defaults: dict[str, Any]) -> str:
    """A call of the constructor that names what differs from the defaults."""
    given = {
        name: getattr(value, name) for name, default in defaults.items() if not _same(getattr(value, name), default)
    }
    inner = (f"{name}={_shown(v, _defaults(type(v))) if _is_settings(v) else repr(v)}" for name, v in given.items())
    return f"{type(value).__name__}({', '.join(inner)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))
