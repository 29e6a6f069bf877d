"""The estimator: joint label prediction on a partly labelled graph with the verbs of scikit-learn.

The constructor is the configuration: it only stores, and saved models, command-line flags and search spaces derive from
it. Nothing here imports torch before `fit` or `load` needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import (
    LARGEST_SEED,
    BackboneName,
    ConditioningName,
    ParameterisationName,
    ProcessName,
    Sampling,
    ScalingName,
    Training,
    check_choices,
    check_number,
    check_range,
)
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.graph import UNKNOWN, Graph
from dpmsnc.graph.split import split_known
from dpmsnc.presets import preset

if TYPE_CHECKING:
    import torch

    from dpmsnc.diffusion.bound import Bound
    from dpmsnc.diffusion.objective import Objective
    from dpmsnc.diffusion.posterior import Posterior
    from dpmsnc.diffusion.sampler import Callback
    from dpmsnc.nn.denoiser import Denoiser
    from dpmsnc.targets import Target
    from dpmsnc.training.trainer import History, Trainer

Which = Literal["known", "train"]


class NodeClassifier:
    """Learns p(y_U | G, y_L) with a diffusion model over labels, and answers with joint labellings.

    Args:
        backbone: The graph network inside the denoiser.
        initialiser: What fills the first buffer: "pta", "gnn" (the same backbone, plain), "grand", "g3nn", "gmnn",
            "gcn", "gat" (which drops attention), "sage", "stack" (a mixture), "lp", "uniform"; a name with settings,
            as in ("lp", {"alpha": 0.1}); or an object with `fit(graph, validation=...)` and `predict_proba()`.
        conditioning: How known labels enter: shown to a network trained for it ("amortised"), or by Algorithm 2's
            gradient and projection ("guided").
        parameterisation: What the network predicts: the label behind the noise, or the noise (the paper's).
        head_layers: Layers of the network's head, which follows the graph network.
        scaling: Rows of features brought to length 1 ("unit") or to sum 1 ("rows"), columns standardised instead where
            features are measurements; entries set to 0 or 1 ("binary"), or all left alone ("raw").
        threads: Processor threads; set for all of torch in this process.
        device: "auto" takes a GPU where there is one.

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> clf = NodeClassifier(training=Training(steps=10)).fit(task.graph, validation=task.validation)
        >>> clf.predict().shape, clf.sample(3).shape
        ((40,), (3, 40))
    """

    process: ClassVar[ProcessName] = "gaussian"

    graph_: Graph
    classes_: tuple[Any, ...]
    denoiser_: Denoiser
    history_: History

    def __init__(
        self,
        backbone: BackboneName = "gcn",
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        head_layers: int = 1,
        conditioning: ConditioningName = "amortised",
        parameterisation: ParameterisationName = "label",
        initialiser: Any = "pta",
        scaling: ScalingName = "unit",
        seed: int = 0,
        device: str = "auto",
        threads: int = 1,
        schedule: Schedule = Schedule(),  # noqa: B008 (frozen)
        sampling: Sampling = Sampling(),  # noqa: B008
        training: Training = Training(),  # noqa: B008
    ) -> None:
        self.backbone: BackboneName = backbone
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.dropout = dropout
        self.head_layers = head_layers
        self.conditioning: ConditioningName = conditioning
        self.parameterisation: ParameterisationName = parameterisation
        self.initialiser = initialiser
        self.scaling: ScalingName = scaling
        self.seed = seed
        self.device = device
        self.threads = threads
        self.schedule = schedule
        self.sampling = sampling
        self.training = training

    @classmethod
    def from_preset(cls, name: str, setting: str = "homophilic", **overrides: Any) -> Self:
        """The settings of the paper (`"paper"`) for a setting, with any argument overridden.

        Settings: synthetic, homophilic, heterophilic, inductive, reasoning.
        """
        return cls(**(preset(name, setting) | overrides))

    def fit(
        self,
        graph: Graph,
        validation: Any = 0.2,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: Callable[[Trainer], None] | None = None,
    ) -> Self:
        """Learn from the known labels of `graph`.

        Args:
            validation: A share of the known labels, ids, or a mask: held back to choose the best weights; None trains
                on all of them to the end.
            checkpoint: A file that holds the state of training, written at every evaluation.
            resume: Go on from `checkpoint` if it exists; the result is the same as without the interruption.
            progress: Called after every step with the running `Trainer`.

        An interrupt (Ctrl-C) ends training early and leaves the best weights so far.
        """
        from dpmsnc.training.checkpoint import fingerprint, load_state, save_state

        self._check_settings()
        if self.process == "blank" and self.parameterisation == "epsilon":
            raise InputError("without diffusion there is no noise to predict; use parameterisation='label'")
        graph.check_trainable()
        train, held_back = split_known(graph, validation, self.seed)
        if train.all():
            raise InputError("every label is known and trained on, so nothing is left to predict; hold some back")
        checkpoint = Path(checkpoint) if checkpoint is not None else None
        config = fingerprint(self.config(), graph, train, held_back)
        going_on = resume and checkpoint is not None and checkpoint.exists()
        trainer = self._trainer(graph, train, held_back, fit_initialiser=not going_on)
        if going_on and checkpoint is not None:
            tensors, values = load_state(checkpoint)
            if values.pop("config", None) != config:
                raise InputError(f"{checkpoint} belongs to other data or settings; remove it or give another file")
            trainer.load_state(tensors, values)

        def report(running: Trainer) -> None:
            if checkpoint is not None and running.step % self.training.evaluate_every == 0:
                tensors, values = running.state()
                save_state(checkpoint, tensors, values | {"config": config})
            if progress is not None:
                progress(running)

        self.interrupted_ = False
        try:
            trainer.run(report)
        except KeyboardInterrupt:
            self.interrupted_ = True
        self._keep(trainer, graph, train, held_back)
        return self

    def predict(
        self,
        known: Any = None,
        *,
        condition_on: Which = "known",
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> NDArray[Any]:
        """The joint labelling of all nodes, as class names in the order of `graph_.ids`; known labels stay as they are.

        Args:
            known: Labels revealed after training (a dict id -> class, or a Series): conditioned on at once, no refit.
            condition_on: "known" uses every label the graph has; "train" only those trained on, as in the tables.
            clamp_known: Known labels come back unchanged; False answers with the model's own opinion on them.
            callback: Called as `callback(t, y_t, estimate)` at every step of the reverse process; clone what you keep.
        """
        labels = self._labels(1, self.sampling.temperature, known, condition_on, None, clamp_known, callback)
        return self.graph_.decode(labels[0])

    def sample(
        self,
        num_samples: int = 1,
        known: Any = None,
        *,
        temperature: float = 1.0,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> NDArray[Any]:
        """Joint labellings (num_samples, nodes) as class names; the same seed gives the same samples."""
        return self.graph_.decode(self._labels(num_samples, temperature, known, condition_on, seed))

    def predict_proba(
        self,
        known: Any = None,
        *,
        num_samples: int = 32,
        temperature: float = 1.0,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> NDArray[np.float64]:
        """Marginals (nodes, classes) as class frequencies in joint samples, columns in the order of `classes_`.

        Half a count is added to every class, so that no class is impossible because few samples were drawn; known
        nodes have all their mass on their label.
        """
        import torch

        target, y = self.graph_.target, self._conditioned(known, condition_on)
        proba = target.marginals(self._labels(num_samples, temperature, known, condition_on, seed))
        return np.where(target.known(y)[:, None], target.field(torch.from_numpy(y)).numpy(), proba)

    @contextmanager
    def using_last(self) -> Iterator[None]:
        """Inside the block the weights of the last evaluation answer, not the selected ones; only right after `fit`."""
        if not hasattr(self, "last_denoiser_"):
            raise InputError("only a classifier that was fitted here has the weights of its last evaluation; fit again")
        selected, self.denoiser_ = self.denoiser_, self.last_denoiser_
        try:
            yield
        finally:
            self.denoiser_ = selected

    def lower_bound(self, num_draws: int = 16, seed: int = 0) -> Bound:
        """The bound of equation 1 on the training labels, term by term, in nats of a density on one-hot vectors.

        The unlabelled nodes come from the buffer that training ended with, and its entropy is one of the terms.
        """
        import torch

        from dpmsnc.diffusion.bound import buffer_entropy, lower_bound

        self._check_fitted()
        generator = self._generator(seed)
        chosen = self.buffer_[torch.randint(len(self.buffer_), (num_draws,), generator=generator)].T
        y_0 = self.graph_.target.field(chosen).to(self._device())
        posterior = self._posterior(self.graph_.target.unknown(self.graph_.num_nodes))
        return lower_bound(posterior.eps, self.schedule, y_0, buffer_entropy(self.buffer_), generator)

    def save(self, folder: str | Path) -> None:
        """Write a model folder: weights (safetensors), configuration (JSON) and the graph (npz); no pickles.

        A model that the folder holds is replaced; a folder with anything else in it is refused.
        """
        from dpmsnc.estimators.model_folder import write_model

        self._check_fitted()
        write_model(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """A fitted classifier from the folder that `save` or `dpmsnc fit` wrote."""
        from dpmsnc.estimators.model_folder import read_model

        return read_model(cls, Path(folder))

    def config(self) -> dict[str, Any]:
        """The constructor's arguments as plain values."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        values = {name: getattr(self, name) for name in names}
        return {
            name: asdict(value) if isinstance(value, (Schedule, Sampling, Training)) else value
            for name, value in values.items()
        }

    # What follows is shared by the verbs above.

    def _trainer(
        self, graph: Graph, train: NDArray[np.bool_], held_back: NDArray[np.bool_], fit_initialiser: bool
    ) -> Trainer:
        import torch

        from dpmsnc.training.optimiser import Optimiser
        from dpmsnc.training.partial import PartlyLabelled
        from dpmsnc.training.trainer import Trainer

        shape = (graph.num_nodes, graph.target.channels)
        initial = self._initial_probabilities(graph, held_back) if fit_initialiser else np.full(shape, 1 / shape[1])
        if initial.shape != shape:
            raise InputError(f"the initialiser gave probabilities of shape {initial.shape}, expected {shape}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            optimiser = Optimiser(self._denoiser(graph), self.training)
        generator, objective = self._generator(self.seed), self._objective(graph.target)
        source = PartlyLabelled(
            optimiser,
            objective,
            self._graph_tensors(graph),
            labels=self._tensor(np.where(train | held_back, graph.y, UNKNOWN)),
            train=self._tensor(train),
            validation=self._tensor(held_back),
            initial=self._tensor(initial.astype(np.float32)),
            options=self.training,
            sampling=self.sampling,
            generator=generator,
        )
        return Trainer(optimiser, objective, source, self.training, generator)

    def _initial_probabilities(self, graph: Graph, held_back: NDArray[np.bool_]) -> NDArray[Any]:
        """Mean-field probabilities of the first buffer."""
        from dpmsnc.baselines.initialiser import make_initialiser

        initialiser = make_initialiser(self).fit(graph, validation=held_back if held_back.any() else None)
        # a classifier would answer with the validation labels themselves
        only_train = {"condition_on": "train"} if isinstance(initialiser, NodeClassifier) else {}
        return np.asarray(initialiser.predict_proba(**only_train))

    def _keep(self, trainer: Trainer, graph: Graph, train: NDArray[np.bool_], held_back: NDArray[np.bool_]) -> None:
        source: Any = trainer.source
        self.last_denoiser_, self.denoiser_ = trainer.optimiser.averaged, trainer.denoiser.requires_grad_(False)
        self.denoiser_.load_state_dict(trainer.selected)
        self.history_, self.buffer_ = trainer.history, source.buffer.entries.cpu()
        self.initialiser_proba_ = source.initial.cpu().numpy()
        self.progressive_ = source.rounds.best_share
        self.best_step_, self.best_score_ = trainer.best_step, trainer.best_score
        self.graph_, self.classes_, self.train_, self.validation_ = graph, graph.classes, train, held_back

    def _denoiser(self, graph: Graph) -> Denoiser:
        from dpmsnc.nn.denoiser import Denoiser

        return Denoiser(
            self.backbone,
            graph.num_features or 1,
            graph.num_classes,
            self.hidden_channels,
            self.num_layers,
            self.dropout,
            self.head_layers,
            shows_known=self.conditioning == "amortised",
        ).to(self._device())

    def _objective(self, target: Target) -> Objective:
        from dpmsnc.diffusion.objective import Objective

        return Objective(self.schedule, self.parameterisation, self.training.weighting, self.process, target)

    def _posterior(self, y: NDArray[np.int64]) -> Posterior:
        """p_theta(y_U | G, y_L) given the labels y."""
        from dpmsnc.diffusion.known import Known
        from dpmsnc.diffusion.posterior import Posterior

        target = self.graph_.target
        known = Known.of(target.field(self._tensor(y)), self._tensor(target.known(y)))
        sampling = replace(self.sampling, progressive=self.progressive_)
        return Posterior(self.denoiser_, self._objective(target), self._graph_tensors(self.graph_), known, sampling)

    def _labels(
        self,
        num_samples: int,
        temperature: float,
        known: Any,
        condition_on: Which,
        seed: int | None,
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> NDArray[np.int64]:
        """Joint labellings (num_samples, nodes) as class indices."""
        self._check_fitted()
        check_number("num_samples", num_samples, 1, whole=True)
        check_number("temperature", temperature, 0)
        posterior = self._posterior(self._conditioned(known, condition_on))
        generator = self._generator(self.seed if seed is None else seed)
        labels = posterior.sample(num_samples, temperature, generator, callback, clamp_known)
        return labels.transpose(0, 1).cpu().numpy()

    def _conditioned(self, known: Any, condition_on: Which) -> NDArray[np.int64]:
        graph = self.graph_
        if condition_on not in get_args(Which):
            raise InputError(f"condition_on={condition_on!r} is not one of {', '.join(get_args(Which))}")
        if condition_on == "train":
            graph = graph.with_labels(np.where(self.train_, graph.y, UNKNOWN))
        return graph.y if known is None else graph.reveal(known).y

    def _graph_tensors(self, graph: Graph) -> Any:
        import torch

        from dpmsnc.nn.operator import GraphTensors

        torch.set_num_threads(self.threads)
        return GraphTensors.of(graph, self.scaling, self._device())

    def _device(self) -> torch.device:
        import torch

        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"device {self.device!r} cannot be used here ({error}); take cpu or auto") from error

    def _generator(self, seed: int) -> torch.Generator:
        import torch

        check_number("seed", seed, 0, LARGEST_SEED, whole=True)
        return torch.Generator().manual_seed(int(seed))

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.as_tensor(array, device=self._device())

    def _check_settings(self) -> None:
        sizes = ("hidden_channels", "num_layers", "head_layers", "threads")
        check_choices(self, type(self).__init__)
        check_range(self, dropout=(0, 0.99), seed=(0, LARGEST_SEED), **dict.fromkeys(sizes, (1, np.inf)))
        self.schedule.grid(self.sampling.steps)

    def _check_fitted(self) -> None:
        if not hasattr(self, "denoiser_"):
            raise InputError("this NodeClassifier is not fitted yet; call fit(graph) first")
