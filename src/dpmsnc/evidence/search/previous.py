"""What earlier searches found, in a folder of configurations: for an initialiser, and for a method elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from dpmsnc.baselines.stack import MEMBERS, Stack
from dpmsnc.config import BackboneName
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.methods import METHODS, PLAIN, method
from dpmsnc.evidence.run.store import backbone_of, configuration
from dpmsnc.evidence.search.config_files import Nested, config_path, flat, read_config
from dpmsnc.evidence.search.space import ARGUMENTS

Initialiser = tuple[str, Nested]
BACKBONES = (*get_args(BackboneName), "mlp")


def searched_initialiser(
    name: str, dataset: str, folder: Path, members: Sequence[str] = (), repeats: int = 1
) -> Initialiser:
    """An initialiser with the settings that its own search found on a data set; those of a stack are its members'.

    They are as the search wrote them, that is without what is the initialiser's default. Which members a stack has, and
    how often each is fitted, is the caller's to say.
    """
    if name == "stack":
        for member in members:
            if member not in MEMBERS:
                raise InputError(f"no member of a stack is called {member}; there are {', '.join(MEMBERS)}")
        found = {member: searched_initialiser(member, dataset, folder)[1] for member in members or Stack().members}
        return name, {"members": found} | ({"repeats": repeats} if repeats != 1 else {})
    if members or repeats != 1:
        raise InputError(f"only a stack has members and fits them several times; {name} is none")
    if name not in METHODS:
        return name, {}
    path = folder / config_path(dataset, name, default_backbone(name))
    return name, read_config(path, name, dataset=dataset).settings if path.is_file() else {}


def earlier_settings(name: str, dataset: str, backbone: str | None, folder: Path) -> tuple[Nested, ...]:
    """What was found for a method elsewhere: with other backbones on this data set, then with this one on others.

    What was found for the method of which it is a variant, and what it would take without a search, comes first; then
    what was found for its network alone: GMNN, for one, begins as that.
    """
    own = backbone or default_backbone(name)
    others = [other for other in BACKBONES if own is not None and other != own]
    datasets = sorted(path.name for path in folder.glob("*") if path.is_dir() and path.name != dataset)
    places = [(dataset, name, other) for other in others] + [(other, name, own) for other in datasets]
    if (alone := network_alone(name, own)) is not None:
        places = [(dataset, alone, own), *places]
    if like := method(name).like:
        places = [(dataset, like, own), *places]
    paths = {folder / config_path(*place): place for place in places}
    found = {place: read_config(path, *place[1:], place[0]) for path, place in paths.items() if path.is_file()}
    return tuple(
        # a file lacks what is a method's default, which another method need not share
        {**varied_defaults(who), **config.settings} if who == alone else config.settings
        for (_, who, _), config in found.items()
    )


def varied_defaults(name: str) -> Nested:
    """The default of whatever a search of a method varies."""
    values = flat(configuration(method(name).build(0)))
    return {argument: values[argument] for argument in ARGUMENTS[name].values()}


def network_alone(name: str, backbone: str | None) -> str | None:
    """The other method that is nothing but this network, if what it is searched for are all settings of `name`."""
    own = ARGUMENTS.get(name, {}).items()
    plain = [other for other in PLAIN if other != name and default_backbone(other) == backbone]
    return next((other for other in plain if ARGUMENTS[other].items() <= own), None)


def default_backbone(name: str) -> str | None:
    """Of a method; None where it has none."""
    return backbone_of(method(name).build(0))
