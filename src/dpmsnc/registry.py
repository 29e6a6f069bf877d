"""Named things that may be added from outside the package: backbones, samplers, methods, targets, metrics, experiments.

A registry is a dictionary with a decorator to add to it and a lookup that says what there is. The command line imports
every module that an installed package names in the entry-point group `dpmsnc`, so that what is registered there can be
named in flags.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TypeVar

from dpmsnc.errors import InputError

T = TypeVar("T")
ENTRY_POINTS = "dpmsnc"


class Registry(dict[str, T]):
    """Things of one kind by name.

    Example:
        >>> greetings = Registry("greeting")
        >>> @greetings.register("short")
        ... def hello() -> str:
        ...     return "hi"
        >>> greetings.find("short")()
        'hi'
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that adds what it decorates under `name`, in place of what was there."""

        def add(thing: T) -> T:
            self[name] = thing
            return thing

        return add

    def find(self, name: str) -> T:
        """The thing of that name, or an `InputError` that lists all names."""
        if not isinstance(name, str) or name not in self:
            raise InputError(f"unknown {self.kind} {name!r}; there are {', '.join(self)}")
        return self[name]


def load_plugins() -> None:
    """Import the modules that installed packages name in the entry-point group `dpmsnc`."""
    for point in entry_points(group=ENTRY_POINTS):
        point.load()
