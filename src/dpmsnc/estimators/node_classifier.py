"""The estimator of the package: joint label prediction on partly labelled graphs with the verbs of scikit-learn.

The constructor is the configuration: it only stores, and saved models, command-line flags and search spaces derive from
it. Nothing here imports torch before `fit` or `load` needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dpmsnc.config import (
    LIMITS,
    BackboneSpec,
    ConditioningName,
    ParameterisationName,
    Sampling,
    ScalingName,
    StartName,
    Training,
    check_number,
)
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.estimators.base import Graphs, Which
from dpmsnc.estimators.decision import most_probable
from dpmsnc.estimators.diffusion import DiffusionEstimator
from dpmsnc.estimators.report import FitReport
from dpmsnc.graph import Graph
from dpmsnc.presets import preset

if TYPE_CHECKING:
    from dpmsnc.diffusion.bound import Bound
    from dpmsnc.diffusion.sampler import Callback
    from dpmsnc.estimators.tag_report import TagReport
    from dpmsnc.estimators.value_report import ValueReport
    from dpmsnc.training.trainer import Trainer


class NodeClassifier(DiffusionEstimator):
    """Learns p(y_U | G, y_L) with a diffusion model over labels, and answers with joint labellings.

    For unbalanced classes there is `training=Training(select_by="macro_f1")`: validation labels choose the network by
    macro-F1, and `predict` answers with arg max_c w_c p_i(c), where rare classes weigh more (`decision_weights_`).

    Args:
        backbone: The graph network inside the denoiser: "gcn", "gat", "gcnii", "sage", "gin", or a residual network
            such as "gat-sep"; a name with options, as in "gcn(norm='layer')" or ("gcn", {"norm": "layer"}); or a class
            of your own.
        initialiser: What the network begins as. "auto" chooses among simple methods by labels that they have not seen;
            else "pta", "gnn" (the same backbone, plain), "grand", "g3nn", "gmnn", "gcn", "gat" (which drops attention),
            "sage", "stack" (a mixture), "lp", "uniform", or another method; in Python also a name with settings, as in
            ("lp", {"alpha": 0.1}), or an object with `fit(graph, validation=None)` and `predict_proba()`. Tags
            have "gnn", "gcn", "gat", "sage", "lp", "spectral" and "uniform"; "auto" pools some of them, where there are
            no features "lp" and "spectral", which knows no other graph. Numbers start from "uniform" or "gnn".
        start: The network begins as its initialiser under a pairwise model and learns a correction ("initialiser"), or
            begins at random and learns from labels that the initialiser drew ("random", the paper's).
        conditioning: How known labels enter: shown to a network trained for it ("amortised"), or by Algorithm 2's
            gradient and projection ("guided").
        parameterisation: What the network predicts: the label behind the noise, or the noise (the paper's).
        head_layers: Layers of the network's head, which follows the graph network.
        scaling: Rows of features brought to length 1 ("unit") or to sum 1 ("rows"), columns standardised instead where
            features are measurements; entries set to 0 or 1 ("binary"), or all left alone ("raw").
        device: "auto" takes a GPU where there is one.
        threads: Processor threads during a call.
        verbose: Say during `fit` what is going on, with a bar on a terminal and a line for every evaluation elsewhere,
            and print its report at the end. The same lines are those of the logger "dpmsnc".

    Example:
        >>> from dpmsnc.data.grids import grid_scattered
        >>> task = grid_scattered(columns=20)
        >>> clf = NodeClassifier(training=Training(steps=10)).fit(task.graph, validation=task.validation)
        >>> clf.predict().shape, clf.sample(3).shape
        ((40,), (3, 40))
    """

    def __init__(
        self,
        backbone: BackboneSpec = "gcn",
        hidden_channels: int = 64,
        num_layers: int = 2,
        dropout: float = 0.5,
        head_layers: int = 1,
        conditioning: ConditioningName = "amortised",
        parameterisation: ParameterisationName = "label",
        initialiser: Any = "auto",
        start: StartName = "initialiser",
        scaling: ScalingName = "unit",
        seed: int = 0,
        device: str = "auto",
        threads: int = 1,
        verbose: bool = False,
        schedule: Schedule = Schedule(),  # noqa: B008 (frozen)
        sampling: Sampling = Sampling(),  # noqa: B008
        training: Training = Training(),  # noqa: B008
    ) -> None:
        self.backbone: BackboneSpec = backbone
        self.hidden_channels = hidden_channels
        self.num_layers = num_layers
        self.dropout = dropout
        self.head_layers = head_layers
        self.conditioning: ConditioningName = conditioning
        self.parameterisation: ParameterisationName = parameterisation
        self.initialiser = initialiser
        self.start: StartName = start
        self.scaling: ScalingName = scaling
        self.seed = seed
        self.device = device
        self.threads = threads
        self.verbose = verbose
        self.schedule = schedule
        self.sampling = sampling
        self.training = training

    @classmethod
    def from_preset(cls, name: str, setting: str = "homophilic", **overrides: Any) -> Self:
        """The settings of the paper (`"paper"`) for a setting, with any argument overridden.

        Settings: synthetic, homophilic, heterophilic, inductive (small graphs) and inductive-huge.
        """
        if setting == "reasoning":
            raise InputError("the setting 'reasoning' has labels on edges, and this is a classifier of nodes")
        return cls(**(preset(name, setting) | overrides))

    def fit(
        self,
        graph: Graph | Sequence[Graph],
        validation: Any = 0.2,
        *,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: Callable[[Trainer], None] | None = None,
    ) -> Self:
        """Learn from the known labels of `graph`.

        Args:
            graph: The graph, or several; then labels of whole graphs are hidden in training, as they are in new ones.
            validation: A share of the known labels, ids, or a mask: held back to choose the best weights. Or graphs of
                their own. None trains on all labels to the end.
            checkpoint: A file that holds the state of training, written at every evaluation.
            resume: Go on from `checkpoint` if it exists; the result is the same as without the interruption.
            progress: Called after every step with the running `Trainer`.

        An interrupt (Ctrl-C) is raised again once the best weights so far are in place. After a fit to classes or tags
        `report_` says how good it is; a `FitWarning` says so, too, where it is of little use.
        """

        checkpoint = None if checkpoint is None else Path(checkpoint)
        self._fit_split(graph, validation, checkpoint=checkpoint, resume=resume, progress=progress)
        self._tell(self._report())
        return self

    def _report(self) -> FitReport | TagReport | ValueReport:
        """What the fit reached on validation labels, asked with training labels alone."""
        from dpmsnc.estimators.tag_report import TagReport
        from dpmsnc.estimators.value_report import ValueReport
        from dpmsnc.targets import RealValue, Tags

        if isinstance(self.target_, Tags):
            return TagReport.of(self)
        if isinstance(self.target_, RealValue):
            return ValueReport.of(self)
        initialiser, answer = None, self.target_.unknown(len(self.graph_.y))
        if self.initialiser_proba_ is not None:  # which it is for fully labelled graphs
            initialiser = most_probable(self, self.target_.of_mean_field(self.initialiser_proba_))
        if self.validation_.any():
            answer = self._answer(self._asked(None, None, "train"), clamp_known=False)
        choices = self.history_.choices
        return FitReport.of(self.graph_.y, self.train_, self.validation_, initialiser, answer, choices)

    def predict(
        self,
        graph: Graphs = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        clamp_known: bool = True,
        callback: Callback | None = None,
    ) -> Any:
        """The joint labelling of all nodes, by name, in the order of `graph.ids`; of several graphs, a list of them.

        Tags are answered by their marginals: those above `threshold_`, which validation labels chose. So are classes
        after `Training(select_by="macro_f1")`, with more weight for rare ones (`decision_weights_`).

        Args:
            graph: The graph to answer for, or several, by default what was fitted; another needs the same features.
            known: Labels revealed after training (a dict id -> class, or a Series; for several graphs a list with one,
                or None, for each): conditioned on at once, no refit.
            condition_on: "known" uses every label the graph has; "train" only those trained on, as in the tables.
            clamp_known: Known labels come back unchanged; False answers with the model's own opinion on them.
            callback: Called as `callback(t, y_t, estimate)` at every step of the reverse process; clone what you keep.
        """
        asked = self._asked(graph, known, condition_on)
        return self._as_asked(graph, asked, self.target_.decode(self._answer(asked, clamp_known, callback)))

    def sample(
        self,
        num_samples: int = 1,
        graph: Graphs = None,
        known: Any = None,
        *,
        temperature: float = 1.0,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> Any:
        """Joint labellings (num_samples, nodes) by name; the same seed gives the same samples."""
        asked = self._asked(graph, known, condition_on)
        drawn = self.target_.decode(self._draw(asked, num_samples, temperature, seed))
        return self._as_asked(graph, asked, drawn, axis=1)

    def predict_proba(
        self,
        graph: Graphs = None,
        known: Any = None,
        *,
        num_samples: int = 32,
        temperature: float = 1.0,
        seed: int | None = None,
        condition_on: Which = "known",
        clamp_known: bool = True,
    ) -> Any:
        """Marginals (nodes, classes), columns in the order of `classes_`; a known label has all of its node's mass.

        They are the network's estimates, calibrated on validation labels: at the beginning of the reverse process,
        where nothing is drawn and `num_samples`, `temperature` and `seed` do nothing, or with start="random" averaged
        over joint samples. A model of noise has no such estimates: its marginals are
        frequencies in joint samples, with half a count more for every class.
        """
        asked = self._asked(graph, known, condition_on)
        if self.parameterisation == "label" and self.target_.names:
            proba = self._averaged(asked, num_samples, temperature, seed)
        else:
            proba = self.target_.marginals(self._draw(asked, num_samples, temperature, seed, clamp_known))
        return self._as_asked(graph, asked, self._clamped(asked, proba) if clamp_known else proba)

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
        check_number("num_draws", num_draws, 1, LIMITS["num_samples"], whole=True)
        if not len(self.buffer_):
            raise InputError("training was interrupted before it drew a labelling; fit to the end, or resume")
        generator = self._generator(seed)
        chosen = self.buffer_[torch.randint(len(self.buffer_), (num_draws,), generator=generator)]
        y_0 = self._modelled.field(chosen.transpose(0, 1)).to(self._device())
        nothing_known = self.graph_.with_labels(self.target_.unknown(self.graph_.num_nodes))
        posterior = self._posterior(nothing_known)
        return lower_bound(posterior.eps, self.schedule, y_0, buffer_entropy(self.buffer_), generator)
