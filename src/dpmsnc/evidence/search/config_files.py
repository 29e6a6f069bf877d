"""Configurations as files: what a search found for a method on a data set, to be fitted and reproduced with.

A file in `<folder>/<dataset>/`, named by `config_path`, holds the settings in which the configuration differs from the
method's defaults, in groups like the constructor's, and what they scored on validation nodes. Settings are handled as
nested plain values here, or flat, with a dot between the group and the name. A backbone for which there was no search
gets what was found with the method's own backbone, and masked-labels what was found for dpm-snc.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from dpmsnc.config import check_choices
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.store import backbone_of, configuration, write_document

if TYPE_CHECKING:
    from dpmsnc.evidence.run.experiment import Experiment, Row

Estimator = TypeVar("Estimator")
Score = Literal["accuracy", "likelihood"]
"""On validation nodes, between 0 and 1 both: the share of them that is right, or the geometric mean of the calibrated
probabilities of their labels; where they were drawn evenly by class, weighed by the estimated shares of the classes."""
Nested = Mapping[str, Any]
NOT_SETTINGS = ("seed", "backbone")
"""What a run or its row says; a configuration with them would be another run under the same name."""


@dataclass(frozen=True)
class Config:
    """The content of a file."""

    method: str
    backbone: str | None
    dataset: str
    settings: Nested
    """Nested values that differ from the method's defaults, and those that were fixed."""
    validation_score: float
    default_validation_score: float
    """That of the method's defaults in the same search, from the same initialiser and with what was fixed."""
    trials: int
    seeds: list[int]
    final_seeds: list[int] = field(default_factory=list)
    """Seeds on which only the best trials were scored; both scores are means over all seeds."""
    score: Score = "accuracy"
    """What trials were scored by; a file that does not say went by accuracy."""
    fixed: list[str] = field(default_factory=list)
    """Dotted names of settings that were not searched for."""
    tried: list[Nested] = field(default_factory=list)
    """What every trial changed, by dotted name, on top of the initialiser and of what was fixed, with its mean score
    over `seeds` (and, of a finalist, over all seeds) and CPU time, or the step at which it was pruned."""
    versions: dict[str, str | None] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Put it where `configured` looks for it."""
        path = folder / config_path(self.dataset, self.method, self.backbone)
        write_document(path, asdict(self))
        return path


def read_config(path: Path, method: str, backbone: str | None = None, dataset: str | None = None) -> Config:
    """The configuration in a file, which must be one for that method and, where they are given, for the others."""
    if not path.is_file():
        raise InputError(f"there is no configuration file {path}; `dpmsnc tune` writes one")
    try:
        config = Config(**json.loads(path.read_text(encoding="utf-8")))
        flat(config.settings)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a configuration that `dpmsnc tune` wrote ({error})") from error
    if refused := [name for name in NOT_SETTINGS if name in config.settings]:
        raise InputError(f"{path} sets {', '.join(refused)}, which is not a configuration's to say; remove it")
    for name, asked in (("method", method), ("backbone", backbone), ("dataset", dataset)):
        if asked is not None and getattr(config, name) != asked:
            raise InputError(f"{path} is a configuration of {name} {getattr(config, name)}, not {asked}")
    return config


def config_path(dataset: str, method: str, backbone: str | None) -> Path:
    """Where a configuration lies, relative to the folder of all: `<method>-<backbone>`, or the backbone alone where the
    method is that network, or a variant of it (`gcn`, `gat-dropout`)."""
    if backbone is None:
        name = method
    else:
        name = backbone if f"{backbone}-".startswith(f"{method}-") else f"{method}-{backbone}"
    return Path(dataset, name).with_suffix(".json")


def overridden(model: Estimator, settings: Nested) -> Estimator:
    """The same estimator, not fitted, with some settings changed."""
    from dpmsnc.estimators.model_folder import settings as arguments
    from dpmsnc.estimators.node_classifier import NodeClassifier

    if not settings:
        return model
    try:
        if isinstance(model, NodeClassifier):
            changed = type(model)(**arguments(merged(model.config(), settings)))
            changed._check_settings()
            return changed
        baseline = type(model)(**merged(own_arguments(model), settings))
        check_choices(baseline)
        return baseline
    except (TypeError, AttributeError) as error:
        raise InputError(f"{type(model).__name__} does not take the settings {dict(settings)} ({error})") from error


def check_settings(name: str, model: Any, settings: Nested) -> None:
    """Complain about settings that an estimator does not have, and about values that it does not take."""
    own = flat(configuration(model))
    for option, value in flat(settings).items():
        if option not in own:
            there_are = ", ".join(one for one in own if one not in NOT_SETTINGS)
            raise InputError(f"{name} has no setting {option} to fix; it has {there_are}")
        if option == "initialiser":
            check_start(model, value)
        else:
            check_value(model, option, value)


def check_value(model: Any, option: str, value: Any) -> None:
    """Complain about a value that an estimator's argument does not take, as far as its type tells."""
    from dpmsnc.estimators.node_classifier import NodeClassifier

    classifier = isinstance(model, NodeClassifier)
    hint = declared(type(model).__init__ if classifier else type(model)).get(option, Any)
    unbounded = classifier and value == "inf" and fits(1.0, hint)  # as classifiers write it down, and read it
    if not unbounded and not fits(value, hint):
        raise InputError(f"{option} cannot be {value!r}; it is {in_words(hint)}")


