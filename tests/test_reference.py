"""Small fits and two tables give what they gave when the files in tests/reference were written.

Floats of a fit depend on the processor and on torch, so fits are compared only where both are those of the recording,
and skipped elsewhere. A change that is meant to move results records them anew, all or by name:

    OMP_NUM_THREADS=1 python tests/test_reference.py [NAME...]

Names are those of `CASES`, and "tables" for the tables, which also change with the stored runs in results/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpmsnc import NodeClassifier
from dpmsnc.baselines import (
    APPNP,
    CLGNN,
    G3NN,
    GCNLPA,
    GMNN,
    GNN,
    GRAND,
    MLP,
    PTA,
    Baseline,
    CorrectAndSmooth,
    EntropySharpening,
    LabelPropagation,
    Stack,
)
from dpmsnc.baselines.scaled_pta import scaled_pta
from dpmsnc.cli.main import main
from dpmsnc.config import Guidance, Sampling, Training
from dpmsnc.data import Task, load
from dpmsnc.data.grids import cyclic_grid, grid_localized, grid_scattered
from dpmsnc.diffusion.objective import Objective
from dpmsnc.diffusion.schedule import Schedule
from dpmsnc.errors import InputError
from dpmsnc.estimators.masked_labels import MaskedLabels
from dpmsnc.graph import Graph
from dpmsnc.nn.backbones import backbone_name
from dpmsnc.nn.denoiser import Denoiser
from dpmsnc.presets import FROM_RANDOM, preset
from dpmsnc.targets import OneClass
from dpmsnc.training.full import FullyLabelled, LabelledGraphs
from dpmsnc.training.optimiser import Optimiser
from dpmsnc.training.trainer import Trainer

ROOT = Path(__file__).parents[1]
FITS, TABLES = (ROOT / "tests" / "reference" / name for name in ("fits.json", "tables.json"))
TOLERANCE = 1e-4
SHOWN_ROWS = 20
"""Rows of probabilities that are kept of a large graph; of a small one three times as many."""
# the model itself fills the buffer from the third refresh on, and progressive rounds are tried at every evaluation
SHORT = Training(steps=80, refresh_every=20, evaluate_every=20, initialiser_refreshes=2)
SHORTER = replace(SHORT, steps=30, refresh_every=10, evaluate_every=10, initialiser_refreshes=1)
FEW = Sampling(steps=5, progressive=0.1)
COMMANDS = {
    "synthetic": ["table", "synthetic", "--format", "json"],
    "homophilic": ["table", "homophilic", "--configs", "configs", "--format", "json"],
}


OWN: dict[str, Any] = {"condition_on": "train", "clamp_known": False}
"""A method's own answers given its training labels, as in the tables."""


# The graphs.


