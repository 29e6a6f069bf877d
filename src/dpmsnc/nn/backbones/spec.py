"""How a backbone is asked for: a name, a name with options, or a class.

All of "gcnii", ("gcnii", {"time": False}), "gcnii(time=False)" and a subclass of `Backbone`, alone or with options, are
specifications. A name is what `BACKBONES` knows; options are the keyword-only arguments of the class and of its
convolution.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dpmsnc.config import BackboneSpec
from dpmsnc.errors import InputError
from dpmsnc.nn.backbones.base import Backbone
from dpmsnc.registry import Registry

BACKBONES: Registry[type[Backbone]] = Registry("backbone")


def backbone_class(spec: BackboneSpec) -> tuple[type[Backbone], dict[str, Any]]:
    """The class that a specification names, and its options, which the class takes."""
    name, options = _parts(spec)
    kind = BACKBONES.find(name) if isinstance(name, str) else name
    _check(kind, options)
    return kind, options


def backbone_name(spec: BackboneSpec) -> str:
    """A specification as one word, which is one itself: for tables, files and the command line.

    A class is called as it is registered, or else by its own name.

    Example:
        >>> backbone_name(["gcnii", {"time": False, "alpha": 0.2}])
        'gcnii(alpha=0.2, time=False)'
    """
    kind, options = _parts(spec)
    if not isinstance(kind, str):
        kind = next((name for name, registered in BACKBONES.items() if registered is kind), kind.__name__)
    listed = ", ".join(f"{option}={value!r}" for option, value in sorted(options.items()))
    return f"{kind}({listed})" if listed else kind


def backbone_options(kind: type[Backbone]) -> dict[str, Any]:
    """The options of a class, and the type of each."""
    of_conv = _keywords(kind.conv) if hasattr(kind, "conv") and _passes_on(kind) else {}
    return {**of_conv, **_keywords(kind)}


def _parts(spec: BackboneSpec) -> tuple[str | type[Backbone], dict[str, Any]]:
    match spec:
        case str():
            return _parsed(spec)
        case (str() | type()) as name, Mapping() as options:
            parsed, inside = _parts(name)
            return parsed, {**inside, **options}
        case type() if issubclass(spec, Backbone):
            return spec, {}
    raise InputError(
        f"{spec!r} is no backbone: give a name, a name with options as in ('gcnii', {{'time': False}}), or a subclass "
        "of dpmsnc.nn.backbones.Backbone"
    )


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the options in "name(option=value, ...)"."""
    found = re.fullmatch(r"([^()\s]+)(?:\((.*)\))?", text.strip())
    try:
        if found is None:
            raise ValueError(text)
        call: Any = ast.parse(f"f({found[2] or ''})", mode="eval").body
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError(text)
        return found[1], {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, SyntaxError, AttributeError) as error:
        message = f"{text!r} is no backbone: write a name such as gcn, or one with options such as gcnii(time=False)"
        raise InputError(message) from error


def _check(kind: type[Backbone], options: Mapping[str, Any]) -> None:
    """Raise `InputError` unless a class takes the options."""
    known = backbone_options(kind)
    for option, value in options.items():
        if option not in known:
            raise InputError(f"the backbone {backbone_name(kind)} has no option {option!r}; it has {', '.join(known)}")
        if not _fits(value, known[option]):
            raise InputError(
                f"the option {option} of the backbone {backbone_name(kind)} cannot be {value!r}; it is "
                f"{_in_words(known[option])}"
            )


def _keywords(kind: type[Any]) -> dict[str, Any]:
    """The keyword-only arguments of a constructor, and of those to which it passes on what it does not name itself."""
    found: dict[str, Any] = {}
    for constructor in _constructors(kind):
        hints = get_type_hints(constructor)
        for parameter in inspect.signature(constructor).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                found.setdefault(parameter.name, hints.get(parameter.name, Any))
    return found


def _constructors(kind: type[Any]) -> list[Any]:
    """Constructors along the bases, up to the first that does not pass keyword arguments on."""
    found = []
    for base in kind.__mro__:
        if "__init__" in vars(base):
            found.append(vars(base)["__init__"])
            if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(found[-1]).parameters.values()):
                break
    return found


def _passes_on(kind: type[Backbone]) -> bool:
    """Whether options that are not the class's own arrive at its convolution."""
    return Backbone.__init__ in _constructors(kind)


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return not isinstance(hint, type) or isinstance(value, hint)


def _in_words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_in_words(part) for part in get_args(hint))
    words = {bool: "True or False", int: "a whole number", float: "a number", type(None): "None"}
    return words.get(hint, str(hint))
