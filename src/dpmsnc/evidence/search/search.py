"""What a search is for: a method, a data set, the settings that vary, and the seeds that trials are scored on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dpmsnc.baselines import METHODS
from dpmsnc.data.benchmarks import split_version
from dpmsnc.errors import InputError
from dpmsnc.evidence.run import estimators
from dpmsnc.evidence.run.estimators import backbone_of, with_settings
from dpmsnc.evidence.run.fix import check_settings
from dpmsnc.evidence.run.settings import Nested, flat, nested
from dpmsnc.evidence.search.config_files import config_path
from dpmsnc.evidence.search.space import Space, space

FIRST_SEED = 100
NOT_FIXED = {"seed": "--seeds", "initialiser": "--initialiser", "backbone": "--backbone"}
"""Settings that a search has another option for."""


@dataclass(frozen=True)
class Search:
    """What is searched for, and on which seeds."""

    method: str
    dataset: str
    backbone: str | None = None
    """By default the method's own."""
    seeds: tuple[int, ...] = (FIRST_SEED,)
    """Seeds of the fits and of the splits."""
    final_seeds: tuple[int, ...] = ()
    """Further seeds, on which only the defaults and the best trials are scored."""
    seed: int = 0
    """Seed of the search itself."""
    initialiser: tuple[str, Nested] | None = None
    """Who fills the first buffer in all trials, with settings; by default the method's own."""
    earlier: tuple[Nested, ...] = ()
    """Settings that earlier searches found for the method elsewhere."""
    fixed: Nested = field(default_factory=dict)
    """Settings that all trials have, in place of the method's defaults."""

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds + self.final_seeds) < FIRST_SEED:
            raise InputError(f"seeds below {FIRST_SEED} are reported in tables; tune on {FIRST_SEED} and up")
        if twice := set(self.seeds) & set(self.final_seeds):
            raise InputError(f"seed {min(twice)} is among the seeds of all trials; final seeds are others")
        if instead := next((NOT_FIXED[name] for name in flat(self.fixed) if name in NOT_FIXED), None):
            raise InputError(f"--fix is for settings that a search could vary; there is {instead} for this one")
        check_settings(self.method, self.unfixed(0), self.fixed)
        if self.initialiser is not None and not hasattr(self.default(0), "initialiser"):
            raise InputError(f"{self.method} has no initialiser; only dpm-snc and masked-labels do")

    def unfixed(self, seed: int) -> Any:
        """The estimator with the method's defaults."""
        build = METHODS.find(self.method).build
        model = build(seed)
        if self.backbone in (None, backbone_of(model)):
            return model
        try:
            return build(seed, backbone=self.backbone)
        except TypeError as error:
            raise InputError(f"{self.method} does not take another backbone than {backbone_of(model)}") from error

    def default(self, seed: int) -> Any:
        """The estimator with the method's defaults, but for what is fixed."""
        return with_settings(self.unfixed(seed), self.fixed)

    @property
    def score(self) -> estimators.Score:
        """What its trials are scored by."""
        return estimators.scored_by(self.default(0))

    @property
    def path(self) -> Path:
        """Of its result, relative to the folder of configurations."""
        return config_path(self.dataset, self.method, backbone_of(self.default(0)))

    @cached_property
    def space(self) -> Space:
        varied, fixed = space(self.method, self.dataset, self.default(0)), flat(self.fixed)
        if fixed.get("head") == "convolution":  # of at least two layers
            varied["num_layers"] = tuple(layers for layers in varied["num_layers"] if layers != 1)
        return {name: choices for name, choices in varied.items() if name not in fixed}

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of everything that is varied."""
        values = flat(self.default(0).configuration())
        return {name: values[name] for name in self.space}

    @property
    def first(self) -> list[dict[str, Any]]:
        """The trials that are not drawn."""
        fixed = flat(self.fixed)
        free = [
            {name: s[name] for name in s if name not in fixed} for s in METHODS.find(self.method).search.suggestions
        ]
        suggested = [s for s in free if s.items() <= self.chosen(s).items()]
        trials = [self.defaults, *map(self.chosen, (*self.earlier, *suggested))]
        return [trial for k, trial in enumerate(trials) if trial not in trials[:k]]

    def chosen(self, settings: Nested) -> dict[str, Any]:
        """What to choose for settings that another search found, as far as it can be chosen here."""
        possible = {name: value for name, value in flat(settings).items() if value in self.space.get(name, ())}
        return self.defaults | possible

    def changed(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """What was chosen otherwise than by default."""
        return {name: value for name, value in chosen.items() if value != self.defaults[name]}

    def described(self, chosen: dict[str, Any]) -> str:
        """What was chosen, in words."""
        return ", ".join(f"{name}={value}" for name, value in self.changed(chosen).items()) or "defaults"

    def settings(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """What was fixed or chosen otherwise than by default, in groups, and the initialiser."""
        return nested(flat(self.fixed) | self.changed(chosen)) | self._initialiser_setting

    @property
    def _initialiser_setting(self) -> dict[str, Any]:
        """The initialiser as a setting, where it is not the method's own."""
        name, settings = self.initialiser or (None, {})
        if name is None or (not settings and name == self.default(0).initialiser):
            return {}
        return {"initialiser": [name, settings] if settings else name}

    @property
    def name(self) -> str:
        """The name of its study: scores can be compared as long as none of what it is made of changes."""
        versions = [METHODS.find(self.method).version]
        if split_version(self.dataset) > 1:
            versions.append(split_version(self.dataset))
        parts = [self.space, self.default(0).configuration(), *versions, self.seeds, self.seed]
        parts += self._initialiser_setting.values()
        if self.score != "accuracy":
            parts.append({"score": self.score})
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.path.with_suffix('')}-{digest}"