def check_start(model: Any, value: Any) -> None:
    """Complain about what is no initialiser of a classifier: neither a name nor one with settings that it takes."""
    from dpmsnc.baselines.initialiser import INITIALISERS, make_initialiser

    match value:
        case str(name) if name in INITIALISERS:
            pass
        case [str(name), Mapping() as settings] if name in INITIALISERS and settings:
            initialiser = make_initialiser(overridden(model, {"initialiser": value}))
            check_choices(initialiser)
            initialiser.check_common()
        case _:
            raise InputError(
                f"initialiser cannot be {value!r}: it is one of {', '.join(INITIALISERS)}, or one with settings, as in "
                'initialiser=["lp", {"num_layers": 3}]'
            )


def declared(typed: Any, group: str = "") -> dict[str, Any]:
    """The types of an estimator's arguments by dotted name, given its class or constructor."""
    result: dict[str, Any] = {}
    arguments = {name: hint for name, hint in get_type_hints(typed).items() if not name.endswith("_")}
    for name, hint in arguments.items():
        result |= declared(hint, f"{group}{name}.") if is_dataclass(hint) else {f"{group}{name}": hint}
    return result


def fits(value: Any, hint: Any) -> bool:
    """Whether a value that was written down is of a declared type; a whole number is one with a fraction, too.

    Example:
        >>> fits("False", bool), fits(1, float), fits(0.5, int), fits("auto", float | Literal["auto"]), fits(None, int)
        (False, True, False, True, False)
    """
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if parts := get_args(hint):
        return any(fits(value, part) for part in parts)
    if hint is float:
        return type(value) in (int, float) and isfinite(value)
    return hint is Any or type(value) is (NoneType if hint is None else hint)


def in_words(hint: Any) -> str:
    """A declared type as a user would say it.

    Example:
        >>> in_words(float | Literal["auto"]), in_words(int | None)
        ('a number or one of auto', 'a whole number or null')
    """
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if parts := get_args(hint):
        return " or ".join(map(in_words, parts))
    return {float: "a number", int: "a whole number", bool: "true or false", str: "text", NoneType: "null"}[hint]