@cache
def blocks(sparse: bool = False) -> Task:
    """A random block model of 120 nodes in 3 classes with 12 features, measurements or sparse words."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(3), 40))
    i, j = np.triu_indices(len(y), 1)
    chosen = rng.random(len(i)) < np.where(y[i] == y[j], 0.12, 0.01)
    leans = np.arange(12) % 3 == y[:, None]
    measured = (leans + rng.normal(size=leans.shape)).astype(np.float32)
    words = (rng.random(leans.shape) < np.where(leans, 0.3, 0.1)).astype(np.float32)
    graph = Graph(
        num_nodes=len(y),
        edge_index=np.stack([i[chosen], j[chosen]]),
        x=sp.csr_array(words) if sparse else measured,
        y=y,
        target=OneClass(("a", "b", "c")),
        ids=np.arange(len(y)),
    )
    # as many of every class: with few labels of one, a short fit gives all nodes the same class, which tests nothing
    part = np.empty(len(y), dtype=np.int64)
    for c in range(3):
        part[y == c] = rng.permutation(40) // 10
    return Task.hiding("blocks", graph, part == 0, part == 1, part > 1)


@cache
def cora() -> Task:
    try:
        return load("cora")
    except InputError:
        pytest.skip("Cora is not in the folder DPMSNC_DATA")


scattered, localized = partial(grid_scattered, columns=50), partial(grid_localized, columns=40)
small = partial(grid_scattered, columns=20)


# What a case gives.


def digits(graph: Graph, labels: Any) -> str:
    """A labelling by class names as a string of class indices."""
    return "".join(map(str, graph.encode(labels)))


def floats(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 6).tolist()


def abridged(proba: Any) -> dict[str, Any]:
    """Probabilities as the means of the classes and some of the rows; the labels tell of the others."""
    few = SHOWN_ROWS if len(proba) > 1000 else 3 * SHOWN_ROWS
    return {"class_means": floats(proba.mean(axis=0)), "first_rows": floats(proba[:few])}


def classifier_case(
    task: Callable[[], Task],
    kind: type[NodeClassifier] = NodeClassifier,
    check: Callable[[NodeClassifier], dict[str, Any]] = lambda clf: {},
    **settings: Any,
) -> dict[str, Any]:
    """A classifier's answers given its training labels, and how training went; `check` may add floats.

    The network begins at random unless a case says otherwise.
    """
    data = task()
    clf = kind(**({"training": SHORT, "device": "cpu"} | FROM_RANDOM | settings)).fit(
        data.graph, validation=data.validation
    )
    graph = clf.graph_
    proba = clf.predict_proba(num_samples=8, seed=2, condition_on="train")
    return {
        "labels": {
            "predict": digits(graph, clf.predict(condition_on="train", clamp_known=False)),
            "known": digits(graph, clf.predict()),
            "samples": [digits(graph, labels) for labels in clf.sample(3, seed=1, condition_on="train")],
            "history": [clf.best_step_, *clf.history_.step],
        },
        "floats": {
            **abridged(proba),
            "loss": floats(clf.history_.loss),
            "validation_accuracy": floats(clf.history_.validation_score),
            "progressive": floats(clf.progressive_),
            "initialiser": floats(clf.initialiser_proba_[: SHOWN_ROWS // 2]),
            "weights": floats([float(p.abs().mean()) for p in clf.denoiser_.parameters()]),
            **check(clf),
        },
    }


def parts_case(**settings: Any) -> dict[str, Any]:
    pytest.importorskip("pymetis")
    return classifier_case(scattered, **settings)


def baseline_case(build: Callable[[], Baseline], sparse: bool = False, validated: bool = True) -> dict[str, Any]:
    """A baseline's answers on the block model."""
    data = blocks(sparse)
    model = build().fit(data.graph, validation=data.validation if validated else None)
    return {"labels": digits(data.graph, model.predict(**OWN)), "floats": abridged(model.predict_proba(**OWN))}


def full_case(shows_known: bool, parameterisation: Any) -> dict[str, Any]:
    """Training on fully labelled graphs, of which the last loss and the size of each weight are kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        denoiser = Denoiser("sage", 1, 2, hidden_channels=8, num_layers=2, dropout=0.2, shows_known=shows_known)
    batches = [LabelledGraphs.of([cyclic_grid(4), cyclic_grid(6)] * 3), LabelledGraphs.of([cyclic_grid(8)])]
    objective = Objective(Schedule(20), parameterisation, target=OneClass((0, 1)))
    options, generator = Training(steps=40), torch.Generator().manual_seed(0)
    optimiser = Optimiser(denoiser, options)
    source = FullyLabelled(optimiser, objective, batches, options, generator)
    trainer = Trainer(optimiser, objective, source, options, generator)
    losses: list[float] = []
    trainer.run(lambda running: losses.append(float(running.loss)))
    sums = {name: floats(weight.sum().item()) for name, weight in denoiser.state_dict().items()}
    return {"labels": len(losses), "floats": {"last_loss": floats(trainer.loss), "losses": floats(losses), **sums}}


def bound(clf: NodeClassifier) -> dict[str, Any]:
    """The terms of the lower bound per node, as the whole has hundreds of nats and float32 errors to match."""
    terms = clf.lower_bound(num_draws=4, seed=3)
    per_node = np.array([terms.prior, terms.steps, terms.reconstruction, terms.entropy]) / clf.graph_.num_nodes
    return {"lower_bound": floats(per_node)}


def revealed(clf: NodeClassifier) -> dict[str, Any]:
    """Probabilities given labels revealed after training, on top of the graph's."""
    unknown = clf.graph_.ids[~clf.graph_.known][:3]
    known = dict.fromkeys(unknown.tolist(), clf.classes_[0])
    return {"revealed": abridged(clf.predict_proba(known=known, num_samples=4, seed=4)), **bound(clf)}


def last(clf: NodeClassifier) -> dict[str, Any]:
    with clf.using_last():
        return {"last": abridged(clf.predict_proba(num_samples=4, seed=5, condition_on="train"))}


