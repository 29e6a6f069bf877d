"""The verbs that every estimator has, and the methods that tables and flags know by name.

An estimator learns from the known labels of a graph and answers for every node of it, or of another graph with the same
features. Known labels belong to the graph that is asked about: after `fit` all of them condition the answer, and they
come back unchanged. Tables ask with `condition_on="train", clamp_known=False`, so that only training labels condition
and a method's own opinion is scored.

The constructor only stores. What `fit` learns ends in an underscore. Nothing here imports torch, scipy or scikit-learn
before it is needed.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from dpmsnc.config import LARGEST_SEED, LIMITS, check_number
from dpmsnc.errors import FitWarning, InputError
from dpmsnc.estimators.decision import choose_decision, most_probable
from dpmsnc.estimators.params import Parameters
from dpmsnc.estimators.search_space import SearchSpace
from dpmsnc.estimators.several import (
    by_graph,
    check_fits,
    check_names_fitted,
    described,
    divided,
    listed,
    only,
    revealed,
    same_features,
    union,
)
from dpmsnc.graph import Graph
from dpmsnc.graph.split import Mask
from dpmsnc.registry import Registry

if TYPE_CHECKING:
    import torch

    from dpmsnc.estimators.class_report import ClassReport
    from dpmsnc.estimators.number_report import NumberReport
    from dpmsnc.graph.features import Features
    from dpmsnc.targets import Target

Which = Literal["known", "train"]
Graphs = Graph | Sequence[Graph] | None
"""What is asked about: a graph, several, or what was fitted."""

KINDS: dict[str, type[Estimator]] = {}
"""Every kind of estimator by the name of its class, which saved models go by."""


class Estimator(Parameters, ABC):
    """Fit on a partly labelled graph, then predict every node of it or of another graph.

    A method implements `_fit`, which stores what it learned, and `_marginals`, which answers from that. Methods whose
    nodes depend on each other override `_answer` and `_drawn`, too.
    """

    seed: int = 0
    on: ClassVar[Literal["node", "edge"]] = "node"

    graph_: Graph
    classes_: NDArray[np.object_]
    n_features_in_: int
    train_: NDArray[np.bool_]
    validation_: NDArray[np.bool_]
    threshold_: float
    """Only after a fit to tags with validation labels: the probability above which a tag is answered."""
    decision_weights_: NDArray[np.float64]
    """Only after a fit with `select_by="macro_f1"` that found better answers than the most probable classes: what
    probabilities are multiplied by before the largest is answered."""

    @abstractmethod
    def _fit(self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any]) -> None:
        """Learn from labels, as `graph.target` has them; in either array those of the other, and all unknown ones, are
        marked as unknown. `target_` and `features_` are set. A method may take options by keyword."""

    @abstractmethod
    def _marginals(self, graph: Graph, y: NDArray[Any]) -> NDArray[np.float64]:
        """The method's own opinion (nodes, channels) on every node of a graph, given its known labels `y`."""

    def _check_settings(self) -> None:
        """Raise `InputError` where an argument is out of its range or not one of its choices."""

    def fit(self, graph: Graph | Sequence[Graph], validation: Any = None) -> Self:
        """Learn from the known labels of `graph`.

        Args:
            graph: The graph, or several.
            validation: A share of the known labels, ids or a mask: held back to choose among what was learned from the
                others; of several graphs a list of these, one for each. Or graphs of their own. None trains on all.
        """
        return self._fit_split(graph, validation)

    def _fit_split(self, graph: Any, validation: Any, **options: Any) -> Self:
        """`fit` with options for `_fit`; a fit that fails while it learns leaves an estimator that is not fitted."""
        self._check_settings()
        graph, train, held_back = divided(graph, validation, self.seed, type(self).__name__)
        if graph.labels_on != self.on:
            raise InputError(
                f"{type(self).__name__} predicts labels of {self.on}s, and these are of {graph.labels_on}s"
            )
        if self.on == "node" and graph.edge_attr is not None:
            advice = "a column that says how strong an edge is may be its weight"
            warnings.warn(f"{type(self).__name__} does not read features of edges; {advice}", FitWarning, stacklevel=3)
        return self._fit_divided(graph, train, held_back, **options)

    def _fit_divided(self, graph: Graph, train: Mask, held_back: Mask, **options: Any) -> Self:
        """Fit to a graph whose labels are divided already."""
        y_train, y_validation = (only(graph, mask) for mask in (train, held_back))
        self._forget()
        self.train_, self.validation_ = train, held_back
        try:
            self._learn(graph, y_train, y_validation, **options)
            choose_decision(self)
        except BaseException:
            self._abandon()
            raise
        return self

    def _learn(self, graph: Graph, y_train: NDArray[Any], y_validation: NDArray[Any], **options: Any) -> None:
        """Fit to labels that are divided already, as a part of another estimator is."""
        self._take(graph, self._fit_features(graph))
        self._fit(graph, y_train, y_validation, **options)

    def _fit_features(self, graph: Graph) -> Features:
        """How the features of the fitted graph, and of all others, become the method's input."""
        from dpmsnc.graph.features import Features

        return Features.fit(graph, getattr(self, "scaling", "raw"))

    def _take(self, graph: Graph, features: Features) -> None:
        """Set what all fitted estimators have."""
        self.graph_, self.features_ = graph, features
        self.target_: Target = graph.target
        self.classes_ = np.fromiter(graph.target.names, dtype=object, count=len(graph.target.names))
        self.n_features_in_ = graph.num_features

    def _abandon(self) -> None:
        """A fit failed: what there is of it goes."""
        self._forget()

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def predict(
        self,
        graph: Graphs = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        clamp_known: bool = True,
    ) -> Any:
        """The label of every node, by name, in the order of `graph.ids`; of several graphs, a list with one array each.

        Args:
            graph: The graph to answer for, or several, by default what was fitted.
            known: Labels revealed after training: a mapping or Series from ids to classes, or one per node; for several
                graphs a list of these, or None, one for each.
            condition_on: "known" uses every label the graph has; "train" only those trained on, as in the tables.
            clamp_known: Labels that condition come back unchanged; False answers with the method's own opinion.
        """
        asked = self._asked(graph, known, condition_on)
        return self._as_asked(graph, asked, self.target_.decode(self._answer(asked, clamp_known)))

    def predict_proba(
        self,
        graph: Graphs = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        clamp_known: bool = True,
    ) -> Any:
        """Marginals (nodes, classes), columns in the order of `classes_`; a known label has all of its node's mass."""
        asked = self._asked(graph, known, condition_on)
        proba = self._marginals(asked, asked.y)
        return self._as_asked(graph, asked, self._clamped(asked, proba) if clamp_known else proba)

    def sample(
        self,
        num_samples: int = 1,
        graph: Graphs = None,
        known: Any = None,
        *,
        seed: int | None = None,
        condition_on: Which = "known",
    ) -> Any:
        """Labellings (num_samples, nodes) by name; the same seed gives the same samples. Of most methods every node is
        drawn on its own from its marginal."""
        check_number("num_samples", num_samples, 1, LIMITS["num_samples"], whole=True)
        asked = self._asked(graph, known, condition_on)
        drawn = self.target_.decode(self._drawn(asked, num_samples, self._generator(seed)))
        return self._as_asked(graph, asked, drawn, axis=1)

    def _drawn(self, asked: Graph, num_samples: int, generator: torch.Generator) -> NDArray[Any]:
        """Labellings (num_samples, nodes, ...) as labels."""
        import torch

        marginals = self.target_.mean_field(self._clamped(asked, self._marginals(asked, asked.y)))
        return self.target_.draw(torch.from_numpy(marginals), num_samples, generator).numpy()

    def score(
        self,
        truth: Any,
        graph: Graphs = None,
        known: Any = None,
        *,
        condition_on: Which = "known",
        metric: str | None = None,
    ) -> float:
        """How good the answers are where no label conditioned them; more is better, so that errors are negative.

        Args:
            truth: A graph of the same nodes with more labels, a mapping from ids to classes, or one label per node; for
                several graphs a list of these, one for each.
            metric: A name such as "macro_f1"; by default the target's: accuracy for classes, MSE for numbers.
        """
        from dpmsnc.estimators.scoring import score

        return score(self, graph, self._asked(graph, known, condition_on), truth, metric)

    def evaluate(
        self, truth: Any, graph: Graphs = None, known: Any = None, *, condition_on: Which = "known"
    ) -> ClassReport | NumberReport:
        """Precision and recall of every class, the confusion matrix and more, for the nodes that `score` counts; of
        numbers, errors beside those of the mean."""
        from dpmsnc.estimators.scoring import evaluate

        return evaluate(self, graph, self._asked(graph, known, condition_on), truth)

    def save(self, folder: str | Path) -> None:
        """Write a model folder: weights (safetensors), settings (JSON) and the graph (npz), bound by checksums.

        A model that the folder holds is replaced; a folder with anything else in it is refused.
        """
        from dpmsnc.estimators.model_folder import write_model

        self._check_fitted()
        write_model(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The fitted estimator in a folder that `save` or `dpmsnc fit` wrote; `Estimator.load` takes any kind."""
        from dpmsnc.estimators.model_folder import read_model

        return read_model(cls, Path(folder))

    def _state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """What `save` keeps beside settings and graph: tensors, and values that JSON can hold."""
        raise InputError(f"{type(self).__name__} does not say what to save of it; give it _state and _from_state")

    @classmethod
    def _from_state(
        cls, params: dict[str, Any], tensors: dict[str, torch.Tensor], values: dict[str, Any], graph: Graph
    ) -> Self:
        """The fitted estimator again. An argument that JSON cannot hold is None in `params`. A `ValueError`,
        `TypeError`, `KeyError` or `RuntimeError` means that the parts do not fit together."""
        raise InputError(f"{cls.__name__} does not say how it is loaded; give it _state and _from_state")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        KINDS[cls.__name__] = cls

    def nested_params(self) -> dict[str, Any]:
        """The constructor's arguments, with groups of settings as dictionaries and a backbone as its name."""
        from dpmsnc.nn.backbones import backbone_name

        params = super().nested_params()
        return params | ({"backbone": backbone_name(params["backbone"])} if "backbone" in params else {})

    # What follows is shared by the verbs above, and by methods that override some of them.

    def _asked(self, graph: Any, known: Any, condition_on: Which) -> Graph:
        """The graph to answer for, with the labels that condition the answer, as `target_` has them; one for all that
        were asked about."""
        self._check_fitted()
        if condition_on not in get_args(Which):
            raise InputError(f"condition_on={condition_on!r} is not one of {', '.join(get_args(Which))}")
        if graph is not None and not isinstance(graph, Graph):
            if condition_on == "train" and known is not None:
                raise InputError("labels of several graphs do not join training labels; leave condition_on out")
            graphs = revealed([self._adapted(one) for one in listed(graph, type(self).__name__)], known)
            asked, known = union(graphs, self.target_), None
        else:
            asked = self.graph_ if graph is None else self._adapted(graph)
        if condition_on == "train":
            if not self._is_fitted_graph(asked):
                raise InputError('another graph has no training labels; leave out condition_on="train" or the graph')
            asked = asked.with_labels(only(self.graph_, self.train_))
        if known is not None and asked.member is not None:
            raise InputError("the labels belong to one of several graphs; say which, as in predict(graph, known)")
        return asked if known is None else asked.reveal(known)

    def _as_asked(self, graph: Any, asked: Graph, rows: NDArray[Any], axis: int = 0) -> Any:
        """An answer in the form of the question: an array for one graph, a list of them for several."""
        if isinstance(graph, Graph) or (graph is None and asked.member is None):
            return rows
        if asked.member is None or (graph is not None and len(graph) == 1):  # one, which may be a union itself
            return [rows]
        return by_graph(rows, asked, axis)

    def _adapted(self, graph: Graph) -> Graph:
        """Another graph with labels as `target_` has them, or an `InputError` that names what differs."""
        check_fits(graph, self.graph_, self.features_)
        return graph.with_labels(self._encoded(graph), self.target_)

    def _encoded(self, graph: Graph) -> NDArray[Any]:
        """The labels of a graph, whose classes may be others or stand in another order."""
        if graph.target == self.target_:
            return graph.y
        ours, theirs = described(self.target_), described(graph.target)
        if theirs != ours:
            raise InputError(
                f"a label of the graph is a {theirs}, one of the fitted graph a {ours}; give the same kind"
            )
        try:
            return self.target_.encode(graph.target.decode(graph.y))
        except InputError as error:
            check_names_fitted(graph.target.names, self.target_)
            raise error

    def _is_fitted_graph(self, graph: Graph) -> bool:
        """Whether it is the graph that was fitted, or a copy of it with other labels."""
        fitted = self.graph_
        return graph is fitted or (
            np.array_equal(graph.ids, fitted.ids)
            and graph.has_edges_of(fitted)
            and (graph.x is fitted.x or same_features(graph.x, fitted.x))
            and (graph.edge_attr is fitted.edge_attr or same_features(graph.edge_attr, fitted.edge_attr))
        )

    def _answer(self, asked: Graph, clamp_known: bool = True) -> NDArray[Any]:
        """The labels that are predicted: the most probable ones, with those that are known in their place."""
        labels = most_probable(self, self._marginals(asked, asked.y))
        if clamp_known:
            labels[asked.known] = asked.y[asked.known]
        return labels

    def _clamped(self, asked: Graph, marginals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Marginals that have all their mass on known labels."""
        return np.where(asked.known[:, None], self.target_.certain(asked.y), marginals)

    def _generator(self, seed: int | torch.Generator | None = None) -> torch.Generator:
        import torch

        if isinstance(seed, torch.Generator):
            return seed
        chosen = self.seed if seed is None else seed
        check_number("seed", chosen, 0, LARGEST_SEED, whole=True)
        return torch.Generator().manual_seed(int(chosen))

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            from dpmsnc.errors import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(graph) first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "graph_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False),
        )


NOT_SEARCHED = SearchSpace({})


@dataclass(frozen=True)
class Method:
    """A method of the tables: `build(seed, **settings)` gives its estimator, not yet fitted."""

    build: Callable[..., Any]
    version: int = 1
    """It goes up when figures may change although the configuration does not: older runs are then run again."""
    like: str | None = None
    """The method of which this is a variant: without a search of its own it takes what was found for that."""
    search: SearchSpace = NOT_SEARCHED  # what a search varies; by default nothing
    on: Literal["node", "edge"] = "node"  # what carries the labels


METHODS: Registry[Method] = Registry("method")


def seeded(kind: Callable[..., Any], seed: int, **settings: Any) -> Any:
    """Builds an estimator that takes a seed; with `functools.partial`, the `build` of most methods."""
    return kind(seed=seed, **settings)
