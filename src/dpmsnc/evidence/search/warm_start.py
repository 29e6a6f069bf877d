"""What earlier searches found, in a folder of configurations: for an initialiser, and for a method elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpmsnc.baselines import METHODS
from dpmsnc.baselines.stack import MEMBERS, Stack
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.settings import Nested, flat
from dpmsnc.evidence.search.config_files import config_path, default_backbone, read_config

PLAIN = ("gcn", "gat", "gcnii", "sage")
"""Methods that are a network and nothing else."""
BACKBONES = (
    *("gcn", "gcn(improved=True)", "gat", "gat(attention_dropout=True)", "gcnii", "gcnii(time=False)"),
    *("sage", "sage(normalize=True)", "gin", "mlp"),
)


def searched_initialiser(
    name: str, dataset: str, folder: Path, members: Sequence[str] = (), repeats: int = 1
) -> tuple[str, Nested]:
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
    own, like = backbone or default_backbone(name), METHODS.find(name).like
    alone = network_alone(name, own)
    others = [other for other in BACKBONES if own is not None and other != own]
    datasets = sorted(path.name for path in folder.glob("*") if path.is_dir() and path.name != dataset)
    places = [(dataset, first, own) for first in (like, alone) if first is not None]
    places += [*((dataset, name, other) for other in others), *((other, name, own) for other in datasets)]
    paths = {folder / config_path(*place): place for place in places}
    found = [(place[1], read_config(path, *place[1:], place[0])) for path, place in paths.items() if path.is_file()]
    # a file lacks what is a method's default, which another method need not share
    return tuple(
        {**varied_defaults(who), **config.settings} if who == alone else config.settings for who, config in found
    )


def varied_defaults(name: str) -> Nested:
    """The default of whatever a search of a method varies."""
    method = METHODS.find(name)
    values = flat(method.build(0).configuration())
    return {argument: values[argument] for argument in method.search.arguments.values()}


def network_alone(name: str, backbone: str | None) -> str | None:
    """The other method that is nothing but this network, if what it is searched for are all settings of `name`."""
    own = METHODS.find(name).search.arguments.items()
    plain = [other for other in PLAIN if other != name and default_backbone(other) == backbone]
    return next((other for other in plain if METHODS[other].search.arguments.items() <= own), None)