def paper_settings() -> dict[str, Any]:
    settings = preset("paper", "synthetic")
    fewer = {"steps": 60, "refresh_every": 20, "evaluate_every": 20, "initialiser_refreshes": 1}
    fewer |= {"stratified": True, "refuse_collapsed": True}  # as they were when this was recorded
    return settings | {"training": replace(settings["training"], **fewer)}


QUICK_PTA = ("pta", {"max_epochs": 60, "scaling": "rows"})
BEGINS_AS_INITIALISER = {"start": "initialiser", "initialiser": "auto"}
GUIDED: dict[str, Any] = {"conditioning": "guided"}
GUIDED_BY_CODE = Sampling("ancestral", 20, guidance=Guidance(0.5, "square", "code", per_sample=False))
NETWORK: dict[str, Any] = {"hidden_channels": 16, "training": SHORTER, "sampling": FEW, "initialiser": "lp"}
VARIANTS: dict[str, tuple[str, dict[str, bool]]] = {
    "gcn-improved": ("gcn", {"improved": True}),
    "gat-dropout": ("gat", {"attention_dropout": True}),
    "gcnii-timeless": ("gcnii", {"time": False}),
    "sage-normalized": ("sage", {"normalize": True}),
}
"""Backbones with options, by the names under which they were recorded."""
BACKBONES = ["gcn", "gcn-improved", "gat", "gat-dropout", "gcnii", "gcnii-timeless", "sage", "sage-normalized", "gin"]
OTHER_TRAINING = replace(
    SHORTER,
    unlabelled_weight=0.5,
    fill="hard",
    show_unlabelled=False,
    average_over="nodes",
    weighting="bound",
    hide_features=0.2,
    averaging=0.0,
    decay=False,
    class_shares="estimated",
)
STACK: dict[str, Any] = {"pta": {"max_epochs": 30}, "gcn": {"epochs": 20}, "g3nn": {"epochs": 20}}
MEMBERS: list[tuple[str, dict[str, Any]]] = [
    ("gnn", {"epochs": 20}),
    ("grand", {"epochs": 20}),
    ("gmnn", {"pretraining": 10, "epochs": 10}),
    ("sage", {"epochs": 20}),
    ("stack", {"members": STACK}),
]
GNNS = ["gcn", "gcn-improved", "gat", "gat-dropout", "gcnii", "sage", "sage-normalized", "gin"]

CLASSIFIERS: dict[str, Callable[[], dict[str, Any]]] = {
    "scattered": partial(classifier_case, scattered, check=revealed),
    "scattered three": partial(classifier_case, partial(grid_scattered, columns=30, rule="three"), check=last),
    "localized": partial(classifier_case, localized, check=bound),
    "localized progressive": partial(classifier_case, localized, sampling=FEW),
    "scattered guided epsilon": partial(classifier_case, scattered, parameterisation="epsilon", **GUIDED),
    "scattered guided label ancestral": partial(
        classifier_case, scattered, parameterisation="label", sampling=Sampling("ancestral", 20), **GUIDED
    ),
    "localized guided ddim": partial(
        classifier_case, localized, sampling=Sampling("ddim", 8, guidance=Guidance(projection="none")), **GUIDED
    ),
    "scattered guided as in the code": partial(
        classifier_case, small, parameterisation="epsilon", sampling=GUIDED_BY_CODE, training=SHORTER, **GUIDED
    ),
    "amortised epsilon": partial(classifier_case, localized, parameterisation="epsilon", check=bound, training=SHORTER),
    "paper": partial(classifier_case, small, check=bound, **paper_settings()),
    "masked labels": partial(classifier_case, scattered, MaskedLabels),
    "masked labels progressive": partial(classifier_case, blocks, MaskedLabels, **NETWORK),
    "other training": partial(classifier_case, blocks, **(NETWORK | {"training": OTHER_TRAINING})),
    "linear schedule": partial(
        classifier_case, small, check=bound, schedule=Schedule(30, "linear", variance="posterior"), **NETWORK
    ),
    "three head layers": partial(classifier_case, blocks, head_layers=3, scaling="raw", seed=5, **NETWORK),
    "parts": partial(parts_case, training=replace(SHORT, parts=2)),
    "parts guided": partial(parts_case, training=replace(SHORTER, parts=2), **GUIDED),
    "begins as its initialiser": partial(classifier_case, blocks, check=revealed, **BEGINS_AS_INITIALISER),
    "begins as its initialiser on a grid": partial(classifier_case, localized, check=revealed, **BEGINS_AS_INITIALISER),
    "full amortised": partial(full_case, True, "label"),
    "full guided": partial(full_case, False, "epsilon"),
    "cora": partial(
        classifier_case,
        cora,
        training=replace(SHORT, steps=60),
        initialiser=QUICK_PTA,
        sampling=Sampling(steps=3, progressive=0.8),
    ),
    "cora guided": partial(
        classifier_case,
        cora,
        training=SHORTER,
        initialiser=QUICK_PTA,
        sampling=Sampling(steps=5, progressive=0.0),
        **GUIDED,
    ),
}
for _name in BACKBONES:
    _depth = {"num_layers": 4} if "gcnii" in _name else {}
    for _sparse in (False, True)[: 1 if _name == "gat-dropout" else 2]:  # GAT is slow, and once is enough
        CLASSIFIERS[f"backbone {_name} {'sparse' if _sparse else 'dense'}"] = partial(
            classifier_case, partial(blocks, _sparse), backbone=VARIANTS.get(_name, _name), **_depth, **NETWORK
        )