def own_arguments(model: Any) -> dict[str, Any]:
    """The constructor's arguments of a baseline, which it only stores."""
    return {name: value for name, value in vars(model).items() if not name.endswith("_")}


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


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted name, in their groups."""
    result: dict[str, Any] = {}
    for name, value in settings.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        result = merged(result, value)
    return result


def configured(experiment: Experiment, folder: Path) -> Experiment:
    """The experiment with the configurations of `folder`, in every cell for which it has one.

    Rows that only say their backbone may use that of the method's own backbone, or of the method of which theirs is a
    variant (`Method.like`).
    """
    varying = _varying(experiment)
    rows = {
        label: replace(row, by_dataset=_by_dataset(row, experiment.datasets, folder, varying))
        for label, row in experiment.rows.items()
    }
    return replace(experiment, rows=rows)


def with_fixed(experiment: Experiment, settings: Nested, rows: Iterable[str]) -> Experiment:
    """The experiment with the same settings in all of these rows, over those that they have."""
    from dpmsnc.evidence.run.methods import method

    if refused := [name for name in NOT_SETTINGS if name in settings]:
        raise InputError(f"--fix is for settings, not for the {refused[0]}, which the rows or --seeds say")
    changed = dict(experiment.rows)
    for label in rows:
        row = experiment.rows[label]
        check_settings(label, method(row.method).build(0, **row.settings), settings)
        found = {dataset: merged(row.by_dataset.get(dataset, {}), settings) for dataset in experiment.datasets}
        changed[label] = replace(row, by_dataset=found)
    return replace(experiment, rows=changed)


def has_configuration(experiment: Experiment) -> bool:
    """Whether `configured` found anything for it."""
    return any(row.by_dataset for row in experiment.rows.values())


def require_configuration(experiments: Iterable[Experiment], folder: Path) -> None:
    """Complain if `configured` found nothing for any of them, most likely because the folder is another one."""
    experiments = list(experiments)
    if not any(map(has_configuration, experiments)):
        names = ", ".join(experiment.name for experiment in experiments)
        raise InputError(f"{folder} has no configuration for any row of {names}; `dpmsnc tune` writes them")


Names = tuple[str, str | None]
"""A method and its backbone: rows with the same ones share files."""


def _varying(experiment: Experiment) -> dict[Names, set[str]]:
    """Of rows that share files, the dotted names of the options in which they differ from each other."""
    from dpmsnc.evidence.run.methods import method

    models: dict[Names, list[dict[str, Any]]] = {}
    for row in experiment.rows.values():
        with suppress(InputError):  # it cannot be run here
            model = method(row.method).build(0, **row.settings)
            models.setdefault((row.method, backbone_of(model)), []).append(flat(configuration(model)))
    return {
        name: {option for one in found for option in one if any(one[option] != other.get(option) for other in found)}
        for name, found in models.items()
    }


def _by_dataset(
    row: Row, datasets: tuple[str, ...], folder: Path, varying: Mapping[Names, set[str]]
) -> dict[str, Nested]:
    from dpmsnc.evidence.run.methods import method

    try:
        build = method(row.method).build
        model = build(0, **row.settings)
        default = build(0, **{name: value for name, value in row.settings.items() if name == "backbone"})
    except InputError:
        return {}  # the row cannot be run here, which is for others to say
    # what makes the row what it is stays, also where that is the default: a search knew nothing of the row
    before, after = flat(configuration(default)), flat(configuration(model))
    backbone = backbone_of(model)
    fixed = set(row.settings) | varying[row.method, backbone]
    fixed |= {name for name, value in after.items() if value != before.get(name)}
    found: dict[str, Nested] = {}
    for dataset in datasets:
        settings = _searched(row, dataset, folder, backbone, before)
        if settings is not None:
            found[dataset] = nested({name: value for name, value in settings.items() if name not in fixed})
            overridden(model, found[dataset])  # complains now rather than in the middle of the runs
    return found


def _searched(
    row: Row, dataset: str, folder: Path, backbone: str | None, defaults: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What a search found for a row, by dotted name; what was found elsewhere counts as far as both have the same
    defaults."""
    from dpmsnc.evidence.run.methods import method

    config = search_behind(row, dataset, folder)
    if config is None:
        return None
    settings = flat(config.settings)
    if (config.method, config.backbone) == (row.method, backbone):
        return settings
    own_defaults = flat(configuration(method(config.method).build(0)))
    return {option: value for option, value in settings.items() if defaults.get(option) == own_defaults.get(option)}


def search_behind(row: Row, dataset: str, folder: Path) -> Config | None:
    """The search that a row has its settings from on a data set: with its backbone or, if there was no such search and
    the backbone is all that is particular about the row, with the method's own; else with the own backbone of the
    method of which it is a variant."""
    from dpmsnc.evidence.run.methods import method

    searches = [(row.method, backbone_of(method(row.method).build(0, **row.settings)))]
    if not set(row.settings) - {"backbone"}:
        others = filter(None, (row.method, method(row.method).like))
        searches += [(name, backbone_of(method(name).build(0))) for name in others]
    for name, network in searches:
        path = folder / config_path(dataset, name, network)
        if path.is_file():
            return read_config(path, name, network, dataset)
    return None
