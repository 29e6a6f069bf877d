"""What estimators with a diffusion model over labels share, whatever carries the labels: training, posterior, state.

A subclass has the constructor, whose arguments are declared here, and the verbs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import (
    LARGEST_SEED,
    LIMITS,
    BackboneSpec,
    ConditioningName,
    ParameterisationName,
    ProcessName,
    Sampling,
    ScalingName,
    StartName,
    Training,
    check_choices,
    check_number,
    check_range,
)
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.base import Estimator, only
from dpmsnc.estimators.decision import answers_by_marginals, choose_decision
from dpmsnc.graph import Graph

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from dpmsnc.baselines.crf import CRF
    from dpmsnc.baselines.tag_pool import TagPool
    from dpmsnc.diffusion.objective import Objective
    from dpmsnc.diffusion.posterior import Posterior
    from dpmsnc.diffusion.sampler import Callback
    from dpmsnc.estimators.number_model import NumberModel
    from dpmsnc.estimators.report import FitReport
    from dpmsnc.estimators.tag_report import TagReport
    from dpmsnc.estimators.value_report import ValueReport
    from dpmsnc.graph.features import Features
    from dpmsnc.nn.denoiser import Denoiser
    from dpmsnc.targets import Target
    from dpmsnc.training.optimiser import Optimiser
    from dpmsnc.training.trainer import History, Source, Trainer


class DiffusionEstimator(Estimator):
    """A denoiser, the objective that trains it, and the posterior that is asked."""

    process: ClassVar[ProcessName] = "gaussian"
    added_later: ClassVar[Mapping[str, Any]] = {
        "start": "random",
        "training.select_by": None,
        "training.batch_size": None,
        "training.stratified": True,
        "training.refuse_collapsed": True,
    }

    backbone: BackboneSpec
    hidden_channels: int
    num_layers: int
    dropout: float
    head_layers: int
    conditioning: ConditioningName
    parameterisation: ParameterisationName
    initialiser: Any
    start: StartName
    scaling: ScalingName
    device: str
    threads: int
    verbose: bool
    schedule: Schedule
    sampling: Sampling
    training: Training

    denoiser_: Denoiser
    initialiser_: CRF | TagPool
    """Only where the network corrects it."""
    history_: History
    report_: FitReport | TagReport | ValueReport
    """Only after a fit to graphs, not after one to a stream."""
    numbers_: NumberModel | None = None
    """Only of numbers, where diffusion models what this one leaves of them: `buffer_`, the scores of `history_` and the
    estimates that a callback is given are of that."""

    def _fit(
        self,
        graph: Graph,
        y_train: NDArray[Any],
        y_validation: NDArray[Any],
        checkpoint: Path | None = None,
        resume: bool = False,
        progress: Callable[[Trainer], None] | None = None,
    ) -> None:
        from dpmsnc.estimators.fit_progress import FitProgress
        from dpmsnc.nn.process import keep_freed_memory, threads
        from dpmsnc.training.checkpoint import Checkpoint, fingerprint

        saved = Checkpoint(checkpoint, fingerprint(self._identity(), graph, self.train_, self.validation_))
        going_on = resume and saved.exists
        telling = FitProgress(type(self).__name__, self.training.steps, self.verbose)
        with threads(self.threads), keep_freed_memory(), telling.running():

            def report(running: Trainer) -> None:
                if running.step % self.training.evaluate_every == 0:
                    saved.write(running)
                telling.step(running)
                if progress is not None:
                    progress(running)

            trainer = self._trainer(graph, y_train, y_validation, fit_initialiser=not going_on)
            if going_on:
                saved.read(trainer)
            telling.start(trainer)
            try:
                trainer.run(report)
            except KeyboardInterrupt:
                self._keep(trainer, interrupted=True)
                choose_decision(self)
                raise
            telling.end(trainer)
            self._keep(trainer)

    def _tell(self, report: FitReport | TagReport | ValueReport) -> None:
        """Keep what the fit says of itself, and warn whoever called `fit`."""
        self.report_ = report
        if self.verbose:
            print(report, flush=True)
        for text in report.warnings:
            warnings.warn(text, FitWarning, stacklevel=3)

    def _identity(self) -> dict[str, Any]:
        """What must be the same, beside graph and labels, for a checkpoint to be continued."""
        return self.get_params(deep=False)

    def _abandon(self) -> None:
        """An interrupted fit leaves the best weights so far, any other failure nothing."""
        if not hasattr(self, "denoiser_"):
            super()._abandon()

    def _marginals(self, graph: Graph, y: NDArray[Any]) -> NDArray[np.float64]:
        return self.predict_proba(graph.with_labels(y), clamp_known=False)

    def _trainer(
        self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any], fit_initialiser: bool = True
    ) -> Trainer:
        import torch

        from dpmsnc.training.optimiser import Optimiser
        from dpmsnc.training.trainer import Trainer

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            optimiser = Optimiser(self._denoiser().to(self._device()), self.training)
        self.numbers_ = self._fit_numbers(graph, y_train)
        objective, generator = self._objective(), self._generator()
        said = self._said(graph.with_labels(y_train))
        labels = (y_train - said, y_validation - said)
        if self.numbers_ is not None:
            graph = graph.with_labels(graph.y - said, self._modelled)
        source = self._source(graph, labels, optimiser, objective, generator, fit_initialiser)
        return Trainer(optimiser, objective, source, self.training, generator)

    def _fit_numbers(self, graph: Graph, y_train: NDArray[Any]) -> NumberModel | None:
        """What a Gaussian model says of numbers; diffusion models the rest."""
        from dpmsnc.estimators.number_model import NumberModel
        from dpmsnc.targets import RealValue

        is_number = isinstance(self.target_, RealValue)
        return NumberModel.of(graph, self.features_, y_train, self.seed) if is_number else None

    @property
    def _modelled(self) -> Target:
        """What diffusion models."""
        return self.target_ if self.numbers_ is None else self.numbers_.target(self.on)

    def _said(self, graph: Any) -> Any:
        """What the Gaussian model says of every row, given the known numbers of a graph; 0 where there is none."""
        if self.numbers_ is None:
            return 0
        return self.numbers_.at(graph, self.features_, graph.y, self._is_fitted_graph(graph))

    def _source(
        self,
        graph: Graph,
        labels: tuple[NDArray[Any], NDArray[Any]],
        optimiser: Optimiser,
        objective: Objective,
        generator: torch.Generator,
        fit_initialiser: bool,
    ) -> Source:
        """Where training data come from."""
        from dpmsnc.estimators.sources import make_source

        return make_source(self, graph, labels, optimiser, objective, generator, fit_initialiser)

    @property
    def corrects_initialiser(self) -> bool:
        """Whether the network corrects an initialiser; not so of numbers, a fully labelled graph, tags of several."""
        from dpmsnc.targets import OneClass, Tags

        several, partly = self.graph_.member is not None, not self.train_.all()
        of_classes = isinstance(self.target_, OneClass) and (several or partly)
        of_tags = isinstance(self.target_, Tags) and partly and not several
        return self.start == "initialiser" and (of_classes or of_tags)

    def _fit_initialiser(self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any]) -> CRF | TagPool:
        """The initialiser under a pairwise model, both of training labels, where validation labels choose; of tags,
        base models in a pool. One that was fitted to the same labels already is not fitted again."""
        from dpmsnc.baselines.initialiser import fitted_to, make_crf, make_tag_pool
        from dpmsnc.targets import Tags

        if fitted_to(self.initialiser, graph, y_train, y_validation):
            return copy(self.initialiser)
        initialiser = make_tag_pool(self) if isinstance(self.target_, Tags) else make_crf(self)
        initialiser._check_settings()
        initialiser._learn(graph, y_train, y_validation)
        return initialiser

    def _fit_features(self, graph: Graph) -> Features:
        from dpmsnc.graph.features import Features

        return Features.fit(graph, self.scaling, structure=self.start == "initialiser")

    def _initial_probabilities(self, graph: Graph, fit_initialiser: bool = True) -> NDArray[np.float32]:
        """Mean-field probabilities of the first buffer; nothing is known where a checkpoint brings them."""
        from dpmsnc.baselines.base import check_probabilities
        from dpmsnc.baselines.initialiser import ask_initialiser, make_initialiser

        if not fit_initialiser:
            return self._modelled.mean_field(self._modelled.ignorance(len(graph.y)))
        initialiser = make_initialiser(self)
        if self.numbers_ is None or isinstance(initialiser, Estimator):
            initial = ask_initialiser(initialiser, graph, self.validation_)
        else:  # an object of the user's own is given numbers, and gives numbers
            said = self._said(self.graph_.with_labels(only(self.graph_, self.train_)))
            initial = ask_initialiser(initialiser, self.graph_, self.validation_) - said[:, None]
        check_probabilities(initial, self._modelled, graph.num_nodes)
        return self._modelled.mean_field(initial)

    def _keep(self, trainer: Trainer, interrupted: bool = False) -> None:
        """Take over what training ended with, and the weights that it selected."""
        self.denoiser_ = trainer.denoiser.requires_grad_(False)
        self.denoiser_.load_state_dict(trainer.selected)
        self.last_denoiser_ = trainer.optimiser.averaged
        self.history_, self.interrupted_ = trainer.history, interrupted
        self.history_.choices = list(self.initialiser_.choices_) if self.corrects_initialiser else []
        self.best_step_, self.best_score_ = trainer.best_step, trainer.best_score
        outcome = trainer.source.outcome()
        self.buffer_, self.initialiser_proba_, self.progressive_ = outcome.buffer, outcome.initial, outcome.progressive
        rows = len(self.graph_.y)
        if self.buffer_.shape[1] != rows:  # labels of some of several graphs are no labelling of all
            self.buffer_ = self.buffer_.new_empty((0, rows, *self.buffer_.shape[2:]))
        self.sharpness_ = outcome.sharpness

    def _denoiser(self) -> Denoiser:
        from dpmsnc.nn.denoiser import Denoiser
        from dpmsnc.targets import Tags

        link = {"link": self.target_.link} if isinstance(self.target_, Tags) else {}
        return Denoiser(
            self.backbone,
            self.features_.width,
            self.target_.channels,
            self.hidden_channels,
            self.num_layers,
            self.dropout,
            self.head_layers,
            shows_known=self.conditioning == "amortised",
            corrects=self.corrects_initialiser,
            **link,
        )

    def _objective(self) -> Objective:
        from dpmsnc.diffusion.objective import Objective

        return Objective(self.schedule, self.parameterisation, self.training.weighting, self.process, self._modelled)

    def _posterior(self, asked: Graph, sharpness: float = 1.0, said: Any = None) -> Posterior:
        """p_theta(y_U | G, y_L) given the known labels of a graph; of numbers, of what is left of them by what a
        Gaussian model said."""
        from dpmsnc.diffusion.known import Known
        from dpmsnc.diffusion.posterior import Posterior

        y = self._tensor(asked.y - (self._said(asked) if said is None else said))
        known = Known.of(self._modelled.field(y), self._tensor(asked.known))
        sampling = replace(self.sampling, progressive=self.progressive_)
        initial = self.initialiser_.asked_denoiser(asked) if self.corrects_initialiser else None
        return Posterior(self.denoiser_, self._objective(), self._tensors(asked), known, sampling, initial, sharpness)

    def _draw(
        self,
        asked: Graph,
        num_samples: int,
        temperature: float,
        seed: int | torch.Generator | None,
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> NDArray[Any]:
        """Joint labellings (num_samples, nodes, ...) as labels: drawn with the calibration of the marginals, or at
        temperature 0 the one that the network's own estimates lead to."""
        from dpmsnc.nn.process import threads

        check_number("num_samples", num_samples, 1, LIMITS["num_samples"], whole=True)
        check_number("temperature", temperature, 0)
        with threads(self.threads):
            said = self._said(asked)
            posterior = self._posterior(asked, self.sharpness_ if temperature > 0 else 1.0, said)
            labels = posterior.sample(num_samples, temperature, self._generator(seed), callback, clamp_known)
        drawn = labels.transpose(0, 1).cpu().numpy() + said
        if clamp_known:  # to the last digit, which the field of a real value has not
            drawn[:, asked.known] = asked.y[asked.known]
        return drawn

    def _averaged(self, asked: Graph, num_samples: int, temperature: float, seed: int | None) -> NDArray[np.float64]:
        """Calibrated marginals (nodes, channels) from the network's estimates."""
        import torch

        from dpmsnc.nn.process import threads

        check_number("num_samples", num_samples, 1, LIMITS["num_samples"], whole=True)
        check_number("temperature", temperature, 0)
        with threads(self.threads):
            marginals = self._posterior(asked).marginals(num_samples, temperature, self._generator(seed))
        sharpened = self.target_.sharpen(marginals.double(), 1 / self.sharpness_)
        return torch.as_tensor(sharpened).cpu().numpy()

    def _answer(self, asked: Graph, clamp_known: bool = True, callback: Callback | None = None) -> NDArray[Any]:
        if answers_by_marginals(self) and callback is None:  # a callback is shown the labelling that is answered
            return super()._answer(asked, clamp_known)
        return self._draw(asked, 1, self.sampling.temperature, None, clamp_known, callback)[0]

    def _tensors(self, graph: Graph) -> Any:
        from dpmsnc.nn.operator import GraphTensors

        return GraphTensors.of(graph, self.features_, self._device())

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        import torch

        return torch.as_tensor(array, device=self._device())

    def _device(self) -> torch.device:
        import torch

        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"device {self.device!r} cannot be used here ({error}); take cpu or auto") from error

    def _check_settings(self) -> None:
        from dpmsnc.nn.backbones import check_reads_labels

        check_choices(self, type(self).__init__)
        check_range(self, dropout=(0, 0.99), seed=(0, LARGEST_SEED))
        sizes = ("hidden_channels", "num_layers", "head_layers", "threads")
        check_range(self, **{name: (1, LIMITS[name]) for name in sizes})
        check_reads_labels(self.backbone)
        self._check_groups()
        if self.start == "initialiser" and self.parameterisation == "epsilon":
            raise InputError("noise is no correction of an initialiser; use parameterisation='label' or start='random'")

    def _check_groups(self) -> None:
        """Raise `InputError` where groups of settings are none, or do not go together."""
        from dpmsnc.diffusion.sampler import STEPS

        for name, kind in (("schedule", Schedule), ("sampling", Sampling), ("training", Training)):
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} is {getattr(self, name)!r}; pass {kind.__name__}(...)")
        self._device()
        STEPS.find(self.sampling.method)
        self.schedule.grid(self.sampling.steps)
        if self.process == "blank" and self.parameterisation == "epsilon":
            raise InputError("without diffusion there is no noise to predict; use parameterisation='label'")

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        from dpmsnc.estimators.diffusion_state import state_of

        return state_of(self)

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        from dpmsnc.estimators.diffusion_state import model_from

        return model_from(cls, params, tensors, values, graph)