for _member in MEMBERS:
    CLASSIFIERS[f"initialiser {_member[0]}"] = partial(
        classifier_case,
        partial(blocks, True),
        **(NETWORK | {"initialiser": _member, "training": replace(SHORTER, steps=10)}),
    )

MODELS: dict[str, Callable[[], Baseline]] = {
    "appnp": partial(APPNP, epochs=30),
    "clgnn": partial(CLGNN, rounds=3, first_steps=20, steps=10, evaluate_every=5, samples=4),
    "clgnn convolution": partial(
        CLGNN, "gat", head="convolution", rounds=2, first_steps=10, steps=5, samples=3, partitions=2, input_dropout=0.3
    ),
    "correct-and-smooth mlp": partial(CorrectAndSmooth, "mlp", epochs=30),
    "correct-and-smooth gcn": partial(CorrectAndSmooth, "gcn", epochs=30, autoscale=False, correct=True),
    "smooth gcn": partial(CorrectAndSmooth, "gcn", epochs=30, correct=False),
    "entropy": partial(EntropySharpening, epochs=30),
    "entropy shannon": partial(EntropySharpening, "sage", order=1.0, head="convolution", epochs=30),
    "g3nn lsm": partial(G3NN, epochs=30, edge_model="lsm"),
    "g3nn sbm": partial(G3NN, epochs=30, edge_model="sbm", head="convolution"),
    "gcn-lpa gcn": partial(GCNLPA, "gcn", epochs=30),
    "gcn-lpa gat": partial(GCNLPA, "gat", epochs=30, leave_one_out=True, normalisation="symmetric"),
    "gcn-lpa gat-dropout": partial(GCNLPA, VARIANTS["gat-dropout"], epochs=20, head="convolution"),
    "gmnn q": partial(GMNN, prediction="q", pretraining=20, epochs=20, optimiser="rmsprop"),
    "gmnn p": partial(
        GMNN, prediction="p", pretraining=20, epochs=20, rounds=2, sees="neighbours", optimiser="rmsprop"
    ),
    "grand": partial(GRAND, epochs=30),
    "lp": LabelPropagation,
    "lp clamp": partial(LabelPropagation, clamp=True),
    "mlp": partial(MLP, epochs=30),
    "pta": partial(PTA, max_epochs=50),
    "scaled pta": partial(scaled_pta, max_epochs=50),
    "stack": partial(Stack, STACK),
    "stack estimated": partial(
        Stack, {"gcn": {"epochs": 20}, "gmnn": {"epochs": 10}}, class_shares="estimated", repeats=2
    ),
}
for _name in GNNS:
    for _head in ("linear", "convolution")[: 1 if _name in ("gcnii", "gin") else 2]:  # these two end in a linear map
        MODELS[f"gnn {_name} {_head}"] = partial(
            GNN, VARIANTS.get(_name, _name), head=_head, epochs=20, input_dropout=0.2
        )

