"""Configurations as files: what a search found for a method on a data set, to be fitted and reproduced with.

A file in `<folder>/<dataset>/`, named by `config_path`, holds the settings in which the configuration differs from the
method's defaults, in groups like the constructor's, and what they scored on validation nodes. A backbone for which
there was no search gets what was found with the method's own backbone, and masked-labels what was found for dpm-snc.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from dpmsnc.baselines import METHODS
from dpmsnc.errors import InputError
from dpmsnc.evidence.run.estimators import Score, backbone_of, with_settings
from dpmsnc.evidence.run.experiment import Experiment, Row
from dpmsnc.evidence.run.fix import NOT_SETTINGS, fits
from dpmsnc.evidence.run.settings import Nested, flat, nested
from dpmsnc.evidence.run.store import write_document
from dpmsnc.graph.clean import short


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
    versions: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Put it where `configured` looks for it."""
        path = folder / config_path(self.dataset, self.method, self.backbone)
        write_document(path, asdict(self))
        return path


TYPES = {name: hint for name, hint in get_type_hints(Config).items() if name != "settings"}


def read_config(path: Path, method: str, backbone: str | None = None, dataset: str | None = None) -> Config:
    """The configuration in a file, which must be one for that method and, where they are given, for the others."""
    if not path.is_file():
        raise InputError(f"there is no configuration file {path}; `dpmsnc tune` writes one")
    try:
        config = Config(**json.loads(path.read_text(encoding="utf-8")))
        flat(config.settings)
        if wrong := [name for name, hint in TYPES.items() if not fits(getattr(config, name), hint)]:
            raise ValueError(f"{wrong[0]} is {short(getattr(config, wrong[0]))}")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is not a configuration that `dpmsnc tune` wrote ({error})") from error
    if refused := [name for name in NOT_SETTINGS if name in config.settings]:
        raise InputError(f"{path} sets {', '.join(refused)}, which is not a configuration's to say; remove it")
    for name, asked in (("method", method), ("backbone", backbone), ("dataset", dataset)):
        if asked is not None and getattr(config, name) != asked:
            raise InputError(f"{path} is a configuration of {name} {getattr(config, name)}, not {asked}")
    return config


def config_path(dataset: str, method: str, backbone: str | None) -> Path:
    """Where a configuration lies, relative to the folder of all: `<method>-<backbone>`, or the backbone alone where the
    method is that network, with or without options (`gcn`, `gat(attention_dropout=True)`)."""
    is_method = backbone is not None and backbone.partition("(")[0] == method
    name = backbone if is_method else "-".join(filter(None, (method, backbone)))
    return Path(dataset, f"{name}.json")


def default_backbone(method: str) -> str | None:
    """Of a method; None where it has none."""
    return backbone_of(METHODS.find(method).build(0))


def require_configuration(experiments: Iterable[Experiment], folder: Path) -> None:
    """Complain if `configured` found nothing for any of them, most likely because the folder is another one."""
    experiments = list(experiments)
    if not any(map(has_configuration, experiments)):
        names = ", ".join(experiment.name for experiment in experiments)
        raise InputError(f"{folder} has no configuration for any row of {names}; `dpmsnc tune` writes them")


def has_configuration(experiment: Experiment) -> bool:
    """Whether `configured` found anything for it."""
    return any(row.by_dataset for row in experiment.rows.values())


def configured(experiment: Experiment, folder: Path) -> Experiment:
    """The experiment with the configurations of `folder`, in every cell for which it has one.

    What makes a row what it is stays, also where that is the default, because a search knew nothing of the row: its
    settings, and the options in which rows of one method and backbone differ from each other.
    """
    rows, models = dict(experiment.rows), {}
    for label, row in rows.items():
        with suppress(InputError):  # it cannot be run here, which is for `reproduce` to say
            models[label] = row.build()
    names = {label: (rows[label].method, backbone_of(model)) for label, model in models.items()}
    for label, model in models.items():
        row, options = rows[label], flat(model.configuration())
        network = {name: value for name, value in row.settings.items() if name == "backbone"}
        defaults = flat(replace(row, settings=network).build().configuration())
        sharing_files = [flat(models[other].configuration()) for other in models if names[other] == names[label]]
        others = [defaults, *sharing_files]
        varying = {name for name, value in options.items() if any(value != other.get(name) for other in others)}
        kept = set(row.settings) | varying
        by_dataset = {}
        for dataset in experiment.datasets:
            if (settings := _searched(row, dataset, folder, defaults)) is not None:
                by_dataset[dataset] = nested({name: value for name, value in settings.items() if name not in kept})
                with_settings(model, by_dataset[dataset])  # complains now rather than in the middle of the runs
        rows[label] = replace(row, by_dataset=by_dataset)
    return replace(experiment, rows=rows)


def search_behind(row: Row, dataset: str, folder: Path) -> Config | None:
    """The search that a row has its settings from on a data set: with its backbone or, if there was no such search and
    the backbone is all that is particular about the row, with the method's own; else with the own backbone of the
    method of which it is a variant (`Method.like`)."""
    searches = [(row.method, row.backbone)]
    if not set(row.settings) - {"backbone"}:
        others = filter(None, (row.method, METHODS.find(row.method).like))
        searches += [(name, default_backbone(name)) for name in others]
    for name, network in searches:
        path = folder / config_path(dataset, name, network)
        if path.is_file():
            return read_config(path, name, network, dataset)
    return None


def _searched(row: Row, dataset: str, folder: Path, defaults: Nested) -> dict[str, Any] | None:
    """What a search found for a row, by dotted name; what was found elsewhere counts as far as both have the same
    defaults."""
    config = search_behind(row, dataset, folder)
    if config is None:
        return None
    settings = flat(config.settings)
    if (config.method, config.backbone) == (row.method, row.backbone):
        return settings
    elsewhere = flat(METHODS.find(config.method).build(0).configuration())
    return {name: value for name, value in settings.items() if defaults.get(name) == elsewhere.get(name)}
