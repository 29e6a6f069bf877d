"""The choices a user can make, as small frozen dataclasses; the command line and saved models derive from them.

Nothing here imports torch, so that `dpmsnc fit --help` answers at once. `Schedule` lives with its mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from math import inf, nan
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dpmsnc.errors import InputError

BackboneSpec = str | Sequence[Any] | type[Any]
"""A name, a name with options as in ("gcnii", {"time": False}), or a class; see `dpmsnc.nn.backbones.spec`."""
HeadName = Literal["linear", "convolution"]
ProcessName = Literal["gaussian", "blank"]
ScalingName = Literal["unit", "rows", "binary", "raw"]
ClassShares = Literal["auto", "as-validation", "estimated"]
ENOUGH_OF_EACH = 10
"""Validation nodes of each class from which class shares can be estimated well enough to do so unasked."""
WeightingName = Literal["unit", "bound"]
StartName = Literal["initialiser", "random"]
ConditioningName = Literal["amortised", "guided"]
ParameterisationName = Literal["label", "epsilon"]
UNLIMITED = ("clip",)
"""Numbers that may be infinite: gradients that are not clipped."""
LARGEST_SEED = 2**64 - 1
"""Largest seed that torch.Generator accepts."""
LIMITS = {
    "hidden_channels": 2**16,
    "num_layers": 1024,
    "head_layers": 64,
    "threads": 1024,
    "num_samples": 10**6,
    "num_steps": 10**5,
    "steps": 10**9,
    "time_draws": 2**16,
    "buffer_size": 2**16,
    "samples_per_refresh": 2**16,
    "parts": 10**6,
    "batch_size": 10**9,
}
"""Largest sizes that anybody could mean; a file with more is damaged or means harm."""


@dataclass(frozen=True)
class Guidance:
    """How known labels steer a guided reverse step (Algorithm 2); see `dpmsnc.diffusion.guidance`."""

    strength: float = 1.0
    """Multiplies gamma; 0 leaves the projection alone and needs no gradient."""
    norm: Literal["root", "square"] = "root"
    """gamma = 1/||r|| (root; Chung et al.) or 1/||r||^2 (square; the paper, nearly inert on one-hot labels)."""
    projection: Literal["paper", "code", "none"] = "paper"
    """Known labels at level s as the paper has it, as the authors' code has it, or not at all."""
    per_sample: bool = True
    """||r|| of each sample (paper), or summed over the samples drawn together (authors' code)."""

    def __post_init__(self) -> None:
        check_choices(self)
        check_range(self, strength=(0, inf))


@dataclass(frozen=True)
class Sampling:
    """How labels are drawn from a trained model."""

    method: str = "multistep"
    """The reverse step: "multistep", "ddim", "ancestral" (the paper's), "ancestral-denoised" (the same without noise in
    the last step), or one that was registered in `STEPS`."""
    steps: int | None = 10
    """Network evaluations per run; None means all T steps of the schedule."""
    temperature: float = 0.0
    """tau of `predict`: 0 makes it deterministic. `sample` uses 1 unless told otherwise."""
    progressive: float | Literal["auto"] = "auto"
    """Progressive conditioning: after each run, this share of the nodes that are still unknown, the most confident
    ones, is adopted as known. 0 means a single run; "auto" tries 0 and .1 during `fit` with start="random", and adopts
    where that gains a point of the validation score or more; with start="initialiser" it is a single run."""
    guidance: Guidance = field(default_factory=Guidance)

    def __post_init__(self) -> None:
        check_choices(self)
        check_range(self, temperature=(0, inf))
        if self.steps is not None:
            check_range(self, steps=(1, LIMITS["num_steps"]))
        if self.progressive != "auto":
            check_range(self, progressive=(0, 1))