CASES: dict[str, Callable[[], dict[str, Any]]] = {
    **CLASSIFIERS,
    **{f"baseline {name}": partial(baseline_case, build) for name, build in MODELS.items()},
    # where features are sparse, dropout and scaling take other ways
    **{
        f"baseline {name} sparse": partial(baseline_case, MODELS[name], sparse=True)
        for name in ("appnp", "clgnn", "g3nn lsm", "gmnn q", "grand", "mlp", "scaled pta", "gnn gcn linear")
    },
    "baseline pta unvalidated": partial(baseline_case, partial(PTA, epochs_unvalidated=30), validated=False),
    "baseline stack unvalidated": partial(baseline_case, MODELS["stack"], validated=False),
}


# The recording, and the comparison with it.


def machine() -> dict[str, str]:
    """What floats depend on besides the package."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    lines = [[word.strip() for word in line.split(":", 1)] for line in text.splitlines() if ":" in line]
    facts = dict(reversed(lines))  # of several processors the first
    avx512f = "yes" if "avx512f" in facts.get("flags", "").split() else "no"
    return {"cpu": facts.get("model name", "unknown"), "avx512f": avx512f, "torch": torch.__version__}


def measured(name: str) -> dict[str, Any]:
    """The result of a case as it comes back from JSON, computed in one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return json.loads(json.dumps(CASES[name]()))
    finally:
        torch.set_num_threads(threads)


def recorded() -> dict[str, Any]:
    return json.loads(FITS.read_text()) if FITS.exists() else {"machine": machine(), "cases": {}}


def compare_floats(found: Any, expected: Any, where: str = "floats") -> None:
    """Raise `AssertionError` unless both have the same names and shapes, and values within the tolerance."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            compare_floats(found[name], value, f"{where} {name}")
    else:
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE, err_msg=where)


def test_every_case_is_recorded_and_every_record_is_a_case():
    assert set(recorded()["cases"]) == set(CASES) and FITS.stat().st_size < 300_000


@pytest.mark.parametrize("name", CASES)
def test_a_fit_gives_what_it_gave(name):
    reference = recorded()
    if reference["machine"] != machine():
        pytest.skip(f"floats were recorded with {reference['machine']}, this is {machine()}")
    found, expected = measured(name), reference["cases"][name]
    compare_floats(found["floats"], expected["floats"])
    assert found["labels"] == expected["labels"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_shows_what_it_showed(name, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(COMMANDS[name]) == 0
    shown = with_recorded_names(capsys.readouterr().out)
    assert json.loads(shown) == json.loads(TABLES.read_text())[name]


def with_recorded_names(shown: str) -> str:
    """A table with the names of backbones under which they were recorded."""
    for recorded_name, variant in VARIANTS.items():
        shown = shown.replace(f'"{backbone_name(variant)}"', f'"{recorded_name}"')
    return shown


def record(names: list[str]) -> None:
    """Write what the named cases give now, and keep the others."""
    if unknown := set(names) - {*CASES, "tables"}:
        raise SystemExit(f"no case is called {', '.join(unknown)}")
    reference = recorded()
    if reference["machine"] != machine():
        if not set(CASES) <= set(names):
            raise SystemExit("the others were recorded on another machine; record all")
        reference = {"machine": machine(), "cases": {}}
    for name in names:
        if name in CASES:
            before = time.process_time()
            reference["cases"][name] = measured(name)
            print(f"{time.process_time() - before:6.2f} s  {name}", flush=True)
    lines = [
        f"{json.dumps(name)}: {json.dumps(reference['cases'][name], separators=(',', ':'))}"
        for name in CASES
        if name in reference["cases"]
    ]
    cases = ",\n".join(lines)
    FITS.write_text(f'{{"machine": {json.dumps(reference["machine"])},\n"cases": {{\n{cases}\n}}}}\n')
    if "tables" in names:
        # the command itself, as it is what people see
        command = [sys.executable, "-c", "import sys; from dpmsnc.cli.main import main; sys.exit(main())"]
        shown = {
            name: json.loads(with_recorded_names(subprocess.check_output([*command, *words], cwd=ROOT, text=True)))
            for name, words in COMMANDS.items()
        }
        # a record a line, so that a change can be read
        joined = {name: ",\n".join(map(json.dumps, records)) for name, records in shown.items()}
        tables = ",\n".join(f'"{name}": [\n{records}\n]' for name, records in joined.items())
        TABLES.write_text(f"{{\n{tables}\n}}\n")


if __name__ == "__main__":
    record(sys.argv[1:] or [*CASES, "tables"])