@dataclass(frozen=True)
class Training:
    """Algorithm 1: when to refresh the buffer, when to stop, and the optimiser in between.

    A network that begins as its initialiser has joint labellings of that in its buffer, all trusted alike. So with
    start="initialiser" these are not read: samples_per_refresh, refresh_every, initialiser_refreshes, temperature,
    refuse_collapsed, unlabelled_weight, fill, show_unlabelled, average_over.
    """

    steps: int = 1000
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    time_draws: int = 4
    """Times t drawn per step, all in one pass."""
    parts: int = 1
    """With more than 1, each step works on one of so many parts of the graph, for graphs of which a whole step does not
    fit into memory; needs `pip install "dpmsnc[scale]"`."""
    time_power: float = 0.5
    """t = T u^power with u uniform: below 1, high noise is visited more often; 1 is the paper's."""
    stratified: bool = True
    """The times of a step, one from each of so many equal parts of 1 .. T; else each on its own (paper)."""
    decay: bool = True
    """Let the learning rate fall along half a cosine to a twentieth at the last step."""
    clip: float = 1.0
    """Gradients longer than this are shortened to it."""
    averaging: float = 0.995
    """Decay of the averaged weights, which are the ones used for sampling; 0 uses the raw ones."""
    buffer_size: int = 50
    samples_per_refresh: int = 5
    refresh_every: int = 100
    initialiser_refreshes: int = 5
    """So many refreshes draw from the mean-field initialiser before the model itself fills the buffer."""
    temperature: float = 0.1
    """tau of the labels that enter the buffer."""
    refuse_collapsed: bool = True
    """Keep samples out of the buffer whose class shares are far from the initialiser's; the paper takes every one."""
    unlabelled_weight: float | Literal["confidence"] = "confidence"
    """Weight of the loss on unlabelled nodes, whose labels come from the buffer; "confidence" weighs each node by how
    much it is told beyond the average of all, times the model's skill on training labels hidden from it."""
    fill: Literal["hard", "soft"] = "soft"
    """Labels of unlabelled nodes in a training step: one labelling of the buffer (paper), or its class frequencies."""
    show_unlabelled: bool = True
    """Amortised conditioning: show labels from the buffer too, in so far as they are trusted, not true ones alone."""
    hide_features: float = 0.05
    """Share of nodes that go without features in each time draw."""
    average_over: Literal["groups", "nodes"] = "groups"
    """Labelled mean + weight x unlabelled mean (authors' code), or one mean over all nodes (paper)."""
    weighting: WeightingName = "unit"
    """Weights of the loss over time: 1 as in the paper, or those of the exact bound."""
    evaluate_every: int = 100
    patience: int = 10
    """Stop after so many evaluations without a better validation score; with start="initialiser" also after two fifths
    of them without a lead over the initialiser."""
    select_by: str | None = None
    """The metric of validation labels that chooses weights, such as "accuracy", "graph_accuracy" or, of marginals,
    "roc_auc"; None takes the target's own, and with start="initialiser" the likelihood. "macro_f1" also lets rare
    classes weigh more in the answer."""
    batch_size: int | None = None
    """Graphs of a step where several fully labelled ones are learned from with start="random"; None takes all."""
    class_shares: ClassShares = "auto"
    """In validation accuracy, classes count as they are among validation nodes, or by the shares that the initialiser
    gives them among unlabelled nodes ("estimated", where every class has a validation node); "auto" is the latter where
    validation nodes are equally many of every class, and at least ten."""

    def __post_init__(self) -> None:
        check_choices(self)
        counts = ("steps", "time_draws", "buffer_size", "samples_per_refresh", "refresh_every", "evaluate_every")
        amounts = ("learning_rate", "weight_decay", "clip", "initialiser_refreshes", "temperature", "time_power")
        check_range(self, **{name: (1, LIMITS.get(name, inf)) for name in (*counts, "parts", "patience")})
        check_range(self, **dict.fromkeys(amounts, (0, inf)))
        check_range(self, averaging=(0, 1), hide_features=(0, 1))
        if self.batch_size is not None:
            check_range(self, batch_size=(1, LIMITS["batch_size"]))
        if self.unlabelled_weight != "confidence":
            check_range(self, unlabelled_weight=(0, inf))


def estimates_shares(class_shares: ClassShares, counts: Sequence[int]) -> bool:
    """Whether class shares are to be estimated, given how many validation nodes there are of each class.

    Example:
        >>> estimates_shares("auto", [30, 30, 30]), estimates_shares("auto", [30, 29, 30])
        (True, False)
    """
    if class_shares == "auto":
        return min(counts, default=0) >= ENOUGH_OF_EACH and len(set(counts)) == 1
    return class_shares == "estimated" and len(counts) > 0 and all(counts)


def check_range(options: Any, **ranges: tuple[float, float]) -> None:
    """Raise `InputError` unless each named attribute lies within its range, ends included, and is a whole number where
    its type says so."""
    typed: Any = type(options) if is_dataclass(options) else type(options).__init__
    whole = whole_numbers(typed)
    for name, (least, most) in ranges.items():
        check_number(name, getattr(options, name), least, most, whole=name in whole)


def check_number(name: str, value: Any, least: float, most: float = inf, whole: bool = False) -> None:
    """Raise `InputError` unless a value is a finite number within its range; what is in `UNLIMITED` may be infinite."""
    number: Any = value if isinstance(value, Integral if whole else Real) and not isinstance(value, bool) else nan
    if not least <= number <= most or (number == inf and name not in UNLIMITED):
        upper = "" if most == inf else f" and at most {most}"
        raise InputError(f"{name} must be at least {least}{upper}{', a whole number' if whole else ''}, got {value!r}")


@cache
def whole_numbers(typed: Any) -> frozenset[str]:
    """The fields of a class, or arguments of a function, that are whole numbers or nothing."""
    hints = get_type_hints(typed).items()
    return frozenset(name for name, hint in hints if int in (parts := get_args(hint) or (hint,)) and float not in parts)


def check_choices(options: Any, typed: Any = None) -> None:
    """Raise `InputError` where an attribute is a word that its type does not list, or no word although there is nothing
    else that it may be; `typed` has the types, by default the class itself."""
    source: Any = typed or type(options)
    for name, (words, alone) in choices(source).items():
        value = getattr(options, name)
        if value not in words if isinstance(value, str) else alone:
            raise InputError(f"{name} is {value!r}; choose one of {', '.join(words)}")


@cache
def choices(typed: Any) -> dict[str, tuple[list[str], bool]]:
    """The words that fields of a class, or arguments of a function, may be, and whether they may be nothing else; those
    that may be no word are left out."""
    found = {}
    for name, hint in get_type_hints(typed).items():
        parts = [hint] if get_origin(hint) is Literal else get_args(hint)
        listed = [part for part in parts if get_origin(part) is Literal]
        found[name] = [word for part in listed for word in get_args(part)], len(listed) == len(parts)
    return {name: (words, alone) for name, (words, alone) in found.items() if words}
